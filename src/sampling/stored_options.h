// A session's sampler as it is stored in a snapshot, as a block of bytes that has a version of its own, so that new
// options do not change how older blocks are read.
//
// Version 2, little-endian: u32 magic, u32 version, u32 number of biases, u32 zero; f32 temperature, u32 top_k, f32
// top_p, f32 min_p, f32 repeat_penalty, f32 frequency_penalty, f32 presence_penalty, u32 penalty_tokens, u64 seed; f32
// typical_p, f32 top_n_sigma, f32 dynatemp_range, f32 dynatemp_exponent, f32 xtc_probability, f32 xtc_threshold, f32
// dry_multiplier, f32 dry_base, u32 dry_allowed_length, u32 dry_penalty_tokens, u32 mirostat, f32 mirostat_tau, f32
// mirostat_eta, 20 letters of steps; u32 number of DRY's breakers, 0xffffffff for the default ones; u32 number of
// mirostat's bounds; for each bias i32 token, f32 value; for each breaker u32 length, its bytes; for each bound f32.
//
// Version 1 ends its fields with the seed, and has nothing after its biases. It is read, but not written.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "sampling/sampler.h"

namespace qinfer::sampling {

struct StoredOptions {
  SamplerOptions options;
  std::vector<Bias> bias;
  std::optional<std::vector<std::string>> breakers;  ///< absent: the default ones
  std::vector<float> bounds;                         ///< of mirostat, after each of the first tokens
};

/// The most bytes of a block for a vocabulary and a session of max_tokens.
std::uint64_t most_stored_options_bytes(std::uint64_t n_vocab, std::uint64_t max_tokens);

std::vector<std::byte> store_options(const StoredOptions& stored);

/// QINFER_E_UNSUPPORTED for another version, QINFER_E_FORMAT if the size is not what the
/// block says. The values are as they were stored, and to be checked like a caller's.
Result<StoredOptions> parse_stored_options(std::span<const std::byte> block);

}  // namespace qinfer::sampling
