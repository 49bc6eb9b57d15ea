// What one template and one rendering may use at most. A template comes with a model, and so from anywhere: whatever it
// says, compiling and rendering it end, within these bounds, with a text or with an error that names the bound.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qinfer::jinja {

inline constexpr std::size_t kMaxSource = std::size_t{1} << 20;  ///< bytes of a template
/// Blocks, brackets and operands inside each other; a block or a pair of brackets counts as two. Parsing takes stack
/// for each: less than 48 KiB in all.
inline constexpr int kMaxNesting = 96;
/// Calls of macros and of recursive loops inside each other. They take no stack of the thread.
inline constexpr std::size_t kMaxCalls = 200;
/// Lists, tuples and mappings inside each other, where they are printed, compared or hashed.
inline constexpr int kMaxValueDepth = 100;
inline constexpr std::int64_t kMaxRange = 100000;  ///< numbers of one range(), as jinja2's sandbox has it

/// Zeros stand for bounds that grow with the input (the template's bytes and the variables'), each with a floor.
struct Limits {
  std::uint64_t steps = 0;   ///< 16 Mi and 256 for each byte of the input
  std::uint64_t output = 0;  ///< bytes of the text: 16 MiB and 16 times the input
  std::uint64_t memory = 0;  ///< bytes of all values: 128 MiB and 64 times the input
};

inline constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

/// The bounds for an input of this many bytes, which is far below 2^50.
constexpr Limits resolve(const Limits& limits, std::uint64_t input) {
  Limits resolved = limits;
  if (resolved.steps == 0) resolved.steps = 16 * kMebibyte + 256 * input;
  if (resolved.output == 0) resolved.output = 16 * kMebibyte + 16 * input;
  if (resolved.memory == 0) resolved.memory = 128 * kMebibyte + 64 * input;
  return resolved;
}

}  // namespace qinfer::jinja
