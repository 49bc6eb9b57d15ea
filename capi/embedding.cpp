// Embeddings: the tokens of a text, and its vector.
#include <qinfer/qinfer.h>

#include "engine/text_tokens.h"
#include "support.h"

using namespace qinfer;
using capi::guard;
using capi::usable;

namespace {

Result<const source::Prompt*> find_prompt(const engine::Model& model, std::string_view name) {
  if (const source::Prompt* prompt = model.prompts().find(name)) return prompt;
  std::string names;
  for (const source::Prompt& known : model.prompts().list) names += (names.empty() ? "" : ", ") + known.name;
  if (names.empty()) return error(Code::not_found, "the model's files have no prompts");
  return error(Code::not_found, "the model's files have no prompt \"{}\", but: {}", name, names);
}

}  // namespace

extern "C" {

qinfer_status qinfer_session_embedding(const qinfer_session* session, int32_t pooling, float* values, size_t capacity,
                                       size_t* out_n, qinfer_error* err) {
  qinfer_embedding_options options = {};
  options.struct_size = sizeof options;
  options.pooling = pooling;
  return qinfer_session_embedding_with(session, &options, values, capacity, out_n, err);
}

qinfer_status qinfer_session_embedding_with(const qinfer_session* session, const qinfer_embedding_options* options,
                                            float* values, size_t capacity, size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    qinfer_embedding_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_embedding_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, QINFER_EMBEDDING_UNSCALED, "qinfer_embedding_options.flags"));
    engine::Session::EmbeddingOptions parsed;
    QINFER_ASSIGN(parsed.pooling, capi::pooling_of(o.pooling));
    parsed.unscaled = (o.flags & QINFER_EMBEDDING_UNSCALED) != 0;
    const std::uint32_t dims = impl->model().spec().embedding_dims();
    if (o.dims > dims) return error(Code::invalid_argument, "dims is {}, the model's embeddings have {}", o.dims, dims);
    QINFER_TRY(impl->check_embedding());
    QINFER_TRY(capi::check_capacity(o.dims == 0 ? dims : o.dims, values, capacity, out_n));
    return impl->embedding(parsed, {values, *out_n});
  });
}

const char* qinfer_model_prompt_name(const qinfer_model* model, size_t index) {
  if (model == nullptr || index >= model->impl->prompts().list.size()) return nullptr;
  return model->impl->prompts().list[index].name.c_str();
}

const char* qinfer_model_default_prompt(const qinfer_model* model) {
  if (model == nullptr || model->impl->prompts().default_name.empty()) return nullptr;
  return model->impl->prompts().default_name.c_str();
}

qinfer_status qinfer_model_prompt(const qinfer_model* model, const char* name, char* text, size_t capacity,
                                  size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(name);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(model->impl->runtime().check_process());
    QINFER_ASSIGN(const source::Prompt* prompt, find_prompt(*model->impl, name));
    return capi::copy_array<char>(prompt->text, text, capacity, out_n);
  });
}

qinfer_status qinfer_embedding_tokenize(const qinfer_model* model, const char* text, size_t len,
                                        const qinfer_embedding_text_options* options, qinfer_token* tokens,
                                        size_t capacity, size_t* out_n, uint64_t* out_cut, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    if (out_cut != nullptr) *out_cut = 0;
    QINFER_TRY(model->impl->runtime().check_process());
    qinfer_embedding_text_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_embedding_text_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, QINFER_EMBED_TRUNCATE | QINFER_EMBED_PARSE_SPECIAL,
                                   "qinfer_embedding_text_options.flags"));
    QINFER_ASSIGN(const std::string_view view, capi::text_argument(text, len, "text"));
    if (o.prompt_name != nullptr && o.prompt != nullptr)
      return error(Code::invalid_argument, "both prompt_name and prompt are given, expected one of them");
    engine::TextOptions parsed;
    parsed.truncate = (o.flags & QINFER_EMBED_TRUNCATE) != 0;
    parsed.parse_special = (o.flags & QINFER_EMBED_PARSE_SPECIAL) != 0;
    parsed.max_tokens = o.max_tokens;
    parsed.cancel = capi::flag_of(o.cancel);
    if (o.prompt != nullptr) parsed.prompt = o.prompt;
    if (o.prompt_name != nullptr) {
      QINFER_ASSIGN(const source::Prompt* prompt, find_prompt(*model->impl, o.prompt_name));
      parsed.prompt = prompt->text;
    }
    QINFER_ASSIGN(const engine::TextTokens made, engine::text_tokens(*model->impl, view, parsed));
    QINFER_TRY(capi::copy_array<qinfer_token>(made.tokens, tokens, capacity, out_n));
    if (out_cut != nullptr) *out_cut = made.n_cut;
    return Status();
  });
}

}  // extern "C"
