// Tokenizer and incremental detokeniser.
#include <qinfer/qinfer.h>

#include <algorithm>

#include "support.h"

using namespace qinfer;
using capi::guard;

namespace {

Status no_tokenizer() { return error(Code::not_found, "the model directory has no tokenizer.json"); }

/// The parts that options name, checked against a text of `size` bytes.
Result<std::vector<Span>> content_of(const qinfer_tokenize_options& options, std::size_t size) {
  std::vector<Span> parts;
  if (options.n_content == 0) return parts;
  if (options.content == nullptr)
    return error(Code::invalid_argument, "content is NULL, but n_content is {}", options.n_content);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < options.n_content; ++i) {
    const qinfer_text_part& part = options.content[i];
    if (part.begin < at || part.end < part.begin || part.end > size)
      return error_at(Code::invalid_argument, static_cast<std::int64_t>(std::min<std::uint64_t>(i, INT64_MAX)),
                      "content[{}] is [{}, {}), expected a part of the text's {} bytes that begins at {} or later", i,
                      part.begin, part.end, size, at);
    at = part.end;
    if (part.begin < part.end)
      parts.push_back({static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.end)});
  }
  return parts;
}

/// Pushes or finishes on a copy, so that a buffer that is too small changes nothing.
template <typename Step>
Status detok_step(qinfer_detok& detok, char* text, std::size_t capacity, std::size_t* out_n, Step step) {
  text::Detokenizer next = detok.impl;
  const std::size_t n = step(next, std::span<char>(detok.text));
  QINFER_TRY(capi::copy_array<char>({detok.text.data(), n}, text, capacity, out_n));
  detok.impl = next;
  return Status();
}

}  // namespace

extern "C" {

qinfer_status qinfer_tokenize(const qinfer_model* model, const char* text, size_t len, uint32_t flags,
                              qinfer_token* tokens, size_t capacity, size_t* out_n, qinfer_error* err) {
  qinfer_tokenize_options options = {};
  options.struct_size = sizeof options;
  options.flags = flags;
  return qinfer_tokenize_with(model, text, len, &options, tokens, capacity, out_n, err);
}

qinfer_status qinfer_tokenize_with(const qinfer_model* model, const char* text, size_t len,
                                   const qinfer_tokenize_options* options, qinfer_token* tokens, size_t capacity,
                                   size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(model->impl->runtime().check_process());
    qinfer_tokenize_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_tokenize_options"));
    QINFER_TRY(capi::unknown_flags(
        o.flags, QINFER_TEXT_ADD_SPECIAL | QINFER_TEXT_PARSE_SPECIAL | QINFER_TEXT_PLAIN_CONTENT, "flags"));
    QINFER_ASSIGN(const std::string_view view, capi::text_argument(text, len, "text"));
    if (model->impl->tokenizer() == nullptr) return no_tokenizer();
    QINFER_ASSIGN(const std::vector<Span> content, content_of(o, view.size()));
    text::EncodeOptions encode;
    encode.add_special = (o.flags & QINFER_TEXT_ADD_SPECIAL) != 0;
    encode.parse_special = (o.flags & QINFER_TEXT_PARSE_SPECIAL) != 0;
    encode.content = content;
    encode.plain_content = (o.flags & QINFER_TEXT_PLAIN_CONTENT) != 0;
    encode.max_work = o.max_work;
    encode.cancel = capi::flag_of(o.cancel);
    std::vector<text::TokenId> ids;
    QINFER_TRY(model->impl->tokenizer()->encode(view, encode, ids));
    return capi::copy_array<qinfer_token>(ids, tokens, capacity, out_n);
  });
}

const char* qinfer_token_text(const qinfer_model* model, qinfer_token token, size_t* out_n) {
  if (out_n != nullptr) *out_n = 0;
  if (model == nullptr || out_n == nullptr || model->impl->tokenizer() == nullptr) return nullptr;
  if (token < 0 || static_cast<std::uint32_t>(token) >= model->impl->tokenizer()->size()) return nullptr;
  const std::string_view bytes = model->impl->tokenizer()->token_bytes(token);
  *out_n = bytes.size();
  return bytes.data() != nullptr ? bytes.data() : "";
}

uint32_t qinfer_token_flags(const qinfer_model* model, qinfer_token token) {
  if (model == nullptr) return 0;
  std::uint32_t flags = model->impl->is_end_token(token) ? std::uint32_t{QINFER_TOKEN_END} : 0u;
  const text::Tokenizer* tokenizer = model->impl->tokenizer();
  if (tokenizer == nullptr || token < 0 || static_cast<std::uint32_t>(token) >= tokenizer->size()) return flags;
  if (tokenizer->is_control(token)) flags |= QINFER_TOKEN_CONTROL;
  if (tokenizer->is_byte(token)) flags |= QINFER_TOKEN_BYTE;
  return flags;
}

qinfer_status qinfer_token_find(const qinfer_model* model, const char* text, size_t len, qinfer_token* out,
                                qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = -1;
    QINFER_REQUIRE(model);
    QINFER_TRY(model->impl->runtime().check_process());
    QINFER_ASSIGN(const std::string_view view, capi::text_argument(text, len, "text"));
    if (model->impl->tokenizer() == nullptr) return no_tokenizer();
    const std::optional<text::TokenId> id = model->impl->tokenizer()->find(view);
    if (!id) return error(Code::not_found, "the tokenizer has no entry \"{}\"", view);
    *out = *id;
    return Status();
  });
}

qinfer_status qinfer_model_end_tokens(const qinfer_model* model, qinfer_token* tokens, size_t capacity, size_t* out_n,
                                      qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(model->impl->runtime().check_process());
    std::vector<qinfer_token> ids = model->impl->spec().end_tokens;
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return capi::copy_array<qinfer_token>(ids, tokens, capacity, out_n);
  });
}

qinfer_status qinfer_model_chat_template(const qinfer_model* model, const char* name, char* text, size_t capacity,
                                         size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(model->impl->runtime().check_process());
    const std::string_view wanted = name != nullptr ? name : source::kDefaultChatTemplate;
    std::string names;
    for (const source::ChatTemplate& known : model->impl->chat_templates()) {
      if (known.name == wanted) return capi::copy_array<char>(known.text, text, capacity, out_n);
      names += names.empty() ? known.name : ", " + known.name;
    }
    const Status& status = model->impl->chat_template_status();
    if (!status.ok()) return error_at(status.code(), status.detail(), "{}", status.message());
    if (names.empty()) return error(Code::not_found, "the model has no chat template");
    return error(Code::not_found, "the model has no chat template \"{}\", but: {}", wanted, names);
  });
}

const char* qinfer_model_chat_template_name(const qinfer_model* model, size_t index) {
  if (model == nullptr || index >= model->impl->chat_templates().size()) return nullptr;
  return model->impl->chat_templates()[index].name.c_str();
}

qinfer_status qinfer_detok_create(const qinfer_model* model, qinfer_detok** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_REQUIRE(model);
    QINFER_TRY(model->impl->runtime().check_process());
    const text::Tokenizer* tokenizer = model->impl->tokenizer();
    if (tokenizer == nullptr) return no_tokenizer();
    std::vector<char> room(std::size_t{tokenizer->max_token_bytes()} * 3 + 16);
    *out = new qinfer_detok{model->impl, text::Detokenizer(*tokenizer, true), std::move(room)};
    return Status();
  });
}

qinfer_status qinfer_detok_push(qinfer_detok* detok, qinfer_token token, char* text, size_t capacity, size_t* out_n,
                                qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(detok);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(detok->model->runtime().check_process());
    const std::uint32_t n_vocab = detok->model->spec().n_vocab;
    if (token < 0 || static_cast<std::uint32_t>(token) >= n_vocab)
      return error(Code::invalid_argument, "token {} is not in the vocabulary of {}", token, n_vocab);
    return detok_step(*detok, text, capacity, out_n,
                      [token](text::Detokenizer& next, std::span<char> room) { return next.push(token, room); });
  });
}

qinfer_status qinfer_detok_finish(qinfer_detok* detok, char* text, size_t capacity, size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(detok);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(detok->model->runtime().check_process());
    return detok_step(*detok, text, capacity, out_n,
                      [](text::Detokenizer& next, std::span<char> room) { return next.finish(room); });
  });
}

void qinfer_detok_free(qinfer_detok* detok) { delete detok; }

}  // extern "C"
