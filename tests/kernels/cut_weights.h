// What the set amx multiplies for a quantised weight (amx/quant_pairs.h), on single numbers: balanced and cut to bf16.
#pragma once

#include <bit>
#include <cmath>
#include <vector>

#include "base/block_formats.h"
#include "common/quant_blocks.h"
#include "common/quant_tiles.h"

namespace qinfer::test {

inline float cut_to_bf16(float value) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000u);
}

/// The nearest number of `bits` bits, away from zero where two are.
inline float with_bits(float value, int bits) {
  const std::uint32_t last = std::uint32_t{1} << (24 - bits);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + last / 2) & ~(last - 1));
}

struct CutScales {
  float scale, minimum;
};

/// Of value k of a block, not balanced.
inline CutScales scales_of(Encoding encoding, const blocks::Parts& parts, std::int64_t k) {
  using enum kernels::TileScales;
  const auto sub = static_cast<std::size_t>(k / 32), run = static_cast<std::size_t>(k / 16);
  const float first = f16_to_f32(parts.d), second = f16_to_f32(parts.m);
  switch (kernels::quant_layout(encoding).scales) {
    case d_and_m: return {first, -second};
    case e8m0: return {blocks::e8m0_half(parts.e8m0), 0};
    case long_minima:
      return {first * static_cast<float>(parts.scales[sub]), second * static_cast<float>(parts.minima[sub])};
    case long_32: return {first * static_cast<float>(parts.scales[sub]), 0};
    case long_16: return {first * static_cast<float>(parts.scales[run]), 0};
    case d: break;
  }
  return {first, 0};
}

/// Value k of a block.
inline float cut_weight(Encoding encoding, const blocks::Parts& parts, std::int64_t k) {
  constexpr float kBalance = 1.0f + 0x1.62e43p-9f;
  const auto integer = static_cast<float>(parts.q[k]);
  const CutScales scales = scales_of(encoding, parts, k);
  const float scale = std::fabs(scales.scale) < 0x1p-126f ? 0.0f : scales.scale * kBalance;
  switch (encoding) {
    case Encoding::iq4_nl:
    case Encoding::iq4_xs: return cut_to_bf16(static_cast<float>(blocks::kIq4Values[parts.q[k]]) * scale);
    case Encoding::mxfp4: return cut_to_bf16(static_cast<float>(blocks::kFp4Doubled[parts.q[k]]) * scale);
    case Encoding::q8_0: return cut_to_bf16((integer - 128) * scale);
    case Encoding::q3_k: return cut_to_bf16(with_bits(scale, 10) * (integer - 4));
    case Encoding::q4_0: return cut_to_bf16(with_bits(scale, 11) * (integer - 8));
    case Encoding::q5_0: return cut_to_bf16(with_bits(scale, 12) * (integer - 16));
    case Encoding::q6_k: return cut_to_bf16(with_bits(scale, 13) * (integer - 32));
    case Encoding::q4_1:
    case Encoding::q5_1:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  // With a minimum: where the bits of the integer are says how z is rounded.
  constexpr int kNibblePlaces[8] = {8, 16, 12, 8, 8, 12, 12, 16}, kBytePlaces[2] = {8, 16};
  const bool nibbles = kernels::quant_layout(encoding).integers == kernels::TileIntegers::nibbles;
  const float power = std::ldexp(1.0f, 23 - (nibbles ? kNibblePlaces[k % 8] : kBytePlaces[k % 2]));
  const float z = std::fma(power, scale, scales.minimum * kBalance);
  return cut_to_bf16(std::fma(power + integer, scale, -z));
}

/// All values of blocks.
inline std::vector<float> cut_values(Encoding encoding, const std::vector<std::byte>& data) {
  const EncodingTraits& traits = encoding_traits(encoding);
  const kernels::ReadBlock read = kernels::block_reader(encoding);
  std::vector<float> out;
  blocks::Parts parts;
  for (std::size_t at = 0; at < data.size(); at += traits.block_bytes) {
    read(data.data() + at, parts);
    for (std::int64_t k = 0; k < traits.block_values; ++k) out.push_back(cut_weight(encoding, parts, k));
  }
  return out;
}

}  // namespace qinfer::test
