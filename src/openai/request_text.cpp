// See request.h: completions and embeddings.
#include <limits>

#include "openai/request_fields.h"

namespace qinfer::openai {
namespace {

using formats::Json;

bool is_token(const Json& value) {
  return value.is_integer() && value.integer() >= 0 && value.integer() <= std::numeric_limits<std::int32_t>::max();
}

constexpr std::string_view kPromptForms = "a text, a list of texts, a list of tokens, or a list of such lists";

Result<Prompt> tokens_of(std::string_view field, const Json& list) {
  Prompt prompt;
  prompt.is_tokens = true;
  prompt.tokens.reserve(list.size());
  for (const Json& token : list) {
    if (!is_token(token)) return wrong_value(field, token, "numbers of tokens");
    prompt.tokens.push_back(static_cast<std::int32_t>(token.integer()));
  }
  return prompt;
}

Prompt text_of(const Json& text) {
  Prompt prompt;
  prompt.text = text.text();
  return prompt;
}

Status read_prompts(std::string_view field, const Json* given, std::vector<Prompt>& prompts) {
  if (given == nullptr)
    return error_at(Code::format, -1, "request: \"{}\" is missing, expected {}", field, kPromptForms);
  if (given->is_string()) {
    prompts.push_back(text_of(*given));
    return Status();
  }
  if (!given->is_array() || given->size() == 0) return wrong_value(field, *given, kPromptForms);
  if (given->begin()->is_number()) {
    QINFER_ASSIGN(Prompt prompt, tokens_of(field, *given));
    prompts.push_back(std::move(prompt));
    return Status();
  }
  if (given->size() > kMaxPrompts)
    return error_at(Code::format, -1, "request: \"{}\" has {} elements, expected at most {}", field, given->size(),
                    kMaxPrompts);
  for (const Json& element : *given) {
    if (element.is_string()) {
      prompts.push_back(text_of(element));
    } else if (element.is_array() && element.size() != 0) {
      QINFER_ASSIGN(Prompt prompt, tokens_of(field, element));
      prompts.push_back(std::move(prompt));
    } else {
      return wrong_value(field, element, kPromptForms);
    }
  }
  return Status();
}

}  // namespace

Status read_completion(Fields& fields, Request& request) {
  QINFER_TRY(read_prompts("prompt", fields.find("prompt"), request.prompts));
  if (request.prompts.size() * request.n > kMaxAllChoices)
    return error_at(Code::format, -1, "request: \"n\" is {} for {} prompts, expected at most {} choices in all",
                    request.n, request.prompts.size(), kMaxAllChoices);
  QINFER_ASSIGN(const auto max_tokens, fields.integer("max_tokens", 0, std::numeric_limits<std::int32_t>::max()));
  request.max_tokens = static_cast<std::uint32_t>(max_tokens.value_or(16));
  QINFER_ASSIGN(const auto logprobs, fields.integer("logprobs", 0, kMaxTopLogprobs));
  if (logprobs) request.logprobs = static_cast<std::uint32_t>(*logprobs);
  QINFER_ASSIGN(const auto echo, fields.boolean("echo"));
  request.echo = echo.value_or(false);
  if (*request.max_tokens == 0 && !request.echo)
    return error_at(Code::format, -1, "request: \"max_tokens\" is 0 without \"echo\": there would be no answer");
  QINFER_ASSIGN(const auto best_of, fields.integer("best_of", 0, kMaxChoices));
  if (best_of && *best_of > request.n)
    return error(Code::unsupported, "request: \"best_of\" is {}, expected at most n, {}", *best_of, request.n);
  const Json* suffix = fields.find("suffix");
  if (suffix != nullptr && !(suffix->is_string() && suffix->text().empty()))
    return fields.refuse("suffix", "text is made after the prompt alone");
  return Status();
}

Status read_embeddings(Fields& fields, Request& request) {
  QINFER_TRY(read_prompts("input", fields.find("input"), request.prompts));
  QINFER_ASSIGN(const auto format, fields.text("encoding_format"));
  if (format && *format != "float" && *format != "base64")
    return error_at(Code::format, -1, "request: \"encoding_format\" is \"{}\", expected \"float\" or \"base64\"",
                    beginning_of(*format));
  request.base64 = format == "base64";
  QINFER_ASSIGN(const auto dimensions, fields.integer("dimensions", 1, std::numeric_limits<std::int32_t>::max()));
  if (dimensions) request.dimensions = static_cast<std::uint32_t>(*dimensions);
  return Status();
}

}  // namespace qinfer::openai
