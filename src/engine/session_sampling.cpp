// See session_sampling.h.
#include "engine/session_sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace qinfer::engine {
namespace {

sampling::LogitsEdit hook_edit(LogitsHook* hook) {
  if (hook == nullptr) return {};
  return {[](void* user, std::span<float> logits) { return static_cast<LogitsHook*>(user)->apply(logits); }, hook};
}

template <typename T>
std::span<T> part(std::byte* memory, std::uint64_t offset, std::size_t n) {
  return {reinterpret_cast<T*>(memory + offset), n};
}

}  // namespace

SessionSampling::SessionSampling(const SessionLayout& layout, std::byte* memory, std::uint32_t n_vocab)
    : workspace_{part<float>(memory, layout.sampler_logits, n_vocab),
                 part<std::uint32_t>(memory, layout.sampler_ids, n_vocab),
                 part<std::uint32_t>(memory, layout.sampler_counts, n_vocab),
                 part<std::uint32_t>(memory, layout.repeats, layout.repeats == 0 ? 0 : layout.max_tokens)},
      bias_(part<sampling::Bias>(memory, layout.bias, n_vocab)),
      accepted_(part<std::uint64_t>(memory, layout.accepted, layout.accepted_words)),
      bounds_(part<float>(memory, layout.bounds, layout.bounds == 0 ? 0 : layout.max_tokens)) {}

Status SessionSampling::set_options(const sampling::SamplerOptions& options) {
  QINFER_TRY(sampling::check_options(options));
  options_ = options;
  n_bounds_ = 0;
  return Status();
}

void SessionSampling::set_breakers(std::shared_ptr<const sampling::DryBreakers> breakers, bool own) {
  breakers_ = std::move(breakers);
  own_breakers_ = own;
}

void SessionSampling::set_bounds(std::span<const float> bounds) {
  std::copy(bounds.begin(), bounds.end(), bounds_.begin());
  n_bounds_ = bounds.size();
}

Status SessionSampling::set_bias(std::span<const std::int32_t> tokens, std::span<const float> values) {
  const std::size_t n_vocab = bias_.size();
  if (tokens.size() > n_vocab)
    return error(Code::invalid_argument, "n is {}: more biases than the {} tokens of the vocabulary", tokens.size(),
                 n_vocab);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= n_vocab)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "token {} at index {} is not in the vocabulary of {}", tokens[i], i, n_vocab);
    if (std::isnan(values[i]) || values[i] == INFINITY)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "the bias of token {} is {}, expected a number or -infinity", tokens[i], values[i]);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) bias_[i] = {tokens[i], values[i]};
  n_bias_ = tokens.size();
  return Status();
}

void SessionSampling::set_hook(std::unique_ptr<LogitsHook> hook) {
  std::fill(accepted_.begin(), accepted_.end(), 0);
  hook_ = std::move(hook);
}

Status SessionSampling::copy(const SessionSampling& original) {
  options_ = original.options_;
  n_bias_ = original.n_bias_;
  std::copy_n(original.bias_.begin(), n_bias_, bias_.begin());
  set_breakers(original.breakers_, original.own_breakers_);
  set_bounds(original.bounds());
  if (original.hook_ == nullptr) return Status();
  std::copy(original.accepted_.begin(), original.accepted_.end(), accepted_.begin());
  QINFER_ASSIGN(hook_, original.hook_->clone());
  return Status();
}

Result<std::int32_t> SessionSampling::draw(std::span<const float> logits, std::span<const std::int32_t> tokens,
                                           bool with_hook) {
  sampling::SamplerState state{breakers_.get(), bound()};
  auto drawn = sampling::sample(logits, tokens, options_, bias(), workspace_, state,
                                hook_edit(with_hook ? hook_.get() : nullptr));
  next_bound_ = state.mu;
  return drawn;
}

void SessionSampling::keep_draw(std::size_t position) {
  if (!sampling::has_mirostat(options_)) return;
  std::fill(bounds_.begin() + static_cast<std::ptrdiff_t>(n_bounds_),
            bounds_.begin() + static_cast<std::ptrdiff_t>(position), bound());
  bounds_[position] = next_bound_;
  n_bounds_ = position + 1;
}

void SessionSampling::mark_accepted(std::size_t position, bool value) {
  const std::uint64_t bit = std::uint64_t{1} << position % 64;
  std::uint64_t& word = accepted_[position / 64];
  word = value ? word | bit : word & ~bit;
}

Status SessionSampling::accept(std::size_t position, std::int32_t token) {
  // The hook of a fork is a copy of one that may have seen the token already.
  if ((accepted_[position / 64] >> position % 64 & 1) != 0) return Status();
  mark_accepted(position, true);
  if (hook_->accept(token)) return Status();
  mark_accepted(position, false);
  return Status::fixed(Code::cancelled, "the accept function of the session's logits hook refused: no token was added");
}

Status SessionSampling::rewind(std::size_t size) {
  QINFER_TRY(rewind_hook(size));
  n_bounds_ = std::min(n_bounds_, size);
  return Status();
}

Status SessionSampling::rewind_hook(std::size_t size) {
  if (hook_ == nullptr) return Status();
  const std::uint64_t kept = (std::uint64_t{1} << size % 64) - 1;  // of the word that holds the first to go
  std::size_t gone = 0;
  for (std::size_t i = size / 64; i < accepted_.size(); ++i)
    gone += static_cast<std::size_t>(std::popcount(i == size / 64 ? accepted_[i] & ~kept : accepted_[i]));
  if (gone == 0) return Status();
  if (!hook_->rewind(gone))
    return Status::fixed(Code::cancelled,
                         "the rewind function of the session's logits hook refused: the session keeps its tokens");
  for (std::size_t i = size / 64; i < accepted_.size(); ++i) accepted_[i] = i == size / 64 ? accepted_[i] & kept : 0;
  return Status();
}

}  // namespace qinfer::engine
