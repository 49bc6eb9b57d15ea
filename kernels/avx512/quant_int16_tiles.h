// Products of quantised weights with panels of up to 12 rows on AMX tiles: the same integers and the same bits as the
// loops of quant_int16_loops.h have (tiled/int16_values.h defines them).
//
// An activation's integer is 256 h + l with -128 <= h, l <= 128. 256 h 2^-e and l 2^-e are exact in bf16, and so is an
// integer of weights; hence a panel holds both (int16_tile_values.h), and two instructions give a run's sum times 2^-e.
// That of l comes first: its sums are below 2^20 and exact in f32. That of h adds two sums, of even and of odd k, which
// are exact since they are multiples of 256 below 2^28, to each other and to the sum of l; only the last addition
// rounds. So a sum is rounded once, as the definition says. No number is subnormal, as 2^-e is at least 2^-126.
//
// Scales are of 32 columns or 16, so that sums leave the tiles after each step of two or four instructions; they go
// through the L1, and are added to totals, 12 rows times 32 outputs in 24 registers, while the tiles multiply what
// comes next. On a Granite Rapids a step takes 33 ns, of which the tiles are busy for 21. Where a panel has fewer rows,
// so have the tiles, and sums of others stay zero.
#pragma once

#include "amx/instructions.h"
#include "avx512/int16_tile_values.h"
#include "avx512/quant_bf16_integers.h"
#include "avx512/quant_pairs.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Steps that are decoded before panels are multiplied with them: 18 KiB, so that the L1 has room for them, for sums
/// and for what is read of panels, and the stack of a host's thread for all (qinfer.h promises 64 KiB). (Of Q4_0 4 and
/// 16 were slower.)
inline constexpr int kTileSteps = 8;

template <Encoding encoding>
struct QuantInt16Tiles : PairLayout<encoding> {
  using Layout = PairLayout<encoding>;
  using Layout::kLayout, Layout::kScales, Layout::kRuns, Layout::kPairs;
  static constexpr std::int64_t kTileSubs = kTileSteps / kRuns;  ///< sub-blocks of 32 columns
  static constexpr std::int64_t kLine = 64, kSumFloats = 2 * 16 * 16;
  using Sums = float[4][kSumFloats];  ///< of four steps: [rows 0 to 15 of the weights, the others][16 tokens][16]

  /// Of one step: a run's pairs of integers as bf16, for rows 0 to 15 and for the others. Where runs are of 16 columns
  /// the lines of the others are zero.
  struct Step {
    alignas(64) std::uint32_t pairs[2][16][16];
    alignas(64) float scales[kTileRows];
    alignas(64) float minima[has_minima(kScales) ? kTileRows : 1];
  };

  static inline void decode_run(const std::byte* block, const std::byte* sub, int run, Step& out) {
    const std::byte* integers = sub + kLayout.sub_scales + run * Layout::kRunBytes;
    const std::byte* const at[2] = {integers, integers + Layout::kStripBytes};
    Ahead<1> ahead;
    each_pair<encoding, Bf16Integers, 2, 1>(
        at, ahead, [&](int j, const __m512i(&pairs)[2]) __attribute__((always_inline)) {
          for (int s = 0; s < 2; ++s) _mm512_store_si512(out.pairs[s][run * kPairs + j], pairs[s]);
        });
    for (int half = 0; half < 2; ++half) {
      const RunScales scales = scales_at<kScales>(block, sub, run, half);
      store(out.scales + 16 * half, scales.scale);
      if constexpr (has_minima(kScales)) store(out.minima + 16 * half, scales.minimum);
    }
  }

  /// Multiplies a panel's 32 columns at x, [l, h][tokens][32] bf16, with a step: sums in registers 4 + first and
  /// 5 + first.
  template <int first>
  [[gnu::always_inline]] static inline void multiply(const std::byte* x, std::int64_t tokens, const Step& step) {
    amx::tile_zero<4 + first>();
    amx::tile_zero<5 + first>();
    amx::tile_load_once<0>(x, kLine);
    amx::tile_load<2>(step.pairs[0], kLine);
    amx::tile_multiply<4 + first, 0, 2>();
    amx::tile_load<3>(step.pairs[1], kLine);
    amx::tile_multiply<5 + first, 0, 3>();
    amx::tile_load_once<1>(x + tokens * kLine, kLine);
    amx::tile_multiply<4 + first, 1, 2>();
    amx::tile_multiply<5 + first, 1, 3>();
  }
  template <int first>
  [[gnu::always_inline]] static inline void keep(float* sums) {
    amx::tile_store<4 + first>(sums, kLine);
    amx::tile_store<5 + first>(sums + kSumFloats / 2, kLine);
  }

  template <int rows>
  using Totals = __m512[rows][2];

  /// Adds a step's sums to the totals of `rows` tokens. `activations`: the sums of the rows' columns, times 2^-e.
  template <int rows>
  [[gnu::always_inline]] static inline void add(const Step& step, const float* sums, const float* activations,
                                                Totals<rows>& totals) {
    const __m512 low = _mm512_load_ps(step.scales), high = _mm512_load_ps(step.scales + 16);
#pragma GCC unroll 12
    for (int m = 0; m < rows; ++m) {
      totals[m][0] = _mm512_fmadd_ps(low, _mm512_load_ps(sums + 16 * m), totals[m][0]);
      totals[m][1] = _mm512_fmadd_ps(high, _mm512_load_ps(sums + kSumFloats / 2 + 16 * m), totals[m][1]);
    }
    if constexpr (has_minima(kScales)) {
      const __m512 of_low = _mm512_load_ps(step.minima), of_high = _mm512_load_ps(step.minima + 16);
#pragma GCC unroll 12
      for (int m = 0; m < rows; ++m) {
        const __m512 sum = _mm512_set1_ps(activations[m]);
        totals[m][0] = _mm512_fnmadd_ps(of_low, sum, totals[m][0]);
        totals[m][1] = _mm512_fnmadd_ps(of_high, sum, totals[m][1]);
      }
    }
  }

  /// Where a panel's columns are, and the sums of each 32 of them.
  struct Columns {
    const std::byte* x;
    const float* activations;
    std::int64_t tokens;
  };

  /// Adds `count` decoded steps to the totals of a panel, c[m * ldc + row] for m < rows, which are the panel's tokens
  /// or more. Sums are stored one step after they were multiplied, and added up another one later, so that no store and
  /// no addition waits for a multiplication to end.
  template <int rows>
  [[gnu::always_inline]] static inline void pass(const Columns& panel, const Step* steps, int count, Sums& sums,
                                                 float* c, std::int64_t ldc) {
    Totals<rows> totals;
#pragma GCC unroll 12
    for (int m = 0; m < rows; ++m)
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) totals[m][s] = _mm512_loadu_ps(c + m * ldc + 16 * s);
    const auto columns = [&](int step) { return panel.x + step / kRuns * 2 * panel.tokens * kLine; };
    const auto add_step = [&](int step) __attribute__((always_inline)) {
      add<rows>(steps[step], sums[step % 4], panel.activations + step / kRuns * panel.tokens, totals);
    };
    multiply<0>(columns(0), panel.tokens, steps[0]);
#pragma GCC unroll 1
    for (int step = 1; step < count; ++step) {
      if (step % 2 == 1) {
        multiply<2>(columns(step), panel.tokens, steps[step]);
        keep<0>(sums[(step - 1) % 4]);
      } else {
        multiply<0>(columns(step), panel.tokens, steps[step]);
        keep<2>(sums[(step - 1) % 4]);
      }
      if (step >= 2) add_step(step - 2);
    }
    count % 2 == 1 ? keep<0>(sums[(count - 1) % 4]) : keep<2>(sums[(count - 1) % 4]);
    if (count >= 2) add_step(count - 2);
    add_step(count - 1);
#pragma GCC unroll 12
    for (int m = 0; m < rows; ++m)
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) _mm512_storeu_ps(c + m * ldc + 16 * s, totals[m][s]);
  }

  static amx::TileConfig config_of(std::int64_t tokens) {
    amx::TileConfig config;
    for (const int tile : {0, 1, 4, 5, 6, 7}) config.rows[tile] = static_cast<std::uint8_t>(tokens);
    return config;
  }

  /// PanelsKernel: `cols` is half of the columns, as it is of panels of pairs.
  static void run(const std::uint32_t* panels, std::int64_t count, std::int64_t tokens, std::int64_t cols,
                  const TileLines& lines, float* c, std::int64_t ldc) {
    tokens > 8 ? run_rows<kPanelTokens>(panels, count, tokens, cols, lines, c, ldc)
               : run_rows<8>(panels, count, tokens, cols, lines, c, ldc);
  }

  /// `rows`: at least `tokens`.
  template <int rows>
  static inline void run_rows(const std::uint32_t* panels, std::int64_t count, std::int64_t tokens, std::int64_t cols,
                              const TileLines& lines, float* c, std::int64_t ldc) {
    const amx::TileConfig config = config_of(tokens);
    const amx::TileRegion region(config);
    for (std::int64_t m = 0; m < (count - 1) * kPanelTokens + rows; ++m)
      for (int s = 0; s < 2; ++s) _mm512_storeu_ps(c + m * ldc + 16 * s, _mm512_setzero_ps());
    alignas(64) Sums sums;
    if (tokens < rows)  // those of rows after the tokens stay zero
      for (auto& of_step : sums)
        for (int i = 0; i < kSumFloats; i += 16) _mm512_store_ps(of_step + i, _mm512_setzero_ps());
    Step steps[kTileSteps];
    if constexpr (kRuns == 2)
      for (Step& step : steps)
        for (int line = 0; line < 32; ++line) _mm512_store_si512(step.pairs[line / 16][line % 16], no_bits());
    const std::int64_t subs = 2 * cols / kQuantSub, stride = Int16TileValues::stride(cols) * tokens;
    const std::byte* next = lines.next[0];
    for (std::int64_t first = 0; first < subs; first += kTileSubs) {
      const std::int64_t n = smaller(kTileSubs, subs - first);
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t sub = first + i, block = sub / kLayout.subs * kLayout.block;
        const std::int64_t at = block + kLayout.header + sub % kLayout.subs * kLayout.sub;
        for (int run = 0; run < kRuns; ++run)
          decode_run(lines.tiles[0] + block, lines.tiles[0] + at, run, steps[i * kRuns + run]);
        for (std::int64_t line = 0; line < kLayout.sub; line += 64) prefetch_far(next + at + line);
      }
      for (std::int64_t p = 0; p < count; ++p) {
        const std::uint32_t* panel = panels + p * stride;
        const Columns columns{reinterpret_cast<const std::byte*>(panel + first * kQuantSub * tokens),
                              reinterpret_cast<const float*>(panel + 2 * cols * tokens) + first * tokens, tokens};
        pass<rows>(columns, steps, static_cast<int>(n) * kRuns, sums, c + p * kPanelTokens * ldc, ldc);
      }
    }
  }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
