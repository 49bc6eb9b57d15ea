// reply_printer.cpp: see reply_printer.h.
#include "reply_printer.h"

#include <qinfer/qinfer.h>

#include <unistd.h>

#include <cstddef>
#include <cstdlib>

#include "support.h"

namespace cli {

Style::Style(bool wraps) : terminal_(isatty(STDOUT_FILENO) == 1), wraps_(wraps) {
  const char* terminal = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  colours_ = terminal_ && (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
             std::string_view(terminal) != "dumb";
}

std::string Style::harmless(std::string_view text) const {
  if (!terminal_) return std::string(text);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool in_c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F || in_c1)
      out += "\xEF\xBF\xBD";
    else
      out += text[i];
    if (in_c1) ++i;
  }
  return out;
}

std::string Style::dim(std::string_view text) const {
  return colours_ ? "\033[2m" + std::string(text) + "\033[0m" : std::string(text);
}

void Style::remark(std::string_view text) const { print(dim(wrapped(harmless(text), columns())) + "\n"); }

void Style::say(std::string_view text) const { print(wrapped(harmless(text), columns()) + "\n"); }

ReplyPrinter::ReplyPrinter(const Style& style, bool shows_reasoning)
    : style_(style), shows_reasoning_(shows_reasoning), wrap_([this](std::string_view text) {
        print(reasoning_ && !text.empty() ? style_.dim(text) : std::string(text));
      }) {}

void ReplyPrinter::print_part(std::int32_t kind, std::string_view text) {
  const bool reasoning = kind == QINFER_PART_REASONING;
  if (reasoning && !shows_reasoning_) return;
  if (reasoning != reasoning_) wrap_.flush();
  const bool answer_begins = reasoning_ && !reasoning;
  reasoning_ = reasoning;
  wrap_.set_columns(style_.columns());
  if (answer_begins) wrap_.add("\n\n");
  wrap_.add(style_.harmless(text));
  flush_output();
  if (!text.empty()) ends_line_ = text.ends_with('\n');
}

void ReplyPrinter::end() {
  wrap_.flush();
  if (!ends_line_) print("\n");
  flush_output();
}

}  // namespace cli
