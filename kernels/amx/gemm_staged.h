// Matrix multiplications of many panels; of more than two (32 tokens) where weights are quantised, in pairs without
// turned panels, or of mixed layouts.
//
// A block of weights, 32 rows by 512 columns, which are 32 KiB, stays in the L1 while all panels pass it, two at a
// time, out of the L2: by TILELOADDT1, since with the plain load they would evict the block (Goto and van de Geijn
// 2008, section 4, one level of the caches further in). A step of 2 x 2 tiles takes 64 cycles in which other units of
// the core are idle; so all that prepares later blocks is done beside the steps of this one. Each fetches some lines
// of a later block out of memory, and four of the sums that come next, one after each multiplication: all at once they
// delay the loads after them (on a Granite Rapids a prompt of 512 tokens took 3 to 5 % longer). Rows, which the file
// has at any address of two bytes, become tiles of whole lines in this block's place, while the last pair of panels
// passes it: each step of the next block after the same step of this one. (Spread over all steps, into a second place,
// they and this block exceed the L1: on a Granite Rapids a prompt of 512 tokens took 5 % longer.)
//
// Blocks come group by group of row pairs, and within a group column block by column block. Sums that wait for more
// columns do so as f32, so that the result is the same bit for bit; those of a group and the panels' columns of a block
// fit into the L2. There is no copy of the weights beyond two blocks. Quantised ones are decoded into a second place,
// 16 rows of 32 columns at a time, spread over all steps. Weights in pairs are blocks where they are, if the panels
// have been turned; otherwise (a shared expert's, or where operations mix layouts) they are turned into rows as others
// are decoded, and decoded ones are turned, too; next to a tile of rows of the file all at once.
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
  std::int64_t pair, in_group, begin, end;
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
    return {first + rest % size, rest % size, begin, smaller(begin + block_cols(), cols)};
  }
};

/// Lines to fetch, some at every step: from each step to the next `advance` bytes on, and `stride` bytes apart.
struct FetchedLines {
  const std::byte* at = nullptr;
  std::int64_t count = 0, stride = 0, advance = 0;

  [[gnu::always_inline]] void fetch(std::int64_t step) const {
    const std::byte* line = at + advance * step;
    for (std::int64_t i = 0; i < count; ++i, line += stride)
      _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T1);
  }
};

/// What a block reads of a tile, in runs of as many lines as a pass has steps: those of a run follow each other, and so
/// do the runs, but for rows of the file, which are one each. (Memory gives lines that follow each other faster than
/// several runs side by side.)
struct TileRuns {
  const std::byte* at = nullptr;
  std::int64_t count = 0, steps = 0, row_stride = 0;

  TileRuns() = default;
  TileRuns(const RowTile& rows, const Block& block, std::int64_t steps_) : steps(steps_) {
    if (rows.count == 0) return;
    if (!rows.gives_pairs()) {
      at = rows.at + 2 * block.begin, count = rows.count, row_stride = rows.stride;
      return;
    }
    const std::byte* end = nullptr;
    if (rows.quant != nullptr) {
      at = rows.at + sub_of(rows.quant->layout, block.begin / kStep).at;
      end = rows.at + sub_of(rows.quant->layout, (block.end - 1) / kStep).at + rows.quant->layout.sub;
    } else {
      at = rows.at + block.begin / kStep * kPairStepBytes;
      end = at + block.steps() * kPairStepBytes;
    }
    count = (end - at + 64 * steps - 1) / (64 * steps);
  }
  /// Those of pass i of n.
  FetchedLines of_pass(std::int64_t i, std::int64_t n) const {
    const std::int64_t begin = count * i / n, own = count * (i + 1) / n - begin;
    if (own == 0) return {};
    if (row_stride != 0) return {at + begin * row_stride, own, row_stride, 64};
    return {at + begin * 64 * steps, own, 64, 64 * own};
  }
};

/// The same of both tiles of a row pair, one after the other.
struct PairRuns {
  TileRuns tiles[2];

  PairRuns() = default;
  PairRuns(const RowPair& rows, const Block& block, std::int64_t steps) {
    for (int t = 0; t < 2; ++t) tiles[t] = TileRuns(rows.tiles[t], block, steps);
    if (rows.tiles[0].quant != nullptr && rows.tiles[1].at == rows.tiles[0].at)
      tiles[1] = {};  // the first tile's lines have both
  }
  FetchedLines of_pass(std::int64_t i, std::int64_t n) const {
    if (tiles[1].count == 0) return tiles[0].of_pass(i, n);
    const std::int64_t half = n / 2;
    return i < half ? tiles[0].of_pass(i, half) : tiles[1].of_pass(i - half, n - half);
  }
};

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

  void next() {
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
  [[gnu::noinline]] void next() { tiles[0].left > 0 ? tiles[0].next() : tiles[1].next(); }
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

/// What is done beside a pass: nothing but fetching; also steps of another block, a few of them (BlockCopy); or it is
/// the last pass, and the next block takes the place of this one (RowCopy).
enum class Beside : std::uint8_t { nothing, decoding, copying };

struct Aside {
  PairRuns later;                    ///< of a later block, to fetch
  BlockCopy copy;                    ///< of the next block, to another place
  RowCopy rows;                      ///< the same, to this one's
  std::int64_t every = 1, wait = 1;  ///< steps from one of `copy` to the next, and to the first one
};

/// What a pass fetches: lines of a later block; and the sums of the next pass, null where none wait.
struct PassFetch {
  FetchedLines lines;
  const float* sums;

  /// The share of multiplication i of 4 of a step.
  [[gnu::always_inline]] void after(std::int64_t s, int i) const {
    for (std::int64_t j = i; j < lines.count; j += 4)
      _mm_prefetch(reinterpret_cast<const char*>(lines.at + lines.advance * s + j * lines.stride), _MM_HINT_T1);
    if (sums != nullptr) __builtin_prefetch(sums + (4 * s + i) * 16, 1, 3);
  }
};

/// Where the two tiles of a block are, and how many bytes it is from one step to the next. (Of a copied block the first
/// tile is where the block is.)
struct BlockTiles {
  const std::byte* at[2];
  std::int64_t step;
};

/// One pair of panels passes a block: adds to the sums at `from` (null: none yet) and stores them at `to`. `turned`: so
/// are the panels, and the weights are in pairs. `place`: where the block is if it is a copied one.
template <int row_tiles, int panels, bool turned, Beside beside>
inline void pass(const BlockTiles& w, std::int64_t steps, const PanelPair& x, const float* from, float* to,
                 PassFetch fetch, Aside& aside, std::byte* place) {
  from == nullptr ? zero_sums<row_tiles, panels>() : load_sums<row_tiles, panels>(from);
  const std::uint32_t *x0 = x.at[0], *x1 = x.at[1];
  const std::byte *w0 = w.at[0], *w1 = w.at[1];
  for (std::int64_t s = 0; s < steps; ++s, w0 += w.step, w1 += w.step, x0 += kPairStepDwords, x1 += kPairStepDwords) {
    const auto after = [&](int i) __attribute__((always_inline)) { fetch.after(s, i); };
    if constexpr (beside == Beside::decoding)
      if (--aside.wait == 0 && aside.copy.left() > 0) aside.wait = aside.every, aside.copy.next();
    if constexpr (turned) {
      multiply_turned_step<row_tiles, panels, true>([&](int tile) { return tile == 0 ? w0 : w1; }, x0, x1, after);
    } else {
      multiply_step<row_tiles, panels, true>(w0, w1, 64, x0, x1, after);
    }
    if constexpr (beside == Beside::copying) aside.rows.step(s, place);
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
    for (std::int64_t i = 0; i < smaller(std::int64_t{2}, blocks_.count()); ++i) {  // nothing before has fetched them
      const std::int64_t steps = blocks_.at(i).steps();
      for (const TileRuns& runs : runs_to_fetch(i, steps).tiles)
        for (std::int64_t s = 0; s < steps; ++s) runs.of_pass(0, 1).fetch(s);
    }
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

  /// The copy of any other block i, to be done step by step; it is done at once where rows or columns end in it, and
  /// where one tile is of rows of the file and the other is not.
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

  /// What is to fetch of block i, `steps` lines of each run; as the first one after the last block, what will be read
  /// then.
  PairRuns runs_to_fetch(std::int64_t i, std::int64_t steps) const {
    if (i > blocks_.count()) return {};
    if (i < blocks_.count() || end_ < x_.count()) {
      const Block block = blocks_.at(i % blocks_.count());
      return {rows_(block.pair), block, steps};
    }
    RowPair rows = rows_(blocks_.n_pairs - 1);
    for (RowTile& tile : rows.tiles) tile.at = tile.next;  // of the same kind as these, most often
    return {rows, {0, 0, 0, blocks_.block_cols()}, steps};
  }

  Aside aside_of(std::int64_t i, const Block& block, bool in_place) const {
    Aside aside{runs_to_fetch(i + (in_place ? 1 : 2), block.steps()), begin_copy(i + 1, next_place_), row_copy(i + 1)};
    if (aside.copy.left() > 0) aside.every = larger(block.steps() * panel_pairs() / aside.copy.left(), std::int64_t{1});
    return aside;
  }

  /// The pair of panels that begins with p passes a block.
  void pass_panels(const BlockTiles& tiles, const Block& block, int row_tiles, std::int64_t p, float* to,
                   Aside& aside) const {
    const PanelPair pair = x_.pair(p);
    const std::int64_t at = block.begin / 2 * kPanelLanes, n = (p - first_) / 2;
    const PanelPair columns{{pair.at[0] + at, pair.at[1] + at}};
    float* sums = waiting(block.in_group, p);
    const float* from = block.begin == 0 ? nullptr : sums;
    const PassFetch fetch{aside.later.of_pass(n, panel_pairs()),
                          blocks_.along_k() > 1 && p + 2 < end_ ? sums + kSumFloats : nullptr};
    with_tiles(row_tiles, x_.panels(p), [&]<int row_tiles_, int panels>() {
      const auto run = [&]<Beside beside>() {
        pass<row_tiles_, panels, turned, beside>(tiles, block.steps(), columns, from, to, fetch, aside, place_);
      };
      if constexpr (!turned)
        if (aside.rows.steps > 0 && p + 2 >= end_) return run.template operator()<Beside::copying>();
      aside.copy.left() > 0 ? run.template operator()<Beside::decoding>() : run.template operator()<Beside::nothing>();
    });
  }

  void multiply_block(std::int64_t i) {
    const Block block = blocks_.at(i);
    const RowPair rows = rows_(block.pair);
    const int row_tiles = row_tiles_of(rows);
    const BlockTiles tiles = tiles_of(rows, block);
    const bool last = block.end == blocks_.cols, at_once = last && whole_ == 1;
    Aside aside = aside_of(i, block, is_in_place(rows));
    for (std::int64_t p = first_; p < end_; p += 2) {
      pass_panels(tiles, block, row_tiles, p, at_once ? staging_.finished : waiting(block.in_group, p), aside);
      if (at_once) sink_(SumBlock{block.pair, p, row_tiles, x_.panels(p), staging_.finished, turned});
    }
    while (aside.copy.left() > 0) aside.copy.next();
    finish(aside.rows, block.steps(), place_);
    if (aside.rows.steps == 0) std::swap(place_, next_place_);
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
