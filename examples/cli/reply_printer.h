// reply_printer.h: how a conversation looks: colours where there are any, nothing that could act on the terminal, words
// that are not cut at its edge.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "word_wrap.h"

namespace cli {

/// How output looks. On a terminal with colours, reasoning and remarks are dimmed.
class Style {
 public:
  explicit Style(bool wraps);

  /// What a model writes must not move the cursor, set the window's title or ask the terminal for anything: on one, all
  /// control characters but the ends of lines and tabs are shown as U+FFFD.
  std::string harmless(std::string_view text) const;
  bool is_terminal() const { return terminal_; }
  std::string dim(std::string_view text) const;
  /// Columns after which a line is broken; 0: it is not.
  int columns() const { return terminal_ && wraps_ ? terminal_columns() : 0; }
  bool wraps() const { return wraps_; }
  void set_wraps(bool wraps) { wraps_ = wraps; }

  /// Prints a line about the conversation, dimmed.
  void remark(std::string_view text) const;
  /// Prints a text in words.
  void say(std::string_view text) const;

 private:
  bool terminal_, colours_, wraps_;
};

/// Writes the parts of a reply as they come.
class ReplyPrinter {
 public:
  ReplyPrinter(const Style& style, bool shows_reasoning);

  void print_part(std::int32_t kind, std::string_view text);
  void end();

 private:
  const Style& style_;
  const bool shows_reasoning_;
  bool reasoning_ = false, ends_line_ = true;
  WordWrap wrap_;
};

}  // namespace cli
