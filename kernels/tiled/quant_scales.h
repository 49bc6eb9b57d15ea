// The scales of quantised tiles (common/quant_tiles.h) in registers, 16 rows at a time, a lane each, and what the
// integers stand for.
#pragma once

#include <array>

#include "base/block_formats.h"
#include "common/quant_tiles.h"
#include "tiled/vec.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

inline F32x16 f16_at(const std::byte* at) { return load16<DType::f16>(at); }

/// 2^(e - 128), as blocks::e8m0_half() has it.
inline F32x16 e8m0_half_at(const std::byte* at) {
  const I32x16 e = load_u8(at);
  const I32x16 normal = shift_left<23>(add_bits(e, splat_bits(0xffffffffu)));
  const I32x16 small = add_bits(splat_bits(0x200000), shift_left<21>(e));  // of e = 0 and e = 1: subnormal
  return floats_of(select(is_less(e, splat_bits(2)), small, normal));
}

/// What 16 rows of a run of values (32, or 16 where scales are of 16) have in common: a value is scale * integer -
/// minimum. `minimum` is set where the encoding has one.
struct RunScales {
  F32x16 scale, minimum;
};

constexpr bool has_minima(TileScales scales) {
  return scales == TileScales::d_and_m || scales == TileScales::long_minima;
}
/// Runs of a sub-block, each of which has its own scale.
constexpr int runs_of(TileScales scales) { return scales == TileScales::long_16 ? 2 : 1; }

/// Of run `run` of the sub-block at `sub`, rows 16 * half and up; the block begins at `block`. All products are exact.
template <TileScales scales>
inline RunScales scales_at(const std::byte* block, const std::byte* sub, int run, int half) {
  constexpr std::int64_t kF16 = 2 * kTileRows;
  const F32x16 zero = zeros();
  if constexpr (scales == TileScales::e8m0) return {e8m0_half_at(sub + 16 * half), zero};
  if constexpr (scales == TileScales::d) return {f16_at(sub + 32 * half), zero};
  if constexpr (scales == TileScales::d_and_m) {
    const I32x16 sign = splat_bits(0x80000000u);
    const F32x16 added = f16_at(sub + kF16 + 32 * half);
    return {f16_at(sub + 32 * half), floats_of(xor_bits(bits_of(added), sign))};
  }
  const F32x16 d = f16_at(block + 32 * half);
  if constexpr (scales == TileScales::long_minima) {
    const F32x16 minimum = as_floats(load_u8(sub + kTileRows + 16 * half));
    return {mul(d, as_floats(load_u8(sub + 16 * half))), mul(f16_at(block + kF16 + 32 * half), minimum)};
  }
  return {mul(d, as_floats(load_i8(sub + kTileRows * run + 16 * half))), zero};
}

/// What an integer is before it is scaled: less an offset, or an entry of a table.
enum class Meaning : std::uint8_t { whole, less_4, less_8, less_16, less_32, iq4, fp4 };

constexpr Meaning meaning_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::q4_0: return Meaning::less_8;
    case Encoding::q5_0: return Meaning::less_16;
    case Encoding::q3_k: return Meaning::less_4;
    case Encoding::q6_k: return Meaning::less_32;
    case Encoding::iq4_nl:
    case Encoding::iq4_xs: return Meaning::iq4;
    case Encoding::mxfp4: return Meaning::fp4;
    case Encoding::q8_0:
    case Encoding::q4_1:
    case Encoding::q5_1:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return Meaning::whole;
}

constexpr float offset_of(Meaning meaning) {
  return meaning == Meaning::less_4    ? 4
         : meaning == Meaning::less_8  ? 8
         : meaning == Meaning::less_16 ? 16
         : meaning == Meaning::less_32 ? 32
                                       : 0;
}

constexpr bool is_table(Meaning meaning) { return meaning == Meaning::iq4 || meaning == Meaning::fp4; }

/// What the loops over an encoding ask of it.
template <Encoding encoding>
struct QuantTraits {
  static constexpr QuantLayout kLayout = quant_layout(encoding);
  static constexpr TileIntegers kIntegers = kLayout.integers;
  static constexpr TileScales kScales = kLayout.scales;
  static constexpr Meaning kMeaning = meaning_of(encoding);
  static constexpr int kRuns = runs_of(kScales);
  static constexpr bool kPlane = kIntegers == TileIntegers::five_bits || kIntegers == TileIntegers::six_bits;
};

/// The value of every integer of up to five bits.
constexpr std::array<float, 32> table_of(Meaning meaning) {
  std::array<float, 32> out{};
  for (std::size_t i = 0; i < 32; ++i)
    out[i] = meaning == Meaning::iq4   ? static_cast<float>(blocks::kIq4Values[i % 16])
             : meaning == Meaning::fp4 ? static_cast<float>(blocks::kFp4Doubled[i % 16])
                                       : static_cast<float>(i) - offset_of(meaning);
  return out;
}

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
