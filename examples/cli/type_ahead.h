// type_ahead.h: what is typed while an answer comes.
#pragma once

namespace cli {

/// While it lives, what is typed does not show in the answer, and stays for the line that is read next; Ctrl-C does not
/// discard it. Does nothing where stdin is no terminal. One at a time.
class TypeAhead {
 public:
  TypeAhead();
  ~TypeAhead();
  TypeAhead(const TypeAhead&) = delete;
  TypeAhead& operator=(const TypeAhead&) = delete;

 private:
  bool held_ = false;
};

}  // namespace cli
