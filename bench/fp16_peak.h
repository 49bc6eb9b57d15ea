// The loop behind the f16 ceiling, in a file of its own because that one is compiled for AVX512-FP16.
#pragma once

#include <cstddef>

namespace qinfer::bench {

/// 2 for each of 32 lanes and 24 sums.
inline constexpr double kF16FlopsPerRound = 2.0 * 32 * 24;

/// `rounds` times one multiply-add per sum, with factors unknown to the compiler; the result only keeps it from
/// dropping the loop. Only on CPUs with AVX512-FP16.
float f16_fma(std::size_t rounds, float factor, float summand);

}  // namespace qinfer::bench
