// See reply_format.h.
#include "chat/reply_format.h"

#include <cstddef>

namespace qinfer::chat {
namespace {

/// In the order of their numbers, beginning with plain.
constexpr std::array<ReplySyntax, kLastReplyFormat> kSyntaxes = {{
    {.format = ReplyFormat::plain},
    {.format = ReplyFormat::hermes, .call = "<tool_call>", .unmarked = "<function=", .inside = {"</tool_call>"}},
    {.format = ReplyFormat::llama3, .call = "<|python_tag|>"},
    {.format = ReplyFormat::mistral,
     .call = "[TOOL_CALLS]",
     .inside = {"[ARGS]", "[CALL_ID]"},
     .think = "[THINK]",
     .think_end = "[/THINK]"},
    {.format = ReplyFormat::deepseek,
     .call = "<｜tool▁call▁begin｜>",
     .ignored = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     .inside = {"<｜tool▁sep｜>", "<｜tool▁call▁end｜>"},
     .text_arguments = true,
     .null_content = true},
    {.format = ReplyFormat::functionary, .call = ">>>", .text_arguments = true},
    {.format = ReplyFormat::firefunction, .call = "functools", .text_arguments = true},
}};

/// What only the templates of one family hold, those first whose sign is the surest.
struct Sign {
  std::string_view text;
  ReplyFormat format;
};
constexpr std::array kSigns = {
    Sign{"<｜tool▁call▁begin｜>", ReplyFormat::deepseek},
    Sign{">>>all", ReplyFormat::functionary},
    Sign{"functools[", ReplyFormat::firefunction},
    Sign{"<tool_call>", ReplyFormat::hermes},
    Sign{"[TOOL_CALLS]", ReplyFormat::mistral},
    Sign{"<|python_tag|>", ReplyFormat::llama3},
    Sign{"<|start_header_id|>ipython", ReplyFormat::llama3},
};

}  // namespace

const ReplySyntax& reply_syntax(ReplyFormat format) {
  return kSyntaxes[static_cast<std::size_t>(static_cast<std::int32_t>(format) - 1)];
}

ReplyFormat find_reply_format(std::string_view template_text) {
  for (const Sign& sign : kSigns)
    if (template_text.find(sign.text) != std::string_view::npos) return sign.format;
  return ReplyFormat::plain;
}

}  // namespace qinfer::chat
