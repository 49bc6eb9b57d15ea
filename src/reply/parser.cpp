// See parser.h.
#include "reply/parser.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace qinfer::reply {
namespace {

constexpr int kMaxFailedAtEnd = 16;
constexpr std::size_t kMaxWasted = 4 * kMaxCallBytes;

/// Bytes at the end of `text` with which `marker` begins.
std::size_t beginning_of(std::string_view marker, std::string_view text) {
  if (marker.empty()) return 0;
  for (std::size_t n = std::min(marker.size() - 1, text.size()); n > 0; --n)
    if (text.ends_with(marker.substr(0, n))) return n;
  return 0;
}

std::size_t end_without_space(std::string_view text) {
  const std::size_t last = text.find_last_not_of(kSpace);
  return last == std::string_view::npos ? 0 : last + 1;
}

/// 9 letters and digits, as the strictest templates want them.
std::string call_id(std::uint32_t index) { return format_text("call{:05}", index % 100000); }

}  // namespace

Parser::Parser(Setup setup)
    : syntax_(syntax_of(setup.format)),
      tools_(setup.calls ? std::move(setup.tools) : ToolList::none()),
      first_id_(setup.n_earlier_calls),
      text_(setup.one_call ? std::string() : std::move(setup.begun)),
      begun_(text_.size()),
      state_(setup.in_reasoning ? State::reasoning
             : setup.reasons    ? State::begin
                                : State::content),
      is_one_call_(setup.one_call),
      may_be_bare_(setup.calls && (setup.one_call || setup.format == Format::llama3) && !tools_.empty()) {
  // Functionary's replies begin with the name of what they call, also where that is nothing.
  if (setup.calls || setup.format == Format::functionary) return;
  syntax_.call = syntax_.unmarked = {};
  syntax_.ignored = {};
}

void Parser::push(std::string_view text) {
  if (at_ > text_.size() / 2) {
    text_.erase(0, at_);
    at_ = 0;
  }
  text_ += text;
  run();
}

void Parser::consume(std::size_t n) {
  at_ += n;
  consumed_ += n;
  searched_ -= std::min(searched_, n);
}

/// Counts n bytes that were read and will be again; false where these become too many.
bool Parser::may_waste(std::size_t n) {
  wasted_ += n;
  return wasted_ <= kMaxWasted + 16 * consumed_;
}

void Parser::finish() {
  at_end_ = true;
  run();
  if (!after_call_ && state_ != State::reasoning) add(PartKind::content, space_);
  space_.clear();
}

Part Parser::next() {
  if (parts_.empty()) return {};
  Part part = std::move(parts_.front());
  parts_.pop_front();
  return part;
}

bool Parser::has_content() const {
  if (in_reasoning()) return false;
  return !calls_.empty() || end_without_space(content_) != 0 || end_without_space(rest()) != 0;
}

void Parser::run() {
  while (at_ < text_.size() && step()) {
  }
}

/// Decides what comes next; false if more text is needed for that.
bool Parser::step() {
  switch (state_) {
    case State::begin: return begin();
    case State::reasoning: return read_reasoning();
    case State::after_reasoning: return skip_line_ends();
    case State::content: return read_content();
    case State::call: return read_marked();
  }
  return false;
}

/// Whether the reply begins with reasoning.
bool Parser::begin() {
  const std::size_t first = std::min(rest().find_first_not_of(kSpace), rest().size());
  const std::string_view text = rest().substr(first);
  if (!at_end_ && first <= kMaxSpaceBytes && syntax_.think.starts_with(text)) return false;
  if (first <= kMaxSpaceBytes && text.starts_with(syntax_.think)) {
    consume(first + syntax_.think.size());
    state_ = State::reasoning;
  } else {
    state_ = State::content;
  }
  return true;
}

bool Parser::read_reasoning() {
  const std::size_t end = rest().find(syntax_.think_end);
  if (end != std::string_view::npos) {
    add_reasoning(rest().substr(0, end));
    space_.clear();
    consume(end + syntax_.think_end.size());
    state_ = State::after_reasoning;
    return true;
  }
  const std::size_t held = at_end_ ? 0 : beginning_of(syntax_.think_end, rest());
  add_reasoning(rest().substr(0, rest().size() - held));
  consume(rest().size() - held);
  return false;
}

bool Parser::skip_line_ends() {
  consume(std::min(rest().find_first_not_of('\n'), rest().size()));
  if (at_ < text_.size()) state_ = State::content;
  return at_ < text_.size();
}

/// The first marker of a text, or its end. All markers of a family begin with the same character.
std::size_t Parser::find_marker(std::string_view text, std::string_view& marker) const {
  if (syntax_.call.empty()) return text.size();
  for (std::size_t at = text.find(syntax_.call.front()); at < text.size();
       at = text.find(syntax_.call.front(), at + 1)) {
    for (const std::string_view known : {syntax_.call, syntax_.unmarked, syntax_.ignored[0], syntax_.ignored[1]}) {
      if (known.empty() || !text.substr(at).starts_with(known)) continue;
      if (known == syntax_.unmarked && !names_tool(text.substr(at + known.size()))) continue;
      marker = known;
      return at;
    }
  }
  return text.size();
}

/// Whether the name of a tool and ">" are there, or may yet come.
bool Parser::names_tool(std::string_view text) const {
  text = text.substr(0, kMaxToolNameBytes + 1);  // no further, however much of the text has come
  const std::size_t end = text.find('>');
  return end != std::string_view::npos ? tools_.has(text.substr(0, end)) : !at_end_ && tools_.has_prefix(text);
}

/// Passes on content up to the next marker.
bool Parser::read_content() {
  if (may_be_bare_) return read_bare();
  std::string_view marker;
  const std::string_view text = rest();
  const std::size_t first = find_marker(text, marker);
  if (marker.empty()) {
    std::size_t held = 0;
    for (const std::string_view known : {syntax_.call, syntax_.unmarked, syntax_.ignored[0], syntax_.ignored[1]})
      if (!at_end_) held = std::max(held, beginning_of(known, text));
    add_content(text.substr(0, text.size() - held));
    consume(text.size() - held);
    return false;
  }
  add_content(text.substr(0, first));
  consume(first);
  if (marker == syntax_.call || marker == syntax_.unmarked) {
    state_ = State::call;
    marked_ = marker == syntax_.call;
    scan_ = {};
    scan_.at = searched_ - std::min(searched_, marker.size());
  } else {
    consume(marker.size());
  }
  return true;
}

/// A call without a marker, at the beginning of the content or after another call; otherwise it is content.
bool Parser::read_bare() {
  const std::string_view between = calls_.empty() ? kSpace : std::string_view("; \t\r\n");
  const std::size_t first = rest().find_first_not_of(between);
  if (first == std::string_view::npos && !at_end_ && rest().size() <= kMaxSpaceBytes) return false;
  // White space beyond the bound ends it, however much of the text has come.
  if (first <= kMaxSpaceBytes && first < rest().size() && rest()[first] == '{' &&
      may_be_bare_call(rest().substr(first))) {
    CallSearch search = read_bare_call(rest().substr(first), tools_, scan_);
    if (search.outcome == CallSearch::more && !at_end_ && rest().size() <= kMaxCallBytes) return false;
    if (search.outcome == CallSearch::found) return take(std::move(search), first);
    if (is_one_call_ && search.outcome == CallSearch::more && at_end_) {  // cut off: of a call that is no use to anyone
      consume(rest().size());
      return false;
    }
  }
  may_be_bare_ = false;
  return true;
}

/// A call whose marker is there.
bool Parser::read_marked() {
  const std::size_t marker = marked_ ? syntax_.call.size() : 0;
  CallSearch search = marked_ ? read_calls(syntax_.format, rest().substr(marker), at_end_, tools_, scan_)
                              : read_unmarked_call(rest(), at_end_, tools_, scan_);
  searched_ = std::max(searched_, scan_.at == 0 ? 0 : marker + scan_.at);
  if (search.outcome == CallSearch::more && rest().size() <= kMaxCallBytes) return false;
  if (search.outcome == CallSearch::found) return take(std::move(search), marker);
  state_ = State::content;
  // Of a call that is too long all that was held is content, of any other the marker alone: what follows it is looked
  // at again. At the end that is given up soon, or a reply of nothing but markers would be read once for each of them.
  const bool give_up = search.outcome == CallSearch::more || (at_end_ && ++failed_at_end_ > kMaxFailedAtEnd);
  const std::size_t least = marked_ ? marker : syntax_.unmarked.size();
  const std::size_t n = give_up ? rest().size() : least + (may_waste(search.size) ? 0 : search.size);
  add_content(rest().substr(begun_, n - begun_));
  begun_ = 0;
  consume(n);
  return true;
}

/// Consumes the calls that were found, and the `before` bytes in front of them.
bool Parser::take(CallSearch search, std::size_t before) {
  consume(before + search.size);
  state_ = State::content;
  scan_ = {};
  begun_ = 0;
  space_.clear();
  if (search.calls.empty()) return true;
  for (ToolCall& call : search.calls) add_call(std::move(call));
  after_call_ = true;
  may_be_bare_ = syntax_.format == Format::llama3 && !syntax_.call.empty() && !tools_.empty();
  return true;
}

void Parser::add(PartKind kind, std::string_view text) {
  if (text.empty()) return;
  (kind == PartKind::content ? content_ : reasoning_) += text;
  if (parts_.empty() || parts_.back().kind != kind) parts_.push_back({.kind = kind});
  parts_.back().text += text;
}

void Parser::add_content(std::string_view text) {
  const std::size_t end = end_without_space(text);
  if (end != 0) {
    // White space between a call and what follows it belongs to neither.
    if (!after_call_) add(PartKind::content, space_);
    const std::size_t begin = after_call_ ? text.find_first_not_of(kSpace) : 0;
    space_.clear();
    after_call_ = false;
    add(PartKind::content, text.substr(begin, end - begin));
  }
  space_ += text.substr(end);
}

/// Without the white space around it.
void Parser::add_reasoning(std::string_view text) {
  const std::size_t end = end_without_space(text);
  if (end != 0) {
    const std::size_t begin = reasoning_.empty() ? text.find_first_not_of(kSpace) : 0;
    if (!reasoning_.empty()) add(PartKind::reasoning, space_);
    space_.clear();
    add(PartKind::reasoning, text.substr(begin, end - begin));
  }
  space_ += text.substr(end);
}

void Parser::add_call(ToolCall call) {
  const auto index = static_cast<std::uint32_t>(calls_.size());
  parts_.push_back({PartKind::call, call.arguments, call.name, call_id(first_id_ + index), index});
  calls_.push_back(std::move(call));
}

std::string Parser::message() const {
  std::string out = R"({"role": "assistant", "content": )";
  if (content_.empty() && !calls_.empty() && syntax_.null_content)
    out += "null";
  else
    formats::append_json_string(content_, out);
  if (!reasoning_.empty()) {
    out += R"(, "reasoning_content": )";
    formats::append_json_string(reasoning_, out);
  }
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    out += i == 0 ? R"(, "tool_calls": [)" : ", ";
    out += format_text(R"({{"id": "{}", "type": "function", "function": {{"name": )",
                       call_id(first_id_ + static_cast<std::uint32_t>(i)));
    formats::append_json_string(calls_[i].name, out);
    out += R"(, "arguments": )";
    if (syntax_.text_arguments || calls_[i].is_code)
      formats::append_json_string(calls_[i].arguments, out);
    else
      out += calls_[i].arguments;
    out += "}}";
  }
  return out + (calls_.empty() ? "}" : "]}");
}

}  // namespace qinfer::reply
