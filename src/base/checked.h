// Arithmetic on sizes that came from outside (files, options): every product and sum is checked, because a wrapped
// size is how model loaders end up reading and writing beyond their buffers.
#pragma once

// Before the first include, so that this is also what a compiler without the headers of its 32-bit target says.
#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ != 8
#error "qinfer needs a 64-bit target"
#endif

#include <cstdint>
#include <optional>

namespace qinfer {

inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// Rounds up to a multiple of `unit` (any positive number). The caller knows that it cannot overflow.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

constexpr std::uint64_t ceil_div(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit; }

}  // namespace qinfer
