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
  QINFER_ASSIGN(cache->pool_, kv::BlockPool::create(layout, {blocks, options.commit, options.prefix, options.storage},
                                                    runtime.allocator()));
  cache->model_ = std::move(model);
  return cache;
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<KvCache> cache, const SessionOptions& options) {
  const Model& model = cache->model();
  QINFER_ASSIGN(const SessionOptions resolved, resolve_session(model.spec(), options));
  const SessionLayout layout = session_layout(model.spec(), model.max_token_bytes(), cache->layout(),
                                              cache->keeps_prefixes(), resolved.max_tokens, resolved.max_logits);
  return create(std::move(cache), layout);
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<KvCache> cache, const SessionLayout& layout) {
  std::unique_ptr<Session> session(new Session);
  const Model& model = cache->model();
  const platform::Allocator& allocator = model.runtime().allocator();
  session->layout_ = layout;
  QINFER_ASSIGN(session->memory_, platform::Buffer::allocate(allocator, layout.bytes, "a session"));
  QINFER_ASSIGN(session->tokens_, SharedBuffer::create(allocator, layout.tokens_bytes, "a session's tokens"));
  QINFER_ASSIGN(session->logits_, SharedBuffer::create(allocator, layout.logits_bytes, "a session's logits"));
  if (model.tokenizer() != nullptr) session->detokenizer_.emplace(*model.tokenizer(), false);
  if (cache->pool().is_contiguous()) {
    QINFER_ASSIGN(session->flat_, cache->pool().reserve_range(layout.max_blocks));
  }
  session->cache_ = std::move(cache);
  return session;
}

Result<std::unique_ptr<Session>> Session::fork() const {
  QINFER_ASSIGN(std::unique_ptr<Session> copy, create(cache_, layout_));
  copy->tokens_ = tokens_.share(std::move(copy->tokens_));
  copy->logits_ = logits_.share(std::move(copy->logits_));
  copy->n_tokens_ = n_tokens_;
  copy->n_evaluated_ = n_evaluated_;
  copy->n_logits_ = n_logits_;
  copy->n_named_ = n_named_;
  copy->origin_ = origin_;
  copy->sampler_ = sampler_;
  copy->n_bias_ = n_bias_;
  std::copy_n(table_data(), n_blocks_, copy->table_data());
  std::copy_n(name_data(), n_named_, copy->name_data());
  std::copy_n(bias_data(), n_bias_, copy->bias_data());
  cache_->pool().share({table_data(), n_blocks_});
  copy->n_blocks_ = n_blocks_;
  if (!copy->map_blocks(0, n_blocks_, true))
    return error(Code::no_memory, "the system maps no more memory: {} KV blocks of a fork cannot be shared", n_blocks_);
  return copy;
}

Session::~Session() {
  if (cache_ == nullptr) return;
  keep_blocks(0);
  if (flat_.data() != nullptr) cache_->pool().release_range(flat_);
}

bool Session::map_blocks(std::size_t first, std::size_t n, bool merged) {
  return flat_.data() == nullptr || cache_->pool().map(flat_, first, {table_data() + first, n}, merged);
}

void Session::keep_blocks(std::size_t n) {
  if (n >= n_blocks_) return;
  const std::uint64_t bytes = cache_->layout().block_bytes();
  if (flat_.data() != nullptr) flat_.unmap(n * bytes, (n_blocks_ - n) * bytes);
  cache_->pool().give_back({table_data() + n, n_blocks_ - n});
  n_blocks_ = n;
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
  tokens_.make_own(n_tokens_ * sizeof(std::int32_t));
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
  forget_names();
  if (n_evaluated_ == 0) origin_.clear();
  return Status();
}

std::span<const std::int32_t> Session::tokens_of_block(std::size_t block, std::size_t n_blocks) const {
  const std::size_t size = cache_->layout().block_tokens;
  return {token_data() + block * size, n_blocks * size};
}

void Session::forget_names() { n_named_ = std::min(n_named_, n_evaluated_ / cache_->layout().block_tokens); }

void Session::adopt_prefix(std::size_t keep) {
  kv::BlockPool& pool = cache_->pool();
  release_spare_blocks();
  const std::size_t size = cache_->layout().block_tokens, first = n_evaluated_ / size;
  if (!pool.keeps_prefixes() || n_evaluated_ % size != 0 || n_named_ != first || pending() < size + keep) return;
  const std::size_t most = (pending() - keep) / size;
  const kv::PrefixName parent = first == 0 ? kv::PrefixIndex::kStart : name_data()[first - 1];
  const std::size_t n =
      pool.adopt(parent, tokens_of_block(first, most), {table_data() + first, most}, {name_data() + first, most});
  n_blocks_ = first + n;
  if (!map_blocks(first, n, true)) return keep_blocks(first);  // no more mappings: it is computed instead
  n_named_ = first + n;
  n_evaluated_ += n * size;
  metrics_.cached_tokens += n * size;
  model().runtime().metrics().cached_tokens += n * size;
  eval_state.adopted = n;
}

void Session::drop_adopted() {
  const std::size_t n_tokens = eval_state.adopted * cache_->layout().block_tokens;
  n_evaluated_ -= n_tokens;
  metrics_.cached_tokens -= n_tokens;
  model().runtime().metrics().cached_tokens -= n_tokens;
  eval_state.adopted = 0;
  release_spare_blocks();
  forget_names();
}

void Session::advance(std::size_t n) {
  n_evaluated_ += n;
  if (cache_->keeps_prefixes() && origin_.empty()) publish_full_blocks();
}

void Session::publish_full_blocks() {
  kv::BlockPool& pool = cache_->pool();
  const std::size_t full = n_evaluated_ / cache_->layout().block_tokens;
  if (n_named_ == full) return;
  // What an equal sequence had published may have been evicted since; then the blocks of this one take its place.
  n_named_ = pool.count_current({name_data(), n_named_});
  for (; n_named_ < full; ++n_named_) {
    const kv::PrefixName parent = n_named_ == 0 ? kv::PrefixIndex::kStart : name_data()[n_named_ - 1];
    const kv::PrefixName name = pool.publish(parent, tokens_of_block(n_named_, 1), table_data()[n_named_]);
    if (name.generation == 0) return;  // evicted just now: next time
    name_data()[n_named_] = name;
  }
}

std::uint32_t Session::partial_block() const {
  const std::uint32_t size = cache_->layout().block_tokens;
  return n_evaluated_ % size == 0 ? kNoBlock : table_data()[n_evaluated_ / size];
}

std::size_t Session::blocks_needed(std::size_t n, std::size_t earlier) const {
  const std::size_t needed = cache_->layout().blocks_for(n_evaluated_ + n), held = n_blocks_;
  const std::uint32_t partial = partial_block();
  const bool copy = partial != kNoBlock && cache_->pool().holders(partial) > 1 + earlier;
  return (needed > held ? needed - held : 0) + (copy ? 1 : 0);
}

Code Session::reserve_blocks(std::size_t n) {
  kv::BlockPool& pool = cache_->pool();
  const std::size_t before = n_blocks_,
                    needed = std::max<std::size_t>(cache_->layout().blocks_for(n_evaluated_ + n), before);
  // The first of the new tokens may go to a block that holds others already and that is not this session's alone.
  const std::size_t partial = n_evaluated_ / cache_->layout().block_tokens;
  const bool copy = partial_block() != kNoBlock && n > 0 && !pool.make_writable(partial_block());
  std::uint32_t spare = 0;
  if (copy && !pool.take({&spare, 1})) return Code::kv_full;
  if (!pool.take({table_data() + before, needed - before})) {
    if (copy) pool.give_back({&spare, 1});
    return Code::kv_full;
  }
  n_blocks_ = needed;
  bool done = pool.back({table_data() + before, needed - before}) && map_blocks(before, needed - before, false);
  if (copy) {
    const std::byte* from = kv_view().k_tile(cache_->layout(), 0, 0,
                                             static_cast<std::uint32_t>(partial) * cache_->layout().tiles_per_block());
    done = done && pool.fill(spare, from) && (flat_.data() == nullptr || pool.map(flat_, partial, {&spare, 1}, false));
    if (done) std::swap(table_data()[partial], spare);
    pool.give_back({&spare, 1});
  }
  if (!done) keep_blocks(before);
  return done ? Code::ok : Code::no_memory;
}

void Session::release_spare_blocks() { keep_blocks(cache_->layout().blocks_for(n_evaluated_)); }

Session::KvBytes Session::kv_bytes() const {
  const std::size_t shared = cache_->pool().count_shared({table_data(), n_blocks_});
  const std::uint64_t bytes = cache_->layout().block_bytes();
  return {(n_blocks_ - shared) * bytes, shared * bytes, flat_.size()};
}

void Session::drop_logits() {
  n_logits_ = 0;
  logits_.make_own(0);
}

float* Session::logits_row(std::size_t row) const { return logits_.as<float>() + row * model().spec().n_vocab; }

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
  tokens_.make_own(n_tokens_ * sizeof(std::int32_t));
  token_data()[n_tokens_++] = token;
  const std::uint64_t elapsed = platform::now_ns() - begin;
  metrics_.sample_ns += elapsed;
  model().runtime().metrics().sample_ns += elapsed;
  return token;
}

}  // namespace qinfer::engine
