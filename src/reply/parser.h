// A reply of a model, taken apart while it comes: content, reasoning and calls of tools.
//
// Text goes in in any pieces, and parts come out as soon as it is certain what they are: content and reasoning at once,
// but for what may be the beginning of a marker and for white space before one; a call when it is complete. How the
// pieces are cut changes nothing. What is not a call as the model's family writes it (format.h) is content,
// marker and all; so nothing that a model wrote is lost but white space around markers.
//
// Reading takes time in proportion to the text. After a marker that begins no call what follows it is read again, so
// what is read in vain has a bound (may_waste()); beyond it all that the call would have been is content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "reply/calls.h"
#include "reply/format.h"

namespace qinfer::reply {

/// A call that is longer is content.
inline constexpr std::size_t kMaxCallBytes = std::size_t{1} << 20;

enum class PartKind : std::int32_t { none = 0, content = 1, reasoning = 2, call = 3 };

struct Part {
  PartKind kind = PartKind::none;
  std::string text{};        ///< of a call its arguments
  std::string name{}, id{};  ///< of a call
  std::uint32_t call = 0;    ///< which one of the reply, from 0
};

struct Setup {
  Format format = Format::plain;  ///< not automatic
  bool in_reasoning = false;      ///< the prompt has begun it
  bool reasons = true;            ///< false: a marker of reasoning is content
  bool calls = true;              ///< false: so is one of a call
  bool one_call = false;          ///< the content is one call in JSON without a marker, of whatever family
  std::string begun;              ///< what of the reply the prompt holds: a marker, or nothing
  ToolList tools;
  std::uint32_t n_earlier_calls = 0;  ///< of the conversation, so that ids differ
};

class Parser {
 public:
  explicit Parser(Setup setup);

  void push(std::string_view text);
  /// Nothing follows: what was held back is decided. Then only next() and message() make sense.
  void finish();
  /// The next part that is known, of kind none if there is none yet.
  Part next();
  /// The reply so far as a message of a conversation, in JSON, written as the templates of its family expect it.
  std::string message() const;

  const Syntax& syntax() const { return syntax_; }
  /// Whether reasoning has begun and its end has not come.
  bool in_reasoning() const { return state_ == State::reasoning; }
  /// Whether something else than reasoning and white space has come.
  bool has_content() const;

 private:
  enum class State { begin, reasoning, after_reasoning, content, call };

  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  void run();
  bool step();
  bool begin();
  bool read_reasoning();
  bool skip_line_ends();
  bool read_content();
  std::size_t find_marker(std::string_view text, std::string_view& marker) const;
  bool names_tool(std::string_view text) const;
  bool read_bare();
  bool read_marked();
  bool take(CallSearch search, std::size_t before);
  void consume(std::size_t n);
  bool may_waste(std::size_t n);

  void add(PartKind kind, std::string_view text);
  void add_content(std::string_view text);
  void add_reasoning(std::string_view text);
  void add_call(ToolCall call);
  void next_call();

  Syntax syntax_;
  ToolList tools_;
  std::uint32_t first_id_;

  std::string text_;  // what is not decided yet, from at_ on
  std::size_t at_ = 0;
  std::size_t begun_;         // bytes of a marker that the prompt ends with, which are no content whatever follows
  std::size_t searched_ = 0;  // bytes from at_ on in which no end of a call begins
  std::size_t consumed_ = 0, wasted_ = 0;
  int failed_at_end_ = 0;
  State state_;
  bool at_end_ = false;
  bool is_one_call_;          // Setup::one_call
  bool may_be_bare_ = false;  // a call without a marker may begin
  bool after_call_ = false;   // nothing but white space since
  std::string space_;         // white space that is content only if something follows it
  CallScan scan_;             // of the call that has begun
  bool marked_ = true;        // after a marker

  std::deque<Part> parts_;
  std::string content_, reasoning_;
  std::vector<ToolCall> calls_;
};

}  // namespace qinfer::reply
