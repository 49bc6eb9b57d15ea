// A session's sampler as it is stored in a snapshot: options and biases as a block of bytes that has a version of its
// own, so that new options do not change how older blocks are read.
//
// Version 1, little-endian: u32 magic, u32 version, u32 number of biases, u32 zero; f32 temperature, u32 top_k, f32
// top_p, f32 min_p, f32 repeat_penalty, f32 frequency_penalty, f32 presence_penalty, u32 penalty_tokens, u64 seed; then
// for each bias i32 token, f32 value.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "sampling/sampler.h"

namespace qinfer::sampling {

struct StoredOptions {
  SamplerOptions options;
  std::vector<Bias> bias;
};

/// Bytes of a block with this many biases.
std::uint64_t stored_options_bytes(std::uint64_t n_bias);

std::vector<std::byte> store_options(const SamplerOptions& options, std::span<const Bias> bias);

/// QINFER_E_UNSUPPORTED for another version, QINFER_E_FORMAT if the size is not what the
/// block says. The values are as they were stored, and to be checked like a caller's.
Result<StoredOptions> parse_stored_options(std::span<const std::byte> block);

}  // namespace qinfer::sampling
