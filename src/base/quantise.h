// Quantising values to the block formats of block_formats.h, so that the sum of the squared errors is small.
//
// A block's scale (and minimum) is searched for: some scales near the one that the largest value suggests are tried,
// each with the integers nearest to the values, and for the best the least-squares scale of its integers is taken,
// which gives integers anew. The order of all additions is fixed, so the result is a function of the values alone.
// Nothing here looks at activations: an importance matrix is not supported.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/encoding.h"

namespace qinfer {

/// Whether quantise() writes an encoding: q8_0, q4_0, q4_1, q5_0, q5_1, q3_k, q4_k, q5_k, q6_k and iq4_nl.
bool can_quantise_to(Encoding to);

/// The largest magnitude of values to quantise: f16's, so that every scale and minimum is finite in f16.
inline constexpr float kLargestQuantised = 65504.0f;

/// The first of n values that quantise() must not be given, one that is NaN, infinite or beyond kLargestQuantised; -1
/// if there is none. The caller refuses them, with a message that can name the tensor.
std::int64_t find_unquantisable(const float* values, std::int64_t n);

/// Writes n values, whole blocks, as the blocks of an encoding that can_quantise_to() knows. f16's
/// smallest number, 2^-24, is the smallest scale, so magnitudes below half of that become zero.
void quantise(Encoding to, const float* values, std::int64_t n, std::byte* out);

}  // namespace qinfer
