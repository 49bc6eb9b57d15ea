// Tables of rotary position embedding (Su et al. 2021) with the scalings that checkpoints ask for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/spec.h"

namespace qinfer::model {

/// Where only the first `rotary_dims` dimensions of a head are turned, kernels turn whole heads all the same: each half
/// of a head has its share of the turned dimensions first and of the others after them, whose pairs get cosine 1 and
/// sine 0. Queries and keys are projected in this order; scores are sums over a head, which no order changes. Element i
/// is the dimension that is at i. Both numbers are even.
std::vector<std::uint16_t> partial_rotary_order(std::uint32_t head_dim, std::uint32_t rotary_dims);

/// head_dim / 2 angular frequencies in radians per position, in f32 as transformers computes them; 0 of pairs that are
/// not turned.
std::vector<float> rope_frequencies(const RopeSpec& rope, std::uint32_t head_dim);

/// By what llama3 scaling divides each frequency that is turned, as GGUF files state it.
std::vector<float> llama3_divisors(const RopeSpec& rope, std::uint32_t head_dim);

/// Fills rows [first, last) of a table [position][head_dim / 2][cos, sin]. The angle is the f32 product of position and
/// frequency, which is what the models were trained with; cosine and sine of it are exact to f32.
void fill_rope_table(const RopeSpec& rope, std::span<const float> frequencies, std::uint32_t first, std::uint32_t last,
                     float* table);

}  // namespace qinfer::model
