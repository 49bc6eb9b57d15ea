// See format.h.
#include "reply/format.h"

#include <cstddef>

namespace qinfer::reply {
namespace {

/// In the order of their numbers, beginning with plain.
constexpr std::array<Syntax, kLastFormat> kSyntaxes = {{
    {.format = Format::plain},
    {.format = Format::hermes, .call = "<tool_call>", .unmarked = "<function=", .inside = {"</tool_call>"}},
    {.format = Format::llama3, .call = "<|python_tag|>"},
    {.format = Format::mistral,
     .call = "[TOOL_CALLS]",
     .inside = {"[ARGS]", "[CALL_ID]"},
     .think = "[THINK]",
     .think_end = "[/THINK]"},
    {.format = Format::deepseek,
     .call = "<｜tool▁call▁begin｜>",
     .ignored = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     .inside = {"<｜tool▁sep｜>", "<｜tool▁call▁end｜>"},
     .text_arguments = true,
     .null_content = true},
    {.format = Format::functionary, .call = ">>>", .text_arguments = true},
    {.format = Format::firefunction, .call = "functools", .text_arguments = true},
}};

/// What only the templates of one family hold, those first whose sign is the surest.
struct Sign {
  std::string_view text;
  Format format;
};
constexpr std::array kSigns = {
    Sign{"<｜tool▁call▁begin｜>", Format::deepseek},
    Sign{">>>all", Format::functionary},
    Sign{"functools[", Format::firefunction},
    Sign{"<tool_call>", Format::hermes},
    Sign{"[TOOL_CALLS]", Format::mistral},
    Sign{"<|python_tag|>", Format::llama3},
    Sign{"<|start_header_id|>ipython", Format::llama3},
};

}  // namespace

const Syntax& syntax_of(Format format) {
  return kSyntaxes[static_cast<std::size_t>(static_cast<std::int32_t>(format) - 1)];
}

Format find_format(std::string_view template_text) {
  for (const Sign& sign : kSigns)
    if (template_text.find(sign.text) != std::string_view::npos) return sign.format;
  return Format::plain;
}

}  // namespace qinfer::reply
