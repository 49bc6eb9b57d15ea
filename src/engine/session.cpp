// See session.h: tokens and logits.
#include "engine/session.h"

#include <algorithm>

#include "platform/thread.h"
#include "sampling/logprobs.h"

namespace qinfer::engine {

Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<KvCache> cache, const SessionOptions& options) {
  const Model& model = cache->model();
  QINFER_ASSIGN(const SessionLayout layout,
                plan_session(model.spec(), model.max_token_bytes(), cache->blueprint(), options));
  QINFER_ASSIGN(std::unique_ptr<Session> session, create(std::move(cache), layout));
  session->keys_.enter(options.prefix_space);
  return session;
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<KvCache> cache, const SessionLayout& layout) {
  std::unique_ptr<Session> session(new Session);
  const Model& model = cache->model();
  const platform::Allocator& allocator = model.runtime().allocator();
  session->layout_ = layout;
  QINFER_TRY(model.prepare_rope(layout.max_tokens));
  QINFER_ASSIGN(session->charge_, model.charge(layout.total_bytes(), "a session", [](std::uint64_t) {
    return std::string("fewer max_tokens or max_logits take less");
  }));
  QINFER_ASSIGN(session->memory_, platform::Buffer::allocate(allocator, layout.bytes, "a session"));
  QINFER_ASSIGN(session->tokens_, SessionTokens::create(allocator, layout.tokens_bytes));
  if (layout.logits_bytes != 0) {
    QINFER_ASSIGN(session->logits_, SharedBuffer::create(allocator, layout.logits_bytes, "a session's logits"));
  }
  if (model.tokenizer() != nullptr) session->detokenizer_.emplace(*model.tokenizer(), false);
  session->cache_ = std::move(cache);
  session->sampling_ = SessionSampling(session->layout_, session->memory_.data(), model.spec().n_vocab);
  QINFER_TRY(session->keys_.open(*session->cache_, session->layout_, session->memory_.data()));
  return session;
}

Result<std::unique_ptr<Session>> Session::fork() const {
  QINFER_ASSIGN(std::unique_ptr<Session> copy, create(cache_, layout_));
  copy->tokens_.share(tokens_);
  if (layout_.logits_bytes != 0) copy->logits_ = logits_.share(std::move(copy->logits_));
  copy->n_logits_ = n_logits_;
  copy->n_shown_ = n_shown_;
  if (layout_.embeddings) std::copy_n(embedding_data(), std::size_t{3} * model().spec().n_embd, copy->embedding_data());
  QINFER_TRY(copy->keys_.share(keys_));
  copy->drop_drafts();
  QINFER_TRY(copy->sampling_.copy(sampling_));  // last: after a hook's clone nothing fails
  return copy;
}

Status Session::check_room_for(std::span<const std::int32_t> tokens, std::size_t n_before) const {
  const std::uint32_t n_vocab = model().spec().n_vocab;
  if (tokens.size() > layout_.max_tokens - n_before)  // first: a wrong n is not used to read the caller's memory
    return error(Code::context_full, "the session holds {} of at most {} tokens, {} more do not fit", n_before,
                 layout_.max_tokens, tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<std::uint32_t>(tokens[i]) >= n_vocab)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "token {} at index {} is not in the vocabulary of {}", tokens[i], i, n_vocab);
  }
  return Status();
}

Status Session::append(std::span<const std::int32_t> tokens, std::uint32_t type) {
  QINFER_TRY(check_room_for(tokens, length()));
  if (type > 1 || (type != 0 && type >= model().spec().n_types))
    return error(Code::invalid_argument, "tokens of type {}: the model has {} types of tokens", type,
                 std::max(model().spec().n_types, 1u));
  if (tokens.empty()) return Status();
  if (type == 0 && tokens_.second_text() != SIZE_MAX)
    return error(Code::invalid_argument, "tokens of type 0 after those of type 1, which begin at index {}",
                 tokens_.second_text());
  // In an encoder every token sees all others: with more of them, all are evaluated again.
  if (!model().spec().causal) forget_everything();
  drop_drafts();
  tokens_.append(tokens, type);
  return Status();
}

Status Session::truncate(std::size_t n_tokens) {
  if (n_tokens > length())
    return error(Code::invalid_argument, "cannot truncate to {} tokens: the session holds {}", n_tokens, length());
  return cut(n_tokens, false);
}

Status Session::cut(std::size_t n_tokens, bool others_follow) {
  const bool cut = n_tokens < length();
  if (cut) QINFER_TRY(sampling_.rewind(n_tokens));
  drop_drafts();
  tokens_.truncate(n_tokens);
  forget_hidden(std::max(n_tokens, evaluated()));
  // Nothing pending means that there are logits, or an embedding; after a cancelled evaluation there may be none.
  const bool ready =
      n_tokens == evaluated() && (others_follow || n_logits() != 0 || n_tokens == 0 || !model().spec().causal);
  if (!model().spec().causal && cut) forget_everything();
  if (n_tokens > evaluated() || ready) return Status();
  // The last token kept is evaluated again, for its logits, from which the next token is drawn. Everything is evaluated
  // again where that is not possible: from a sum of hidden states no token can be subtracted, and a window that has
  // moved on has given back the blocks that the next token to be evaluated sees.
  const std::size_t next = others_follow || n_tokens == 0 ? n_tokens : n_tokens - 1;
  n_logits_ = 0;
  keys_.go_back(layout_.embeddings || !keys_.reach_back_from(next) ? 0 : next);
  return Status();
}

void Session::forget_everything() {
  n_logits_ = 0;
  keys_.go_back(0);
}

Result<std::size_t> Session::set_tokens(std::span<const std::int32_t> tokens) {
  QINFER_TRY(check_room_for(tokens, 0));
  const std::span<const std::int32_t> held = this->tokens();
  const auto n_same = static_cast<std::size_t>(
      std::mismatch(held.begin(), held.end(), tokens.begin(), tokens.end()).first - held.begin());
  const std::size_t n_kept = std::min(n_same, tokens_.second_text());  // all are of type 0 afterwards
  if (n_kept < length()) QINFER_TRY(cut(n_kept, n_kept < tokens.size()));
  QINFER_TRY(append(tokens.subspan(n_kept)));
  return n_kept;
}

void Session::draft(std::span<const std::int32_t> tokens) {
  drop_drafts();
  if (tokens.empty()) return;
  tokens_.draft(tokens);
  draft_begin_ = length();
}

void Session::drop_drafts() {
  tokens_.drop_drafts();
  forget_hidden(length());
}

void Session::forget_hidden(std::size_t n) {
  if (keys_.evaluated() <= n) return;
  n_logits_ -= std::min(n_logits_, keys_.evaluated() - n);
  keys_.go_back(n);
}

void Session::catch_up() {
  const std::size_t n = std::min(keys_.evaluated(), length()) - evaluated();
  if (n == 0) return;
  n_shown_ = evaluated() + n;
  keys_.advance(0, tokens().first(n_shown_));
  metrics_.decode_tokens += n;
  model().runtime().metrics().decode_tokens += n;
}

Status Session::append_drawn(std::int32_t token, bool with_hook) {
  const std::size_t position = length();
  const std::uint64_t revision = tokens_.revision();
  const bool was_guessed = tokens_.accept_draft(token);
  if (!was_guessed) {
    drop_drafts();
    tokens_.append({&token, 1});
  }
  if (with_hook && sampling_.hook() != nullptr)
    if (Status refused = sampling_.accept(position, token); !refused.ok()) {
      tokens_.undo_last(was_guessed, revision);
      return refused;
    }
  if (!was_guessed) return Status();
  const std::size_t place = position - draft_begin_;
  ++metrics_.accepted[place], ++model().runtime().metrics().accepted[place];
  return Status();
}

Status Session::show_to_hook(std::size_t position) {
  if (sampling_.hook() == nullptr || sampling_.accept(position, tokens()[position]).ok()) return Status();
  return error(Code::cancelled,
               "the accept function of the session's logits hook refused token {} of those drawn before", position);
}

void Session::drop_logits() {
  n_logits_ = 0;
  if (layout_.logits_bytes != 0) logits_.make_own(0);
}

HiddenStateRows Session::hidden_state_rows(std::int32_t first_row, std::int32_t n_rows) const {
  return {embedding_data(), first_row, n_rows, evaluated() == 0};
}

float* Session::logits_row(std::size_t row) const { return logits_.as<float>() + row * model().spec().n_vocab; }

std::span<const float> Session::logits(std::size_t back) const {
  if (back >= n_logits()) return {};
  return {logits_row(n_logits_ - n_hidden() - 1 - back), model().spec().n_vocab};
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
  if (!normalized.ok()) return keys_.explained(normalized.take_status());
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
  if (!normalized.ok()) return keys_.explained(normalized.take_status());
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

void Session::adopt_prefix(std::size_t keep) {
  eval_state_.adopted = keys_.adopt_prefix(tokens(), keep);
  if (eval_state_.adopted != 0) n_shown_ = keys_.evaluated();
  const std::size_t n = eval_state_.adopted * cache_->block_tokens();
  metrics_.cached_tokens += n;
  model().runtime().metrics().cached_tokens += n;
}

void Session::drop_adopted() {
  const std::size_t n = eval_state_.adopted * cache_->block_tokens();
  metrics_.cached_tokens -= n;
  model().runtime().metrics().cached_tokens -= n;
  keys_.drop_adopted(eval_state_.adopted);
  eval_state_.adopted = 0;
}

Status Session::set_sampler(const sampling::SamplerOptions& options) {
  QINFER_TRY(sampling_.set_options(options));
  if (!sampling::has_dry(options) || sampling_.has_own_breakers() || sampling_.breakers() != nullptr) return Status();
  return set_dry_breakers(std::nullopt);
}

Status Session::set_dry_breakers(const std::optional<std::vector<std::string>>& texts) {
  const std::vector<std::string> standard(std::begin(sampling::kDefaultBreakers), std::end(sampling::kDefaultBreakers));
  const std::vector<std::string>& wanted = texts ? *texts : standard;
  if (wanted.size() > sampling::kMaxBreakers)
    return error(Code::invalid_argument, "n is {}: more than {} sequence breakers", wanted.size(),
                 sampling::kMaxBreakers);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].empty() || wanted[i].size() > sampling::kMaxBreakerBytes)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(i),
                      "the sequence breaker at index {} has {} bytes, expected 1 to {}", i, wanted[i].size(),
                      sampling::kMaxBreakerBytes);
  const bool has_tokenizer = model().tokenizer() != nullptr;
  if (texts && !wanted.empty() && !has_tokenizer)
    return error(Code::not_found, "the model has no tokenizer, so it has no sequence breakers");
  sampling_.set_breakers(wanted.empty() || !has_tokenizer ? nullptr : model().dry_breakers(wanted), texts.has_value());
  return Status();
}

Status Session::check_samples() const { return model().spec().check_gives_logits(); }

Result<std::int32_t> Session::sample(bool with_hook) {
  QINFER_TRY(check_samples());
  if (pending() != 0) return error(Code::state, "{} tokens are pending: evaluate them before sampling", pending());
  if (has_skipped_logits()) return skipped_logits();
  if (n_logits_ == 0) return error(Code::state, "there are no logits: append tokens and evaluate them before sampling");
  if (length() == layout_.max_tokens)
    return error(Code::context_full, "the session holds {} tokens, its limit", length());
  const platform::ScopedFloatEnvironment environment;
  const std::uint64_t begin = platform::now_ns();
  auto drawn = sampling_.draw(logits(0), tokens(), with_hook);
  if (!drawn.ok()) return keys_.explained(drawn.take_status());
  const std::int32_t token = drawn.value();
  QINFER_TRY(append_drawn(token, with_hook));
  sampling_.keep_draw(length() - 1);
  const std::uint64_t elapsed = platform::now_ns() - begin;
  metrics_.sample_ns += elapsed;
  model().runtime().metrics().sample_ns += elapsed;
  return token;
}

}  // namespace qinfer::engine
