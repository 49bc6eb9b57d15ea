// How a session draws its tokens: the sampler's options, the biases of logits, and the host's hook with what it has
// accepted. Memory for all of it is the session's; nothing here allocates, but for a clone of the hook.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/layout.h"
#include "engine/logits_hook.h"
#include "sampling/sampler.h"

namespace qinfer::engine {

class SessionSampling {
 public:
  SessionSampling() = default;
  /// `memory`: of the session, as `layout` divides it.
  SessionSampling(const SessionLayout& layout, std::byte* memory, std::uint32_t n_vocab);

  const sampling::SamplerOptions& options() const { return options_; }
  std::span<const sampling::Bias> bias() const { return bias_.first(n_bias_); }
  LogitsHook* hook() const { return hook_.get(); }

  /// Mirostat begins anew.
  Status set_options(const sampling::SamplerOptions& options);
  /// Of DRY; null: none. `own`: not the default ones.
  void set_breakers(std::shared_ptr<const sampling::DryBreakers> breakers, bool own);
  const sampling::DryBreakers* breakers() const { return breakers_.get(); }
  bool has_own_breakers() const { return own_breakers_; }
  /// Mirostat's bounds after each of the first tokens; after the others the last of them.
  std::span<const float> bounds() const { return bounds_.first(n_bounds_); }
  /// As bounds() gave them. There must be room for them.
  void set_bounds(std::span<const float> bounds);
  Status set_bias(std::span<const std::int32_t> tokens, std::span<const float> values);
  /// Replaces the hook; null: none. Tokens that are there already do not count as accepted. Snapshots hold no hook.
  void set_hook(std::unique_ptr<LogitsHook> hook);
  /// Becomes as that of the session that this one is a fork of. Fails where the hook cannot be cloned.
  Status copy(const SessionSampling& original);

  /// The token that follows `tokens`, by the logits of the last of them. With the hook, accept() must follow, and with
  /// or without it keep_draw() if the token stays.
  Result<std::int32_t> draw(std::span<const float> logits, std::span<const std::int32_t> tokens, bool with_hook);
  /// The token that was drawn last is the one at `position`.
  void keep_draw(std::size_t position);
  /// Shows the token at `position` to the hook, which may refuse it.
  Status accept(std::size_t position, std::int32_t token);
  /// Tells the hook that of the tokens from `size` on those that it accepted are going. It may refuse. Mirostat goes
  /// back to where it was.
  Status rewind(std::size_t size);

 private:
  void mark_accepted(std::size_t position, bool value);
  Status rewind_hook(std::size_t size);
  /// Mirostat's bound for the next draw.
  float bound() const { return n_bounds_ == 0 ? sampling::mirostat_begin(options_) : bounds_[n_bounds_ - 1]; }

  sampling::SamplerOptions options_;
  sampling::SamplerWorkspace workspace_;
  std::span<sampling::Bias> bias_;  ///< room for one of each token
  std::size_t n_bias_ = 0;
  std::span<std::uint64_t> accepted_;  ///< a bit for each position, set if the hook accepted its token
  std::unique_ptr<LogitsHook> hook_;
  std::shared_ptr<const sampling::DryBreakers> breakers_;
  bool own_breakers_ = false;
  std::span<float> bounds_;  ///< room for one of each token
  std::size_t n_bounds_ = 0;
  float next_bound_ = 0;  ///< if the token that was drawn stays
};

}  // namespace qinfer::engine
