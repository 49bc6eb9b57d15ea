// word_wrap.h: text that comes in pieces, broken between words where a line would reach the edge of a terminal.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace cli {

/// The columns that a text of UTF-8 takes; 2 for the wide characters of East Asia and most emoji. Needs use_utf8().
int columns_of(std::string_view text);

/// Makes LC_CTYPE one of UTF-8, as in a container it often is not: the width of characters and the line editor need it.
void use_utf8();

/// Columns of the terminal that stdout is; 0 if it is none or does not tell.
int terminal_columns();

/// Holds a word back until it ends, and writes it to the next line if this one has no room for it. Spaces where a line
/// is broken are left out. Lines of code between ``` are left to the terminal, so that they can be copied.
class WordWrap {
 public:
  using Write = std::function<void(std::string_view)>;

  explicit WordWrap(Write write) : write_(std::move(write)) {}

  /// 0: nothing is held back or broken.
  void set_columns(int columns) { columns_ = columns; }
  void add(std::string_view text);
  /// Writes what is held back; to be called at the end and before the text changes its look.
  void flush();

 private:
  void add_character(std::string_view character);
  void end_line();
  void end_word();

  Write write_;
  int columns_ = 0;
  int column_ = 0;          // of the next character
  std::string character_;   // the beginning of one whose other bytes have not come yet
  std::string spaces_;      // before word_
  std::string word_;        // held back
  std::string line_begin_;  // at most three characters of it
  int space_columns_ = 0, word_columns_ = 0;
  bool has_word_ = false;  // in this line
  bool in_code_ = false;
};

/// A text that is there as a whole.
std::string wrapped(std::string_view text, int columns);

}  // namespace cli
