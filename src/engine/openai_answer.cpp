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
  if (request_->request().kind != openai::Kind::completion || !request_->request().logprobs) return;
  for (Told& told : told_) told.detokenizer.emplace(tokenizer, request_->request().echo);
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
  const openai::Request& request = request_->request();
  if (request.echo) {
    if (request_->wants_prompt_logprobs()) {
      Status status = add_prompt_logprobs(choice, generation.session(), cancelled);
      if (!status.ok()) {  // as if it had not begun
        answer_.drop_logprobs(choice);
        told_[choice].detokenizer->reset(true);
        told_[choice].offset = 0;
        QINFER_TRY(generation.session().set_tokens(request_->prompt(choice / request.n)).take_status());
        return status;
      }
      answer_.keep_logprobs(choice);
    }
    answer_.add_content(choice, text_of_prompt(choice / request.n));
  }
  const bool ends = request.max_tokens == 0U;
  if (ends) end(choice, generation, Finish::length);
  return ends;
}

/// Where the text of a token begins, in characters.
std::uint64_t OpenAiAnswer::place(std::size_t choice, std::int32_t token) {
  Told& told = told_[choice];
  if (!told.detokenizer) return 0;
  const std::string_view text(room_.data(), told.detokenizer->push(token, room_));
  return std::exchange(told.offset,
                       told.offset + static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char byte) {
                         return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
                       })));
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

/// From the first token on, since nothing of the cache has logits.
Status OpenAiAnswer::add_prompt_logprobs(std::size_t choice, Session& session, const std::atomic<bool>* cancelled) {
  const std::span<const text::TokenId> tokens = request_->prompt(choice / request_->request().n);
  const std::size_t n_top = std::min(*request_->request().logprobs, request_->model().spec().n_vocab);
  std::vector<std::int32_t> top(n_top);
  std::vector<double> top_logprobs(n_top);
  told_[choice].evaluated_anew = true;
  QINFER_TRY(session.truncate(0));
  answer_.add_logprobs(choice, {bytes_of(tokens[0]), 0}, {}, place(choice, tokens[0]), false);
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t n = std::min<std::size_t>(session.max_logits(), tokens.size() - at);
    QINFER_TRY(session.append(tokens.subspan(at, n)));
    QINFER_TRY(evaluate(session, n, cancelled));
    for (std::size_t row = 0; row < n && at + row + 1 < tokens.size(); ++row) {
      const std::size_t back = n - 1 - row;
      double logprob = 0;
      QINFER_TRY(session.logprobs(back, tokens.subspan(at + row + 1, 1), {&logprob, 1}));
      QINFER_TRY(session.top_logprobs(back, top, top_logprobs));
      add_logprobs(choice, tokens[at + row + 1], logprob, top, top_logprobs);
    }
    at += n;
  }
  return Status();
}

std::string_view OpenAiAnswer::bytes_of(std::int32_t token) const {
  const text::Tokenizer& tokenizer = *request_->model().tokenizer();
  return static_cast<std::size_t>(token) < tokenizer.size() ? tokenizer.token_bytes(token) : std::string_view();
}

void OpenAiAnswer::add_logprobs(std::size_t choice, std::int32_t token, double logprob,
                                std::span<const std::int32_t> top, std::span<const double> top_logprobs) {
  std::array<openai::LikelyToken, kMaxTop> likely;
  for (std::size_t i = 0; i < top.size(); ++i) likely[i] = {bytes_of(top[i]), top_logprobs[i]};
  answer_.add_logprobs(choice, {bytes_of(token), logprob}, {likely.data(), top.size()}, place(choice, token));
}

Result<bool> OpenAiAnswer::add(std::size_t choice, Generation& generation, ChatReply* reply, GenerationEvent& event) {
  QINFER_TRY(check(choice, generation.session()));
  if (answer_.has_ended(choice)) return true;
  const GenerationEvent step = std::exchange(event, {});
  // What is told is of the answer: no reasoning, and not the token that ends it.
  if (step.has_logprobs && !step.in_reasoning && !(step.is_late && step.token >= 0))
    add_logprobs(choice, step.token, step.logprob, step.top_tokens, step.top_logprobs);
  if (reply != nullptr) {
    add_parts(choice, *reply);
  } else if (!step.text.empty()) {
    answer_.keep_logprobs(choice);
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
  if (step.finish != Finish::stop && reply == nullptr) answer_.keep_logprobs(choice);
  end(choice, generation, generation.finish());
  return true;
}

void OpenAiAnswer::add_parts(std::size_t choice, ChatReply& reply) {
  for (reply::Part part = reply.next(); part.kind != reply::PartKind::none; part = reply.next()) {
    switch (part.kind) {
      case reply::PartKind::content:
        answer_.keep_logprobs(choice);
        answer_.add_content(choice, part.text);
        break;
      case reply::PartKind::reasoning:
        answer_.drop_logprobs(choice);
        answer_.add_reasoning(choice, part.text);
        break;
      case reply::PartKind::call:
        if (!request_->request().parallel_calls && answer_.n_calls(choice) != 0) break;
        answer_.keep_logprobs(choice);
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

Status OpenAiAnswer::add_embedding(std::size_t prompt, Session& session, Session::Pooling pooling,
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
  std::vector<float> values(session.model().spec().n_embd);
  QINFER_TRY(session.embedding(pooling, values));
  answer_.add_embedding(values, request_->prompt(prompt).size());
  ++n_embeddings_;
  return Status();
}

}  // namespace qinfer::engine
