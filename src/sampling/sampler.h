// Drawing the next token from logits. Order and formulas are those of Hugging Face transformers
// (GenerationMixin._get_logits_processor and logits_process.py, version 5), with OpenAI's additive penalties between:
//
//   0. the host's edit      of a copy of l; it may forbid tokens with -infinity, not add other values that are not
//   finite
//   1. bias                 l[t] += bias[t]; -infinity bans a token for good, other sums stay within the range of f32
//   2. repetition penalty   l[t] = l[t] > 0 ? l[t] / r : l[t] * r    for every token t in the window
//   3. frequency, presence  l[t] -= count(t) * f + p                 likewise
//   4. temperature 0        the largest l; of equal ones the lowest id. Otherwise l[t] /= T
//   5. top-k                keep l[t] >= the k-th largest (ties stay)
//   6. top-p                in descending order keep t while the probability before it is < p; the first always stays
//   7. min-p                keep probability(t) >= m * the largest probability
//   8. draw                 from the softmax of what is left, by one uniform number
//
// The uniform number depends on the seed and on the position of the token alone, so a session that is truncated and
// sampled again draws the same tokens.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace qinfer::sampling {

struct SamplerOptions {
  float temperature = 0;
  std::uint32_t top_k = 0;
  float top_p = 0, min_p = 0;
  float repeat_penalty = 0;
  float frequency_penalty = 0, presence_penalty = 0;
  std::uint32_t penalty_tokens = 0;  ///< how far back penalties look; 0 = all
  std::uint64_t seed = 0;
};

/// QINFER_E_INVALID_ARGUMENT names the member that is out of range.
Status check_options(const SamplerOptions& options);

struct Bias {
  std::int32_t token;
  float value;
};

/// Working memory for one vocabulary; each span has n_vocab elements. `counts` is zero between calls.
struct SamplerWorkspace {
  std::span<float> logits;
  std::span<std::uint32_t> ids;
  std::span<std::uint32_t> counts;
};

/// What a host does to the logits before everything else; without `apply`, nothing. False cancels.
struct LogitsEdit {
  bool (*apply)(void* user, std::span<float> logits) = nullptr;
  void* user = nullptr;
};

/// `history`: all tokens of the session, of which the window is the end; its length is the position that is drawn.
/// QINFER_E_NUMERIC if a logit is not finite or nothing is left to draw from, QINFER_E_CANCELLED if the edit says so.
/// Allocates nothing on success.
Result<std::int32_t> sample(std::span<const float> logits, std::span<const std::int32_t> history,
                            const SamplerOptions& options, std::span<const Bias> bias,
                            const SamplerWorkspace& workspace, const LogitsEdit& edit = {});

/// Uniform in [0, 1) with 53 bits: splitmix64 (Steele, Lea and Flood 2014) over seed and position.
double uniform(std::uint64_t seed, std::uint64_t position);

}  // namespace qinfer::sampling
