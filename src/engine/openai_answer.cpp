// See openai.h: answers.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/eval.h"
#include "engine/openai.h"

namespace qinfer::engine {
namespace {

Status evaluate(Session& session, std::size_t keep_logits, const std::atomic<bool>* cancelled) {
  EvalOptions options;
  options.keep_logits = static_cast<std::uint32_t>(keep_logits);
  options.cancelled = cancelled;
  return eval(session, options);
}

}  // namespace

OpenAiAnswer::OpenAiAnswer(std::shared_ptr<const OpenAiRequest> request, openai::AnswerHead head)
    : request_(std::move(request)), answer_(request_->request(), std::move(head)), told_(request_->n_choices()) {
  const text::Tokenizer& tokenizer = *request_->model().tokenizer();
  room_.resize(std::size_t{3} * tokenizer.max_token_bytes() + 16);
  if (!request_->request().logprobs) return;
  // A reply begins a text, and so does a prompt; what follows a prompt does not.
  const bool begins = request_->request().kind == openai::Kind::chat || request_->request().echo;
  for (Told& told : told_) told.detokenizer.emplace(tokenizer, begins);
}

Status OpenAiAnswer::check(std::size_t choice, const Session& session) const {
  if (request_->request().kind == openai::Kind::embeddings)
    return error(Code::invalid_argument, "a request for embeddings has no choices that are drawn");
  if (choice >= request_->n_choices())
    return error(Code::invalid_argument, "choice is {}, the request has {}", choice, request_->n_choices());
  if (&session.model() != &request_->model())
    return error(Code::invalid_argument, "the request is for another model than the session");
  return Status();
}

Result<bool> OpenAiAnswer::begin(std::size_t choice, Generation& generation, const std::atomic<bool>* cancelled) {
  QINFER_TRY(check(choice, generation.session()));
  if (answer_.has_ended(choice)) return true;
  if (generation.n_new() != 0)
    return error(Code::state, "the generation has {} tokens: begin before its first step", generation.n_new());
  if (told_[choice].has_begun) return error(Code::state, "choice {} has begun already", choice);
  const openai::Request& request = request_->request();
  if (request.echo) {
    if (request_->wants_prompt_logprobs()) {
      Status status = stage_prompt(choice, generation.session(), cancelled);
      if (!status.ok()) {  // as if it had not begun
        told_[choice] = {};
        told_[choice].detokenizer.emplace(*request_->model().tokenizer(), true);
        QINFER_TRY(generation.session().set_tokens(request_->prompt(choice / request.n)).take_status());
      }
      generation.begin_anew();
      QINFER_TRY(std::move(status));
      keep_staged(choice, true);
      told_[choice].end = 0;
    }
    answer_.add_content(choice, text_of_prompt(choice / request.n));
  }
  told_[choice].has_begun = true;
  const bool ends = request.max_tokens == 0U;
  if (ends) end(choice, generation, Finish::length);
  return ends;
}

/// As it was given, or what its tokens are.
std::string OpenAiAnswer::text_of_prompt(std::size_t index) const {
  const openai::Prompt& given = request_->request().prompts[index];
  if (!given.is_tokens) return given.text;
  const text::Tokenizer& tokenizer = *request_->model().tokenizer();
  text::Detokenizer detokenizer(tokenizer);
  std::string text, room(room_.size(), 0);
  for (const text::TokenId token : given.tokens) text.append(room.data(), detokenizer.push(token, room));
  text.append(room.data(), detokenizer.finish(room));
  return text;
}

// ---- Log probabilities: a token is staged, and kept or dropped once it is known whose text its text is.

std::string_view OpenAiAnswer::bytes_of(std::int32_t token) const {
  const text::Tokenizer& tokenizer = *request_->model().tokenizer();
  return static_cast<std::size_t>(token) < tokenizer.size() ? tokenizer.token_bytes(token) : std::string_view();
}

OpenAiAnswer::Staged& OpenAiAnswer::stage(std::size_t choice, std::int32_t token) {
  Told& told = told_[choice];
  const std::string_view text(room_.data(), told.detokenizer->push(token, room_));
  Staged staged{token, 0, {}, {}, told.offset, told.end, told.end + text.size(), false, true};
  staged.is_space = text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  told.end = staged.end;
  told.offset += static_cast<std::uint64_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
  return told.staged.emplace_back(std::move(staged));
}

/// From the first token on, since nothing of the cache has logits.
Status OpenAiAnswer::stage_prompt(std::size_t choice, Session& session, const std::atomic<bool>* cancelled) {
  const std::span<const text::TokenId> tokens = request_->prompt(choice / request_->request().n);
  const std::size_t n_top = std::min(*request_->request().logprobs, request_->model().spec().n_vocab);
  told_[choice].evaluated_anew = true;
  QINFER_TRY(session.truncate(0));
  stage(choice, tokens[0]).is_known = false;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t n = std::min<std::size_t>(session.max_logits(), tokens.size() - at);
    QINFER_TRY(session.append(tokens.subspan(at, n)));
    QINFER_TRY(evaluate(session, n, cancelled));
    for (std::size_t row = 0; row < n && at + row + 1 < tokens.size(); ++row) {
      Staged& staged = stage(choice, tokens[at + row + 1]);
      staged.top.resize(n_top);
      staged.top_logprobs.resize(n_top);
      QINFER_TRY(session.logprobs(n - 1 - row, {&staged.token, 1}, {&staged.logprob, 1}));
      QINFER_TRY(session.top_logprobs(n - 1 - row, staged.top, staged.top_logprobs));
    }
    at += n;
  }
  return Status();
}

void OpenAiAnswer::stage_step(std::size_t choice, const GenerationEvent& step) {
  Told& told = told_[choice];
  told.given += step.text.size();
  if (!told.detokenizer || step.token < 0) return;
  Staged& staged = stage(choice, step.token);
  staged.logprob = step.logprob;
  staged.top.assign(step.top_tokens.begin(), step.top_tokens.end());
  staged.top_logprobs.assign(step.top_logprobs.begin(), step.top_logprobs.end());
  // What is told is of the answer: no reasoning, and not the token that ends it; but for an end token of a completion,
  // which is counted, and which programs that add up log probabilities need.
  const bool is_end_token = step.finish == Finish::end && request_->request().kind == openai::Kind::completion;
  const bool ends = step.is_late && step.token >= 0 && !is_end_token;
  if (step.in_reasoning || ends || !step.has_logprobs) told.staged.pop_back();
}

/// Those of whose text something was given, or all.
void OpenAiAnswer::keep_staged(std::size_t choice, bool all) {
  Told& told = told_[choice];
  std::array<openai::LikelyToken, kMaxTop> likely;
  for (; !told.staged.empty() && (all || told.has_given(told.staged.front())); told.staged.pop_front()) {
    const Staged& staged = told.staged.front();
    for (std::size_t i = 0; i < staged.top.size(); ++i) likely[i] = {bytes_of(staged.top[i]), staged.top_logprobs[i]};
    answer_.add_logprobs(choice, {bytes_of(staged.token), staged.logprob}, {likely.data(), staged.top.size()},
                         staged.offset, staged.is_known);
  }
}

/// Of those whose text was given: white space at the beginning alone, or all.
void OpenAiAnswer::drop_staged(std::size_t choice, bool spaces_alone) {
  Told& told = told_[choice];
  while (!told.staged.empty() && told.has_given(told.staged.front()) && (!spaces_alone || told.staged.front().is_space))
    told.staged.pop_front();
}

Result<bool> OpenAiAnswer::add(std::size_t choice, Generation& generation, ChatReply* reply, GenerationEvent& event) {
  QINFER_TRY(check(choice, generation.session()));
  if (answer_.has_ended(choice)) return true;
  const GenerationEvent step = std::exchange(event, {});
  stage_step(choice, step);
  if (reply != nullptr) {
    add_parts(choice, *reply);
  } else if (!step.text.empty()) {
    keep_staged(choice, false);
    answer_.add_content(choice, step.text);
  }
  const bool enough = !request_->request().parallel_calls && answer_.n_calls(choice) != 0;
  if (step.finish == Finish::none && !enough) return false;
  GenerationEvent rest;
  if (step.finish == Finish::none) generation.end(Finish::callback, rest);
  if (reply != nullptr && !enough) {
    QINFER_TRY(reply->finish());
    add_parts(choice, *reply);
  }
  // Tokens without text of their own belong to the answer; those that a stop text has cut away do not.
  if (reply == nullptr) keep_staged(choice, step.finish != Finish::stop);
  end(choice, generation, generation.finish());
  return true;
}

void OpenAiAnswer::add_parts(std::size_t choice, ChatReply& reply) {
  for (reply::Part part = reply.next(); part.kind != reply::PartKind::none; part = reply.next()) {
    switch (part.kind) {
      case reply::PartKind::content:
        // White space after reasoning and before content is of neither.
        if (part.text.find_first_of(" \t\r\n") != 0) drop_staged(choice, true);
        keep_staged(choice, false);
        answer_.add_content(choice, part.text);
        break;
      case reply::PartKind::reasoning:
        drop_staged(choice, false);
        answer_.add_reasoning(choice, part.text);
        break;
      case reply::PartKind::call:
        if (!request_->request().parallel_calls && answer_.n_calls(choice) != 0) break;
        drop_staged(choice, true);
        keep_staged(choice, false);
        answer_.add_call(choice, {part.id, part.name, part.text});
        break;
      case reply::PartKind::none: break;
    }
  }
}

void OpenAiAnswer::end(std::size_t choice, const Generation& generation, Finish finish) {
  const GenerationCounts counts = generation.counts();
  answer_.end(choice, finish == Finish::length ? openai::Ending::length : openai::Ending::stop,
              {counts.prompt_tokens, told_[choice].evaluated_anew ? 0 : counts.kept_tokens + counts.cached_tokens,
               counts.new_tokens, counts.reasoning_tokens});
}

Status OpenAiAnswer::add_embedding(std::size_t prompt, Session& session, const Session::EmbeddingOptions& options,
                                   const std::atomic<bool>* cancelled) {
  if (request_->request().kind != openai::Kind::embeddings)
    return error(Code::invalid_argument, "the request asks for no embeddings");
  if (&session.model() != &request_->model())
    return error(Code::invalid_argument, "the request is for another model than the session");
  if (prompt != n_embeddings_ || prompt >= request_->n_prompts())
    return error(Code::invalid_argument, "prompt is {}, the next of the request's {} is {}", prompt,
                 request_->n_prompts(), n_embeddings_);
  QINFER_TRY(session.set_tokens(request_->prompt(prompt)).take_status());
  if (session.pending() != 0) QINFER_TRY(evaluate(session, 0, cancelled));
  std::vector<float> values(request_->request().dimensions.value_or(session.model().spec().embedding_dims()));
  QINFER_TRY(session.embedding(options, values));
  answer_.add_embedding(values, request_->prompt(prompt).size());
  ++n_embeddings_;
  return Status();
}

}  // namespace qinfer::engine
