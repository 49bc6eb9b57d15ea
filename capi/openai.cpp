// OpenAI's interface: requests and answers as bytes.
#include <qinfer/qinfer.h>

#include "engine/openai.h"
#include "generation.h"
#include "support.h"
#include "text/utf8.h"

using namespace qinfer;
using capi::guard;

struct qinfer_openai_request {
  std::shared_ptr<const engine::OpenAiRequest> impl;
  std::string unused;  ///< names, separated by spaces
};

struct qinfer_openai_answer {
  engine::OpenAiAnswer impl;
};

namespace {

Result<const engine::OpenAiRequest*> usable_request(const qinfer_openai_request* request) {
  QINFER_REQUIRE(request);
  QINFER_TRY(request->impl->model().runtime().check_process());
  return request->impl.get();
}

Status check_answer(const qinfer_openai_answer* answer) {
  QINFER_REQUIRE(answer);
  return answer->impl.request().model().runtime().check_process();
}

/// A generation of the choice, whose session is set up. n_drawn: of its last tokens, by an earlier generation.
Status begin_choice(const qinfer_openai_request& request, std::size_t choice, qinfer_session& session,
                    const qinfer_cancel* cancel, std::size_t n_drawn, qinfer_generation** out) {
  qinfer_reply* reply = nullptr;
  if (std::unique_ptr<engine::ChatReply> parser = request.impl->create_reply()) {
    reply = new qinfer_reply;
    reply->model = session.impl->cache().shared_model();
    reply->impl = std::move(parser);
  }
  const std::unique_ptr<qinfer_reply, void (*)(qinfer_reply*)> hold(reply, capi::release<qinfer_reply>);
  std::vector<std::string_view> stops;
  engine::GenerationOptions drawn = request.impl->generation_options(stops);
  drawn.n_drawn = n_drawn;
  auto handle =
      std::make_unique<qinfer_generation>(&session, reply, stops, capi::flag_of(cancel), request.impl, choice);
  QINFER_TRY(handle->begin(*session.impl, drawn));
  *out = handle.release();
  return Status();
}

/// The generation must be that of the choice.
Status check_answer(const qinfer_openai_answer* answer, std::size_t choice, const qinfer_generation& generation) {
  QINFER_TRY(check_answer(answer));
  if (generation.request.get() == &answer->impl.request() && generation.choice == choice) return Status();
  return error(Code::invalid_argument, "the generation is not of choice {} of this request", choice);
}

/// A text that may be null.
Result<std::string> text_of(const char* text, std::string_view name) {
  if (text == nullptr) return std::string();
  const std::string_view view(text);
  if (const std::size_t bad = text::find_invalid_utf8(view); bad != view.size())
    return error_at(Code::invalid_argument, static_cast<std::int64_t>(bad), "{} is not valid UTF-8 at byte {}", name,
                    bad);
  return std::string(view);
}

Result<openai::Kind> kind_of(std::int32_t kind) {
  if (kind >= QINFER_OPENAI_CHAT && kind <= QINFER_OPENAI_EMBEDDINGS) return static_cast<openai::Kind>(kind);
  return error(Code::invalid_argument, "kind is {}, expected QINFER_OPENAI_CHAT, _COMPLETION or _EMBEDDINGS", kind);
}

/// A failure as the host has it.
Status status_of(const qinfer_error& given) {
  return error_at(given.code < 0 ? static_cast<Code>(given.code) : Code::internal, given.detail, "{}",
                  std::string_view(given.message, strnlen(given.message, sizeof given.message)));
}

void tell(std::int32_t* out, bool value) {
  if (out != nullptr) *out = value ? 1 : 0;
}

}  // namespace

extern "C" {

qinfer_status qinfer_openai_request_create(const qinfer_model* model, int32_t kind, const char* json, size_t len,
                                           const qinfer_openai_options* options, qinfer_openai_request** out,
                                           qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_REQUIRE(model);
    QINFER_TRY(model->impl->runtime().check_process());
    QINFER_ASSIGN(const openai::Kind parsed, kind_of(kind));
    QINFER_ASSIGN(const std::string_view view, capi::text_argument(json, len, "json"));
    qinfer_openai_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_openai_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, 0, "qinfer_openai_options.flags"));
    engine::OpenAiOptions with;
    QINFER_ASSIGN(with.chat, capi::chat_options(o.chat));
    with.seed = o.seed;
    auto request = std::make_unique<qinfer_openai_request>();
    QINFER_ASSIGN(request->impl, engine::OpenAiRequest::create(model->impl, parsed, view, std::move(with)));
    for (const std::string& field : request->impl->request().unused)
      request->unused += (request->unused.empty() ? "" : " ") + field;
    *out = request.release();
    return Status();
  });
}

qinfer_status qinfer_openai_request_get_info(const qinfer_openai_request* request, qinfer_openai_info* out,
                                             qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    QINFER_ASSIGN(const engine::OpenAiRequest* impl, usable_request(request));
    const openai::Request& read = impl->request();
    qinfer_openai_info info = {};
    info.kind = static_cast<std::int32_t>(read.kind);
    info.flags = (read.stream ? std::uint32_t{QINFER_OPENAI_STREAM} : 0u) |
                 (impl->wants_prompt_logprobs() ? std::uint32_t{QINFER_OPENAI_PROMPT_LOGPROBS} : 0u);
    info.n_prompts = static_cast<std::uint32_t>(impl->n_prompts());
    info.n_choices = static_cast<std::uint32_t>(impl->n_choices());
    info.longest_prompt = static_cast<std::uint32_t>(impl->longest_prompt());
    info.max_new_tokens = read.max_tokens.value_or(0);
    if (read.max_tokens == 0U || read.kind == openai::Kind::embeddings) info.flags |= QINFER_OPENAI_NO_NEW_TOKENS;
    info.model = read.model.c_str();
    info.model_len = read.model.size();
    if (!read.schema.empty()) info.schema = read.schema.c_str();
    info.schema_len = read.schema.size();
    info.unused = request->unused.c_str();
    info.unused_len = request->unused.size();
    return capi::copy_out(info, out, "qinfer_openai_info");
  });
}

qinfer_status qinfer_openai_request_tokens(const qinfer_openai_request* request, size_t prompt, qinfer_token* tokens,
                                           size_t capacity, size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_ASSIGN(const engine::OpenAiRequest* impl, usable_request(request));
    if (prompt >= impl->n_prompts())
      return error(Code::invalid_argument, "prompt is {}, the request has {}", prompt, impl->n_prompts());
    return capi::copy_array<qinfer_token>(impl->prompt(prompt), tokens, capacity, out_n);
  });
}

void qinfer_openai_request_free(qinfer_openai_request* request) { delete request; }

qinfer_status qinfer_openai_generation_create(const qinfer_openai_request* request, size_t choice,
                                              qinfer_session* session, const qinfer_cancel* cancel,
                                              qinfer_generation** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_ASSIGN(const engine::OpenAiRequest* impl, usable_request(request));
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * used, capi::usable(session, exclusive));
    QINFER_TRY(impl->set_up(choice, *used));
    return begin_choice(*request, choice, *session, cancel, 0, out);
  });
}

qinfer_status qinfer_openai_generation_resume(const qinfer_openai_request* request, size_t choice,
                                              qinfer_session* session, const qinfer_cancel* cancel,
                                              qinfer_generation** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_ASSIGN(const engine::OpenAiRequest* impl, usable_request(request));
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * used, capi::usable(session, exclusive));
    QINFER_ASSIGN(const std::size_t n_drawn, impl->set_up_again(choice, *used));
    return begin_choice(*request, choice, *session, cancel, n_drawn, out);
  });
}

qinfer_status qinfer_openai_answer_create(const qinfer_openai_request* request,
                                          const qinfer_openai_answer_options* options, qinfer_openai_answer** out,
                                          qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_ASSIGN(const engine::OpenAiRequest* impl, usable_request(request));
    qinfer_openai_answer_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_openai_answer_options"));
    openai::AnswerHead head;
    QINFER_ASSIGN(head.id, text_of(o.id, "id"));
    QINFER_ASSIGN(head.model, text_of(o.model, "model"));
    if (o.model == nullptr) head.model = impl->request().model;
    head.created = o.created;
    *out = new qinfer_openai_answer{engine::OpenAiAnswer(request->impl, std::move(head))};
    return Status();
  });
}

qinfer_status qinfer_openai_answer_begin(qinfer_openai_answer* answer, size_t choice, qinfer_generation* generation,
                                         int32_t* out_ended, qinfer_error* err) {
  tell(out_ended, false);
  return capi::with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    QINFER_TRY(check_answer(answer, choice, *generation));
    QINFER_ASSIGN(const bool ended, answer->impl.begin(choice, impl, generation->cancelled));
    tell(out_ended, ended);
    return Status();
  });
}

qinfer_status qinfer_openai_answer_add(qinfer_openai_answer* answer, size_t choice, qinfer_generation* generation,
                                       int32_t* out_ended, qinfer_error* err) {
  tell(out_ended, false);
  return capi::with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    QINFER_TRY(check_answer(answer, choice, *generation));
    engine::ChatReply* reply = generation->reply != nullptr ? generation->reply->impl.get() : nullptr;
    QINFER_ASSIGN(const bool ended, answer->impl.add(choice, impl, reply, generation->event));
    tell(out_ended, ended);
    return Status();
  });
}

qinfer_status qinfer_openai_answer_embed(qinfer_openai_answer* answer, size_t prompt, qinfer_session* session,
                                         int32_t pooling, const qinfer_cancel* cancel, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_TRY(check_answer(answer));
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, capi::usable(session, exclusive));
    QINFER_ASSIGN(const auto kind, capi::pooling_of(pooling));
    return answer->impl.add_embedding(prompt, *impl, {kind}, capi::flag_of(cancel));
  });
}

qinfer_status qinfer_openai_answer_fail(qinfer_openai_answer* answer, const qinfer_error* error, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_TRY(check_answer(answer));
    QINFER_REQUIRE(error);
    answer->impl.answer().fail(status_of(*error));
    return Status();
  });
}

qinfer_status qinfer_openai_answer_bytes(qinfer_openai_answer* answer, char* bytes, size_t capacity, size_t* out_n,
                                         int32_t* out_complete, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    tell(out_complete, false);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(check_answer(answer));
    openai::Answer& impl = answer->impl.answer();
    QINFER_TRY(capi::copy_array<char>(impl.bytes(), bytes, capacity, out_n));
    impl.drop_bytes();
    tell(out_complete, impl.is_complete());
    return Status();
  });
}

void qinfer_openai_answer_free(qinfer_openai_answer* answer) { delete answer; }

qinfer_status qinfer_openai_error_json(const qinfer_error* error, char* json, size_t capacity, size_t* out_n,
                                       qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_REQUIRE(error);
    return capi::copy_array<char>(openai::error_json(status_of(*error)), json, capacity, out_n);
  });
}

}  // extern "C"
