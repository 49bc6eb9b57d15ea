// A fast hash of bytes, the same on every machine: XXH3-64 (https://xxhash.com). Not for use against an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace qinfer {

std::uint64_t hash_bytes(std::span<const std::byte> data);
std::uint64_t hash_text(std::string_view text);

}  // namespace qinfer
