// job.cpp: see job.h.
//
// Who owns what: a job's requests, generations and sessions are freed on the engine's thread when the choice has ended
// (Engine::take()), for a step may use them until then. Only cancelling is for other threads, under the job's lock.
#include "job.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "engine.h"

namespace server {
namespace {

/// Rows of logits of a session whose prompt's log probabilities are asked for.
constexpr std::uint32_t kPromptRows = 64;
constexpr std::uint32_t kMaxDraft = 8;
/// Of a schema, bytes. The time and the memory that a grammar takes grow with it.
constexpr std::size_t kMostSchema = 128 << 10;

template <typename Call>
void call(const Call& function) {
  qi::detail::FullError error;
  qi::detail::check(function(error.arg()), error);
}

int http_status_of(qinfer_status status) {
  switch (status) {
    case QINFER_E_INVALID_ARGUMENT:
    case QINFER_E_FORMAT:
    case QINFER_E_UNSUPPORTED:
    case QINFER_E_CONTEXT_FULL: return 400;
    case QINFER_E_NOT_FOUND: return 404;
    case QINFER_E_NO_MEMORY:
    case QINFER_E_KV_FULL:
    case QINFER_E_CANCELLED: return 503;
    default: return 500;
  }
}

std::string random_hex() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string text;
  for (int i = 0; i < 3; ++i)
    for (std::uint32_t word = random(), n = 0; n < 8; ++n, word >>= 4) text += kDigits[word & 15];
  return text;
}

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Refusal refusal_of(const qi::Error& error) {
  qinfer_error told = {};
  told.code = error.status();
  told.detail = error.detail();
  std::strncpy(told.message, error.what(), sizeof told.message - 1);
  std::string json(2048, '\0');
  std::size_t n = 0;
  if (qinfer_openai_error_json(&told, json.data(), json.size(), &n, nullptr) != QINFER_OK)
    return refusal(http_status_of(error.status()), "server_error", error.what());
  json.resize(n);
  return {http_status_of(error.status()), std::move(json)};
}

Job::Choice::~Choice() {
  qinfer_request_free(request);
  qinfer_generation_free(generation);
}

void Job::Choice::take(const qinfer_event& event) { job.engine_.take(*this, event); }

Job::Job(Engine& engine, std::int32_t kind, const std::string& body, Tenant tenant)
    : engine_(engine), tenant_(std::move(tenant)) {
  try {
    auto options = qi::options<qinfer_openai_options>();
    std::random_device random;
    options.seed = std::uint64_t{random()} << 32 | random();
    call([&](auto* error) {
      return qinfer_openai_request_create(engine.model_.native(), kind, body.data(), body.size(), &options, &request_,
                                          error);
    });
    info_ = qi::detail::filled<qinfer_openai_info>(
        [&](auto* out, auto* error) { return qinfer_openai_request_get_info(request_, out, error); });
    is_stream_ = (info_.flags & QINFER_OPENAI_STREAM) != 0;
    const std::uint32_t context = engine.context_tokens_;
    check_context(kind == QINFER_OPENAI_EMBEDDINGS ? std::min(engine.model_.info().embedding_tokens, context)
                                                   : context);
    check_choices();
    auto answer_options = qi::options<qinfer_openai_answer_options>();
    const std::string id = (kind == QINFER_OPENAI_CHAT ? "chatcmpl-" : "cmpl-") + random_hex();
    answer_options.id = id.c_str();
    answer_options.model = engine.name_.c_str();
    answer_options.created = seconds_since_1970();
    call([&](auto* error) { return qinfer_openai_answer_create(request_, &answer_options, &answer_, error); });
  } catch (const qi::Error& error) {
    qinfer_openai_request_free(request_);
    if (error.status() == QINFER_E_NOT_FOUND)  // a template: to clients 404 says that there is no such model
      throw refusal(400, "invalid_request_error", error.what());
    throw refusal_of(error);
  } catch (...) {
    qinfer_openai_request_free(request_);
    throw;
  }
}

/// Never is a prompt cut. The words are those that clients know such an error by.
void Job::check_context(std::uint32_t context) const {
  const bool draws = (info_.flags & QINFER_OPENAI_NO_NEW_TOKENS) == 0;
  const std::uint64_t prompt = info_.longest_prompt, wanted = draws ? std::max(info_.max_new_tokens, 1u) : 0;
  if (prompt + wanted <= context) return;
  throw refusal(400, "invalid_request_error",
                "This model's maximum context length is " + std::to_string(context) +
                    " tokens: " + std::to_string(prompt) + " of the prompt and " + std::to_string(wanted) +
                    " new ones do not fit, and nothing is cut",
                "context_length_exceeded");
}

void Job::compile() try {
  if (info_.schema_len > kMostSchema)
    throw refusal(400, "invalid_request_error",
                  "The schema has " + std::to_string(info_.schema_len) + " bytes, and at most " +
                      std::to_string(kMostSchema) + " are made a grammar");
  if (info_.schema != nullptr) grammar_ = engine_.grammars_.compile({info_.schema, info_.schema_len});
} catch (const qi::Error& error) {
  throw refusal_of(error);
}

void Job::check_choices() const {
  if (info_.kind == QINFER_OPENAI_EMBEDDINGS || info_.n_choices <= engine_.most_choices_) return;
  throw refusal(400, "invalid_request_error",
                "The request asks for " + std::to_string(info_.n_choices) +
                    " choices, those of all its prompts together, and at most " +
                    std::to_string(engine_.most_choices_) + " are taken here");
}

Job::~Job() {
  choices_.clear();
  qinfer_openai_answer_free(answer_);
  qinfer_openai_request_free(request_);
}

void Job::submit(OnBytes on_bytes) try {
  on_bytes_ = std::move(on_bytes);
  if ((info_.flags & QINFER_OPENAI_NO_NEW_TOKENS) != 0) count_prompts();
  if (info_.kind == QINFER_OPENAI_EMBEDDINGS) return embed();
  fetch();
  std::vector<std::unique_ptr<Choice>> choices;
  std::vector<Choice*> ready;
  for (std::uint32_t i = 0; i < info_.n_choices && !is_cancelled_; ++i) {
    choices.push_back(std::make_unique<Choice>(*this, i));
    if (begin(*choices.back())) ready.push_back(choices.back().get());
  }
  const Lock lock(mutex_);  // from now on the engine's thread may use them, and any other cancel
  choices_ = std::move(choices);
  if (is_cancelled_) return;
  if (ready.empty()) return give();
  submit_all(ready);
} catch (const qi::Error& error) {
  throw refusal_of(error);
}

/// All or none: those that were submitted before one is refused are cancelled.
void Job::submit_all(const std::vector<Choice*>& ready) {
  std::size_t n_submitted = 0;
  for (Choice* choice : ready) choice->keeps = shared_from_this();
  const Lock lock(engine_.mutex_);  // an end waits for it
  try {
    for (Choice* choice : ready) {
      auto options = qi::options<qinfer_request_options>();
      options.user = static_cast<Told*>(choice);
      call([&](auto* error) {
        return qinfer_scheduler_submit(engine_.scheduler_.native(), choice->generation, &options, &choice->request,
                                       error);
      });
      engine_.drawn_.insert(choice);
      ++n_submitted;
    }
  } catch (const qi::Error& error) {
    is_cancelled_ = true;
    for (std::size_t i = 0; i < n_submitted; ++i) qinfer_request_cancel(ready[i]->request);
    for (std::size_t i = n_submitted; i < ready.size(); ++i) ready[i]->keeps.reset();
    if (error.status() == QINFER_E_KV_FULL)  // it would never fit
      throw refusal(400, "invalid_request_error", error.what(), "context_length_exceeded");
    Refusal told = refusal_of(error);
    if (error.status() == QINFER_E_NO_MEMORY) told.status = 429;
    throw told;
  }
}

/// For a session that is evaluated here. Throws Refusal where the request is cancelled.
std::shared_ptr<Room> Job::wait_for_room(qi::Session& session) try {
  std::shared_ptr<Room> room = Room::ask(engine_, session, std::max(info_.longest_prompt, 1u));
  {
    const Lock lock(mutex_);
    room_ = room;
  }
  if (is_cancelled_) room->leave();
  if (room->wait()) return room;
  throw refusal(503, "server_error", "The request was cancelled");
} catch (const qi::Error& error) {
  if (error.status() == QINFER_E_KV_FULL)  // it would never fit
    throw refusal(400, "invalid_request_error", error.what(), "context_length_exceeded");
  Refusal told = refusal_of(error);
  if (error.status() == QINFER_E_NO_MEMORY) told.status = 429;
  throw told;
}

/// Puts the prompt into a session. Whether tokens are to be drawn.
bool Job::begin(Choice& choice) {
  const std::uint32_t context = engine_.context_tokens_;
  auto options = qi::options<qinfer_session_options>();
  options.max_tokens =
      info_.max_new_tokens == 0 ? context : std::min(context, info_.longest_prompt + info_.max_new_tokens);
  if ((info_.flags & QINFER_OPENAI_PROMPT_LOGPROBS) != 0)
    options.max_logits = std::min(info_.longest_prompt, kPromptRows);
  options.max_draft = kMaxDraft;
  options.prefix_space = tenant_.prefix_space;
  choice.session = std::make_unique<qi::Session>(engine_.cache_, options);
  if (grammar_ != nullptr) Grammars::install(grammar_, *choice.session);
  call([&](auto* error) {
    return qinfer_openai_generation_create(request_, choice.index, choice.session->native(), cancel_.native(),
                                           &choice.generation, error);
  });
  std::int32_t ended = 0;
  const bool evaluates = (info_.flags & QINFER_OPENAI_PROMPT_LOGPROBS) != 0;
  const InRoom room(evaluates ? wait_for_room(*choice.session) : nullptr);
  call(
      [&](auto* error) { return qinfer_openai_answer_begin(answer_, choice.index, choice.generation, &ended, error); });
  if (ended == 0) return true;
  qinfer_generation_free(std::exchange(choice.generation, nullptr));
  choice.session.reset();  // others need its blocks
  return false;
}

/// What is kept of its prompts, into the cache. Where that fails it is evaluated.
void Job::fetch() noexcept {
  if (engine_.keeper_ == nullptr || (info_.flags & QINFER_OPENAI_PROMPT_LOGPROBS) != 0) return;
  try {
    for (std::uint32_t i = 0; i < info_.n_prompts && !is_cancelled_; ++i) {
      std::vector<qi::Token> tokens(info_.longest_prompt);
      std::size_t n = 0;
      call([&](auto* error) {
        return qinfer_openai_request_tokens(request_, i, tokens.data(), tokens.size(), &n, error);
      });
      tokens.resize(n);
      engine_.keeper_->fetch(tokens, tenant_.name, tenant_.prefix_space);
    }
  } catch (const std::exception&) {
  }
}

/// Of an answer without new tokens.
void Job::count_prompts() {
  for (std::uint32_t i = 0; i < info_.n_prompts; ++i) {
    std::size_t n = 0;
    const qinfer_status status = qinfer_openai_request_tokens(request_, i, nullptr, 0, &n, nullptr);
    if (status == QINFER_OK || status == QINFER_E_BUFFER_TOO_SMALL) usage_.prompt += static_cast<std::uint32_t>(n);
  }
}

void Job::embed() {
  auto options = qi::options<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  options.max_tokens = info_.longest_prompt;
  qi::Session session(engine_.cache_, options);
  const InRoom room(wait_for_room(session));
  for (std::uint32_t i = 0; i < info_.n_prompts; ++i) {
    call([&](auto* error) {
      return qinfer_openai_answer_embed(answer_, i, session.native(), QINFER_POOL_DEFAULT, cancel_.native(), error);
    });
  }
  give();
}

void Job::cancel() {
  is_cancelled_ = true;
  cancel_.request();
  const Lock lock(mutex_);
  if (room_ != nullptr) room_->leave();
  for (const auto& choice : choices_) qinfer_request_cancel(choice->request);
}

void Job::pause(bool paused) {
  is_paused_ = paused;
  const Lock lock(mutex_);
  for (const auto& choice : choices_) qinfer_request_pause(choice->request, paused ? 1 : 0);
}

/// Of the first event, and of the first token.
void Job::note_use(const qinfer_event& event) {
  const double since = std::chrono::duration<double>(std::chrono::steady_clock::now() - arrived_).count();
  if (usage_.queue_s < 0) usage_.queue_s = since;
  if (usage_.first_token_s < 0 && event.kind == QINFER_EVENT_TOKEN) usage_.first_token_s = since;
}

void Job::note_end(Choice& choice, const qinfer_event& event) {
  usage_.finish = event.token.finish == QINFER_FINISH_LENGTH ? "length" : "stop";
  auto result = qi::options<qinfer_generate_result>();
  if (qinfer_generation_get_result(choice.generation, &result, nullptr) != QINFER_OK) return;
  usage_.prompt += result.prompt_tokens;
  usage_.cached += result.cached_tokens;
}

/// What a step has brought to a choice, on the engine's thread.
void Job::add(Choice& choice, const qinfer_event& event) {
  {  // what submit() has not taken back yet may be drawn already: nothing is given until it has ended
    const Lock lock(mutex_);
  }
  const bool is_end = event.kind == QINFER_EVENT_END;
  if (is_end && event.status != QINFER_OK && !choice.is_answered) {
    fail(event.status, event.message);
    choice.is_answered = true;
  } else if (!choice.is_answered && event.kind == QINFER_EVENT_TOKEN) {
    qi::detail::FullError error;
    std::int32_t ended = 0;
    is_stopped_ = event.token.finish == QINFER_FINISH_STOP;
    const qinfer_status status =
        qinfer_openai_answer_add(answer_, choice.index, choice.generation, &ended, error.arg());
    if (status != QINFER_OK) fail(status, error.text());
    choice.is_answered = ended != 0 || status != QINFER_OK;
    if (event.token.token >= 0) ++usage_.completion;
    if (choice.is_answered) note_end(choice, event);
    if (choice.is_answered) {  // nothing where it has ended itself
      const Lock lock(mutex_);
      qinfer_request_cancel(choice.request);
    }
  }
  if (!is_cancelled_) give();
}

/// The answer ends with this error, which is none of the client, whose request was accepted: a folder that has gone is
/// not a model that is not found. Where that finds no memory nothing more is given.
void Job::fail(qinfer_status status, const char* message) {
  qinfer_error failed = {};
  failed.code = http_status_of(status) == 503 ? status : QINFER_E_IO;
  failure_ = http_status_of(failed.code);
  usage_.finish = "error";
  std::strncpy(failed.message, engine_.folders().hidden(message).c_str(), sizeof failed.message - 1);
  if (qinfer_openai_answer_fail(answer_, &failed, nullptr) != QINFER_OK) is_cancelled_ = true;
}

/// Once all is given the ends of choices follow, which add nothing.
void Job::give() {
  if (is_complete_) return;
  std::string bytes(4096, '\0');
  std::size_t n = 0;
  std::int32_t complete = 0;
  const auto read = [&] {
    return qinfer_openai_answer_bytes(answer_, bytes.data(), bytes.size(), &n, &complete, nullptr);
  };
  qinfer_status status = read();
  if (status == QINFER_E_BUFFER_TOO_SMALL) bytes.resize(n), status = read();
  if (status != QINFER_OK) return;
  bytes.resize(n);
  is_complete_ = complete != 0;
  if (n != 0 || is_complete_) on_bytes_(std::move(bytes), is_complete_);
}

}  // namespace server
