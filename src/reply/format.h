// How the families of models write what is not content in their replies: reasoning between two markers, calls of tools
// after another. Which family a model is of is told by its chat template, which writes earlier replies the same way.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace qinfer::reply {

/// The numbers are those of the C ABI.
enum class Format : std::int32_t {
  automatic = 0,     ///< the one that the template shows
  plain = 1,         ///< no calls
  hermes = 2,        ///< <tool_call>{"name": ..., "arguments": {...}}</tool_call>, or <function=...> inside; Qwen too
  llama3 = 3,        ///< {"name": ..., "parameters": {...}} as the whole reply, perhaps after <|python_tag|>
  mistral = 4,       ///< [TOOL_CALLS][{"name": ..., "arguments": {...}}], or [TOOL_CALLS]name[ARGS]{...}
  deepseek = 5,      ///< <｜tool▁call▁begin｜>function<｜tool▁sep｜>name, and JSON in a fence
  functionary = 6,   ///< >>>name, and JSON or code on the next lines; ">>>all" is content
  firefunction = 7,  ///< functools[{"name": ..., "arguments": {...}}]
};
inline constexpr std::int32_t kLastFormat = 7;

/// What is known of a family.
struct Syntax {
  Format format = Format::plain;
  std::string_view call{};                    ///< the marker before a call; empty where there is none
  std::string_view unmarked{};                ///< what a call of a known tool may begin with where that is missing
  std::array<std::string_view, 2> ignored{};  ///< markers around several calls, which say nothing
  std::array<std::string_view, 4> inside{};  ///< other markers of a call, which a tokenizer may hold control tokens for
  std::string_view think = "<think>", think_end = "</think>";
  /// What its chat template expects of earlier calls: arguments as a text, and null for content that is empty.
  bool text_arguments = false, null_content = false;
};

/// Of any format but `automatic`.
const Syntax& syntax_of(Format format);

/// The family whose calls a chat template writes; plain if it is none that is known.
Format find_format(std::string_view template_text);

}  // namespace qinfer::reply
