// Requests of OpenAI's interface with a model: prompts become tokens, choices are set up in sessions and drawn, and
// what comes of it goes into the answer. openai/ has the forms, generation.h the drawing; nothing here knows of
// sockets.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/chat_prompt.h"
#include "engine/chat_reply.h"
#include "engine/generation.h"
#include "openai/answer.h"
#include "openai/request.h"

namespace qinfer::engine {

struct OpenAiOptions {
  ChatOptions chat;        ///< template and date
  std::uint64_t seed = 0;  ///< of requests that have none; each choice after the first adds 1
};

/// A request that was read, for one model. Never changes.
class OpenAiRequest {
 public:
  /// Errors as those of openai::read_request, and of the chat template and the tokenizer.
  static Result<std::shared_ptr<const OpenAiRequest>> create(std::shared_ptr<const Model> model, openai::Kind kind,
                                                             std::string_view json, OpenAiOptions options);

  const openai::Request& request() const { return request_; }
  const Model& model() const { return *model_; }
  std::size_t n_prompts() const { return prompts_.size(); }
  std::size_t n_choices() const { return prompts_.size() * request_.n; }
  std::span<const text::TokenId> prompt(std::size_t index) const { return prompts_[index]; }
  std::size_t longest_prompt() const;
  /// Rows of logits that a session is to keep, so that log probabilities of prompts are quick.
  bool wants_prompt_logprobs() const { return request_.echo && request_.logprobs; }

  /// Puts the prompt of a choice into the session, whose beginning stays where it is the same, with the sampler.
  Status set_up(std::size_t choice, Session& session) const;
  /// Of a session that has the prompt, and tokens that were drawn after it, perhaps in another process: the sampler
  /// alone. Returns how many were drawn.
  Result<std::size_t> set_up_again(std::size_t choice, Session& session) const;
  /// Of a chat; null for other kinds.
  std::unique_ptr<ChatReply> create_reply() const { return reply_ != nullptr ? reply_->clone() : nullptr; }
  /// What the choice is drawn with, but for the reply; refers to the request.
  GenerationOptions generation_options(std::vector<std::string_view>& stops) const;

 private:
  OpenAiRequest(std::shared_ptr<const Model> model, openai::Request request, OpenAiOptions options)
      : model_(std::move(model)), request_(std::move(request)), options_(std::move(options)) {}
  Status make_chat();
  Status make_prompts();
  Status check_choice(std::size_t choice) const;
  Status check_set_up(std::size_t choice, const Session& session) const;
  Status set_sampler(std::size_t choice, Session& session) const;

  std::shared_ptr<const Model> model_;
  openai::Request request_;
  OpenAiOptions options_;
  std::vector<std::vector<text::TokenId>> prompts_;
  std::unique_ptr<ChatReply> reply_;  ///< of a chat, as it begins
};

/// The answer of one request.
class OpenAiAnswer {
 public:
  OpenAiAnswer(std::shared_ptr<const OpenAiRequest> request, openai::AnswerHead head);

  /// Before the first step of a choice: with "echo" its prompt becomes text, and where log probabilities are asked for
  /// it is evaluated here, as many tokens at a time as the session keeps logits. Returns whether the choice has ended,
  /// because no token is asked for.
  Result<bool> begin(std::size_t choice, Generation& generation, const std::atomic<bool>* cancelled);
  /// Adds a step, which is then no more to be added: `event` is empty. Returns whether the choice has ended, which it
  /// may before the generation has: after one call where no others are wanted.
  Result<bool> add(std::size_t choice, Generation& generation, ChatReply* reply, GenerationEvent& event);
  /// Evaluates a prompt in a session that keeps embeddings; prompt by prompt.
  Status add_embedding(std::size_t prompt, Session& session, const Session::EmbeddingOptions& options,
                       const std::atomic<bool>* cancelled);

  const OpenAiRequest& request() const { return *request_; }
  openai::Answer& answer() { return answer_; }

 private:
  /// A token whose text is not known to be of the answer yet.
  struct Staged {
    std::int32_t token;
    double logprob;
    std::vector<std::int32_t> top;
    std::vector<double> top_logprobs;
    std::uint64_t offset;      ///< of its text, in characters
    std::uint64_t begin, end;  ///< of its text, in bytes since the generation began
    bool is_space, is_known;
  };
  /// Of one choice.
  struct Told {
    std::optional<text::Detokenizer> detokenizer;  ///< for the places of tokens in the text
    std::uint64_t offset = 0, end = 0;             ///< characters and bytes so far
    std::uint64_t given = 0;                       ///< bytes that the generation has given
    std::deque<Staged> staged;
    bool has_begun = false;
    bool evaluated_anew = false;  ///< the whole prompt, for its log probabilities
    /// Something of its text, where it has any.
    bool has_given(const Staged& one) const { return one.begin < given || one.end <= given; }
  };
  Status check(std::size_t choice, const Session& session) const;
  std::string text_of_prompt(std::size_t index) const;
  std::string_view bytes_of(std::int32_t token) const;
  Staged& stage(std::size_t choice, std::int32_t token);
  Status stage_prompt(std::size_t choice, Session& session, const std::atomic<bool>* cancelled);
  void stage_step(std::size_t choice, const GenerationEvent& step);
  void keep_staged(std::size_t choice, bool all);
  void drop_staged(std::size_t choice, bool spaces_alone);
  void add_parts(std::size_t choice, ChatReply& reply);
  void end(std::size_t choice, const Generation& generation, Finish finish);

  std::shared_ptr<const OpenAiRequest> request_;
  openai::Answer answer_;
  std::vector<Told> told_;
  std::vector<char> room_;  ///< for the text of a token
  std::size_t n_embeddings_ = 0;
};

}  // namespace qinfer::engine
