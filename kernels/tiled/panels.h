// Activations as the inner loops want them: panels of 12 tokens, [k][tokens] dwords, and an exponent per token. Some
// loops take more for each 32 values, their sums for instance: these extras follow the panel's dwords,
// [width / 32][extras][tokens].
//
// For f32 sums a dword is the value, for products of bf16 it is two of them, k and k + 1, each rounded. For f16 sums it
// is the value as f16, twice, scaled by a power of two per token so that no sum of 64 products can overflow: with
// |x| * 2^e <= limit and limit * max|w| <= 992, every partial sum of a run stays under 64 * 992 = 63488, plus at most
// 16 of rounding for each of the 32 steps beyond 32768 (the spacing there is 32), which is under 65504. NaN and
// infinities are passed on and do not count for the scale. Products of 16-bit integers take pairs, too
// (int16_values.h).
#pragma once

#include <bit>

#include "common/units.h"
#include "kernel_set.h"
#include "tiled/gemm.h"
#include "tiled/tiled.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Up to this many rows every worker packs all of them for itself: cheaper than a barrier. (No measurement of other
/// numbers is kept.)
inline constexpr std::int64_t kLocalRows = 8;

inline std::int64_t panel_count(std::int64_t n) { return units_of(n, kPanelTokens); }

/// Panels of n rows of `width` values, and after them in memory the exponents.
struct Panels {
  std::uint32_t* data = nullptr;
  float* exponents = nullptr;  ///< of token m: the dwords hold x[m] * 2^exponents[m] (kScaledRuns: 0)
  std::int64_t width = 0;
  std::int64_t cols = 0;    ///< dwords of a row
  std::int64_t stride = 0;  ///< with its extras, where there are any
  /// Panels of at least so many rows are those of Values::pack_row().
  std::int64_t fewest_in_tiles = kPanelTokens + 1;

  /// Values of a row that extras are of.
  static constexpr std::int64_t kRunValues = 32;

  Panels(std::byte* memory, std::int64_t n, std::int64_t row_values, std::int64_t per_dword = 1,
         std::int64_t extras = 0)
      : data(reinterpret_cast<std::uint32_t*>(memory)),
        exponents(reinterpret_cast<float*>(memory + n * row_room(row_values) * 4)),
        width(row_values),
        cols((row_values + per_dword - 1) / per_dword),
        stride(cols + extras * units_of(row_values, kRunValues)) {}
  /// Dwords that a row has room for, in panels of any kind.
  static constexpr std::int64_t row_room(std::int64_t width) {
    return width + (kHasPairs ? units_of(width, kRunValues) : 0);  // Int16TileValues
  }
  /// And with its exponent.
  static constexpr std::uint64_t row_dwords(std::uint64_t width) {
    return static_cast<std::uint64_t>(row_room(static_cast<std::int64_t>(width)) + 1);
  }
  static std::uint64_t bytes(std::uint64_t n, std::uint64_t width) {
    return (n * row_dwords(width) * 4 + 63) / 64 * 64;
  }
  /// Whether a panel of so many tokens is of Values::pack_row().
  bool is_in_tiles(std::int64_t tokens) const { return tokens >= fewest_in_tiles; }
  std::uint32_t* panel(std::int64_t p) const { return data + p * kPanelTokens * stride; }
};

/// Values as they are.
struct F32Values {
  static constexpr std::int64_t kPerDword = 1;
  static constexpr std::int64_t kExtras = 0;
  static constexpr bool kScaledRuns = false;  ///< each 32 values are scaled by themselves; rows are whole such runs
  static float exponent(const float*, std::int64_t, float) { return 0; }
  /// The 16 dwords of a row of `width` values that begin with dword k.
  static I32x16 load(const float* row, std::int64_t k, std::int64_t width, float) {
    return bits_of(QINFER_ISA::load(first_lanes(width - k), row + k));
  }
};

/// floor(log2(x)) of a positive number that is not subnormal; 128 for infinity.
inline float floor_log2(float x) {
  return static_cast<float>(static_cast<int>(std::bit_cast<std::uint32_t>(x) >> 23) - 127);
}

/// The largest exponent e with 2^e * largest_weight <= 992, and 2^e within f16.
inline float limit_exponent(float largest_weight) {
  if (!(largest_weight > 0)) return 15;
  const float e = floor_log2(992.0f / largest_weight);
  return e < 15 ? e : 15;
}

/// Packs the panel of rows [first, first + tokens), row m of which is at row(m).
template <typename Values, typename RowAt>
inline void pack_panel(RowAt row, std::int64_t first, std::int64_t tokens, float limit, const Panels& panels) {
  static_assert(Values::kExtras == 0 || Panels::kRunValues == 16 * Values::kPerDword, "16 dwords at a time are a run");
  std::uint32_t* out = panels.panel(first / kPanelTokens);
  float* exponents = panels.exponents + first;
  if constexpr (requires { Values::kFewestInTiles; }) {
    if (!panels.is_in_tiles(tokens)) return pack_panel<typename Values::InPairs>(row, first, tokens, limit, panels);
    for (std::int64_t m = 0; m < tokens; ++m) {
      exponents[m] = 0;
      Values::pack_row(row(first + m), panels.width, m, tokens, out);
    }
    return;
  } else {
    for (std::int64_t m = 0; m < tokens; ++m) exponents[m] = Values::exponent(row(first + m), panels.width, limit);
    float scales[16] = {};  // of the values that were loaded last
    const auto load = [&](std::int64_t m, std::int64_t k) {
      if constexpr (Values::kScaledRuns) {
        return Values::load_run(row(first + m) + k * Values::kPerDword, scales[m]);
      } else {
        return Values::load(row(first + m), k, panels.width, exponents[m]);
      }
    };
    const auto extras_at = [&](std::int64_t k) { return out + (panels.cols + k / 16 * Values::kExtras) * tokens; };
    if (tokens == 1) {
      for (std::int64_t k = 0; k < panels.cols; k += 16) {
        const I32x16 dwords = load(0, k);
        store_dwords(out + k, first_lanes(panels.cols - k), dwords);
        if constexpr (Values::kExtras != 0) Values::extras_of_row(dwords, scales[0], extras_at(k));
      }
      return;
    }
    for (std::int64_t k = 0; k < panels.cols; k += 16) {
      I32x16 block[16];
      for (std::int64_t m = 0; m < 16; ++m) block[m] = m < tokens ? load(m, k) : no_bits();
      transpose16(block);
      const std::int64_t count = panels.cols - k < 16 ? panels.cols - k : 16;
      for (std::int64_t i = 0; i < count; ++i) store_dwords(out + (k + i) * tokens, first_lanes(tokens), block[i]);
      if constexpr (Values::kExtras != 0) {
        I32x16 extras[Values::kExtras];
        Values::extras_of_rows(block, scales, extras);
        for (std::int64_t i = 0; i < Values::kExtras; ++i)
          store_dwords(extras_at(k) + i * tokens, first_lanes(tokens), extras[i]);
      }
    }
  }
}

/// Panels of what `Values` says, of n rows.
template <typename Values>
inline Panels panels_with(std::byte* memory, std::int64_t n, std::int64_t width) {
  Panels panels(memory, n, width, Values::kPerDword, Values::kExtras);
  if constexpr (requires { Values::kFewestInTiles; }) panels.fewest_in_tiles = Values::kFewestInTiles;
  return panels;
}

/// Packs panels [begin, end) of n rows, row m of which is at row(m).
template <typename Values, typename RowAt>
inline void pack_rows(RowAt row, std::int64_t n, float limit, const Panels& panels, std::int64_t begin,
                      std::int64_t end) {
  for (std::int64_t p = begin; p < end; ++p) {
    const std::int64_t first = p * kPanelTokens;
    pack_panel<Values>(row, first, n - first < kPanelTokens ? n - first : kPanelTokens, limit, panels);
  }
}

template <typename Values>
inline void pack_panels(const Activations& x, std::int64_t n, float limit, const Panels& panels, std::int64_t begin,
                        std::int64_t end) {
  pack_rows<Values>([&x](std::int64_t m) { return x.row(m); }, n, limit, panels, begin, end);
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
