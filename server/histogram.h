// histogram.h: how often a time was how long, as Prometheus counts it. Counted by any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace server {

class Histogram {
 public:
  /// Upper ends in seconds; a last bucket has what is longer.
  static constexpr std::array<double, 16> kEnds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                                   0.5,   1,     2,     5,    10,   20,   60,  300};

  void count(double seconds) {
    std::size_t i = 0;
    while (i < kEnds.size() && seconds > kEnds[i]) ++i;
    ++buckets_[i];
    sum_ns_ += static_cast<std::uint64_t>(seconds * 1e9);
  }
  std::uint64_t bucket(std::size_t i) const { return buckets_[i]; }
  double sum() const { return static_cast<double>(sum_ns_) * 1e-9; }

 private:
  std::array<std::atomic<std::uint64_t>, kEnds.size() + 1> buckets_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};

/// Of choices.
struct Times {
  Histogram first_token;  ///< from the request's arrival
  Histogram between;      ///< two tokens
  Histogram whole;        ///< from the request's arrival to its end
};

}  // namespace server
