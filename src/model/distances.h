// What is added to scores of attention by how far a key is from its query: distances share buckets, and each bucket has
// a number for each head (T5: Raffel et al. 2020, section 2.1; MPNet has the same buckets).
#pragma once

#include "kernel_set.h"

namespace qinfer::model {

/// Half of them are for keys after the query. Of each half the first half is of one distance each, the others of longer
/// and longer runs, the last one of all from kDistanceReach at the latest.
inline constexpr std::uint32_t kDistanceBuckets = 32;
inline constexpr std::int32_t kDistanceReach = 128;

/// The bucket of a key `distance` positions after the query, or before it where that is negative.
std::uint32_t distance_bucket(std::int32_t distance);

/// The values of kernels::DistanceBias; `table`: [kDistanceBuckets][heads], row by row, plain.
void fill_distances(const kernels::Matrix& table, float* values);

/// Floats that fill_distances() writes.
constexpr std::uint64_t distance_values(std::uint32_t n_heads) {
  return n_heads * static_cast<std::uint64_t>(kernels::DistanceBias::stride(kDistanceReach));
}

}  // namespace qinfer::model
