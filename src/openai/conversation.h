// Conversations as programs for OpenAI's service send them, and the forms in which chat templates take them.
//
// The service's interface has several forms for one thing: a content is a text or a list of parts, arguments of a call
// are JSON as text (its own form) or an object (that of transformers' templates), what is absent may be null or an
// empty list. A template knows some of them, and writes rubbish, or fails, where it is given another: it prints a list
// as Python does, or writes JSON as a text in quotation marks. Which forms a template takes is found out by rendering
// small conversations with it (find_forms), once; conversations are then put into these forms (adapt).
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "formats/json.h"

namespace qinfer::openai {

enum class Role : std::uint8_t { system, user, assistant, tool };
inline constexpr std::size_t kRoles = 4;

/// What a template takes. What it takes in two forms stays as it is given.
struct TemplateForms {
  std::array<bool, kRoles> text{true, true, true, true};  ///< contents of a role as a text
  std::array<bool, kRoles> parts{};                       ///< and as a list of parts
  bool object_arguments = true;                           ///< of calls
  bool text_arguments = false;
  bool null_content = false;  ///< in a message that has calls
  bool empty_content = true;
  bool developer = false;  ///< the role of this name
};

/// Renders a conversation; nothing where the template fails.
using Render = std::function<std::optional<std::string>(const std::string& conversation)>;

/// `source`: the template's text. Where no form gives a good text, that of transformers' documentation is taken.
TemplateForms find_forms(std::string_view source, const Render& render);

/// The conversation, an object with messages and tools, in those forms; nothing where it is in them already. Members of
/// messages that are null, or an empty list of calls, are left out, and so are null and empty tools.
/// QINFER_E_INVALID_ARGUMENT for a part of a content that is no text, where the template takes texts alone.
Result<std::optional<std::string>> adapt(const formats::Json& conversation, const TemplateForms& forms);

/// QINFER_E_UNSUPPORTED, naming it, for a part of a content that is an image, sound or video: a template would write a
/// sign for it, which stands for nothing.
Status check_texts_alone(const formats::Json& conversation);

}  // namespace qinfer::openai
