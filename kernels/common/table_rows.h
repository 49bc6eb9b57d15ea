// Rows of the further tables that an embedding adds (EmbedArgs::added): few and short next to what is multiplied, so
// every set widens them by the encoding's own function.
#pragma once

#include "kernel_set.h"

namespace qinfer::kernels {
namespace {  // files with different instruction sets include this header

/// Calls add(k, value) for each value of what the tables have for row m, table after table.
template <typename Add>
inline void for_added_values(const EmbedArgs& args, std::int64_t m, Add add) {
  constexpr std::int64_t kAtOnce = 256;  // whole blocks of every encoding
  float values[kAtOnce];
  for (const TableRows& added : args.added) {
    if (added.table.data == nullptr) continue;
    const EncodingTraits& traits = encoding_traits(added.table.format.encoding);
    const auto bytes_of = [&](std::int64_t n) {
      return static_cast<std::int64_t>(encoded_bytes(traits.encoding, static_cast<std::uint64_t>(n)));
    };
    const std::int64_t cols = added.table.cols;
    const std::byte* row = added.table.data + added.rows[m] * bytes_of(cols);
    for (std::int64_t first = 0; first < cols; first += kAtOnce) {
      const std::int64_t n = cols - first < kAtOnce ? cols - first : kAtOnce;
      traits.to_f32(row + bytes_of(first), n, values);
      for (std::int64_t i = 0; i < n; ++i) add(first + i, values[i]);
    }
  }
}

}  // namespace
}  // namespace qinfer::kernels
