// Attention, values: weighted by the softmax of a segment's scores, into the states of its queries.
#pragma once

#include "amx/attention_scores.h"
#include "tiled/partials.h"

namespace qinfer::kernels::amx {
namespace {

/// Lines [d, d + 32) of a V tile as bf16, 64 bytes each, into queries.tile: positions that no query sees, and values
/// that are not finite, are zero. True if a position that a query sees had such a value.
template <DType type>
bool copy_values(const std::byte* values, std::uint32_t t, std::uint32_t d, const Queries& queries) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  const Range<std::uint32_t> lanes = lanes_of(queries.any, t * kTileTokens);
  const auto seen = static_cast<__mmask32>((std::uint64_t{1} << lanes.end) - (std::uint64_t{1} << lanes.begin));
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  bool found = false;
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::byte* line = values + std::int64_t{d + i} * kTileTokens * kBytes;
    __m512i pairs;
    if constexpr (type == DType::bf16) {
      pairs = _mm512_loadu_si512(line);
    } else {
      pairs = to_bf16_pairs(avx512::load16<type>(line), avx512::load16<type>(line + 16 * kBytes));
    }
    const __mmask32 finite = _mm512_cmpneq_epi16_mask(_mm512_and_si512(pairs, exponent), exponent);
    // Lines after the head's width hold anything.
    found = found || (d + i < queries.width && (seen & static_cast<__mmask32>(~finite)) != 0);
    _mm512_store_si512(queries.tile + std::int64_t{i} * 64, _mm512_maskz_mov_epi16(seen & finite, pairs));
  }
  return found;
}

/// Adds what copy_values() left out to the queries that see it. `sums`: [row tile][panel][16 d][16 queries].
template <DType type>
[[gnu::noinline]] void add_not_finite(const std::byte* values, std::uint32_t t, std::uint32_t d, const Queries& queries,
                                      float* sums) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for (std::uint32_t i = 0; i < 32 && d + i < queries.width; ++i)
    for (std::uint32_t lane = 0; lane < kTileTokens; ++lane) {
      const std::byte* at = values + (std::int64_t{d + i} * kTileTokens + lane) * kBytes;
      std::uint32_t bits = 0;
      __builtin_memcpy(&bits, at, kBytes);
      if constexpr (type == DType::f16)
        bits = __builtin_bit_cast(std::uint32_t, f16_to_f32(static_cast<std::uint16_t>(bits)));
      if constexpr (type == DType::bf16) bits <<= 16;
      const float value = bf16_to_f32(f32_to_bf16(__builtin_bit_cast(float, bits)));
      if (value - value == 0) continue;
      const std::uint32_t position = t * kTileTokens + lane;
      for (int m = 0; m < queries.count; ++m) {
        if (position < queries.ranges[m].begin || position >= queries.ranges[m].end) continue;
        const std::uint32_t pair = queries.weights_of(m / 16, t)[lane / 2 * 16 + static_cast<std::uint32_t>(m % 16)];
        float weight = bf16_to_f32(static_cast<std::uint16_t>(lane % 2 == 0 ? pair : pair >> 16));
        if (weight < 0x1p-126f) weight = 0;  // as tiles take it
        sums[(i / 16 * 2 + static_cast<std::uint32_t>(m / 16)) * kTileFloats + i % 16 * 16 +
             static_cast<std::uint32_t>(m % 16)] += weight * value;
      }
    }
}

/// One step of 32 positions: values are read once, weights stay in the L1.
template <int panels>
[[gnu::always_inline]] inline void multiply_values(const std::byte* values, const std::uint32_t* w0,
                                                   const std::uint32_t* w1) {
  load_activations<2, false>(w0);
  if constexpr (panels == 2) load_activations<3, false>(w1);
  tile_load_once<0>(values, 64);
  tile_multiply<4, 0, 2>();
  if constexpr (panels == 2) tile_multiply<5, 0, 3>();
  tile_load_once<1>(values + kRegisterRows * 64, 64);
  tile_multiply<6, 1, 2>();
  if constexpr (panels == 2) tile_multiply<7, 1, 3>();
}

/// Lines [d, d + 32) of the outputs of all queries, into `sums`.
template <DType type, int panels>
void weigh_values(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries, std::uint32_t d,
                  float* sums) {
  const auto values_of = [&](std::uint32_t t) { return unit.k_tile(args, t) + args.kv.tile_bytes(); };
  bool leftover = false;
  zero_sums<2, panels>();
  for (std::uint32_t t = queries.tiles.begin; t < queries.tiles.end; ++t) {
    const std::byte* values = values_of(t) + std::int64_t{d} * kTileTokens * 2;
    const bool whole = queries.whole(t);
    if (type != DType::bf16 && whole) {
      constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
      convert<type>(values_of(t) + std::int64_t{d} * kTileTokens * kBytes, std::int64_t{32} * kTileTokens,
                    queries.tile);
      values = queries.tile;
    } else if (!whole) {
      leftover = copy_values<type>(values_of(t), t, d, queries) || leftover;
      values = queries.tile;
    } else if (panels == 1 && t + 1 < queries.tiles.end) {  // few queries: values come from memory
      prefetch_tile(values_of(t + 1) + std::int64_t{d} * kTileTokens * 2, 2048);
    }
    multiply_values<panels>(values, queries.weights_of(0, t), queries.weights_of(1, t));
  }
  store_sums<2, panels>(sums);
  if (!leftover) return;
  for (std::uint32_t t = queries.tiles.begin; t < queries.tiles.end; ++t)
    if (!queries.whole(t)) add_not_finite<type>(values_of(t), t, d, queries, sums);
}

/// Which of a unit's states is lane m's.
inline std::uint64_t state_of(const AttentionArgs& args, const Queries& queries, int m) {
  return static_cast<std::uint64_t>(queries.rows[m]) * (args.n_heads / args.kv.n_kv_heads) + queries.heads[m];
}

/// Outputs of all queries as the states of a segment.
template <DType type, int panels>
void weigh(const AttentionArgs& args, const AttentionUnit& unit, const Queries& queries, float* states) {
  alignas(64) float sums[4 * kTileFloats] = {};
  for (std::uint32_t d = 0; d < queries.padded; d += 32) {
    weigh_values<type, panels>(args, unit, queries, d, sums);
    for (int row_tile = 0; row_tile < 2; ++row_tile) {
      const std::uint32_t begin = d + static_cast<std::uint32_t>(16 * row_tile);
      if (begin >= queries.width) break;
      const __mmask16 lanes = first_lanes(std::int64_t{queries.width} - begin);
      for (int p = 0; p < panels; ++p) {
        __m512 lines[16], rows[16];
        for (int r = 0; r < 16; ++r) lines[r] = _mm512_load_ps(sums + (row_tile * 2 + p) * kTileFloats + 16 * r);
        transpose(lines, rows);
        for (int m = 16 * p; m < 16 * p + 16 && m < queries.count; ++m)
          _mm512_mask_storeu_ps(partial_at(states, state_of(args, queries, m), queries.width).out() + begin, lanes,
                                rows[m % 16]);
      }
    }
  }
  alignas(64) float max[kLanes], sum[kLanes];
  for (int p = 0; p < panels; ++p) {
    _mm512_store_ps(max + 16 * p, queries.reference[p]);
    _mm512_store_ps(sum + 16 * p, queries.sum[p]);
  }
  for (int m = 0; m < queries.count; ++m) {
    Partial& state = partial_at(states, state_of(args, queries, m), queries.width);
    state.max = max[m];
    state.sum = sum[m];
  }
}

}  // namespace
}  // namespace qinfer::kernels::amx
