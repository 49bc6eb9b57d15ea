// Grapheme clusters: what a reader takes for one character, by the rules of Unicode 17 (UAX 29, extended clusters).
#pragma once

#include <cstddef>
#include <string_view>

namespace qinfer::text {

/// Where the cluster that begins at `begin` (the start of one) ends.
std::size_t cluster_end(std::string_view text, std::size_t begin);

}  // namespace qinfer::text
