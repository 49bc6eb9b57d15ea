// statistics.h: what the benches that take turns say about many measured values: quantiles, and how sure a median is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace qinfer::bench {

/// The q-quantile of values, sorted by this; between two of them, their weighted mean.
inline double quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

/// Fewer values than this give no interval of 95 %.
inline constexpr std::size_t kFewestForInterval = 6;
/// More than these, and 2^-n is no double any more.
inline constexpr std::size_t kMostForInterval = 1000;

struct Interval {
  double low = 0, high = 0;
  double coverage = 0;  ///< how often such an interval holds the true median; at least 0.95
};

/// An interval for the median of the distribution that values are drawn from, whatever that distribution is: from the
/// k-th smallest to the k-th largest value (order statistics). Each value is below the true median with probability
/// 1/2, so how many are follows the binomial distribution of n and 1/2, and k is the largest that leaves 2.5 % on each
/// side. Sorts values. Takes kFewestForInterval to kMostForInterval of them, independent of each other.
inline Interval median_interval(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  double exactly = std::ldexp(1.0, -static_cast<int>(n)), fewer = 0;  // the chance of exactly k, of fewer than k
  std::size_t k = 0;
  while (fewer + exactly <= 0.025) {
    fewer += exactly;
    ++k;
    exactly *= static_cast<double>(n - k + 1) / static_cast<double>(k);
  }
  return {values[k - 1], values[n - k], 1 - 2 * fewer};
}

}  // namespace qinfer::bench
