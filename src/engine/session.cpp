// See session.h.
#include "engine/session.h"

#include <algorithm>
#include <cmath>

#include "platform/thread.h"

namespace qinfer::engine {

Result<std::shared_ptr<KvCache>> KvCache::create(std::shared_ptr<const Model> model, const KvCacheOptions& options) {
  if (!model->has_weights())
    return error(Code::state, "the model was loaded with QINFER_LOAD_NO_WEIGHTS: it can have no KV cache");
  std::shared_ptr<KvCache> cache(new KvCache);
  const Runtime& runtime = model->runtime();
  QINFER_ASSIGN(const KvLayout layout, resolve_kv(model->spec(), runtime.kernels(), runtime.exact(), options));
  QINFER_ASSIGN(const std::uint64_t blocks, resolve_blocks(model->spec(), layout, options));
  QINFER_ASSIGN(cache->pool_, kv::BlockPool::create(layout, blocks, options.commit, runtime.allocator()));
  cache->model_ = std::move(model);
  return cache;
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<KvCache> cache, const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session);
  const Model& model = cache->model();
  QINFER_ASSIGN(const SessionOptions resolved, resolve_session(model.spec(), options));
  session->layout_ =
      session_layout(model.spec(), model.max_token_bytes(), cache->layout(), resolved.max_tokens, resolved.max_logits);
  QINFER_ASSIGN(session->memory_,
                platform::Buffer::allocate(model.runtime().allocator(), session->layout_.bytes, "a session"));
  if (model.tokenizer() != nullptr) session->detokenizer_.emplace(*model.tokenizer(), false);
  session->cache_ = std::move(cache);
  return session;
}

Session::~Session() {
  if (n_blocks_ != 0) cache_->pool().give_back({table_data(), n_blocks_});
}

Status Session::append(std::span<const std::int32_t> tokens) {
  const std::uint32_t n_vocab = model().spec().n_vocab;
  if (tokens.size() > layout_.max_tokens - n_tokens_)  // first: a wrong n is not used to read the caller's memory
    return error(Code::context_full, "the session holds {} of at most {} tokens, {} more do not fit", n_tokens_,
                 layout_.max_tokens, tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<std::uint32_t>(tokens[i]) >= n_vocab)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "token {} at index {} is not in the vocabulary of {}", tokens[i], i, n_vocab);
  }
  std::copy(tokens.begin(), tokens.end(), token_data() + n_tokens_);
  n_tokens_ += tokens.size();
  return Status();
}

Status Session::truncate(std::size_t n_tokens) {
  if (n_tokens > n_tokens_)
    return error(Code::invalid_argument, "cannot truncate to {} tokens: the session holds {}", n_tokens, n_tokens_);
  n_tokens_ = n_tokens;
  // Nothing pending means that there are logits; after a cancelled evaluation there may be none.
  const bool ready = n_tokens == n_evaluated_ && (n_logits_ != 0 || n_tokens == 0);
  if (n_tokens > n_evaluated_ || ready) return Status();
  // The last token kept is evaluated again, since its logits are what the next token is drawn from.
  n_evaluated_ = n_tokens == 0 ? 0 : n_tokens - 1;
  n_logits_ = 0;
  release_spare_blocks();
  return Status();
}

bool Session::reserve_blocks(std::size_t n) {
  const std::size_t needed = cache_->layout().blocks_for(n_evaluated_ + n);
  if (needed <= n_blocks_) return true;
  if (!cache_->pool().take({table_data() + n_blocks_, needed - n_blocks_})) return false;
  n_blocks_ = needed;
  return true;
}

void Session::release_spare_blocks() {
  const std::size_t needed = cache_->layout().blocks_for(n_evaluated_);
  if (needed >= n_blocks_) return;
  cache_->pool().give_back({table_data() + needed, n_blocks_ - needed});
  n_blocks_ = needed;
}

float* Session::logits_row(std::size_t row) const {
  return reinterpret_cast<float*>(memory_.data() + layout_.logits) + row * model().spec().n_vocab;
}

std::span<const float> Session::logits(std::size_t back) const {
  if (back >= n_logits_) return {};
  return {logits_row(n_logits_ - 1 - back), model().spec().n_vocab};
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

Result<std::int32_t> Session::sample() {
  if (pending() != 0) return error(Code::state, "{} tokens are pending: evaluate them before sampling", pending());
  if (n_logits_ == 0) return error(Code::state, "there are no logits: append tokens and evaluate them before sampling");
  if (n_tokens_ == layout_.max_tokens)
    return error(Code::context_full, "the session holds {} tokens, its limit", n_tokens_);
  const platform::ScopedFloatEnvironment environment;
  const std::uint64_t begin = platform::now_ns();
  const std::uint32_t n_vocab = model().spec().n_vocab;
  const sampling::SamplerWorkspace workspace{
      {reinterpret_cast<float*>(memory_.data() + layout_.sampler_logits), n_vocab},
      {reinterpret_cast<std::uint32_t*>(memory_.data() + layout_.sampler_ids), n_vocab},
      {reinterpret_cast<std::uint32_t*>(memory_.data() + layout_.sampler_counts), n_vocab}};
  QINFER_ASSIGN(const std::int32_t token,
                sampling::sample(logits(0), tokens(), sampler_, {bias_data(), n_bias_}, workspace));
  token_data()[n_tokens_++] = token;
  const std::uint64_t elapsed = platform::now_ns() - begin;
  metrics_.sample_ns += elapsed;
  model().runtime().metrics().sample_ns += elapsed;
  return token;
}

}  // namespace qinfer::engine
