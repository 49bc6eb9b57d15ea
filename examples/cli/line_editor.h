// line_editor.h: lines that a person types: with editing and history on a terminal (libedit, where it was there when
// qinfer was built), as they are otherwise.
#pragma once

#include <memory>
#include <string>

namespace cli {

class LineEditor {
 public:
  enum class Result { line, end, interrupted };

  /// `history_file`: where lines are kept from one run to the next; empty: nowhere.
  explicit LineEditor(std::string history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// One line, without its end. `interrupted`: Ctrl-C was pressed; `end`: Ctrl-D, or the end of the input.
  Result read(const std::string& prompt, std::string& line);
  /// Whether more input is there already, as after a paste of several lines.
  static bool has_more();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: no terminal, or no libedit
  std::string history_file_;
};

}  // namespace cli
