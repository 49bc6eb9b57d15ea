// What follows the projection of a head: RMSNorm, rotary embedding in the half-rotation form, and the store of queries
// as rows, of keys and values in the tiles of the cache. Where the norm is of all heads together, a block of queries or
// keys is kept as it is, and a last phase finishes whole rows.
#include "tiled/math.h"
#include "tiled/panels.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// A head as a row, and the row of the rope table for its position.
struct RowHead {
  static constexpr std::int64_t kStep = 16;
  float* values;
  const float* table;  ///< [head_dim / 2][cos, sin]

  F32x16 load(std::int64_t i, std::int64_t n) const { return QINFER_ISA::load(first_lanes(n), values + i); }
  void store(std::int64_t i, std::int64_t n, F32x16 value) const {
    QINFER_ISA::store(values + i, first_lanes(n), value);
  }
  void rope(std::int64_t i, std::int64_t n, F32x16& cos, F32x16& sin) const {
    const F32x16 low = QINFER_ISA::load(first_lanes(2 * n), table + 2 * i);
    const F32x16 high = n > 8 ? QINFER_ISA::load(first_lanes(2 * n - 16), table + 2 * i + 16) : zeros();
    split_pairs(low, high, cos, sin);
  }
};

/// The heads of a run become neighbouring lanes of the lines of a tile [head_dim][32].
template <DType type>
void store_lanes(const float* values, std::int64_t ld, std::int64_t count, std::int64_t lane, std::int64_t width,
                 std::byte* tile) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  if (count == 1) {  // decoding: nothing to transpose
    alignas(64) std::byte narrow[16 * kBytes];
    for (std::int64_t i = 0; i < width; i += 16) {
      store16<type>(narrow, first_lanes(16), load(first_lanes(width - i), values + i));
      for (std::int64_t j = 0; j < 16 && i + j < width; ++j)
        __builtin_memcpy(tile + ((i + j) * kTileTokens + lane) * kBytes, narrow + j * kBytes, kBytes);
    }
    return;
  }
  for (std::int64_t first = 0; first < count; first += 16)
    for (std::int64_t i = 0; i < width; i += 16) {
      const std::int64_t rows = count - first < 16 ? count - first : 16, lines = width - i < 16 ? width - i : 16;
      I32x16 block[16];
      for (std::int64_t r = 0; r < 16; ++r)
        block[r] = r < rows ? load_dwords(first_lanes(width - i), values + (first + r) * ld + i) : no_bits();
      transpose16(block);
      for (std::int64_t j = 0; j < lines; ++j)
        store16<type>(tile + ((i + j) * kTileTokens + lane + first) * kBytes, first_lanes(rows), floats_of(block[j]));
    }
}

/// They become rows of a tile [32][padded], with zeros after them.
template <DType type>
void store_rows(const float* values, std::int64_t ld, std::int64_t count, std::int64_t lane, std::int64_t width,
                std::int64_t padded, std::byte* tile) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t i = 0; i < padded; i += 16) {
      const F32x16 row = i < width ? load(first_lanes(width - i), values + r * ld + i) : zeros();
      store16<type>(tile + ((lane + r) * padded + i) * kBytes, first_lanes(16), row);
    }
}

/// What waits for the norm over all heads is after the panels in the shared workspace: f32 [row][waiting_width()].
float* waiting_row(const QkvArgs& args, std::int64_t row) {
  std::byte* at = args.workspace.shared +
                  shared_panels_bytes(static_cast<std::uint64_t>(args.n), static_cast<std::uint64_t>(args.wq.cols));
  return reinterpret_cast<float*>(at) + row * waiting_width(args);
}

/// One head of the rows of a run, for finish_head().
struct RunHead {
  const QkvArgs& args;
  HeadKind kind;
  std::uint32_t index;  ///< among the heads of its kind
  const Run& run;
  float* values;  ///< of the run's first row
  std::int64_t ld;

  std::int64_t width() const { return args.kv.head_dim; }
  std::int64_t lane() const { return run.position % kTileTokens; }
  std::byte* key_tile() const { return k_tile(args, run, index); }
  std::byte* value_tile() const { return key_tile() + args.kv.tile_bytes(); }
  /// Whether the cache has pairs of bf16.
  bool writes_pairs() const { return kHasPairs && args.kv.order == KvOrder::key_pairs; }
  /// Stores the run's rows as lanes, or as rows.
  void store_as(bool lanes, std::byte* tile) const {
    with_dtype(args.kv.type, [&]<DType type>() {
      if (lanes) return store_lanes<type>(values, ld, run.count, lane(), width(), tile);
      store_rows<type>(values, ld, run.count, lane(), width(), args.kv.head_dim_padded, tile);
    });
  }

  /// Calls f(row of the run, its values).
  template <typename F>
  void for_rows(F f) const {
    for (std::int64_t r = 0; r < run.count; ++r) f(r, values + r * ld);
  }

  void keep() const {
    for_rows([&](std::int64_t r, const float* row) {
      __builtin_memcpy(waiting_row(args, run.first_row + r) + waiting_at(args, kind, index), row,
                       static_cast<std::size_t>(width()) * sizeof(float));
    });
  }
  void normalise(const float* weights) const {
    for_rows([&](std::int64_t, float* row) { rms_norm_row(row, weights, width(), args.norm_eps, row); });
  }
  void turn() const {
    for_rows([&](std::int64_t r, float* row) {
      rotate<VectorOps>(RowHead{row, args.rope + (run.position + r) * width()}, width());
    });
  }
  void scale() const {
    for_rows([&](std::int64_t r, float* row) {
      const F32x16 factor = splat(query_scale(args, run.position + static_cast<std::uint32_t>(r)));
      for (std::int64_t i = 0; i < width(); i += 16) {
        const Lanes lanes = first_lanes(width() - i);
        store(row + i, lanes, mul(load(lanes, row + i), factor));
      }
    });
  }
  void write_query() const {
    for_rows([&](std::int64_t r, const float* row) {
      float* out = args.q.row(run.first_row + r) + index * width();
      for (std::int64_t i = 0; i < width(); i += 16) {
        const Lanes lanes = first_lanes(width() - i);
        store(out + i, lanes, load(lanes, row + i));
      }
    });
  }
  /// Keys become lanes (KvOrder::key_lanes), rows, or pairs.
  void write_key() const {
    if constexpr (kHasPairs)
      if (writes_pairs()) return write_key_pairs(values, ld, run.count, lane(), width(), key_tile());
    store_as(args.kv.order != KvOrder::key_rows, key_tile());
  }
  /// Values become rows, lanes where keys are rows, or pairs.
  void write_value() const {
    if constexpr (kHasPairs)
      if (writes_pairs())
        return write_value_pairs(values, ld, run.count, lane(), width(), args.kv.head_dim_padded, value_tile());
    store_as(args.kv.order == KvOrder::key_rows, value_tile());
  }
};

/// Calls f(head) for the heads of a block, run by run.
template <typename F>
void for_heads(const QkvArgs& args, const HeadBlock& block, F f) {
  for_runs(args, block.first_row, block.first_row + block.tokens, [&](const Run& run) {
    float* values = block.values + (run.first_row - block.first_row) * block.ld;
    for (std::uint32_t h = 0; h < block.n_heads; ++h)
      f(RunHead{args, block.kind, block.first_head + h, run, values + h * std::int64_t{args.kv.head_dim}, block.ld});
  });
}

}  // namespace

void finish_waiting(const QkvArgs& args, Slice slice) {
  for_waiting_units(args, waiting_unit_rows(args.n), slice, [&](HeadKind kind, std::int64_t first, std::int64_t end) {
    const auto heads = static_cast<std::uint32_t>(projection_of(args, kind).n_heads);
    const std::int64_t width = heads * std::int64_t{args.kv.head_dim};
    for (std::int64_t row = first; row < end; ++row) {
      float* values = waiting_row(args, row) + waiting_at(args, kind, 0);
      rms_norm_row(values, norm_weights(args, kind), width, args.norm_eps, values);
    }
    const HeadBlock block{
        kind, 0, heads, first, end - first, waiting_row(args, first) + waiting_at(args, kind, 0), waiting_width(args)};
    for_heads(args, block, [&](const RunHead& head) { write_head(args, kind, head); });
  });
}

void finish_heads(const QkvArgs& args, const HeadBlock& block) {
  for_heads(args, block, [&](const RunHead& head) { finish_head(args, block.kind, head); });
}

}  // namespace qinfer::kernels::QINFER_ISA
