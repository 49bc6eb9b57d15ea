// See costs.h.
#include "schedule/costs.h"

#include <algorithm>
#include <cmath>

namespace qinfer::schedule {
namespace {

/// Terms are brought to about the same size, so that the sums can be solved for.
constexpr double kContextUnit = 1000;
/// What a guess counts, in the measure of the sums: about as much as a step of half a second.
constexpr double kGuessWeight = 4;

}  // namespace

LearnedCosts::Terms LearnedCosts::terms_of(const StepShape& step) {
  return {1, static_cast<double>(step.decode_rows) + static_cast<double>(step.prefill_rows),
          static_cast<double>(step.context) / kContextUnit};
}

void LearnedCosts::learn(const StepShape& step, double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return;
  (step.prefill_rows != 0 ? with_prompts_ : decoding_).learn(step, seconds);
}

LearnedCosts::Fit::Fit(const Terms& guess) : weights_(guess) {
  for (std::size_t i = 0; i < kTerms; ++i) {
    products_[i][i] = kGuessWeight;
    with_time_[i] = kGuessWeight * guess[i];
  }
}

double LearnedCosts::Fit::predict(const StepShape& step) const {
  const Terms terms = terms_of(step);
  double seconds = 0;
  for (std::size_t i = 0; i < kTerms; ++i) seconds += terms[i] * weights_[i];
  return seconds;
}

void LearnedCosts::Fit::learn(const StepShape& step, double seconds) {
  const Terms terms = terms_of(step);
  const double kept = std::exp(-1 / kMemory);
  // What disturbs a step does so in proportion to its time: a long one counts less.
  constexpr double kShortest = 1e-4;
  const double weight = 1 / (std::max(seconds, kShortest) * std::max(seconds, kShortest));
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t k = 0; k < kTerms; ++k) products_[i][k] = products_[i][k] * kept + weight * terms[i] * terms[k];
    with_time_[i] = with_time_[i] * kept + weight * terms[i] * seconds;
  }
  // The guess fades as well; a little of what is held now takes its place, so that terms that steps of late had not, or
  // all alike, keep their weights.
  for (std::size_t i = 0; i < kTerms; ++i) {
    const double missing = kGuessWeight * (1 - kept);
    products_[i][i] += missing;
    with_time_[i] += missing * weights_[i];
  }
  solve();
}

/// By elimination. A weight that comes out negative is left out, and the others are solved for again.
void LearnedCosts::Fit::solve() {
  std::array<bool, kTerms> used{};
  used.fill(true);
  for (std::size_t left = kTerms; left > 0; --left) {
    std::array<Terms, kTerms> a = products_;
    Terms b = with_time_;
    for (std::size_t i = 0; i < kTerms; ++i) {
      if (used[i]) continue;
      for (std::size_t k = 0; k < kTerms; ++k) a[i][k] = a[k][i] = i == k ? 1 : 0;
      b[i] = 0;
    }
    for (std::size_t i = 0; i < kTerms; ++i)  // symmetric and positive definite: the pivots need not be chosen
      for (std::size_t row = i + 1; row < kTerms; ++row) {
        const double factor = a[row][i] / a[i][i];
        for (std::size_t k = i; k < kTerms; ++k) a[row][k] -= factor * a[i][k];
        b[row] -= factor * b[i];
      }
    for (std::size_t i = kTerms; i-- > 0;) {
      for (std::size_t k = i + 1; k < kTerms; ++k) b[i] -= a[i][k] * weights_[k];
      weights_[i] = b[i] / a[i][i];
    }
    const auto least = static_cast<std::size_t>(std::min_element(weights_.begin(), weights_.end()) - weights_.begin());
    if (weights_[least] >= 0) return;
    used[least] = false;
    weights_[least] = 0;
  }
}

}  // namespace qinfer::schedule
