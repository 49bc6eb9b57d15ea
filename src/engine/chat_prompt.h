// What a conversation becomes for a model: the text that its chat template makes of it, and the tokens of that text, in
// which nothing that people wrote is a control token.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "engine/model.h"
#include "formats/json.h"
#include "jinja/template.h"

namespace qinfer::engine {

struct ChatOptions {
  bool generation_prompt = false;            ///< unless the conversation has "add_generation_prompt"
  bool plain_content = false;                ///< text::EncodeOptions::plain_content
  std::optional<std::string> template_name;  ///< of the model; none: "tool_use" where that fits, else "default"
  std::optional<std::string> template_text;  ///< instead of the model's
  std::optional<std::string> now;            ///< "2026-11-22" or "2026-11-22T15:04:05"; none: the system's clock, UTC
  /// Messages may have the forms of OpenAI's interface (openai/conversation.h).
  bool openai_forms = false;
  CancelFlag cancel;
};

/// The source of the template that a conversation, a JSON object, is rendered with. QINFER_E_NOT_FOUND without one.
Result<std::string_view> chat_template_for(const Model& model, const formats::Json& conversation,
                                           const ChatOptions& options);

/// A JSON object with the template's variables.
Result<formats::JsonDocument> parse_conversation(std::string_view conversation, const ChatOptions& options);

/// `conversation`: a JSON object with the template's variables. bos_token and eos_token are the model's where it has
/// none. QINFER_E_NOT_FOUND without a template.
Result<jinja::Rendered> render_chat(const Model& model, const formats::Json& conversation, const ChatOptions& options);
Result<jinja::Rendered> render_chat(const Model& model, std::string_view conversation, const ChatOptions& options);

/// The ids of render_chat()'s text, with nothing around it.
Result<std::vector<text::TokenId>> tokenize_chat(const Model& model, std::string_view conversation,
                                                 const ChatOptions& options);
/// Of a model that has a tokenizer.
Result<std::vector<text::TokenId>> tokenize_rendered(const Model& model, const jinja::Rendered& rendered,
                                                     const ChatOptions& options);

}  // namespace qinfer::engine
