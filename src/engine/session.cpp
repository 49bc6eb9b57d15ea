// See session.h: tokens, logits, embeddings, sampling.
#include "engine/session.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "platform/thread.h"
#include "sampling/logprobs.h"

namespace qinfer::engine {
namespace {

sampling::LogitsEdit hook_edit(LogitsHook* hook) {
  if (hook == nullptr) return {};
  return {[](void* user, std::span<float> logits) { return static_cast<LogitsHook*>(user)->apply(logits); }, hook};
}

}  // namespace

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<KvCache> cache, const SessionOptions& options) {
  const Model& model = cache->model();
  QINFER_ASSIGN(const SessionLayout layout,
                plan_session(model.spec(), model.max_token_bytes(), cache->blueprint(), options));
  return create(std::move(cache), layout);
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<KvCache> cache, const SessionLayout& layout) {
  std::unique_ptr<Session> session(new Session);
  const Model& model = cache->model();
  const platform::Allocator& allocator = model.runtime().allocator();
  session->memory_layout_ = layout;
  QINFER_TRY(model.prepare_rope(layout.max_tokens));
  QINFER_ASSIGN(session->charge_, model.charge(layout.total_bytes(), "a session", [](std::uint64_t) {
    return std::string("fewer max_tokens or max_logits take less");
  }));
  QINFER_ASSIGN(session->memory_, platform::Buffer::allocate(allocator, layout.bytes, "a session"));
  QINFER_ASSIGN(session->tokens_, SharedBuffer::create(allocator, layout.tokens_bytes, "a session's tokens"));
  if (layout.logits_bytes != 0) {
    QINFER_ASSIGN(session->logits_, SharedBuffer::create(allocator, layout.logits_bytes, "a session's logits"));
  }
  if (model.tokenizer() != nullptr) session->detokenizer_.emplace(*model.tokenizer(), false);
  session->cache_ = std::move(cache);
  QINFER_TRY(session->open_tables());
  return session;
}

Result<std::unique_ptr<Session>> Session::fork() const {
  QINFER_ASSIGN(std::unique_ptr<Session> copy, create(cache_, memory_layout_));
  copy->tokens_ = tokens_.share(std::move(copy->tokens_));
  if (memory_layout_.logits_bytes != 0) copy->logits_ = logits_.share(std::move(copy->logits_));
  copy->n_tokens_ = n_tokens_;
  copy->n_evaluated_ = n_evaluated_;
  copy->n_logits_ = n_logits_;
  copy->n_named_ = n_named_;
  copy->untrusted_ = untrusted_;
  copy->origin_ = origin_;
  copy->same_origin_ = same_origin_;
  copy->sampler_ = sampler_;
  copy->n_bias_ = n_bias_;
  std::copy_n(name_data(), n_named_, copy->name_data());
  std::copy_n(bias_data(), n_bias_, copy->bias_data());
  if (memory_layout_.embeddings)
    std::copy_n(embedding_data(), std::size_t{3} * model().spec().n_embd, copy->embedding_data());
  for (std::size_t g = 0; g < memory_layout_.n_groups; ++g)
    if (!copy->tables_[g].share(tables_[g]))
      return error(Code::no_memory, "the system maps no more memory: {} KV blocks of a fork cannot be shared",
                   tables_[g].held().size());
  if (hook_ == nullptr) return copy;
  std::copy(accepted().begin(), accepted().end(), copy->accepted().begin());
  QINFER_ASSIGN(copy->hook_, hook_->clone());  // last: after it nothing fails
  return copy;
}

Status Session::check_room_for(std::span<const std::int32_t> tokens, std::size_t n_before) const {
  const std::uint32_t n_vocab = model().spec().n_vocab;
  if (tokens.size() > memory_layout_.max_tokens - n_before)  // first: a wrong n is not used to read the caller's memory
    return error(Code::context_full, "the session holds {} of at most {} tokens, {} more do not fit", n_before,
                 memory_layout_.max_tokens, tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<std::uint32_t>(tokens[i]) >= n_vocab)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "token {} at index {} is not in the vocabulary of {}", tokens[i], i, n_vocab);
  }
  return Status();
}

Status Session::append(std::span<const std::int32_t> tokens) {
  QINFER_TRY(check_room_for(tokens, n_tokens_));
  // In an encoder every token sees all others: with more of them, all are evaluated again.
  if (!model().spec().causal && !tokens.empty()) forget_everything();
  tokens_.make_own(n_tokens_ * sizeof(std::int32_t));
  std::copy(tokens.begin(), tokens.end(), token_data() + n_tokens_);
  n_tokens_ += tokens.size();
  ++revision_;
  return Status();
}

Result<std::size_t> Session::set_tokens(std::span<const std::int32_t> tokens) {
  QINFER_TRY(check_room_for(tokens, 0));
  const std::span<const std::int32_t> held = this->tokens();
  const auto n_kept = static_cast<std::size_t>(
      std::mismatch(held.begin(), held.end(), tokens.begin(), tokens.end()).first - held.begin());
  if (n_kept < n_tokens_) QINFER_TRY(cut(n_kept, n_kept < tokens.size()));
  QINFER_TRY(append(tokens.subspan(n_kept)));
  return n_kept;
}

void Session::drop_logits() {
  n_logits_ = 0;
  if (memory_layout_.logits_bytes != 0) logits_.make_own(0);
}

HiddenStateRows Session::hidden_state_rows(std::int32_t first_row, std::int32_t n_rows) const {
  return {embedding_data(), first_row, n_rows, n_evaluated_ == 0};
}

Status Session::check_embedding() const {
  if (!memory_layout_.embeddings)
    return error(Code::state, "the session keeps no hidden states: create it with QINFER_SESSION_EMBEDDINGS");
  if (n_tokens_ == 0) return error(Code::state, "the session is empty: append tokens and evaluate them first");
  if (pending() != 0) return error(Code::state, "{} tokens are pending: evaluate them before the embedding", pending());
  return Status();
}

Status Session::embedding(Pooling pooling, std::span<float> out) const {
  QINFER_TRY(check_embedding());
  const platform::ScopedFloatEnvironment environment;
  const std::uint32_t width = model().spec().n_embd;
  const std::size_t row = pooling == Pooling::first ? 0 : pooling == Pooling::mean ? 1 : 2;
  const std::span<const float> values(embedding_data() + row * width, width);
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  if (!std::isfinite(squares))
    return explained(error(Code::numeric, "the hidden states are not finite: there is no embedding"));
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (std::size_t i = 0; i < width; ++i) out[i] = static_cast<float>(values[i] * scale);
  return Status();
}

float* Session::logits_row(std::size_t row) const { return logits_.as<float>() + row * model().spec().n_vocab; }

std::span<const float> Session::logits(std::size_t back) const {
  if (back >= n_logits_) return {};
  return {logits_row(n_logits_ - 1 - back), model().spec().n_vocab};
}

Status Session::no_logits(std::size_t back) const {
  if (has_skipped_logits()) return skipped_logits();
  return error(Code::state, "no logits are kept for the token {} before the last evaluated one", back);
}

Status Session::logprobs(std::size_t back, std::span<const std::int32_t> tokens, std::span<double> out) const {
  const std::span<const float> row = logits(back);
  if (row.empty()) return no_logits(back);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= row.size())
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "token {} at index {} is not in the vocabulary of {}", tokens[i], i, row.size());
  const platform::ScopedFloatEnvironment environment;
  auto normalized = sampling::log_normalizer(row);
  if (!normalized.ok()) return explained(normalized.take_status());
  const double normalizer = normalized.value();
  sampling::subtract(row, tokens, normalizer, out);
  return Status();
}

Status Session::top_logprobs(std::size_t back, std::span<std::int32_t> tokens, std::span<double> out) const {
  const std::span<const float> row = logits(back);
  if (row.empty()) return no_logits(back);
  if (tokens.size() > row.size())
    return error(Code::invalid_argument, "n is {}: more than the {} tokens of the vocabulary", tokens.size(),
                 row.size());
  const platform::ScopedFloatEnvironment environment;
  auto normalized = sampling::log_normalizer(row);
  if (!normalized.ok()) return explained(normalized.take_status());
  const double normalizer = normalized.value();
  sampling::top_tokens(row, tokens);
  sampling::subtract(row, tokens, normalizer, out);
  return Status();
}

Status Session::skipped_logits() {
  return Status::fixed(Code::state,
                       "the last evaluation had QINFER_EVAL_NO_LOGITS: truncate the session to the length it has and "
                       "evaluate it again for the logits of its last token");
}

Status Session::set_sampler(const sampling::SamplerOptions& options) {
  QINFER_TRY(sampling::check_options(options));
  sampler_ = options;
  return Status();
}

Status Session::set_bias(std::span<const std::int32_t> tokens, std::span<const float> values) {
  if (tokens.size() > model().spec().n_vocab)
    return error(Code::invalid_argument, "n is {}: more biases than the {} tokens of the vocabulary", tokens.size(),
                 model().spec().n_vocab);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<std::uint32_t>(tokens[i]) >= model().spec().n_vocab)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "token {} at index {} is not in the vocabulary of {}", tokens[i], i, model().spec().n_vocab);
    if (std::isnan(values[i]) || values[i] == INFINITY)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "the bias of token {} is {}, expected a number or -infinity", tokens[i], values[i]);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) bias_data()[i] = {tokens[i], values[i]};
  n_bias_ = tokens.size();
  return Status();
}

Status Session::check_samples() const { return model().spec().check_gives_logits(); }

void Session::set_logits_hook(std::unique_ptr<LogitsHook> hook) {
  std::fill(accepted().begin(), accepted().end(), 0);
  hook_ = std::move(hook);
}

void Session::mark_accepted(std::size_t token, bool value) {
  const std::uint64_t bit = std::uint64_t{1} << token % 64;
  std::uint64_t& word = accepted()[token / 64];
  word = value ? word | bit : word & ~bit;
}

Status Session::rewind_hook(std::size_t n_tokens) {
  if (hook_ == nullptr) return Status();
  const std::span<std::uint64_t> words = accepted();
  const std::uint64_t kept = (std::uint64_t{1} << n_tokens % 64) - 1;  // of the word that holds the first to go
  std::size_t gone = 0;
  for (std::size_t i = n_tokens / 64; i < words.size(); ++i)
    gone += static_cast<std::size_t>(std::popcount(i == n_tokens / 64 ? words[i] & ~kept : words[i]));
  if (gone == 0) return Status();
  if (!hook_->rewind(gone))
    return Status::fixed(Code::cancelled,
                         "the rewind function of the session's logits hook refused: the session keeps its tokens");
  for (std::size_t i = n_tokens / 64; i < words.size(); ++i) words[i] = i == n_tokens / 64 ? words[i] & kept : 0;
  return Status();
}

Status Session::accept_last() {
  const std::size_t last = n_tokens_ - 1;
  mark_accepted(last, true);
  if (hook_->accept(token_data()[last])) return Status();
  mark_accepted(last, false);
  n_tokens_ = last;
  ++revision_;
  return Status::fixed(Code::cancelled, "the accept function of the session's logits hook refused: no token was added");
}

Result<std::int32_t> Session::sample(bool with_hook) {
  QINFER_TRY(check_samples());
  if (pending() != 0) return error(Code::state, "{} tokens are pending: evaluate them before sampling", pending());
  if (has_skipped_logits()) return skipped_logits();
  if (n_logits_ == 0) return error(Code::state, "there are no logits: append tokens and evaluate them before sampling");
  if (n_tokens_ == memory_layout_.max_tokens)
    return error(Code::context_full, "the session holds {} tokens, its limit", n_tokens_);
  const platform::ScopedFloatEnvironment environment;
  const std::uint64_t begin = platform::now_ns();
  const std::uint32_t n_vocab = model().spec().n_vocab;
  const sampling::SamplerWorkspace workspace{
      {reinterpret_cast<float*>(memory_.data() + memory_layout_.sampler_logits), n_vocab},
      {reinterpret_cast<std::uint32_t*>(memory_.data() + memory_layout_.sampler_ids), n_vocab},
      {reinterpret_cast<std::uint32_t*>(memory_.data() + memory_layout_.sampler_counts), n_vocab}};
  auto sampled = sampling::sample(logits(0), tokens(), sampler_, {bias_data(), n_bias_}, workspace,
                                  hook_edit(with_hook ? hook_.get() : nullptr));
  if (!sampled.ok()) return explained(sampled.take_status());
  const std::int32_t token = sampled.value();
  tokens_.make_own(n_tokens_ * sizeof(std::int32_t));
  token_data()[n_tokens_++] = token;
  ++revision_;
  if (with_hook && hook_ != nullptr) QINFER_TRY(accept_last());
  const std::uint64_t elapsed = platform::now_ns() - begin;
  metrics_.sample_ns += elapsed;
  model().runtime().metrics().sample_ns += elapsed;
  return token;
}

}  // namespace qinfer::engine
