// line_editor.h: lines that a person types: with editing and history on a terminal (libedit, where it was there when
// qinfer was built), as they are otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cli {

class LineEditor {
 public:
  enum class Result { line, end, interrupted };

  /// `history_file`: where lines are kept from one run to the next; empty: nowhere.
  explicit LineEditor(std::string history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// What the Tab key completes.
  struct Completion {
    std::string given;               ///< the end of what stands before the cursor
    std::vector<std::string> whole;  ///< what may take its place
  };
  /// `before`: the line up to the cursor.
  using Completer = std::function<Completion(const std::string& before)>;
  void set_completer(Completer completer);

  /// One line, without its end. `interrupted`: Ctrl-C was pressed; `end`: Ctrl-D, or the end of the input.
  /// `text`: what stands in the line at first, where can_prefill().
  Result read(const std::string& prompt, std::string& line, const std::string& text = {});
  bool can_prefill() const { return terminal_ != nullptr; }
  /// Whether more input is there already, as after a paste of several lines.
  static bool has_more();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: no terminal, or no libedit
  std::string history_file_;
};

}  // namespace cli
