// Run: what one rendering has in hand: its memory, its bounds, the date it was given, and the error that ended it.
//
// Functions of a rendering report errors to the Run and return any value; the machine looks at failed() after each
// instruction. So no function holds a Result for each value that it computes with, and stack frames stay small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "jinja/limits.h"
#include "jinja/memory.h"
#include "jinja/template.h"
#include "jinja/value.h"

namespace qinfer::jinja {

class Run {
 public:
  Run(const Limits& limits, const Date* now, CancelFlag cancel) : limits_(limits), now_(now), cancel_(cancel) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool failed() const { return code_ != Code::ok; }
  /// Records an error unless there is one already. Returns an undefined value.
  Value fail(std::string message, Code code = Code::invalid_argument);
  /// The message of raise_exception(), which stands alone, without a place in the template.
  Value raise(std::string message);
  /// The error of using this undefined value.
  Value fail_undefined(const Value& value) { return fail(undefined_message(value)); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  bool is_raised() const { return raised_; }

  /// Counts steps, and looks now and then whether to stop; false, with an error, where there are too many or it is to.
  bool charge(std::uint64_t steps) {
    steps_ += steps;
    return steps_ < look_at_ && steps_ <= limits_.steps ? !failed() : look_at_steps();
  }
  /// The steps of looking at each of so many bytes, which is done afterwards.
  bool charge_bytes(std::uint64_t bytes) { return charge(bytes / 16 + 1); }
  std::uint64_t steps() const { return steps_; }
  /// In a loop over the characters of a text whose steps are counted: looks now and then whether to stop.
  bool goes_on() { return ++unseen_ % kStepsUnseen != 0 ? !failed() : look(); }
  /// Whether to stop at a value that is inside so many others, with an error; counts a step.
  bool too_deep(int depth);
  /// Whether so many bytes more are within the bound; false with an error.
  bool can_take(std::uint64_t bytes) {
    return (bytes <= limits_.memory && memory_.used() + open_ <= limits_.memory - bytes) || refuse_memory();
  }
  /// Memory of what is being built and no value yet, which counts like the values'.
  void open(std::uint64_t bytes) { open_ += bytes; }
  void close(std::uint64_t bytes) { open_ -= bytes; }
  const Limits& limits() const { return limits_; }
  const Date* now() const { return now_; }

  /// n values, or null with an error.
  template <typename T>
  T* array(std::uint64_t n) {
    if (!can_take(n * sizeof(T))) return nullptr;
    return memory_.array<T>(static_cast<std::size_t>(n));
  }
  /// One value.
  template <typename T>
  T* make(const T& value) {
    can_take(sizeof(T));
    return new (memory_.take(sizeof(T))) T(value);
  }

  /// A text that is copied.
  Value text(std::string_view text, Marks marks, bool markup = false);
  /// A text that stays where it is.
  Value text_in_place(std::string_view text, Marks marks);
  /// A part of a text, without a copy. A part of markup is markup.
  Value part(const Text& text, std::size_t from, std::size_t size);
  Value list(std::span<const Value> items, Marks marks, Kind kind = Kind::list);
  Value view(const char* type, std::span<const Value> items, Marks marks);
  Value iterator(const char* type, const char* function, std::span<const Value> items, Marks marks);
  Value undefined(Missing::Reason reason, const Value& name, const char* object = "");
  Value undefined_hint(std::string_view hint);

 private:
  static constexpr std::uint64_t kStepsUnseen = 4096;  ///< between two looks at the request to stop
  bool look();
  bool look_at_steps();
  bool refuse_memory();

  Limits limits_;
  const Date* now_;
  Memory memory_;
  CancelFlag cancel_;
  std::uint64_t steps_ = 0, look_at_ = 0, unseen_ = 0, open_ = 0;
  Code code_ = Code::ok;
  bool raised_ = false;
  std::string message_;
};

/// The memory of what a builder has, counted as long as the builder is there.
class OpenBytes {
 public:
  explicit OpenBytes(Run& run) : run_(run) {}
  ~OpenBytes() { run_.close(bytes_); }
  OpenBytes(OpenBytes&& other) noexcept : run_(other.run_), bytes_(std::exchange(other.bytes_, 0)) {}
  OpenBytes& operator=(OpenBytes&&) = delete;

  /// Makes room for n elements more in a vector or a text; false, with an error, where it would be too much. Old and
  /// new memory are there together for a moment.
  template <typename Elements>
  bool make_room(Elements& elements, std::uint64_t n) {
    constexpr std::uint64_t kEach = sizeof(typename Elements::value_type);
    const std::uint64_t capacity = elements.capacity(), needed = elements.size() + n;
    if (needed <= capacity) return true;
    const std::uint64_t wanted = needed > capacity + capacity / 2 ? needed : capacity + capacity / 2;
    if (wanted > run_.limits().memory / kEach || !run_.can_take(wanted * kEach)) {
      run_.can_take(run_.limits().memory + 1);
      return false;
    }
    elements.reserve(static_cast<std::size_t>(wanted));
    const std::uint64_t added = (elements.capacity() - capacity) * kEach;
    run_.open(added);
    bytes_ += added;
    return true;
  }

 private:
  Run& run_;
  std::uint64_t bytes_ = 0;
};

/// Collects the elements of a list.
class ListBuilder {
 public:
  explicit ListBuilder(Run& run) : run_(run), open_(run) {}
  void add(const Value& value) {
    if (run_.charge(1) && open_.make_room(items_, 1)) items_.push_back(value);
  }
  std::vector<Value>& items() { return items_; }
  Value finish(Marks marks, Kind kind = Kind::list) { return run_.list(items_, marks, kind); }
  Value generator(const char* function, Marks marks) { return run_.iterator("generator", function, items_, marks); }

 private:
  Run& run_;
  OpenBytes open_;
  std::vector<Value> items_;
};

/// Writes a text together with its marks.
class TextBuilder {
 public:
  explicit TextBuilder(Run& run) : run_(run), open_(run) {}
  void add(std::string_view text, Marks marks);
  /// With `more` marks for all of it.
  void add(const Text& text, Marks more = 0) { add(text, 0, text.size, more); }
  void add(const Text& text, std::size_t from, std::size_t size, Marks more = 0);
  /// n times the same.
  void pad(std::uint64_t n, std::string_view text, Marks marks);
  void add_char(char32_t code, Marks marks);
  std::size_t size() const { return text_.size(); }
  const std::string& bytes() const { return text_; }
  Value finish(bool markup = false);
  /// Calls visit(begin, end, marks) for each run of equal marks.
  template <typename Visit>
  void each_run(Visit visit) const {
    std::size_t begin = 0;
    for (const Change& change : changes_) {
      visit(begin, change.end, change.marks);
      begin = change.end;
    }
    if (text_.size() > begin) visit(begin, text_.size(), marks_);
  }

 private:
  struct Change {
    std::size_t end;
    Marks marks;
  };
  Run& run_;
  OpenBytes open_;
  std::string text_;
  std::vector<Change> changes_;  // where runs of equal marks end, but for the last
  Marks marks_ = 0;              // of the last run
};

}  // namespace qinfer::jinja
