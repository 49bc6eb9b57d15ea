// See tags.h.
#include "reply/tags.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "reply/calls.h"

namespace qinfer::reply {
namespace {

constexpr std::string_view kParameterTag = "<parameter=", kParameterEnd = "</parameter>", kFunctionEnd = "</function>",
                           kCallEnd = "</tool_call>", kCallTag = "<tool_call>";

/// Whether a text begins with some tag; `unsure` while it may still become one.
enum class Begins { no, unsure, yes };

Begins begins_with(std::string_view text, std::string_view tag, bool at_end) {
  if (text.starts_with(tag)) return Begins::yes;
  return !at_end && tag.starts_with(text) ? Begins::unsure : Begins::no;
}

Begins begins_with_any(std::string_view text, std::initializer_list<std::string_view> tags, bool at_end) {
  Begins found = Begins::no;
  for (const std::string_view tag : tags) found = std::max(found, begins_with(text, tag, at_end));
  return found;
}

class TagReader {
 public:
  TagReader(std::string_view text, bool at_end, bool marked, const ToolList& tools, TagScan& scan)
      : text_(text), at_end_(at_end), marked_(marked), tools_(tools), scan_(scan) {}

  CallSearch run() {
    for (;;) {
      const auto outcome = step();
      if (!outcome) continue;
      if (*outcome == CallSearch::found) return call();
      CallSearch search;
      search.outcome = *outcome == CallSearch::more && at_end_ ? CallSearch::none : *outcome;
      search.size = scan_.at;
      return search;
    }
  }

 private:
  using Outcome = std::optional<CallSearch::Outcome>;
  using State = TagScan::State;

  std::string_view rest() const { return text_.substr(scan_.at); }
  /// What follows `at` and white space, unless that is too much of it.
  std::string_view after_space(std::size_t at) const {
    const std::string_view near = text_.substr(at, kMaxSpaceBytes + 1);
    const std::size_t first = std::min(near.find_first_not_of(kSpace), near.size());
    return text_.substr(first > kMaxSpaceBytes ? at : at + first);
  }
  std::size_t place_of(std::string_view part) const { return static_cast<std::size_t>(part.data() - text_.data()); }

  /// Reads on; nothing: there is a next step.
  Outcome step() {
    switch (scan_.state) {
      case State::function: return read_function();
      case State::between: return read_between();
      case State::value: return read_value();
      case State::after: return read_end();
    }
    return CallSearch::none;
  }

  /// What a tag such as <function= has before its ">"; moves beyond it.
  Outcome read_name(std::size_t at, std::string& name) {
    const std::string_view written = text_.substr(at, kMaxToolNameBytes + 1);
    const std::size_t end = written.find_first_of(">\n<");
    if (end == std::string_view::npos) {
      if (written.size() > kMaxToolNameBytes) return CallSearch::none;
      return CallSearch::more;
    }
    name = trim_space(written.substr(0, end));
    if (written[end] != '>' || name.empty()) return CallSearch::none;
    scan_.at = at + end + 1;
    return std::nullopt;
  }

  Outcome read_function() {
    const std::string_view tag = after_space(0);
    switch (begins_with(tag, kFunctionTag, at_end_)) {
      case Begins::no: return CallSearch::none;
      case Begins::unsure: return CallSearch::more;
      case Begins::yes: break;
    }
    if (const Outcome outcome = read_name(place_of(tag) + kFunctionTag.size(), scan_.tool)) return outcome;
    if (!marked_ && !tools_.has(scan_.tool)) return CallSearch::none;
    scan_.state = State::between;
    return std::nullopt;
  }

  Outcome read_between() {
    const std::string_view tag = after_space(scan_.at);
    if (tag.starts_with(kParameterTag)) {
      TagScan::Parameter parameter{};
      if (const Outcome outcome = read_name(place_of(tag) + kParameterTag.size(), parameter.key)) return outcome;
      if (!scan_.keys.insert(parameter.key).second) return CallSearch::none;
      parameter.begin = scan_.at;
      scan_.parameters.push_back(std::move(parameter));
      scan_.state = State::value;
      return std::nullopt;
    }
    if (tag.starts_with(kFunctionEnd)) {
      scan_.at = scan_.end = place_of(tag) + kFunctionEnd.size();
      scan_.state = State::after;
      return std::nullopt;
    }
    // The last tags are missing.
    if (!scan_.parameters.empty() && (tag.empty() ? at_end_ : marked_ && tag.starts_with(kCallEnd))) {
      scan_.end = place_of(tag);
      scan_.state = State::after;
      return std::nullopt;
    }
    const bool unsure =
        begins_with_any(tag, {kParameterTag, kFunctionEnd, kCallEnd}, at_end_) == Begins::unsure && !at_end_;
    return unsure ? CallSearch::more : CallSearch::none;
  }

  /// Whether the value ends with the tag at `at`.
  Begins ends_at(std::size_t at) const {
    const std::string_view tag = text_.substr(at);
    const std::size_t begin = scan_.parameters.back().begin;
    const bool on_lines = text_.substr(begin).starts_with('\n');
    const bool line_begins = at > begin && text_[at - 1] == '\n';
    Begins end = Begins::no;
    if (line_begins || !on_lines) {
      end = std::max(end, closes(tag, kParameterEnd, {kParameterTag, kFunctionEnd, kCallEnd}));
      if (marked_) {
        end = std::max(end, closes(tag, kFunctionEnd, {kCallEnd}));
      } else {
        end = std::max(end, closes(tag, kFunctionEnd, {kCallEnd, kCallTag, kFunctionTag}));
      }
    }
    return line_begins ? std::max(end, begins_parameter(tag)) : end;
  }

  /// Whether `tag` is there, and one of those that follow it or the end.
  Begins closes(std::string_view text, std::string_view tag, std::initializer_list<std::string_view> followers) const {
    const Begins there = begins_with(text, tag, at_end_);
    if (there != Begins::yes) return there;
    const std::string_view next = after_space(place_of(text) + tag.size());
    if (next.empty()) return at_end_ ? Begins::yes : Begins::unsure;
    return begins_with_any(next, followers, at_end_);
  }

  /// Whether another parameter of the tool begins.
  Begins begins_parameter(std::string_view text) const {
    const Begins there = begins_with(text, kParameterTag, at_end_);
    if (there != Begins::yes) return there;
    const std::string_view written = text.substr(kParameterTag.size(), kMaxToolNameBytes + 1);
    const std::size_t end = written.find_first_of(">\n<");
    if (end == std::string_view::npos)
      return written.size() <= kMaxToolNameBytes && !at_end_ ? Begins::unsure : Begins::no;
    const std::string_view key = trim_space(written.substr(0, end));
    const bool is_next = tools_.has_parameter(scan_.tool, key) && !scan_.keys.contains(key);
    return written[end] == '>' && is_next ? Begins::yes : Begins::no;
  }

  Outcome read_value() {
    for (;; ++scan_.at) {
      scan_.at = std::min(text_.find('<', scan_.at), text_.size());
      if (scan_.at == text_.size()) return CallSearch::more;
      const Begins end = ends_at(scan_.at);
      if (end == Begins::no) continue;
      if (end == Begins::unsure) return CallSearch::more;
      scan_.parameters.back().end = scan_.at;
      if (rest().starts_with(kParameterEnd)) scan_.at += kParameterEnd.size();
      scan_.state = State::between;
      return std::nullopt;
    }
  }

  /// The tag after the function's.
  Outcome read_end() {
    const std::string_view tag = after_space(scan_.end);
    const Begins end = tag.empty() && !at_end_ ? Begins::unsure : begins_with(tag, kCallEnd, at_end_);
    if (end == Begins::unsure) return CallSearch::more;
    if (end == Begins::yes) scan_.end = place_of(tag) + kCallEnd.size();
    return CallSearch::found;
  }

  /// A value stands on lines of its own. A closing tag beside its end, where others closed it, was meant to.
  std::string_view value_of(const TagScan::Parameter& parameter) const {
    std::string_view value = text_.substr(parameter.begin, parameter.end - parameter.begin);
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    if (!text_.substr(parameter.end).starts_with(kParameterEnd) && value.ends_with(kParameterEnd))
      value.remove_suffix(kParameterEnd.size());
    return value;
  }

  CallSearch call() const {
    CallSearch search;
    ToolCall call{.name = scan_.tool, .arguments = "{"};
    for (const TagScan::Parameter& parameter : scan_.parameters) {
      if (call.arguments.size() > 1) call.arguments += ", ";
      formats::append_json_string(parameter.key, call.arguments);
      call.arguments += ": " + tools_.value_of(call.name, parameter.key, value_of(parameter));
    }
    call.arguments += '}';
    search.outcome = CallSearch::found;
    search.size = scan_.end;
    search.calls.push_back(std::move(call));
    return search;
  }

  std::string_view text_;
  bool at_end_, marked_;
  const ToolList& tools_;
  TagScan& scan_;
};

}  // namespace

CallSearch read_tags(std::string_view text, bool at_end, bool marked, const ToolList& tools, TagScan& scan) {
  return TagReader(text, at_end, marked, tools, scan).run();
}

}  // namespace qinfer::reply
