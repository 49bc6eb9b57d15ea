// What a row of quantised weights times a row of activations is by products of bf16 (avx512_bf16) and of 16-bit
// integers (avx2_int16, avx512_int16, avx512_fp16, amx_int16), operation by operation on single numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/block_formats.h"
#include "kernels/support.h"

namespace qinfer::test {

/// What a run of values that share scales has: a value is scale * integers[i] - minimum.
struct ScaledRun {
  float scale = 0, minimum = 0;
  std::vector<float> integers;
};

inline blocks::Parts unpack(Encoding encoding, const std::byte* block) {
  blocks::Parts parts;
  switch (encoding) {
    case Encoding::q8_0: blocks::unpack_q8_0(block, parts); break;
    case Encoding::q4_1: blocks::unpack_q4_1(block, parts); break;
    case Encoding::q5_0: blocks::unpack_q5_0(block, parts); break;
    case Encoding::q5_1: blocks::unpack_q5_1(block, parts); break;
    case Encoding::q3_k: blocks::unpack_q3_k(block, parts); break;
    case Encoding::q4_k: blocks::unpack_q4_k(block, parts); break;
    case Encoding::q5_k: blocks::unpack_q5_k(block, parts); break;
    case Encoding::q6_k: blocks::unpack_q6_k(block, parts); break;
    case Encoding::iq4_xs: blocks::unpack_iq4_xs(block, parts); break;
    case Encoding::mxfp4: blocks::unpack_mxfp4(block, parts); break;
    default: blocks::unpack_q4_0(block, parts); break;
  }
  return parts;
}

inline float integer_of(Encoding encoding, std::uint8_t q) {
  switch (encoding) {
    case Encoding::q8_0: return static_cast<float>(q) - 128;
    case Encoding::q4_0: return static_cast<float>(q) - 8;
    case Encoding::q5_0: return static_cast<float>(q) - 16;
    case Encoding::q3_k: return static_cast<float>(q) - 4;
    case Encoding::q6_k: return static_cast<float>(q) - 32;
    case Encoding::iq4_nl:
    case Encoding::iq4_xs: return blocks::kIq4Values[q];
    case Encoding::mxfp4: return blocks::kFp4Doubled[q];
    default: return q;
  }
}

inline std::vector<ScaledRun> runs_of_block(Encoding encoding, const std::byte* block) {
  const blocks::Parts parts = unpack(encoding, block);
  const bool is_long = encoding_traits(encoding).block_values == 256;
  const bool is_short = encoding == Encoding::q3_k || encoding == Encoding::q6_k;
  const bool added = encoding == Encoding::q4_1 || encoding == Encoding::q5_1;
  const bool taken = encoding == Encoding::q4_k || encoding == Encoding::q5_k;
  std::vector<ScaledRun> runs(is_short ? 16 : is_long ? 8 : 1);
  for (std::size_t j = 0; j < runs.size(); ++j) {
    runs[j].scale = encoding == Encoding::mxfp4 ? blocks::e8m0_half(parts.e8m0) : f16_to_f32(parts.d);
    if (is_long) runs[j].scale *= static_cast<float>(parts.scales[j]);
    if (added) runs[j].minimum = -f16_to_f32(parts.m);
    if (taken) runs[j].minimum = f16_to_f32(parts.m) * static_cast<float>(parts.minima[j]);
    const std::size_t length = is_short ? 16 : 32;
    for (std::size_t i = 0; i < length; ++i) runs[j].integers.push_back(integer_of(encoding, parts.q[j * length + i]));
  }
  return runs;
}

/// The sum of 16 pairs: each pair's, then i and i + 8 together, then i and i + 4, and so on.
inline float sum_of_pairs(std::vector<float> each) {
  for (std::size_t step = 8; step > 0; step /= 2)
    for (std::size_t i = 0; i < step; ++i) each[i] += each[i + step];
  return each[0];
}

/// A row of weights times a row of activations, by avx512_bf16.
inline float bf16_model(Encoding encoding, const std::byte* row, const float* x, std::int64_t cols) {
  const EncodingTraits& traits = encoding_traits(encoding);
  float total = 0;
  for (std::int64_t k = 0; k < cols; row += traits.block_bytes)
    for (const ScaledRun& run : runs_of_block(encoding, row)) {
      float sum = 0;
      std::vector<float> pairs;
      for (std::size_t i = 0; i < run.integers.size(); i += 2, k += 2) {
        const float low = bf16_to_f32(f32_to_bf16(x[k])), high = bf16_to_f32(f32_to_bf16(x[k + 1]));
        sum = static_cast<float>(sum + static_cast<double>(high) * run.integers[i + 1]);
        sum = static_cast<float>(sum + static_cast<double>(low) * run.integers[i]);
        pairs.push_back(low + high);
      }
      total = std::fma(sum, run.scale, total);
      if (run.minimum != 0) total = std::fma(-run.minimum, sum_of_pairs(pairs), total);
    }
  return total;
}

/// The same by avx2_int16, avx512_int16, avx512_fp16 and amx_int16.
inline float int16_model(Encoding encoding, const std::byte* row, const float* x, std::int64_t cols) {
  const EncodingTraits& traits = encoding_traits(encoding);
  float total = 0;
  int exponent = 0;
  for (std::int64_t k = 0; k < cols; row += traits.block_bytes)
    for (const ScaledRun& run : runs_of_block(encoding, row)) {
      if (k % 32 == 0) {
        float largest = 0;
        for (std::int64_t i = k; i < k + 32; ++i) largest = std::max(largest, std::fabs(x[i]));
        exponent = largest == 0 ? 126 : std::min(14 - std::ilogb(largest), 126);
      }
      std::int64_t sum = 0, activations = 0;
      for (const float integer : run.integers) {
        const double scaled = std::nearbyint(std::ldexp(static_cast<double>(x[k++]), exponent));
        const auto rounded = static_cast<std::int64_t>(std::min(scaled, 32767.0));
        sum += rounded * static_cast<std::int64_t>(integer), activations += rounded;
      }
      total = std::fma(std::ldexp(static_cast<float>(sum), -exponent), run.scale, total);
      if (run.minimum != 0)
        total = std::fma(-run.minimum, std::ldexp(static_cast<float>(activations), -exponent), total);
    }
  return total;
}

}  // namespace qinfer::test
