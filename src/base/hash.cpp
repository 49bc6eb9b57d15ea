// See hash.h.
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace qinfer {

std::uint64_t hash_bytes(std::span<const std::byte> data) { return XXH3_64bits(data.data(), data.size()); }

std::uint64_t hash_text(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace qinfer
