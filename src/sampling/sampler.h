// Drawing the next token from logits. Order and formulas of the older steps are those of Hugging Face transformers
// (GenerationMixin._get_logits_processor and logits_process.py, version 5), with OpenAI's additive penalties between;
// the sources of the others are named. Every option that is 0 is off.
//
//   0. the host's edit      of a copy of l; it may forbid tokens with -infinity, not add other values that are not
//                           finite
//   1. bias                 l[t] += bias[t]; -infinity bans a token for good, other sums stay within the range of f32
//   steps, each at most once, in the order of options.steps or in this one; a step that is not listed is left out:
//   e  penalties            for every token t in the window: first l[t] = l[t] > 0 ? l[t] / r : l[t] * r (repetition),
//                           then l[t] -= count(t) * f + p (frequency, presence)
//   d  DRY                  dry.h
//   t  temperature          l[t] /= T. Dynamic (kalomaze 2024, as llama.cpp has it): with H the entropy of the softmax
//                           of l and n candidates, T = low + (high - low) * (H / ln n)^exponent, low and high the
//                           temperature less and plus the range, at least 0. Where that gives 0, only the largest l
//                           stays, of equal ones that with the lowest id
//   s  top-n-sigma          keep l[t] >= the largest - n * the standard deviation of l (Tang et al. 2024,
//                           arXiv:2411.07641)
//   k  top-k                keep l[t] >= the k-th largest (ties stay)
//   y  typical              in ascending order of |-ln p(t) - H| keep t while the probability before it is < y (Meister
//                           et al. 2022, arXiv:2202.00666); of equal ones the larger l first, then the lower id
//   p  top-p                in descending order keep t while the probability before it is < p; the first always stays
//   m  min-p                keep probability(t) >= m * the largest probability
//   x  XTC                  with a chance of xtc_probability: if two or more tokens have a probability of at least the
//                           threshold, remove all of them but the least likely one, of equal ones that with the highest
//                           id (p-e-w 2024, text-generation-webui pull request 6335)
//   2. mirostat 2           keep -log2 p(t) <= mu, or the largest l; with p of what was kept, after the draw
//                           mu -= eta * (-log2 p(t) - tau); mu begins as 2 tau (Basu et al. 2020, arXiv:2007.14966).
//                           In place of the steps s k y p m x, as in
//                           llama.cpp
//   3. draw                 from the softmax of what is left, by one uniform number
//
// A temperature of 0 takes, after steps e and d, the largest l, of equal ones the lowest id. Probabilities and
// entropies are those of the candidates that the steps before have left, by their logits at that point.
//
// The uniform numbers depend on the seed and on the position of the token alone, so a session that is truncated and
// sampled again draws the same tokens. The same holds for mu, which the caller keeps for each position.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "sampling/dry.h"
#include "sampling/options.h"

namespace qinfer::sampling {

struct Bias {
  std::int32_t token;
  float value;
};

/// Working memory for one vocabulary; each span has n_vocab elements, `repeats` as many as there is history and needed
/// with DRY alone. `counts` is zero between calls.
struct SamplerWorkspace {
  std::span<float> logits;
  std::span<std::uint32_t> ids;
  std::span<std::uint32_t> counts;
  std::span<std::uint32_t> repeats = {};
};

/// What a host does to the logits before everything else; without `apply`, nothing. False cancels.
struct LogitsEdit {
  bool (*apply)(void* user, std::span<float> logits) = nullptr;
  void* user = nullptr;
};

/// What a session knows besides.
struct SamplerState {
  const DryBreakers* breakers = nullptr;  ///< null: none
  float mu = 0;                           ///< of mirostat; sample() changes it
};

/// `history`: all tokens of the session, of which the window is the end; its length is the position that is drawn.
/// QINFER_E_NUMERIC if a logit is not finite or nothing is left to draw from, QINFER_E_CANCELLED if the edit says so.
/// Allocates nothing on success.
Result<std::int32_t> sample(std::span<const float> logits, std::span<const std::int32_t> history,
                            const SamplerOptions& options, std::span<const Bias> bias,
                            const SamplerWorkspace& workspace, SamplerState& state, const LogitsEdit& edit = {});

/// Uniform in [0, 1) with 53 bits: splitmix64 (Steele, Lea and Flood 2014) over seed and position.
double uniform(std::uint64_t seed, std::uint64_t position);
/// The next number of the same generator, by which XTC decides.
double second_uniform(std::uint64_t seed, std::uint64_t position);

}  // namespace qinfer::sampling
