// Linear layers, q/k/v, the gated network and the LM head over tile-major weights, for either way of adding up.
//
// A first phase computes what additions make of the rows (common/additions.h). With more than kLocalRows rows it packs
// the activations into panels that all threads read; with fewer, every worker packs them for itself, for every slice,
// which is cheaper than a barrier. A unit of the main phase is a tile of 32 outputs (for q/k/v the fewest heads that
// end on a tile boundary), so that decoding reads long runs of consecutive memory.
#pragma once

#include "common/additions.h"
#include "common/phases.h"
#include "common/quant_tiles.h"
#include "common/units.h"
#include "tiled/f32_sums.h"
#include "tiled/math.h"
#include "tiled/panels.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Inner loops that the type of the weights says.
template <typename Sums>
struct FixedLoops {
  std::int64_t bytes;  ///< of a tile
  explicit FixedLoops(const Matrix& w) : bytes(Sums::tile_bytes(w.cols)) {}
  static std::int64_t tiles_for(std::int64_t tokens) { return Sums::tiles_for(static_cast<int>(tokens)); }
  static constexpr int kPanels = 1;  ///< full ones that they take at once, at most
  static PanelKernel kernel(std::int64_t tokens, std::int64_t tiles) {
    static constexpr KernelTable<Sums> kKernels;
    return kKernels.at[tokens][tiles];
  }
};

/// Those of a quantised matrix, which `kernels_of` has for its encoding.
template <const TileKernels& (*kernels_of)(Encoding), int panels = kMostPanels>
struct QuantLoops {
  static constexpr int kPanels = panels;
  const TileKernels* kernels;
  std::int64_t bytes;
  explicit QuantLoops(const Matrix& w)
      : kernels(&kernels_of(w.format.encoding)), bytes(bytes_of_quant_tile(w.format.encoding, w.cols)) {}
  std::int64_t tiles_for(std::int64_t tokens) const { return kernels->most_tiles[tokens]; }
  TileKernel kernel(std::int64_t tokens, std::int64_t tiles) const { return kernels->at[tokens][tiles]; }
};

template <DType type>
struct F32Mode {
  using Values = F32Values;
  using Loops = FixedLoops<F32Sums<type>>;
};

struct QuantMode {
  using Values = F32Values;
  using Loops = QuantLoops<quant_kernels>;
};

/// Panels of the values that a mode multiplies.
template <typename Mode>
inline Panels panels_of(std::byte* memory, std::int64_t n, std::int64_t cols) {
  return panels_with<typename Mode::Values>(memory, n, cols);
}

inline std::int64_t tiles_of(std::int64_t rows) { return units_of(rows, kTileRows); }
inline bool packs_locally(std::int64_t n) { return n <= kLocalRows; }

/// Units of the phase that packs shared panels.
inline std::int64_t pack_units(std::int64_t n) { return packs_locally(n) ? 0 : panel_count(n); }

/// log2 of a power of two.
inline float log2_of(float power) { return floor_log2(power); }

inline float largest_of(const Matrix& a) { return a.pack.largest; }
template <typename... Rest>
inline float largest_of(const Matrix& a, const Rest&... rest) {
  return larger(a.pack.largest, largest_of(rest...));
}

/// The exponent below which f16 activations of these matrices are to be. The stored values of plain ones are the
/// weights divided by the scale, and so is the largest of them. (Quantised ones have no such products.)
template <typename... Matrices>
inline float activation_limit(const Matrices&... w) {
  return limit_exponent(larger(0.0f, largest_of(w...)));
}

/// One block of finished sums: rows [first_row, first_row + tokens), tiles [first_tile, first_tile + tiles).
struct Block {
  std::int64_t first_row, tokens, first_tile, tiles;
  float* sums;
  std::int64_t ld;
};

/// Weights that stay in the L2 while all panels pass. (384 KiB and 1.25 MiB measured the same.)
inline constexpr std::int64_t kL2Bytes = 768 << 10;

/// How multiply() cuts the tiles: groups that stay in the L2, blocks that the sink gets at once.
struct Cut {
  std::int64_t group, block;
};

/// Blocks are multiples of `granularity`, at most `max_block` tiles, and whole calls of an inner loop that takes
/// `kernel_tiles` at a time.
inline Cut cut_tiles(std::int64_t granularity, std::int64_t max_block, std::int64_t kernel_tiles, std::int64_t panels,
                     std::int64_t tile_bytes) {
  std::int64_t block = granularity;
  while (block % kernel_tiles != 0) block += granularity;
  if (block > max_block) block = granularity;
  const std::int64_t fit = kL2Bytes / tile_bytes / block * block;
  return {panels == 1 ? block : larger(block, fit), block};
}

/// Panels that are multiplied together where `rows` are left: several only where all of them are full.
template <typename Loops>
inline std::int64_t panels_at_once(std::int64_t rows) {
  return larger(smaller(rows / kPanelTokens, std::int64_t{Loops::kPanels}), std::int64_t{1});
}

/// The sums of a block of tiles, of `together` panels from p on with `tokens` rows each, which are 12 where there are
/// several. `next`: the tile after the block.
template <typename Loops, typename TileAt>
inline void multiply_block(const Loops& loops, const Panels& panels, std::int64_t p, std::int64_t together,
                           std::int64_t tokens, Range<std::int64_t> tiles, std::int64_t next, float* sums,
                           std::int64_t ld, TileAt tile) {
  const std::int64_t size = tiles.end - tiles.begin, most = panels.is_in_tiles(tokens) ? 1 : loops.tiles_for(tokens);
  const std::int64_t steps = (size + most - 1) / most;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t begin = tiles.begin + size * i / steps, end = tiles.begin + size * (i + 1) / steps;
    const std::int64_t after = end == tiles.end ? next : end;
    TileGroup lines;
    for (std::int64_t t = 0; t < end - begin; ++t) {
      lines.tiles[t] = tile(begin + t);
      lines.next[t] = tile(after + t);
    }
    float* c = sums + (begin - tiles.begin) * kTileRows;
    if constexpr (Loops::kPanels > 1)
      if (together > 1 || panels.is_in_tiles(tokens)) {
        loops.kernels->several(panels.panel(p), together, tokens, panels.cols, lines, c, ld);
        continue;
      }
    loops.kernel(tokens, end - begin)(panels.panel(p), panels.cols, lines, c, ld);
  }
}

/// Multiplies all rows with tiles 0 .. n_tiles - 1 of a matrix, of which tile(t) is the address, and hands every
/// finished block to sink(block). Blocks are multiples of `granularity` tiles; `sums` has room for kSumsRows<Loops>
/// rows of `ld` values.
template <typename Loops, typename TileAt, typename Sink>
inline void multiply(const Loops& loops, const Panels& panels, std::int64_t n, std::int64_t n_tiles,
                     std::int64_t granularity, float* sums, std::int64_t ld, TileAt tile, Sink sink) {
  const std::int64_t count = panel_count(n);
  const auto cap = [&loops](std::int64_t tokens) { return loops.tiles_for(tokens); };
  const Cut cut =
      cut_tiles(granularity, ld / kTileRows, cap(smaller(n, std::int64_t{kPanelTokens})), count, loops.bytes);
  for (std::int64_t first = 0; first < n_tiles; first += cut.group) {
    const std::int64_t end = smaller(first + cut.group, n_tiles);
    for (std::int64_t p = 0, together = 1; p < count; p += together) {
      const std::int64_t rows = n - p * kPanelTokens, tokens = smaller(rows, std::int64_t{kPanelTokens});
      together = panels_at_once<Loops>(rows);
      for (std::int64_t block = first; block < end; block += cut.block) {
        const std::int64_t size = smaller(cut.block, end - block), after = block + size;
        // What comes next: more of the group, or the group again for the next panel, or the next group; perhaps after
        // the last tile, which is allowed because a prefetch never faults.
        const std::int64_t next = after == end && p + together < count ? first : after;
        multiply_block(loops, panels, p, together, tokens, {block, after}, next, sums, ld, tile);
        for (std::int64_t i = 0; i < together; ++i)
          sink(Block{(p + i) * kPanelTokens, tokens, block, size, sums + i * kPanelTokens * ld, ld});
      }
    }
  }
}

/// Sums as values: undoes the power of two of the activations and of the weights.
inline F32x16 scaled(const float* at, float exponent) { return times_power_of_2(load(at), exponent); }

/// What additions give to outputs [first, first + 16) of row m, as far as there are `count`.
[[gnu::noinline]] inline F32x16 with_shares(const Linear& w, std::int64_t m, std::int64_t first, std::int64_t count,
                                            F32x16 value) {
  alignas(64) float outputs[16];
  store(outputs, value);
  add_shares(w, m, first, smaller(count, std::int64_t{16}), outputs);
  return load(outputs);
}

/// Outputs [first, first + 16) of row m of a layer, as far as there are `count`; their sums are at `at`. `adds`:
/// whether there may be additions. A loop over outputs asks once, for their call takes all registers.
template <bool adds>
inline F32x16 finished(const Linear& w, const float* at, float exponent, std::int64_t m, std::int64_t first,
                       std::int64_t count) {
  F32x16 value = scaled(at, exponent);
  if (w.bias != nullptr) value = add(value, load(first_lanes(count), w.bias + first));
  if (adds) value = with_shares(w, m, first, count, value);
  return mul(value, splat(w.scale));
}

/// Adds the old values where asked for, and stores the outputs of a block in their rows.
template <bool adds, typename RowAt>
inline void store_block_as(const Block& block, const Panels& panels, const Linear& w, std::int64_t tile_offset,
                           bool accumulate, RowAt row) {
  const float weight_exponent = log2_of(w.pack.scale);
  const std::int64_t first = (tile_offset + block.first_tile) * kTileRows;
  const std::int64_t count = smaller(block.tiles * kTileRows, w.rows - first);
  for (std::int64_t m = 0; m < block.tokens; ++m) {
    const float exponent = weight_exponent - panels.exponents[block.first_row + m];
    float* out = row(block.first_row + m) + first;
    for (std::int64_t j = 0; j < count; j += 16) {
      const Lanes lanes = first_lanes(count - j);
      F32x16 value =
          finished<adds>(w, block.sums + m * block.ld + j, exponent, block.first_row + m, first + j, count - j);
      if (accumulate) value = add(load(lanes, out + j), value);
      store(out + j, lanes, value);
    }
  }
}

template <typename RowAt>
inline void store_block(const Block& block, const Panels& panels, const Linear& w, std::int64_t tile_offset,
                        bool accumulate, RowAt row) {
  w.additions.empty() ? store_block_as<false>(block, panels, w, tile_offset, accumulate, row)
                      : store_block_as<true>(block, panels, w, tile_offset, accumulate, row);
}

/// `loops`: those of w.
template <typename Loops>
inline const std::byte* tile_at(const Loops& loops, const Matrix& w, std::int64_t tile) {
  return w.data + tile * loops.bytes;
}

/// The panels of an operation: shared ones, which a phase before has filled, or the worker's own, filled here.
template <typename Mode>
inline Panels panels_for(const Activations& x, std::int64_t n, std::int64_t cols, float limit, std::byte* shared,
                         std::byte* own) {
  if (!packs_locally(n)) return panels_of<Mode>(shared, n, cols);
  const Panels panels = panels_of<Mode>(own, n, cols);
  pack_panels<typename Mode::Values>(x, n, limit, panels, 0, panel_count(n));
  return panels;
}

/// Rows of sums that multiply() has at a time, at most.
template <typename Loops>
inline constexpr std::int64_t kSumsRows = std::int64_t{kPanelTokens} * Loops::kPanels;
/// Floats from one of them to the next, for n rows: for blocks of up to eight tiles, or of two where there are several
/// panels; and of all together.
template <typename Loops>
inline std::int64_t sums_ld(std::int64_t n) {
  return kTileRows * (Loops::kPanels > 1 && n >= 2 * kPanelTokens ? 2 : kMaxTiles);
}
template <typename Loops>
inline constexpr std::int64_t kSumsFloats =
    larger(2 * kTileRows * kSumsRows<Loops>, std::int64_t{kTileRows} * kMaxTiles * kPanelTokens);

/// The outputs of the tiles in a slice; `shared` has (or, in the packing phase, gets) the panels.
template <typename Mode, typename RowAt>
inline void project_rows(const Panels& panels, std::int64_t n, const Linear& w, bool accumulate, Slice slice,
                         RowAt row) {
  using Loops = typename Mode::Loops;
  alignas(64) float sums[kSumsFloats<Loops>];
  const Loops loops(w);
  multiply(
      loops, panels, n, slice.end - slice.begin, 1, sums, sums_ld<Loops>(n),
      [&](std::int64_t t) { return tile_at(loops, w, slice.begin + t); },
      [&](const Block& block) { store_block(block, panels, w, slice.begin, accumulate, row); });
}

template <typename Mode>
inline void pack_shared(const Activations& x, std::int64_t n, std::int64_t cols, float limit, std::byte* shared,
                        Slice slice) {
  pack_panels<typename Mode::Values>(x, n, limit, panels_of<Mode>(shared, n, cols), slice.begin, slice.end);
}

/// Units of the phase before products: it packs shared panels, and computes what additions make of the rows.
inline std::int64_t prepare_units(std::int64_t n, std::initializer_list<const Linear*> layers) {
  return pack_units(n) + inner_units(layers);
}

template <typename Mode>
inline void prepare(const Activations& x, std::int64_t n, std::int64_t cols, float limit, std::byte* shared,
                    Slice slice, std::initializer_list<const Linear*> layers) {
  const std::int64_t packs = pack_units(n);
  pack_shared<Mode>(x, n, cols, limit, shared, {slice.begin, smaller(slice.end, packs), slice.worker});
  if (slice.end > packs)
    write_inner(layers, x, {larger(slice.begin - packs, std::int64_t{0}), slice.end - packs, slice.worker});
}

// ---- linear ----

inline std::int64_t linear_units(const LinearArgs& args, std::int32_t phase) {
  return phase == 0 ? prepare_units(args.n, {&args.w}) : tiles_of(args.w.rows);
}

template <typename Mode>
void linear(const LinearArgs& args, std::int32_t phase, Slice slice) {
  const float limit = activation_limit(args.w);
  std::byte* shared = args.workspace.shared;
  if (phase == 0) return prepare<Mode>(args.x, args.n, args.w.cols, limit, shared, slice, {&args.w});
  const Panels panels = panels_for<Mode>(args.x, args.n, args.w.cols, limit, shared, args.workspace.of(slice.worker));
  project_rows<Mode>(panels, args.n, args.w, args.accumulate, slice, [&](std::int64_t m) { return args.out.row(m); });
}

// ---- the LM head ----

inline std::int64_t lm_head_units(const LmHeadArgs& args, std::int32_t phase) {
  return phase == 0 ? prepare_units(args.n, {&args.w}) : tiles_of(args.w.rows);
}

template <typename Mode>
void lm_head(const LmHeadArgs& args, std::int32_t phase, Slice slice) {
  const float limit = activation_limit(args.w);
  std::byte* shared = args.workspace.shared;
  if (phase == 0) return prepare<Mode>(args.x, args.n, args.w.cols, limit, shared, slice, {&args.w});
  const Panels panels = panels_for<Mode>(args.x, args.n, args.w.cols, limit, shared, args.workspace.of(slice.worker));
  project_rows<Mode>(panels, args.n, args.w, false, slice, [&](std::int64_t m) { return args.out[m]; });
  if (args.softcap != 0) cap_logits(args, slice.begin * kTileRows, slice.end * kTileRows);
}

// ---- the feed-forward network: pack, gate and up, pack, down ----

/// The shared workspace: activations between the two halves as rows, then panels of either.
inline std::uint64_t ffn_panels_offset(std::int64_t n, std::int64_t ffn) {
  return static_cast<std::uint64_t>(n * ffn) * sizeof(float);
}

inline std::int64_t ffn_units(const FfnArgs& args, std::int32_t phase) {
  if (phase == 0) return prepare_units(args.n, {&args.gate, &args.up});
  if (phase == 2) return prepare_units(args.n, {&args.down});
  return tiles_of(phase == 1 ? args.gate.rows : args.down.rows);
}

/// activation(gate) * up for a block whose even tiles are gate and whose odd ones up; activation(gate) for one that is
/// all of gate.
template <Activation activation, bool has_up, bool adds>
[[gnu::noinline]] void store_activations(const FfnArgs& args, const Block& block, const Panels& panels,
                                         std::int64_t first_tile, const Activations& act) {
  constexpr std::int64_t kTiles = has_up ? 2 : 1;
  const float gate_exponent = log2_of(args.gate.pack.scale), up_exponent = log2_of(args.up.pack.scale);
  for (std::int64_t i = 0; i < block.tiles / kTiles; ++i) {
    const std::int64_t first = (first_tile + block.first_tile / kTiles + i) * kTileRows;
    const std::int64_t count = smaller(kTileRows, args.gate.rows - first);
    for (std::int64_t m = 0; m < block.tokens; ++m) {
      const std::int64_t row = block.first_row + m;
      const float exponent = panels.exponents[row];
      const float* sums = block.sums + m * block.ld + kTiles * i * kTileRows;
      for (std::int64_t j = 0; j < count; j += 16) {
        const Lanes lanes = first_lanes(count - j);
        F32x16 value = finished<adds>(args.gate, sums + j, gate_exponent - exponent, row, first + j, count - j);
        if constexpr (has_up) {
          const F32x16 up =
              finished<adds>(args.up, sums + kTileRows + j, up_exponent - exponent, row, first + j, count - j);
          value = gated<VectorOps>(activation, value, up);
        } else {
          value = activated<VectorOps>(activation, value);
        }
        store(act.row(row) + first + j, lanes, value);
      }
    }
  }
}

template <Activation activation>
inline auto* store_activations_of(const FfnArgs& args) {
  const bool adds = !args.gate.additions.empty() || !args.up.additions.empty();
  if (!args.has_up())
    return adds ? &store_activations<activation, false, true> : &store_activations<activation, false, false>;
  return adds ? &store_activations<activation, true, true> : &store_activations<activation, true, false>;
}
inline auto* store_activations_of(const FfnArgs& args) {
  switch (args.activation) {
    case Activation::silu: break;
    case Activation::gelu_tanh: return store_activations_of<Activation::gelu_tanh>(args);
    case Activation::gelu_erf: return store_activations_of<Activation::gelu_erf>(args);
  }
  return store_activations_of<Activation::silu>(args);
}

template <typename Mode>
void gate_and_up(const FfnArgs& args, const Panels& panels, const Activations& act, Slice slice) {
  using Loops = typename Mode::Loops;
  alignas(64) float sums[kSumsFloats<Loops>];
  auto* const store = store_activations_of(args);
  const Loops loops(args.gate);  // and of up, whose format is the same
  const auto sink = [&](const Block& block) { store(args, block, panels, slice.begin, act); };
  const std::int64_t tiles = slice.end - slice.begin;
  if (!args.has_up())
    return multiply(
        loops, panels, args.n, tiles, 1, sums, sums_ld<Loops>(args.n),
        [&](std::int64_t t) { return tile_at(loops, args.gate, slice.begin + t); }, sink);
  multiply(
      loops, panels, args.n, 2 * tiles, 2, sums, sums_ld<Loops>(args.n),
      [&](std::int64_t t) { return tile_at(loops, t % 2 == 0 ? args.gate : args.up, slice.begin + t / 2); }, sink);
}

/// Multiplies a panel with tile `tile` of a matrix by its own loops; the tile after it is fetched meanwhile.
template <typename Mode>
inline void multiply_tile(const Matrix& w, std::int64_t tile, const std::uint32_t* panel, std::int64_t tokens,
                          [[maybe_unused]] bool in_tiles, float* sums, std::int64_t ld) {
  const typename Mode::Loops loops(w);
  TileGroup group;
  group.tiles[0] = tile_at(loops, w, tile);
  group.next[0] = tile_at(loops, w, tile + 1);
  if constexpr (requires { Mode::Values::kFewestInTiles; })
    if (in_tiles)
      return loops.kernels->several(panel, 1, tokens, units_of(w.cols, Mode::Values::kPerDword), group, sums, ld);
  loops.kernel(tokens, 1)(panel, units_of(w.cols, Mode::Values::kPerDword), group, sums, ld);
}

/// activation(gate) * up for the tiles of a slice where gate and up differ, into rows `act`.
/// multiply_one(w, tile, panel, tokens, whether the panel is in tiles, sums, ld): the loops of w. `memory`: Panels of
/// args.n rows.
template <typename Mode, typename MultiplyOne>
inline void mixed_tiles(const FfnArgs& args, std::uint32_t* memory, Slice slice, const Activations& act,
                        MultiplyOne multiply_one) {
  const Panels panels = panels_of<Mode>(reinterpret_cast<std::byte*>(memory), args.n, args.gate.cols);
  auto* const store = store_activations_of(args);
  alignas(64) float sums[kPanelTokens * 2 * kTileRows];
  for (std::int64_t tile = slice.begin; tile < slice.end; ++tile)
    for (std::int64_t p = 0; p < panel_count(args.n); ++p) {
      const std::int64_t tokens = smaller(args.n - p * kPanelTokens, std::int64_t{kPanelTokens});
      const Matrix* of_pair[] = {&args.gate, &args.up};
      for (int i = 0; i < 2; ++i)
        multiply_one(*of_pair[i], tile, panels.panel(p), tokens, panels.is_in_tiles(tokens), sums + i * kTileRows,
                     2 * kTileRows);
      store(args, {p * kPanelTokens, tokens, 2 * (tile - slice.begin), 2, sums, 2 * kTileRows}, panels, slice.begin,
            act);
    }
}

/// The first two phases of a network where gate and up differ, `all` packing the panels of both.
template <typename Mode, typename Tiles>
inline void mixed_gate_and_up_of(const FfnArgs& args, std::int32_t phase, Slice slice, const Projections& all,
                                 Tiles tiles) {
  if (phase == 0) return all.ffn.run(args, phase, slice);
  const std::int64_t width = args.gate.rows;
  const Activations act{args.workspace.shared, ActivationLayout::row_major, width};
  const Panels panels =
      panels_for<Mode>(args.x, args.n, args.gate.cols, activation_limit(args.gate, args.up),
                       args.workspace.shared + ffn_panels_offset(args.n, width), args.workspace.of(slice.worker));
  tiles(args, panels.data, slice, act);
}

template <typename Mode>
void ffn(const FfnArgs& args, std::int32_t phase, Slice slice) {
  const std::int64_t hidden = args.gate.cols, width = args.gate.rows;
  const float first_limit = activation_limit(args.gate, args.up), limit = activation_limit(args.down);
  const Activations act{args.workspace.shared, ActivationLayout::row_major, width};
  std::byte* shared = args.workspace.shared + ffn_panels_offset(args.n, width);
  std::byte* own = args.workspace.of(slice.worker);
  switch (phase) {
    case 0: return prepare<Mode>(args.x, args.n, hidden, first_limit, shared, slice, {&args.gate, &args.up});
    case 1:
      return gate_and_up<Mode>(args, panels_for<Mode>(args.x, args.n, hidden, first_limit, shared, own), act, slice);
    case 2: return prepare<Mode>(act, args.n, width, limit, shared, slice, {&args.down});
    default: break;
  }
  const Panels panels = panels_for<Mode>(act, args.n, width, limit, shared, own);
  project_rows<Mode>(panels, args.n, args.down, args.accumulate, slice,
                     [&](std::int64_t m) { return args.out.row(m); });
}

// ---- queries, keys and values ----

/// The fewest heads whose rows fill whole tiles.
inline std::int64_t heads_per_unit(std::int64_t head_dim) {
  std::int64_t heads = 1;
  while (heads * head_dim % kTileRows != 0) ++heads;
  return heads;
}

inline std::int64_t qkv_units(const QkvArgs& args, std::int32_t phase) {
  if (phase == 0) return prepare_units(args.n, {&args.wq, &args.wk, &args.wv});
  const std::int64_t per_unit = heads_per_unit(args.kv.head_dim);
  const std::int64_t of_keys = args.writes_kv() ? units_of(args.kv.n_kv_heads, per_unit) : 0;
  return units_of(args.n_heads, per_unit) + 2 * of_keys;
}

/// The units of one kind (queries, keys or values) in a slice.
struct HeadRange {
  HeadKind kind;
  const Linear* w;
  std::int64_t heads;       ///< of this kind, all together
  std::int64_t begin, end;  ///< units, counted within the kind
};

inline HeadRange heads_in_slice(const QkvArgs& args, HeadKind kind, Slice slice) {
  const std::int64_t per_unit = heads_per_unit(args.kv.head_dim);
  const std::int64_t q_units = units_of(args.n_heads, per_unit);
  const std::int64_t kv_units = units_of(args.kv.n_kv_heads, per_unit);
  HeadRange range{kind, &args.wq, args.n_heads, 0, 0};
  if (kind == HeadKind::key) range = {kind, &args.wk, args.kv.n_kv_heads, 0, 0};
  if (kind == HeadKind::value) range = {kind, &args.wv, args.kv.n_kv_heads, 0, 0};
  const std::int64_t first = kind == HeadKind::query ? 0 : kind == HeadKind::key ? q_units : q_units + kv_units;
  const std::int64_t units = kind == HeadKind::query ? q_units : kv_units;
  range.begin = larger(slice.begin - first, std::int64_t{0});
  range.end = smaller(slice.end - first, units);
  return range;
}

/// The sums of `count` rows of w, from `first` on, become its outputs in place.
template <bool adds>
inline void finish_sums_as(const Block& block, const Panels& panels, const HeadRange& range, std::int64_t first,
                           std::int64_t count) {
  const float weight_exponent = log2_of(range.w->pack.scale);
  for (std::int64_t m = 0; m < block.tokens; ++m) {
    const float exponent = weight_exponent - panels.exponents[block.first_row + m];
    for (std::int64_t j = 0; j < count; j += 16) {
      float* at = block.sums + m * block.ld + j;
      store(at, finished<adds>(*range.w, at, exponent, block.first_row + m, first + j, count - j));
    }
  }
}

inline void finish_sums(const Block& block, const Panels& panels, const HeadRange& range, std::int64_t first,
                        std::int64_t count) {
  range.w->additions.empty() ? finish_sums_as<false>(block, panels, range, first, count)
                             : finish_sums_as<true>(block, panels, range, first, count);
}

template <typename Mode>
void qkv(const QkvArgs& args, std::int32_t phase, Slice slice) {
  const float limit = activation_limit(args.wq, args.wk, args.wv);
  std::byte* shared = args.workspace.shared;
  if (phase == 0)
    return prepare<Mode>(args.x, args.n, args.wq.cols, limit, shared, slice, {&args.wq, &args.wk, &args.wv});
  std::byte* own = args.workspace.of(slice.worker);
  const std::int64_t width = args.kv.head_dim, per_unit = heads_per_unit(width), unit_rows = per_unit * width;
  float* sums = reinterpret_cast<float*>(own);
  const Panels panels =
      panels_for<Mode>(args.x, args.n, args.wq.cols, limit, shared,
                       own + kSumsRows<typename Mode::Loops> * unit_rows * static_cast<std::int64_t>(sizeof(float)));
  for (const HeadKind kind : {HeadKind::query, HeadKind::key, HeadKind::value}) {
    const HeadRange range = heads_in_slice(args, kind, slice);
    if (range.begin >= range.end) continue;
    const std::int64_t unit_tiles = unit_rows / kTileRows, first_tile = range.begin * unit_tiles;
    const std::int64_t last_tile = smaller(range.end * unit_tiles, tiles_of(range.w->rows));
    const typename Mode::Loops loops(*range.w);
    multiply(
        loops, panels, args.n, last_tile - first_tile, unit_tiles, sums, unit_rows,
        [&](std::int64_t t) { return tile_at(loops, *range.w, first_tile + t); },
        [&](const Block& block) {
          const std::int64_t head = (first_tile + block.first_tile) / unit_tiles * per_unit;
          const std::int64_t heads = smaller(per_unit, range.heads - head);
          finish_sums(block, panels, range, head * width, heads * width);
          finish_heads(args, {kind, static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(heads),
                              block.first_row, block.tokens, block.sums, unit_rows});
        });
  }
}

template <typename Mode>
constexpr Projections projections() {
  return {{fixed_phases<2>, linear_units, linear<Mode>},
          {fixed_phases<2>, qkv_units, qkv<Mode>},
          {fixed_phases<4>, ffn_units, ffn<Mode>},
          {fixed_phases<2>, lm_head_units, lm_head<Mode>}};
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
