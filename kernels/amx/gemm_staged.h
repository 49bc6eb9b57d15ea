// Matrix multiplications of many panels; of more than two (32 tokens) where weights are quantised, in pairs without
// turned panels, or of mixed layouts.
//
// A block of weights, 32 rows by 512 columns, which are 32 KiB, stays in the L1 while all panels pass it, two at a
// time, out of the L2: by TILELOADDT1, since with the plain load they would evict the block (Goto and van de Geijn
// 2008, section 4, one level of the caches further in). A step of 2 x 2 tiles takes 64 cycles in which other units of
// the core are idle; so all that prepares later blocks is done beside the steps of this one. Each fetches a line or two
// of a later block out of memory, and the sums and panels that come next. Rows, which the file has at any address of
// two bytes, become tiles of whole lines in this block's place, while the last pair of panels passes it: each step of
// the next block after the same step of this one. (Spread over all steps, into a second place, they and this block
// exceed the L1: on a Granite Rapids a prompt of 512 tokens took 5 % longer.)
//
// Blocks come group by group of row pairs, and within a group column block by column block. Sums that wait for more
// columns do so as f32, so that the result is the same bit for bit; those of a group and the panels' columns of a block
// fit into the L2. There is no copy of the weights beyond two blocks. Quantised ones are decoded into a second place,
// 16 rows of 32 columns at a time, spread over all steps. Weights in pairs are blocks where they are, if the panels
// have been turned; otherwise (a shared expert's, or where operations mix layouts) they are turned into rows as others
// are decoded, and decoded ones are turned, too.
#pragma once

#include <utility>

#include "amx/gemm.h"

namespace qinfer::kernels::amx {
namespace {

/// Columns of a block. (On Emerald Rapids 256, 384, 768 and 1024 were slower by 4 to 10 points of the peak.)
inline constexpr std::int64_t kBlockCols = 512;
inline constexpr std::int64_t kBlockBytes = kBlockCols / kStep * kStepBytes;
/// Row pairs of a group: as many at most, but whole heads, and at least one.
inline constexpr std::int64_t kGroupPairs = 16;
/// Panels that pass a group before others do: the sums of a group and its panels' columns are to stay in the L2.
inline constexpr std::int64_t kPanelsAtOnce = 32;
/// Bytes of panels beyond which their next columns are fetched ahead.
inline constexpr std::int64_t kPanelBytesInL2 = 1200 << 10;

/// Row pairs of a group that has a multiple of `whole`.
inline std::int64_t group_pairs(std::int64_t whole) { return larger(whole, kGroupPairs / whole * whole); }

/// A worker's memory for a multiplication: two blocks, the sums that were just finished, and those of a group.
struct Staging {
  std::byte* blocks[2];
  float *finished, *waiting;

  explicit Staging(std::byte* memory)
      : blocks{memory, memory + kBlockBytes},
        finished(reinterpret_cast<float*>(memory + 2 * kBlockBytes)),
        waiting(finished + kSumFloats) {}
  static std::uint64_t bytes(std::int64_t n_panels, std::int64_t whole) {
    const std::int64_t pairs = (smaller(n_panels, kPanelsAtOnce) + 1) / 2;
    return 2 * kBlockBytes + sums_bytes(1 + larger(kGroupPairs, whole) * pairs);  // grows with `whole`
  }
};

/// Columns [begin, end) of a row pair.
struct Block {
  std::int64_t pair, in_group, group_size, begin, end;
  std::int64_t steps() const { return (end - begin) / kStep; }
};

/// The blocks of a multiplication in their order; `cols` is padded to whole steps.
struct Blocks {
  std::int64_t n_pairs, group, cols;

  std::int64_t along_k() const { return (cols + kBlockCols - 1) / kBlockCols; }
  /// Columns of a block: even parts, since a short one would have few steps to prepare a long one in.
  std::int64_t block_cols() const { return padded_k((cols + along_k() - 1) / along_k()); }
  std::int64_t count() const { return n_pairs * along_k(); }
  Block at(std::int64_t i) const {
    const std::int64_t first = i / (group * along_k()) * group, size = smaller(group, n_pairs - first);
    const std::int64_t rest = i - first * along_k(), begin = rest / size * block_cols();
    return {first + rest % size, rest % size, size, begin, smaller(begin + block_cols(), cols)};
  }
};

/// Addresses of lines, in order: runs of neighbouring lines, `skip` bytes apart.
struct Lines {
  const std::byte* at = nullptr;
  std::int64_t run = 1, skip = 0;  ///< lines of a run, and bytes from the end of one to the next
  std::int64_t left = 0, in_run = 0;

  [[gnu::always_inline]] const std::byte* next() {
    const std::byte* line = at;
    at += 64;
    if (++in_run == run) in_run = 0, at += skip;
    --left;
    return line;
  }
};

/// Those of a first tile, then those of a second one.
struct PairLines {
  Lines tiles[2];

  std::int64_t left() const { return tiles[0].left + tiles[1].left; }
  [[gnu::always_inline]] const std::byte* next() { return tiles[0].left > 0 ? tiles[0].next() : tiles[1].next(); }
};

/// What a block reads of a tile.
inline Lines lines_of(const RowTile& rows, const Block& block) {
  if (rows.count == 0) return {};
  if (rows.quant != nullptr) {
    const std::byte* begin = rows.at + sub_of(rows.quant->layout, block.begin / kStep).at;
    const std::int64_t last = (block.end - 1) / kStep;
    const std::byte* end = rows.at + sub_of(rows.quant->layout, last).at + rows.quant->layout.sub;
    const std::int64_t lines = (end - begin + 63) / 64;
    return {begin, lines, 0, lines};
  }
  const std::int64_t lines = kRegisterRows * block.steps();
  if (rows.in_pairs) return {rows.at + block.begin / kStep * kPairStepBytes, lines, 0, lines};
  return {rows.at + 2 * block.begin, block.steps(), rows.stride - 64 * block.steps(), lines};
}

/// What a block reads of its rows.
inline PairLines lines_of(const RowPair& rows, const Block& block) {
  PairLines lines{{lines_of(rows.tiles[0], block), lines_of(rows.tiles[1], block)}};
  if (rows.tiles[0].quant != nullptr && rows.tiles[1].at == rows.tiles[0].at)
    lines.tiles[1].left = 0;  // the first tile's have both
  return lines;
}

/// The columns of panels [first, end) that the blocks after this one's group take.
inline Lines next_columns(const Panels& x, std::int64_t first, std::int64_t end, const Blocks& blocks,
                          const Block& block) {
  const std::int64_t begin = block.end < blocks.cols ? block.end : 0;
  const std::int64_t run = smaller(blocks.block_cols(), blocks.cols - begin) / 2, panel_lines = blocks.cols / 2;
  const std::int64_t from = first + (end - first) * block.in_group / block.group_size,
                     to = first + (end - first) * (block.in_group + 1) / block.group_size;
  const auto* at = reinterpret_cast<const std::byte*>(x.pair(from).at[0]) + begin / 2 * 64;
  return {at, run, (panel_lines - run) * 64, (to - from) * run};
}

/// Brings pairs, and what is decoded to such, into a block, [step][32 rows][32 columns], a step at a time, turned into
/// rows unless the panels are.
struct TileCopy {
  std::int64_t left = 0;  ///< steps
  const std::byte* pairs = nullptr;
  std::byte* out = nullptr;
  bool turns = false;
  const QuantPairs* quant = nullptr;
  const std::byte *block = nullptr, *sub = nullptr;
  std::int64_t subs_left = 0, half = 0;  ///< sub-blocks of the block; which rows of the tile

  TileCopy() = default;
  TileCopy(const RowTile& rows, const Block& of, std::byte* to, bool turned)
      : out(to), turns(!turned), quant(rows.quant) {
    if (rows.count == 0) return;
    left = of.steps();
    pairs = rows.at + of.begin / kStep * kPairStepBytes;
    if (quant == nullptr) return;
    const SubBlock first = sub_of(quant->layout, of.begin / kStep);
    block = rows.at + first.block, sub = rows.at + first.at, subs_left = first.left;
    half = rows.first / kRegisterRows;
  }

  [[gnu::always_inline]] void next() {
    --left;
    if (quant != nullptr) return decode();
    turns ? turn_pairs(pairs, out) : copy_step(pairs, out);
    pairs += kPairStepBytes, out += kStepBytes;
  }

  void decode() {
    quant->decode(block, sub, half, out);
    if (turns) turn_pairs(out, out);
    out += kStepBytes;
    sub += quant->layout.sub;
    if (--subs_left > 0) return;
    block += quant->layout.block, sub = block + quant->layout.header, subs_left = quant->layout.subs;
  }
};

/// The same of both tiles of a row pair.
struct BlockCopy {
  TileCopy tiles[2];

  BlockCopy() = default;
  BlockCopy(const RowPair& rows, const Block& block, std::byte* to, bool turned)
      : tiles{{rows.tiles[0], block, to, turned}, {rows.tiles[1], block, to + kRegisterRows * 64, turned}} {}
  std::int64_t left() const { return tiles[0].left + tiles[1].left; }
  [[gnu::always_inline]] void next() { tiles[0].left > 0 ? tiles[0].next() : tiles[1].next(); }
};

/// Copies rows of the file into a block, a step of 32 columns at a time.
struct RowCopy {
  const std::byte* at[2] = {nullptr, nullptr};  ///< of each tile that has rows, the first column of the block
  std::int64_t stride = 0, steps = 0;

  RowCopy() = default;
  RowCopy(const RowPair& rows, const Block& block) : stride(rows.tiles[0].stride), steps(block.steps()) {
    for (int t = 0; t < row_tiles_of(rows); ++t) at[t] = rows.tiles[t].at + 2 * block.begin;
  }

  /// `out`: the block.
  [[gnu::always_inline]] void step(std::int64_t s, std::byte* out) const {
    if (s >= steps) return;
    out += s * kStepBytes;
#pragma GCC unroll 2
    for (int t = 0; t < 2; ++t) {
      if (at[t] == nullptr) break;
      const std::byte* line = at[t] + 64 * s;
#pragma GCC unroll 16
      for (std::int64_t r = 0; r < kRegisterRows; ++r)
        _mm512_store_si512(out + (t * kRegisterRows + r) * 64, _mm512_loadu_si512(line + r * stride));
    }
  }
};

/// Spreads a number of things evenly over steps.
struct Pace {
  std::int64_t things = 0, steps = 1, owed = 0;

  Pace() = default;
  Pace(std::int64_t things_, std::int64_t steps_) : things(things_), steps(steps_) {}
  /// Calls f() as many times as is due at the next step: all of them after the last step.
  template <typename F>
  [[gnu::always_inline]] void step(F f) {
    for (owed += things; owed >= steps; owed -= steps) f();
  }
};

/// What is done beside the multiplications of a block, a part of it at each step.
struct Aside {
  BlockCopy copy;  ///< of the next block, to another place
  PairLines rows;  ///< to fetch
  Lines panels;
  Pace copies, row_lines, panel_lines;
  const float* sums = nullptr;  ///< of the next pass, null where none wait

  [[gnu::always_inline]] void step(std::int64_t s) {
    row_lines.step([&] { _mm_prefetch(reinterpret_cast<const char*>(rows.next()), _MM_HINT_T1); });
    copies.step([&] { copy.next(); });
    panel_lines.step([&] { _mm_prefetch(reinterpret_cast<const char*>(panels.next()), _MM_HINT_T1); });
    if (sums == nullptr) return;
    for (std::int64_t line = 4 * s; line < 4 * s + 4; ++line) __builtin_prefetch(sums + line * 16, 1, 3);
  }
};

/// Where the two tiles of a block are, and how many bytes it is from one step to the next. (Of a copied block the first
/// tile is where the block is.)
struct BlockTiles {
  const std::byte* at[2];
  std::int64_t step;
};

/// One pair of panels passes a block: adds to the sums at `from` (null: none yet) and stores them at `to`. `turned`: so
/// are the panels, and the weights are in pairs. `copies`: it is the last pair, after which `place`, where the block
/// is, has the next one.
template <int row_tiles, int panels, bool turned, bool copies>
inline void pass(const BlockTiles& w, std::int64_t steps, const PanelPair& x, const float* from, float* to,
                 Aside& aside, const RowCopy& next, std::byte* place) {
  from == nullptr ? zero_sums<row_tiles, panels>() : load_sums<row_tiles, panels>(from);
  const std::uint32_t *x0 = x.at[0], *x1 = x.at[1];
  const std::byte *w0 = w.at[0], *w1 = w.at[1];
  for (std::int64_t s = 0; s < steps; ++s, w0 += w.step, w1 += w.step, x0 += kPairStepDwords, x1 += kPairStepDwords) {
    aside.step(s);
    if constexpr (turned) {
      multiply_turned_step<row_tiles, panels, true>([&](int tile) { return tile == 0 ? w0 : w1; }, x0, x1);
    } else {
      multiply_step<row_tiles, panels, true>(w0, w1, 64, x0, x1);
    }
    if constexpr (copies) next.step(s, place);
  }
  store_sums<row_tiles, panels>(to);
}

/// Multiplies panels [first_panel, end_panel) with row pairs 0 .. n_pairs - 1. `turned`: so are the panels, and the
/// weights are in pairs.
template <bool turned, typename RowsAt, typename Sink>
class StagedMultiplication {
 public:
  StagedMultiplication(const Panels& x, std::int64_t first_panel, std::int64_t end_panel, std::int64_t n_pairs,
                       std::int64_t whole, const Staging& staging, RowsAt rows, Sink sink)
      : x_(x),
        first_(first_panel),
        end_(end_panel),
        whole_(whole),
        blocks_{n_pairs, group_pairs(whole), padded_k(x.cols)},
        staging_(staging),
        rows_(rows),
        sink_(sink) {}

  void run() {
    for (std::int64_t i = 0; i < smaller(std::int64_t{2}, blocks_.count()); ++i)  // nothing before has fetched them
      for (PairLines lines = lines_to_fetch(i); lines.left() > 0;)
        _mm_prefetch(reinterpret_cast<const char*>(lines.next()), _MM_HINT_T1);
    place_ = staging_.blocks[0], next_place_ = staging_.blocks[1];
    finish(row_copy(0), 0, place_);
    for (BlockCopy copy = begin_copy(0, place_); copy.left() > 0;) copy.next();
    for (std::int64_t i = 0; i < blocks_.count(); ++i) multiply_block(i);
  }

 private:
  std::int64_t panel_pairs() const { return (end_ - first_ + 1) / 2; }
  /// Room for the sums of a row pair of the group and the pair of panels that begins with p.
  float* waiting(std::int64_t in_group, std::int64_t p) const {
    return staging_.waiting + (in_group * panel_pairs() + (p - first_) / 2) * kSumFloats;
  }

  static bool is_whole(const RowPair& rows) {
    bool whole = true;
    for (int t = 0; t < row_tiles_of(rows); ++t) whole = whole && rows.tiles[t].is_whole();
    return whole;
  }
  /// Whether a block is multiplied where it is.
  static bool is_in_place(const RowPair& rows) { return turned && rows.in_pairs() && is_whole(rows); }

  /// Whether a block is copied from rows of the file, all of which are there.
  bool is_of_rows(const RowPair& rows, const Block& block) const {
    return !turned && !rows.has_pairs() && is_whole(rows) && block.end <= x_.cols;
  }

  BlockTiles tiles_of(const RowPair& rows, const Block& block) const {
    if (!is_in_place(rows)) return {{place_, place_ + kRegisterRows * 64}, kStepBytes};
    const std::int64_t at = block.begin / kStep * kPairStepBytes;
    return {{rows.tiles[0].at + at, rows.tiles[1].at + at}, kPairStepBytes};
  }

  /// The copy of block i, if it is one of rows; and its steps from s on.
  RowCopy row_copy(std::int64_t i) const {
    if (i >= blocks_.count()) return {};
    const Block block = blocks_.at(i);
    const RowPair rows = rows_(block.pair);
    return is_of_rows(rows, block) ? RowCopy(rows, block) : RowCopy();
  }
  static void finish(const RowCopy& copy, std::int64_t s, std::byte* out) {
    for (; s < copy.steps; ++s) copy.step(s, out);
  }

  /// The copy of any other block i, to be done step by step; where rows or columns end in it, it is done at once.
  BlockCopy begin_copy(std::int64_t i, std::byte* out) const {
    if (i >= blocks_.count()) return {};
    const Block block = blocks_.at(i);
    const RowPair rows = rows_(block.pair);
    if (is_in_place(rows) || is_of_rows(rows, block)) return {};
    if (is_whole(rows) && rows.gives_pairs()) return {rows, block, out, turned};
    for (std::int64_t k = block.begin; k < block.end; k += kStep, out += kStepBytes)
      for (int t = 0; t < row_tiles_of(rows); ++t) {
        std::byte* tile = out + t * kRegisterRows * 64;
        turned ? bring_pairs(rows.tiles[t], k / kStep, tile) : bring_rows(rows.tiles[t], k, x_.cols, tile);
      }
    return {};
  }

  /// The lines of block i to fetch; as the first one after the last block, those that will be read then.
  PairLines lines_to_fetch(std::int64_t i) const {
    if (i > blocks_.count()) return {};
    if (i < blocks_.count() || end_ < x_.count()) {
      const Block block = blocks_.at(i % blocks_.count());
      return lines_of(rows_(block.pair), block);
    }
    RowPair rows = rows_(blocks_.n_pairs - 1);
    for (RowTile& tile : rows.tiles) tile.at = tile.next;  // of the same kind as these, most often
    return lines_of(rows, {0, 0, 1, 0, blocks_.block_cols()});
  }

  Aside aside_of(std::int64_t i, const Block& block, bool in_place) const {
    const std::int64_t steps = block.steps() * panel_pairs();
    Aside aside{begin_copy(i + 1, next_place_), lines_to_fetch(i + (in_place ? 1 : 2)), {}, {}, {}, {}, nullptr};
    if (blocks_.along_k() > 1 && (end_ - first_) * panel_dwords(x_.cols) * 4 > kPanelBytesInL2)
      aside.panels = next_columns(x_, first_, end_, blocks_, block);
    aside.copies = {aside.copy.left(), steps};
    aside.row_lines = {aside.rows.left(), steps};
    aside.panel_lines = {aside.panels.left, steps};
    return aside;
  }

  void multiply_block(std::int64_t i) {
    const Block block = blocks_.at(i);
    const RowPair rows = rows_(block.pair);
    const int row_tiles = row_tiles_of(rows);
    const BlockTiles tiles = tiles_of(rows, block);
    const bool last = block.end == blocks_.cols, at_once = last && whole_ == 1;
    Aside aside = aside_of(i, block, is_in_place(rows));
    const RowCopy next = row_copy(i + 1);
    for (std::int64_t p = first_; p < end_; p += 2) {
      const PanelPair pair = x_.pair(p);
      const std::int64_t at = block.begin / 2 * kPanelLanes;
      float* sums = waiting(block.in_group, p);
      aside.sums = blocks_.along_k() > 1 && p + 2 < end_ ? sums + kSumFloats : nullptr;
      with_tiles(row_tiles, x_.panels(p), [&]<int row_tiles_, int panels>() {
        const PanelPair columns{{pair.at[0] + at, pair.at[1] + at}};
        const float* from = block.begin == 0 ? nullptr : sums;
        float* to = at_once ? staging_.finished : sums;
        if (!turned && p + 2 >= end_)
          return pass<row_tiles_, panels, turned, !turned>(tiles, block.steps(), columns, from, to, aside, next,
                                                           place_);
        pass<row_tiles_, panels, turned, false>(tiles, block.steps(), columns, from, to, aside, next, place_);
      });
      if (at_once) sink_(SumBlock{block.pair, p, row_tiles, x_.panels(p), staging_.finished, turned});
    }
    finish(next, block.steps(), place_);
    if (next.steps == 0) std::swap(place_, next_place_);
    if (last && !at_once && (block.in_group + 1) % whole_ == 0) finish_whole(block);
  }

  /// Row pairs that go together are finished: one pair of panels after the other.
  void finish_whole(const Block& block) {
    for (std::int64_t p = first_; p < end_; p += 2)
      for (std::int64_t j = whole_ - 1; j >= 0; --j)
        sink_(SumBlock{block.pair - j, p, row_tiles_of(rows_(block.pair - j)), x_.panels(p),
                       waiting(block.in_group - j, p), turned});
  }

  const Panels& x_;
  std::int64_t first_, end_, whole_;
  Blocks blocks_;
  Staging staging_;
  std::byte *place_ = nullptr, *next_place_ = nullptr;  ///< of a block that is not in place, and of the next such one
  RowsAt rows_;
  Sink sink_;
};

/// As multiply_few(), of any number of panels. For one pair of panels the sink gets the row pairs of a run of `whole`
/// in order, one after the other.
template <typename RowsAt, typename Sink>
inline void multiply_many(const Panels& x, std::int64_t n_pairs, std::int64_t whole, const Staging& staging,
                          RowsAt rows, Sink sink) {
  if (n_pairs == 0) return;
  const std::int64_t parts = units_of(x.count(), kPanelsAtOnce), panels = units_of(x.count(), 2 * parts) * 2;
  for (std::int64_t first = 0; first < x.count(); first += panels) {
    const std::int64_t end = smaller(first + panels, x.count());
    if (x.turned != nullptr) {
      StagedMultiplication<true, RowsAt, Sink>(x, first, end, n_pairs, whole, staging, rows, sink).run();
    } else {
      StagedMultiplication<false, RowsAt, Sink>(x, first, end, n_pairs, whole, staging, rows, sink).run();
    }
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
