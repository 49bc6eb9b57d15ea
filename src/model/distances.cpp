// See distances.h.
#include "model/distances.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace qinfer::model {

// Of h buckets to a side, e = h / 2 have one distance each; bucket e + j begins at the distance e (reach / e)^(j / (h -
// e)), here 8 * 2^(j / 2). Powers are compared as whole numbers, so that no rounding decides.
std::uint32_t distance_bucket(std::int32_t distance) {
  constexpr std::uint32_t kSide = kDistanceBuckets / 2, kSingle = kSide / 2;
  static_assert(kDistanceReach == 128 && kSide == 16, "the runs double with each second bucket");
  const std::uint32_t side = distance > 0 ? kSide : 0;
  const auto n = static_cast<std::uint32_t>(std::min<std::int64_t>(std::llabs(distance), kDistanceReach));
  if (n < kSingle) return side + n;
  std::uint32_t bucket = kSingle;
  while (bucket + 1 < kSide && n * n >= kSingle * kSingle << (bucket + 1 - kSingle)) ++bucket;
  return side + bucket;
}

void fill_distances(const kernels::Matrix& table, float* values) {
  const EncodingTraits& traits = encoding_traits(table.format.encoding);
  const auto heads = static_cast<std::size_t>(table.cols);
  const std::uint64_t row_bytes = encoded_bytes(traits.encoding, heads);
  std::vector<float> rows(kDistanceBuckets * heads);
  for (std::uint32_t i = 0; i < kDistanceBuckets; ++i)
    traits.to_f32(table.data + i * row_bytes, table.cols, rows.data() + i * heads);
  const std::int64_t stride = kernels::DistanceBias::stride(kDistanceReach);
  for (std::size_t head = 0; head < heads; ++head)
    for (std::int64_t i = 0; i < stride; ++i)
      *values++ = rows[distance_bucket(static_cast<std::int32_t>(i - stride / 2)) * heads + head];
}

}  // namespace qinfer::model
