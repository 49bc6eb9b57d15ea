// See sampler.h.
#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "sampling/candidates.h"
#include "sampling/numbers.h"

namespace qinfer::sampling {
namespace {

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The host's own code writes here: what it leaves must be finite or -infinity, and not all of it -infinity.
Status apply_edit(const LogitsEdit& edit, std::span<float> logits) {
  if (edit.apply == nullptr) return Status();
  if (!edit.apply(edit.user, logits))
    return Status::fixed(Code::cancelled,
                         "the apply function of the session's logits hook cancelled: no token was added");
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    any = any || std::isfinite(logits[i]);
    if (std::isnan(logits[i]) || logits[i] == INFINITY)
      return error(Code::numeric, "the logits hook wrote {} for token {}, expected a number or -infinity", logits[i],
                   i);
  }
  if (any) return Status();
  return Status::fixed(Code::numeric, "the logits hook forbids every token: all logits are -infinity");
}

/// A ban stays a ban, whatever is added to it; other sums stay finite.
void apply_bias(std::span<const Bias> bias, std::span<float> logits) {
  for (const Bias& b : bias) {
    float& logit = logits[static_cast<std::size_t>(b.token)];
    if (b.value == -INFINITY) logit = -INFINITY;
    if (logit != -INFINITY) logit = saturated(static_cast<double>(logit) + b.value);
  }
}

void apply_penalties(const SamplerOptions& options, std::span<const std::int32_t> history,
                     const SamplerWorkspace& workspace) {
  if (!has_penalties(options)) return;
  const std::size_t window =
      options.penalty_tokens == 0 ? history.size() : std::min<std::size_t>(options.penalty_tokens, history.size());
  const auto recent = history.last(window);
  for (const std::int32_t token : recent) ++workspace.counts[static_cast<std::size_t>(token)];
  const double repeat = options.repeat_penalty == 0 ? 1 : options.repeat_penalty;
  const double frequency = options.frequency_penalty;
  for (const std::int32_t token : recent) {
    std::uint32_t& count = workspace.counts[static_cast<std::size_t>(token)];
    if (count == 0) continue;  // seen before in this loop
    float& logit = workspace.logits[static_cast<std::size_t>(token)];
    // In double, where nothing overflows.
    const double repeated = logit > 0 ? logit / repeat : logit * repeat;
    if (logit != -INFINITY) logit = saturated(repeated - (count * frequency + options.presence_penalty));
    count = 0;
  }
}

std::size_t largest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best]) best = i;
  return best;
}

constexpr std::size_t kRun = 1024;

/// The index of the first value that is not finite, or the size. In runs without branches, which compilers vectorise.
std::size_t first_not_finite(std::span<const float> logits) {
  for (std::size_t begin = 0; begin < logits.size(); begin += kRun) {
    const auto run = logits.subspan(begin, std::min(kRun, logits.size() - begin));
    std::uint32_t most = 0;
    for (const float value : run) most = std::max(most, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
    if (most < 0x7f800000u) continue;
    for (std::size_t i = 0; i < run.size(); ++i)
      if (!std::isfinite(run[i])) return begin + i;
  }
  return logits.size();
}

/// largest() for finite values, in the same way.
std::size_t largest_finite(std::span<const float> logits) {
  constexpr std::size_t kLanes = 16;
  float best = -INFINITY;
  std::size_t best_run = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kRun) {
    const auto run = logits.subspan(begin, std::min(kRun, logits.size() - begin));
    float lanes[kLanes];
    std::fill_n(lanes, kLanes, run[0]);
    std::size_t i = 0;
    for (; i + kLanes <= run.size(); i += kLanes)
      for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = run[i + j] > lanes[j] ? run[i + j] : lanes[j];
    float most = lanes[0];
    for (const float lane : lanes) most = std::max(most, lane);
    for (; i < run.size(); ++i) most = std::max(most, run[i]);
    if (most > best) best = most, best_run = begin;
  }
  std::size_t index = best_run;
  while (logits[index] != best) ++index;
  return index;
}

bool xtc_applies(const SamplerOptions& options, std::uint64_t position) {
  return options.xtc_probability != 0 && second_uniform(options.seed, position) < options.xtc_probability;
}

/// A step that takes candidates away.
void filter(char step, const SamplerOptions& options, std::uint64_t position, Candidates& candidates) {
  if (has_mirostat(options)) return;
  switch (step) {
    case 's': candidates.keep_top_n_sigma(options.top_n_sigma); break;
    case 'k': candidates.keep_top_k(options.top_k); break;
    case 'y': candidates.keep_typical(options.typical_p); break;
    case 'p': candidates.keep_top_p(options.top_p); break;
    case 'm': candidates.keep_min_p(options.min_p); break;
    case 'x':
      if (xtc_applies(options, position))
        candidates.exclude_top_choices(options.xtc_threshold == 0 ? 0.1F : options.xtc_threshold);
      break;
  }
}

/// A step that changes logits by what is in the history.
void penalise(char step, const SamplerOptions& options, std::span<const std::int32_t> history,
              const SamplerState& state, const SamplerWorkspace& workspace) {
  if (step == 'e') apply_penalties(options, history, workspace);
  if (step == 'd') apply_dry(options, history, state.breakers, workspace);
}

std::int32_t draw(const SamplerOptions& options, std::span<const std::int32_t> history, std::string_view steps,
                  const SamplerWorkspace& workspace, SamplerState& state) {
  const std::uint64_t position = history.size();
  Candidates candidates(workspace.logits, workspace.ids);
  for (; !steps.empty(); steps.remove_prefix(1)) {
    const char step = steps[0];
    if (step == 'e' || step == 'd') {
      penalise(step, options, history, state, workspace);
      candidates.find_largest();
    } else if (step == 't') {
      candidates.scale(options, has_penalties(options) && steps.find('e') != std::string_view::npos);
    } else {
      filter(step, options, position, candidates);
    }
  }
  if (has_mirostat(options)) candidates.keep_surprises(state.mu);
  const std::int32_t token = candidates.draw(uniform(options.seed, position));
  if (has_mirostat(options)) {
    const double eta = options.mirostat_eta == 0 ? 0.1F : options.mirostat_eta;
    state.mu = saturated(state.mu - eta * (candidates.surprise(token) - mirostat_tau(options)));
  }
  return token;
}

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t position) {
  return static_cast<double>(splitmix64(splitmix64(seed) ^ position) >> 11) * 0x1p-53;
}

double second_uniform(std::uint64_t seed, std::uint64_t position) {
  return static_cast<double>(splitmix64(splitmix64(splitmix64(seed) ^ position)) >> 11) * 0x1p-53;
}

Result<std::int32_t> sample(std::span<const float> logits, std::span<const std::int32_t> history,
                            const SamplerOptions& options, std::span<const Bias> bias,
                            const SamplerWorkspace& workspace, SamplerState& state, const LogitsEdit& edit) {
  if (const std::size_t i = first_not_finite(logits); i < logits.size())
    return error(Code::numeric, "the logit of token {} is {}", i, logits[i]);
  const bool plain = bias.empty() && !has_penalties(options) && !has_dry(options) && edit.apply == nullptr;
  if (options.temperature == 0 && plain) return static_cast<std::int32_t>(largest_finite(logits));
  std::copy(logits.begin(), logits.end(), workspace.logits.begin());
  QINFER_TRY(apply_edit(edit, workspace.logits));
  apply_bias(bias, workspace.logits);
  std::string_view steps = steps_of(options);
  // Those at the beginning, and for a greedy draw all, change logits before there are candidates.
  while (!steps.empty() && (options.temperature == 0 || steps[0] == 'e' || steps[0] == 'd')) {
    penalise(steps[0], options, history, state, workspace);
    steps.remove_prefix(1);
  }
  const std::size_t best = largest(workspace.logits);
  if (!std::isfinite(workspace.logits[best]))
    return error(Code::numeric, "bias and penalties leave no token to draw: the largest logit is {}",
                 workspace.logits[best]);
  if (options.temperature == 0) return static_cast<std::int32_t>(best);
  return draw(options, history, steps, workspace, state);
}

}  // namespace qinfer::sampling
