// See run.h.
#include "jinja/run.h"

#include <algorithm>
#include <cstring>

#include "text/utf8.h"

namespace qinfer::jinja {

Value Run::fail(std::string message, Code code) {
  if (!failed()) {
    code_ = code;
    message_ = std::move(message);
  }
  return {};
}

Value Run::raise(std::string message) {
  raised_ = !failed();
  return fail(std::move(message));
}

/// charge(), where there may be too many steps, or it is time to look.
bool Run::look_at_steps() {
  if (steps_ >= look_at_) {
    look_at_ = steps_ + kStepsUnseen;
    look();
  }
  if (steps_ <= limits_.steps) return !failed();
  fail(
      format_text("it takes more than {} steps, the most for this conversation; a template whose loops end takes fewer",
                  limits_.steps),
      Code::buffer_too_small);
  return false;
}

bool Run::look() {
  if (cancel_.requested()) fail("rendering was cancelled", Code::cancelled);
  return !failed();
}

bool Run::refuse_memory() {
  fail(
      format_text("its values take more than {} bytes, the most for this conversation; a template makes do with fewer, "
                  "shorter texts",
                  limits_.memory),
      Code::buffer_too_small);
  return false;
}

Value Run::text(std::string_view text, Marks marks, bool markup) {
  char* copy = array<char>(text.size());
  if (copy == nullptr) return text_in_place({}, marks);
  std::copy(text.begin(), text.end(), copy);
  Text made;
  made.data = copy;
  made.size = text.size();
  made.any = marks;
  made.markup = markup;
  return text_value(make(made));
}

Value Run::text_in_place(std::string_view text, Marks marks) {
  Text made;
  made.data = text.data();
  made.size = text.size();
  made.any = marks;
  return text_value(make(made));
}

Value Run::part(const Text& text, std::size_t from, std::size_t size) {
  Text made = text;
  made.data += from;
  made.size = size;
  made.buffer = nullptr;
  if (made.each != nullptr) {
    made.each += from;
    made.any = 0;
    for (std::size_t i = 0; i < size; ++i) made.any = static_cast<Marks>(made.any | made.each[i]);
    if (std::all_of(made.each, made.each + size, [&](Marks marks) { return marks == made.any; })) made.each = nullptr;
    charge(size / 64);
  }
  return text_value(make(made));
}

Value Run::list(std::span<const Value> items, Marks marks, Kind kind) {
  List list;
  if (Value* copy = items.empty() ? nullptr : array<Value>(items.size()); copy != nullptr) {
    std::uninitialized_copy(items.begin(), items.end(), copy);
    list.items = copy;
    list.size = items.size();
  }
  return list_value(make(list), marks, kind);
}

Value Run::view(const char* type, std::span<const Value> items, Marks marks) {
  Value value;
  value.kind = Kind::view;
  value.marks = marks;
  value.view = make(View{type, *list(items, marks).list});
  return value;
}

Value Run::iterator(const char* type, const char* function, std::span<const Value> items, Marks marks) {
  Value value;
  value.kind = Kind::iterator;
  value.marks = marks;
  value.iterator = make(Iterator{type, function, *list(items, marks).list, 0});
  return value;
}

Value Run::undefined(Missing::Reason reason, const Value& name, const char* object) {
  Value value;
  value.missing = make(Missing{reason, name, object});
  return value;
}

Value Run::undefined_hint(std::string_view hint) { return undefined(Missing::Reason::hint, text(hint, 0)); }

void TextBuilder::add(std::string_view text, Marks marks) {
  if (text.empty() || !run_.charge(text.size() / 64 + 1) || !open_.make_room(text_, text.size())) return;
  if (marks != marks_) {
    if (!text_.empty() && open_.make_room(changes_, 1)) changes_.push_back({text_.size(), marks_});
    marks_ = marks;
  }
  text_ += text;
}

void TextBuilder::add(const Text& text, std::size_t from, std::size_t size, Marks more) {
  if (text.each == nullptr) return add(text.view().substr(from, size), text.any | more);
  const std::size_t end = from + size;
  while (from < end && !run_.failed()) {
    std::size_t next = from + 1;
    while (next < end && text.each[next] == text.each[from]) ++next;
    add(text.view().substr(from, next - from), static_cast<Marks>(text.each[from] | more));
    from = next;
  }
}

void TextBuilder::pad(std::uint64_t n, std::string_view text, Marks marks) {
  if (text.empty() || n == 0) return;
  if (n > run_.limits().memory) {
    run_.can_take(run_.limits().memory + 1);
    return;
  }
  if (!run_.charge(n * text.size() / 64) || !open_.make_room(text_, n * text.size())) return;
  add(text, marks);
  for (std::uint64_t i = 1; i < n && run_.goes_on(); ++i) text_ += text;
}

void TextBuilder::add_char(char32_t code, Marks marks) {
  std::string bytes;
  text::append_char(bytes, code);
  add(bytes, marks);
}

Value TextBuilder::finish(bool markup) {
  run_.charge(text_.size() / 32);
  const Value value = run_.text(text_, marks_, markup);
  if (changes_.empty() || run_.failed()) return value;
  Marks* each = run_.array<Marks>(text_.size());
  if (each == nullptr) return value;
  Text made = *value.text;
  each_run([&](std::size_t begin, std::size_t end, Marks marks) {
    std::memset(each + begin, marks, end - begin);
    made.any = static_cast<Marks>(made.any | marks);
  });
  made.each = each;
  return text_value(run_.make(made));
}

bool Run::too_deep(int depth) {
  if (depth < kMaxValueDepth) return !charge(1);
  fail(format_text("lists and mappings are inside each other deeper than {} levels, which is the most", kMaxValueDepth),
       Code::buffer_too_small);
  return true;
}

}  // namespace qinfer::jinja
