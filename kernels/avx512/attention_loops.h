// Attention, inner loops: scores are the projections' inner loop over K tiles; values times weights, in f32, with f16
// sums within a tile or as products of bf16, are here. One kernel for each number of queries in a panel.
#pragma once

#include "avx512/attention_panel.h"
#include "avx512/gemm_bf16.h"

namespace qinfer::kernels::avx512 {
namespace {

/// What add_values() takes of one tile. While it reads the tile it fetches another one, of the same size, line by line:
/// V is [32 positions][padded], so for 32 of its features (d / 32) and a position j it reads one line of 32 values, and
/// fetches line 32 * (d / 32) + j of the next tile. All lines of the next tile are thus fetched once, in the order of
/// memory, whatever the tile holds; where queries see fewer than 32 positions, as many lines fewer.
struct ValueTile {
  const std::byte* values;   ///< the V tile
  const float* weights;      ///< of the panel's first query; kWeightsLd further on those of the next
  std::uint32_t begin, end;  ///< lanes that any query sees
  const std::byte* next;     ///< the tile to fetch
};

/// out += weights x V; `masked`: not all queries see all lanes from begin to end.
template <DType type, int count, bool masked>
void add_values(const Panel& panel, const ValueTile& tile) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const std::int64_t padded = panel.padded;
  for (std::int64_t d = 0; d < padded; d += 32) {
    const bool both = padded - d >= 32;  // otherwise only the last 16 features are left
    __m512 sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      const float* out = panel.out + m * padded + d;
      sums[m][0] = _mm512_loadu_ps(out);
      sums[m][1] = _mm512_maskz_loadu_ps(both ? 0xffff : 0, out + 16);
    }
    const std::byte* line = tile.values + (tile.begin * padded + d) * kBytes;
    for (std::uint32_t j = tile.begin; j < tile.end; ++j, line += padded * kBytes) {
      prefetch_line(tile.next + (d / 32 * 32 + j) * 32 * kBytes);
      if constexpr (kBytes > 2) prefetch_line(tile.next + (d / 32 * 32 + j) * 32 * kBytes + 64);
      const __m512 low = load16<type>(line), high = load16<type>(both ? line + 16 * kBytes : line);
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512 weight = _mm512_set1_ps(tile.weights[m * kWeightsLd + static_cast<int>(j)]);
        if constexpr (masked) {
          const auto lanes = static_cast<__mmask16>(-(panel.seen[m] >> j & 1u));
          sums[m][0] = _mm512_mask3_fmadd_ps(low, weight, sums[m][0], lanes);
          sums[m][1] = _mm512_mask3_fmadd_ps(high, weight, sums[m][1], lanes);
        } else {
          sums[m][0] = _mm512_fmadd_ps(low, weight, sums[m][0]);
          sums[m][1] = _mm512_fmadd_ps(high, weight, sums[m][1]);
        }
      }
    }
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      float* out = panel.out + m * padded + d;
      _mm512_storeu_ps(out, sums[m][0]);
      if (both) _mm512_storeu_ps(out + 16, sums[m][1]);
    }
  }
}

#ifdef __AVX512FP16__

/// The same with f16 sums over the tile; 64 lanes of V at a time, or the last 16, 32 or 48.
template <int count, bool masked>
void add_values_fp16(const Panel& panel, const ValueTile& tile) {
  const std::int64_t padded = panel.padded;
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(tile.weights);
  for (std::int64_t d = 0; d < padded; d += 64) {
    const auto lanes_of_half = [&](std::int64_t half) {
      const std::int64_t rest = padded - d - 32 * half;
      return rest >= 32 ? ~__mmask32{0} : rest <= 0 ? __mmask32{0} : (__mmask32{1} << rest) - 1;
    };
    const __mmask32 lanes[2] = {lanes_of_half(0), lanes_of_half(1)};
    __m512h sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) sums[m][0] = sums[m][1] = _mm512_setzero_ph();
    const std::byte* line = tile.values + (tile.begin * padded + d) * 2;
    for (std::uint32_t j = tile.begin; j < tile.end; ++j, line += padded * 2) {
      prefetch_line(tile.next + (d + j) * 64);
      prefetch_line(tile.next + (d + 32 + j) * 64);
      const __m512h low = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(lanes[0], line)),
                    high = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(lanes[1], line + 64));
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512h weight =
            _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(pairs[m * kWeightsLd + static_cast<int>(j)])));
        if constexpr (masked) {
          const auto seen = static_cast<__mmask32>(-(panel.seen[m] >> j & 1u));
          sums[m][0] = _mm512_mask3_fmadd_ph(low, weight, sums[m][0], seen);
          sums[m][1] = _mm512_mask3_fmadd_ph(high, weight, sums[m][1], seen);
        } else {
          sums[m][0] = _mm512_fmadd_ph(low, weight, sums[m][0]);
          sums[m][1] = _mm512_fmadd_ph(high, weight, sums[m][1]);
        }
      }
    }
    // Widened through memory, as in gemm_kernels.h.
    alignas(64) std::byte halves[count][2][64];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      _mm512_store_ph(halves[m][0], sums[m][0]);
      _mm512_store_ph(halves[m][1], sums[m][1]);
    }
    asm volatile("" : : "r"(&halves) : "memory");
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      float* out = panel.out + m * padded + d;
#pragma GCC unroll 4
      for (int quarter = 0; quarter < 4; ++quarter) {
        if (quarter > 0 && d + 16 * quarter >= padded) break;
        const __m512 sum = load16<DType::f16>(halves[m][quarter / 2] + 32 * (quarter % 2));
        _mm512_storeu_ps(out + 16 * quarter, _mm512_add_ps(_mm512_loadu_ps(out + 16 * quarter), sum));
      }
    }
  }
}
#endif

#ifdef __AVX512BF16__

/// The same with products of bf16: V is [16 pairs of positions][padded][2]. A pair of which a query sees one position
/// has its product and zero. Not `masked`: all queries see the same whole pairs.
template <int count, bool masked>
void add_values_bf16(const Panel& panel, const ValueTile& tile) {
  const std::int64_t padded = panel.padded;
  const auto* pairs = reinterpret_cast<const std::uint32_t*>(tile.weights);
  for (std::int64_t d = 0; d < padded; d += 32) {
    const bool both = padded - d >= 32;  // otherwise only the last 16 features are left
    __m512 sums[count][2];
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      const float* out = panel.out + m * padded + d;
      sums[m][0] = _mm512_loadu_ps(out);
      sums[m][1] = _mm512_maskz_loadu_ps(both ? 0xffff : 0, out + 16);
    }
    const std::uint32_t end = (tile.end + 1) / 2;
    const std::byte* line = tile.values + (tile.begin / 2 * padded + d) * 4;
    for (std::uint32_t j = tile.begin / 2; j < end; ++j, line += padded * 4) {
      prefetch_line(tile.next + (d / 2 + j) * 128);
      prefetch_line(tile.next + (d / 2 + j) * 128 + 64);
      const __m512i low = _mm512_loadu_si512(line), high = _mm512_loadu_si512(both ? line + 64 : line);
#pragma GCC unroll 12
      for (int m = 0; m < count; ++m) {
        const __m512i weight = _mm512_set1_epi32(static_cast<int>(pairs[m * kWeightsLd + static_cast<int>(j)]));
        if constexpr (masked) {
          const std::uint32_t seen = panel.seen[m] >> (2 * j) & 3u;
          if (seen == 0) continue;
          const __m512i kept = _mm512_set1_epi32(static_cast<int>((seen & 1u) * 0xffffu | (seen >> 1) * 0xffff0000u));
          sums[m][0] = add_pairs(sums[m][0], _mm512_and_si512(low, kept), weight);
          sums[m][1] = add_pairs(sums[m][1], _mm512_and_si512(high, kept), weight);
        } else {
          sums[m][0] = add_pairs(sums[m][0], low, weight);
          sums[m][1] = add_pairs(sums[m][1], high, weight);
        }
      }
    }
#pragma GCC unroll 12
    for (int m = 0; m < count; ++m) {
      float* out = panel.out + m * padded + d;
      _mm512_storeu_ps(out, sums[m][0]);
      if (both) _mm512_storeu_ps(out + 16, sums[m][1]);
    }
  }
}
#endif

using ValueKernel = void (*)(const Panel& panel, const ValueTile& tile);

template <typename Sums>
struct AttentionScores {
  PanelKernel at[kPanelTokens + 1] = {};

  template <int count>
  constexpr void fill() {
    at[count] = &Sums::template run<count, 1>;
    if constexpr (count > 1) fill<count - 1>();
  }
  constexpr AttentionScores() { fill<kPanelTokens>(); }
};

template <DType type, Arithmetic arithmetic>
struct ValueKernels {
  ValueKernel at[kPanelTokens + 1][2] = {};

  template <int count>
  constexpr void fill() {
#ifdef __AVX512FP16__
    if constexpr (arithmetic == Arithmetic::f16) {
      at[count][0] = &add_values_fp16<count, false>;
      at[count][1] = &add_values_fp16<count, true>;
    }
#endif
#ifdef __AVX512BF16__
    if constexpr (arithmetic == Arithmetic::bf16) {
      at[count][0] = &add_values_bf16<count, false>;
      at[count][1] = &add_values_bf16<count, true>;
    }
#endif
    if constexpr (arithmetic == Arithmetic::f32) {
      at[count][0] = &add_values<type, count, false>;
      at[count][1] = &add_values<type, count, true>;
    }
    if constexpr (count > 1) fill<count - 1>();
  }
  constexpr ValueKernels() { fill<kPanelTokens>(); }
};

}  // namespace
}  // namespace qinfer::kernels::avx512
