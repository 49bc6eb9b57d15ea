// See sampler.h.
#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/math.h"

namespace qinfer::sampling {
namespace {

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool has_penalties(const SamplerOptions& options) {
  return (options.repeat_penalty != 0 && options.repeat_penalty != 1) || options.frequency_penalty != 0 ||
         options.presence_penalty != 0;
}

/// The nearest float that is finite, of a number that is not NaN.
float saturated(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
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

/// Candidates are ids[0 .. n); `logits` is indexed by id. Each filter returns the new n.
std::size_t keep_top_k(std::span<const float> logits, std::span<std::uint32_t> ids, std::uint32_t k) {
  if (k == 0 || k >= ids.size()) return ids.size();
  std::nth_element(ids.begin(), ids.begin() + (k - 1), ids.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
  const float threshold = logits[ids[k - 1]];
  return static_cast<std::size_t>(
      std::partition(ids.begin(), ids.end(), [&](std::uint32_t id) { return logits[id] >= threshold; }) - ids.begin());
}

double total_weight(std::span<const float> logits, std::span<const std::uint32_t> ids, float max) {
  double total = 0;
  for (const std::uint32_t id : ids) total += exp_f32(logits[id] - max);
  return total;
}

std::size_t keep_top_p(std::span<const float> logits, std::span<std::uint32_t> ids, float max, float p) {
  if (p <= 0 || p >= 1) return ids.size();
  std::sort(ids.begin(), ids.end(),
            [&](std::uint32_t a, std::uint32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  const double limit = static_cast<double>(p) * total_weight(logits, ids, max);
  double before = 0;
  std::size_t kept = 0;
  while (kept < ids.size() && (kept == 0 || before < limit)) before += exp_f32(logits[ids[kept++]] - max);
  return kept;
}

std::size_t keep_min_p(std::span<const float> logits, std::span<std::uint32_t> ids, float max, float p) {
  if (p <= 0) return ids.size();
  return static_cast<std::size_t>(
      std::partition(ids.begin(), ids.end(), [&](std::uint32_t id) { return exp_f32(logits[id] - max) >= p; }) -
      ids.begin());
}

std::int32_t draw(const SamplerOptions& options, std::uint64_t position, const SamplerWorkspace& workspace) {
  const std::span<float> logits = workspace.logits;
  // The largest is subtracted first: a tiny temperature then gives -inf for the others instead of inf for the best.
  const float best = logits[largest(logits)];
  for (float& logit : logits) logit = (logit - best) / options.temperature;
  const float max = 0;
  std::span<std::uint32_t> ids = workspace.ids;
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i);
  ids = ids.first(keep_top_k(logits, ids, options.top_k));
  ids = ids.first(keep_top_p(logits, ids, max, options.top_p));
  ids = ids.first(keep_min_p(logits, ids, max, options.min_p));
  // By id, so that the draw does not depend on how the filters happened to order equal candidates.
  std::sort(ids.begin(), ids.end());
  const double target = uniform(options.seed, position) * total_weight(logits, ids, max);
  double sum = 0;
  std::uint32_t last = ids[0];
  for (const std::uint32_t id : ids) {
    const double weight = exp_f32(logits[id] - max);
    if (weight == 0) continue;
    last = id;
    sum += weight;
    if (sum > target) break;
  }
  return static_cast<std::int32_t>(last);
}

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t position) {
  return static_cast<double>(splitmix64(splitmix64(seed) ^ position) >> 11) * 0x1p-53;
}

Status check_options(const SamplerOptions& options) {
  const auto bad = [](std::string_view name, float value, std::string_view range) {
    return error(Code::invalid_argument, "{} is {}, expected {}", name, value, range);
  };
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    return bad("temperature", options.temperature, "0 or more");
  if (!(options.top_p >= 0 && options.top_p <= 1)) return bad("top_p", options.top_p, "0 to 1");
  if (!(options.min_p >= 0 && options.min_p <= 1)) return bad("min_p", options.min_p, "0 to 1");
  if (!(options.repeat_penalty >= 0) || !std::isfinite(options.repeat_penalty))
    return bad("repeat_penalty", options.repeat_penalty, "0 or more");
  if (!std::isfinite(options.frequency_penalty))
    return bad("frequency_penalty", options.frequency_penalty, "a finite number");
  if (!std::isfinite(options.presence_penalty))
    return bad("presence_penalty", options.presence_penalty, "a finite number");
  return Status();
}

Result<std::int32_t> sample(std::span<const float> logits, std::span<const std::int32_t> history,
                            const SamplerOptions& options, std::span<const Bias> bias,
                            const SamplerWorkspace& workspace, const LogitsEdit& edit) {
  if (const std::size_t i = first_not_finite(logits); i < logits.size())
    return error(Code::numeric, "the logit of token {} is {}", i, logits[i]);
  if (options.temperature == 0 && bias.empty() && !has_penalties(options) && edit.apply == nullptr)
    return static_cast<std::int32_t>(largest_finite(logits));
  std::copy(logits.begin(), logits.end(), workspace.logits.begin());
  QINFER_TRY(apply_edit(edit, workspace.logits));
  apply_bias(bias, workspace.logits);
  apply_penalties(options, history, workspace);
  const std::size_t best = largest(workspace.logits);
  if (!std::isfinite(workspace.logits[best]))
    return error(Code::numeric, "bias and penalties leave no token to draw: the largest logit is {}",
                 workspace.logits[best]);
  if (options.temperature == 0) return static_cast<std::int32_t>(best);
  return draw(options, history.size(), workspace);
}

}  // namespace qinfer::sampling
