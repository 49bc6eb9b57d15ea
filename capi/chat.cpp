// Chat templates: what a conversation becomes as text and as tokens.
#include <qinfer/qinfer.h>

#include "engine/chat_prompt.h"
#include "support.h"

using namespace qinfer;
using capi::guard;

namespace {

std::optional<std::string> text_of(const char* text) {
  return text != nullptr ? std::optional<std::string>(text) : std::nullopt;
}

}  // namespace

Result<engine::ChatOptions> capi::chat_options(const qinfer_chat_options* options) {
  qinfer_chat_options o;
  QINFER_TRY(capi::copy_in(options, o, "qinfer_chat_options"));
  QINFER_TRY(capi::unknown_flags(
      o.flags, QINFER_CHAT_GENERATION_PROMPT | QINFER_CHAT_PLAIN_CONTENT | QINFER_CHAT_OPENAI_FORMS, "flags"));
  engine::ChatOptions out;
  out.generation_prompt = (o.flags & QINFER_CHAT_GENERATION_PROMPT) != 0;
  out.plain_content = (o.flags & QINFER_CHAT_PLAIN_CONTENT) != 0;
  out.openai_forms = (o.flags & QINFER_CHAT_OPENAI_FORMS) != 0;
  out.template_name = text_of(o.template_name);
  out.template_text = text_of(o.template_text);
  out.now = text_of(o.now);
  out.cancel = capi::flag_of(o.cancel);
  return out;
}

extern "C" {

qinfer_status qinfer_chat_render(const qinfer_model* model, const char* conversation, size_t len,
                                 const qinfer_chat_options* options, char* text, size_t capacity, size_t* out_n,
                                 qinfer_text_part* content, size_t content_capacity, size_t* out_n_content,
                                 qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    if (out_n_content != nullptr) *out_n_content = 0;
    if (content != nullptr) QINFER_REQUIRE(out_n_content);
    QINFER_TRY(model->impl->runtime().check_process());
    QINFER_ASSIGN(const std::string_view view, capi::text_argument(conversation, len, "conversation"));
    QINFER_ASSIGN(const engine::ChatOptions used, capi::chat_options(options));
    QINFER_ASSIGN(const jinja::Rendered rendered, engine::render_chat(*model->impl, view, used));
    std::vector<qinfer_text_part> parts;
    parts.reserve(rendered.content.size());
    for (const Span& span : rendered.content) parts.push_back({span.begin, span.end});
    if (out_n_content != nullptr) {
      // Both lengths are told, and nothing is written unless there is room for both.
      *out_n = rendered.text.size();
      QINFER_TRY(capi::check_capacity(parts.size(), content, content_capacity, out_n_content));
      QINFER_TRY(capi::check_capacity(rendered.text.size(), text, capacity, out_n));
      QINFER_TRY(capi::copy_array<qinfer_text_part>(parts, content, content_capacity, out_n_content));
    }
    return capi::copy_array<char>(rendered.text, text, capacity, out_n);
  });
}

qinfer_status qinfer_chat_tokenize(const qinfer_model* model, const char* conversation, size_t len,
                                   const qinfer_chat_options* options, qinfer_token* tokens, size_t capacity,
                                   size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(model->impl->runtime().check_process());
    QINFER_ASSIGN(const std::string_view view, capi::text_argument(conversation, len, "conversation"));
    QINFER_ASSIGN(const engine::ChatOptions used, capi::chat_options(options));
    QINFER_ASSIGN(const std::vector<text::TokenId> ids, engine::tokenize_chat(*model->impl, view, used));
    return capi::copy_array<qinfer_token>(ids, tokens, capacity, out_n);
  });
}

}  // extern "C"
