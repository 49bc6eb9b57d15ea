// See candidates.h.
#include "sampling/candidates.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/math_f64.h"
#include "sampling/numbers.h"

namespace qinfer::sampling {
namespace {

constexpr double kLn2 = 0.6931471805599453;

}  // namespace

Candidates::Candidates(std::span<float> logits, std::span<std::uint32_t> ids) : logits_(logits) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] != -INFINITY) ids[n++] = static_cast<std::uint32_t>(i);
  ids_ = ids.first(n);
  find_largest();
}

void Candidates::find_largest() {
  largest_ = logits_[ids_[0]];
  for (const std::uint32_t id : ids_) largest_ = std::max(largest_, logits_[id]);
}

template <typename Keep>
void Candidates::keep_if(Keep keep) {
  const auto end = std::remove_if(ids_.begin(), ids_.end(), [&](std::uint32_t id) { return !keep(id); });
  ids_ = ids_.first(static_cast<std::size_t>(end - ids_.begin()));
}

void Candidates::keep_first(std::size_t n) {
  ids_ = ids_.first(n);
  std::sort(ids_.begin(), ids_.end());
}

float Candidates::weight(std::uint32_t id) const { return exp_f32(distance(id)); }

double Candidates::total_weight() const {
  double total = 0;
  for (const std::uint32_t id : ids_) total += weight(id);
  return total;
}

double Candidates::entropy(double total) const {
  double sum = 0;
  for (const std::uint32_t id : ids_)
    if (const double weight = this->weight(id); weight != 0) sum += weight * distance(id);
  return log_f64(total) - sum / total;
}

double Candidates::dynamic_temperature(const SamplerOptions& options) const {
  const double middle = options.temperature, range = options.dynatemp_range;
  const double low = std::max(0.0, middle - range), high = middle + range;
  if (ids_.size() == 1) return low;
  const double exponent = options.dynatemp_exponent == 0 ? 1 : options.dynatemp_exponent;
  // Rounding may leave it a little outside of 0 to 1.
  const double share = std::clamp(entropy(total_weight()) / log_f64(static_cast<double>(ids_.size())), 0.0, 1.0);
  return low + (high - low) * exp_f64(exponent * log_f64(share));
}

void Candidates::scale(const SamplerOptions& options, bool in_place) {
  const float temperature =
      options.dynatemp_range == 0 ? options.temperature : static_cast<float>(dynamic_temperature(options));
  if (temperature == 0) {
    while (logits_[ids_[0]] != largest_) ids_ = ids_.subspan(1);
    ids_ = ids_.first(1);
    return;
  }
  // The largest is subtracted first: a tiny temperature then gives -inf for the others instead of inf for the best.
  for (const std::uint32_t id : ids_)
    logits_[id] = in_place ? saturated(static_cast<double>(logits_[id]) / temperature) : distance(id) / temperature;
  largest_ = 0;
  if (in_place) find_largest();
}

void Candidates::keep_top_n_sigma(float n) {
  if (n == 0) return;
  double count = 0, sum = 0, squares = 0;
  for (const std::uint32_t id : ids_)
    if (distance(id) != -INFINITY) ++count, sum += distance(id);
  const double mean = sum / count;
  for (const std::uint32_t id : ids_)
    if (distance(id) != -INFINITY) squares += (distance(id) - mean) * (distance(id) - mean);
  const double least = -n * std::sqrt(squares / count);
  keep_if([&](std::uint32_t id) { return distance(id) >= least; });
}

void Candidates::keep_top_k(std::uint32_t k) {
  if (k == 0 || k >= ids_.size()) return;
  const auto larger = [&](std::uint32_t a, std::uint32_t b) { return logits_[a] > logits_[b]; };
  std::nth_element(ids_.begin(), ids_.begin() + (k - 1), ids_.end(), larger);
  const float threshold = logits_[ids_[k - 1]];
  const auto end = std::partition(ids_.begin(), ids_.end(), [&](std::uint32_t id) { return logits_[id] >= threshold; });
  keep_first(static_cast<std::size_t>(end - ids_.begin()));
}

void Candidates::keep_typical(float p) {
  if (p <= 0 || p >= 1) return;
  const double total = total_weight(), log_total = log_f64(total), entropy = this->entropy(total);
  const auto deviation = [&](std::uint32_t id) { return std::abs(log_total - distance(id) - entropy); };
  std::sort(ids_.begin(), ids_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double left = deviation(a), right = deviation(b);
    if (left != right) return left < right;
    return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b;
  });
  const double limit = static_cast<double>(p) * total;
  double before = 0;
  std::size_t kept = 0;
  while (kept < ids_.size() && (kept == 0 || before < limit)) before += weight(ids_[kept++]);
  keep_first(kept);
  find_largest();
}

void Candidates::keep_top_p(float p) {
  if (p <= 0 || p >= 1) return;
  std::sort(ids_.begin(), ids_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b;
  });
  const double limit = static_cast<double>(p) * total_weight();
  double before = 0;
  std::size_t kept = 0;
  while (kept < ids_.size() && (kept == 0 || before < limit)) before += weight(ids_[kept++]);
  keep_first(kept);
}

void Candidates::keep_min_p(float p) {
  if (p <= 0) return;
  keep_if([&](std::uint32_t id) { return weight(id) >= p; });
}

void Candidates::exclude_top_choices(float threshold) {
  const double least = static_cast<double>(threshold) * total_weight();
  std::size_t n = 0;
  std::uint32_t last = 0;
  for (const std::uint32_t id : ids_) {
    if (weight(id) < least) continue;
    if (n++ == 0 || logits_[id] <= logits_[last]) last = id;
  }
  if (n < 2) return;
  keep_if([&](std::uint32_t id) { return id == last || weight(id) < least; });
  find_largest();
}

void Candidates::keep_surprises(float bits) {
  const double least = log_f64(total_weight()) - bits * kLn2;  // of the distance
  if (least > 0) {
    const auto best = std::find_if(ids_.begin(), ids_.end(), [&](std::uint32_t id) { return distance(id) == 0; });
    ids_ = {best, best + 1};
    return;
  }
  keep_if([&](std::uint32_t id) { return distance(id) >= least; });
}

std::int32_t Candidates::draw(double uniform) const {
  const double target = uniform * total_weight();
  double sum = 0;
  std::uint32_t last = ids_[0];
  for (const std::uint32_t id : ids_) {
    const double weight = this->weight(id);
    if (weight == 0) continue;
    last = id;
    sum += weight;
    if (sum > target) break;
  }
  return static_cast<std::int32_t>(last);
}

double Candidates::surprise(std::int32_t token) const {
  return (log_f64(total_weight()) - distance(static_cast<std::uint32_t>(token))) / kLn2;
}

}  // namespace qinfer::sampling
