// The tokens that may still be drawn, and the steps that leave fewer of them (sampler.h has the definitions). Sums go
// over candidates in the order of their ids, so that they are the same whatever algorithm the standard library has.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/options.h"

namespace qinfer::sampling {

class Candidates {
 public:
  /// All tokens whose logit is not -infinity, of which there is at least one; `logits` by id. `ids` has room for all.
  Candidates(std::span<float> logits, std::span<std::uint32_t> ids);

  /// Divides by the temperature. `in_place`: where a later step looks at the sign of logits; otherwise the largest
  /// becomes 0, which changes no probability.
  void scale(const SamplerOptions& options, bool in_place);
  void keep_top_n_sigma(float n);
  void keep_top_k(std::uint32_t k);
  void keep_typical(float p);
  void keep_top_p(float p);
  void keep_min_p(float p);
  void exclude_top_choices(float threshold);
  /// Those with at most this many bits of surprise, or the largest.
  void keep_surprises(float bits);

  /// After their logits have changed.
  void find_largest();

  /// By a uniform number.
  std::int32_t draw(double uniform) const;
  /// -log2 of a candidate's probability.
  double surprise(std::int32_t token) const;

 private:
  float distance(std::uint32_t id) const { return logits_[id] - largest_; }
  float weight(std::uint32_t id) const;
  double total_weight() const;
  /// In nats.
  double entropy(double total) const;
  double dynamic_temperature(const SamplerOptions& options) const;
  template <typename Keep>
  void keep_if(Keep keep);
  /// The first n, which are sorted by id again.
  void keep_first(std::size_t n);

  std::span<float> logits_;
  std::span<std::uint32_t> ids_;  ///< ascending
  float largest_ = 0;             ///< of their logits
};

}  // namespace qinfer::sampling
