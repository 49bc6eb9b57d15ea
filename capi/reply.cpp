// Replies: content, reasoning and calls of tools out of a stream of tokens.
#include <qinfer/qinfer.h>

#include "engine/chat_reply.h"
#include "support.h"

using namespace qinfer;
using capi::guard;

namespace {

/// The rules for every call with a reply.
Status check_usable(const qinfer_reply* reply) {
  QINFER_REQUIRE(reply);
  return reply->model->runtime().check_process();
}

Result<reply::Format> reply_format(std::int32_t format) {
  if (format >= 0 && format <= reply::kLastFormat) return static_cast<reply::Format>(format);
  return error(Code::invalid_argument, "format is {}, expected a QINFER_REPLY_* from 0 to {}", format,
               reply::kLastFormat);
}

}  // namespace

extern "C" {

qinfer_status qinfer_reply_create(const qinfer_model* model, const char* conversation, size_t len,
                                  const qinfer_reply_options* options, qinfer_reply** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_REQUIRE(model);
    QINFER_TRY(model->impl->runtime().check_process());
    QINFER_ASSIGN(const std::string_view view, capi::text_argument(conversation, len, "conversation"));
    qinfer_reply_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_reply_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, QINFER_REPLY_NO_REASONING, "flags"));
    QINFER_ASSIGN(const reply::Format format, reply_format(o.format));
    QINFER_ASSIGN(const engine::ChatOptions chat, capi::chat_options(o.chat));
    auto reply = std::make_unique<qinfer_reply>();
    reply->model = model->impl;
    QINFER_ASSIGN(reply->impl, engine::ChatReply::create(model->impl, view, chat, format,
                                                         (o.flags & QINFER_REPLY_NO_REASONING) == 0));
    *out = reply.release();
    return Status();
  });
}

qinfer_status qinfer_reply_push(qinfer_reply* reply, qinfer_token token, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_TRY(check_usable(reply));
    const std::uint32_t n_vocab = reply->model->spec().n_vocab;
    if (token < 0 || static_cast<std::uint32_t>(token) >= n_vocab)
      return error(Code::invalid_argument, "token {} is not in the vocabulary of {}", token, n_vocab);
    return reply->impl->push(token);
  });
}

qinfer_status qinfer_reply_finish(qinfer_reply* reply, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_TRY(check_usable(reply));
    return reply->impl->finish();
  });
}

qinfer_status qinfer_reply_next(qinfer_reply* reply, qinfer_reply_part* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_TRY(check_usable(reply));
    QINFER_REQUIRE(out);
    QINFER_TRY(capi::copy_out(qinfer_reply_part{}, out, "qinfer_reply_part"));
    reply->part = reply->impl->next();
    const reply::Part& part = reply->part;
    qinfer_reply_part next = {};
    next.kind = static_cast<std::int32_t>(part.kind);
    if (part.kind != reply::PartKind::none) next.text = part.text.c_str();
    next.text_len = part.text.size();
    if (part.kind == reply::PartKind::call) {
      next.name = part.name.c_str();
      next.name_len = part.name.size();
      next.id = part.id.c_str();
      next.call = part.call;
    }
    return capi::copy_out(next, out, "qinfer_reply_part");
  });
}

qinfer_status qinfer_reply_message(const qinfer_reply* reply, char* json, size_t capacity, size_t* out_n,
                                   qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(check_usable(reply));
    return capi::copy_array<char>(reply->impl->message(), json, capacity, out_n);
  });
}

qinfer_status qinfer_reply_in_reasoning(const qinfer_reply* reply, int32_t* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = 0;
    QINFER_TRY(check_usable(reply));
    *out = reply->impl->in_reasoning() ? 1 : 0;
    return Status();
  });
}

qinfer_status qinfer_reply_reasoning_end(const qinfer_reply* reply, qinfer_token* tokens, size_t capacity,
                                         size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(check_usable(reply));
    return capi::copy_array<qinfer_token>(reply->impl->reasoning_end(), tokens, capacity, out_n);
  });
}

void qinfer_reply_free(qinfer_reply* reply) { capi::release(reply); }

}  // extern "C"
