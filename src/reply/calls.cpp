// See calls.h.
#include "reply/calls.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/format.h"
#include "formats/json.h"

namespace qinfer::reply {
namespace {

using formats::Json;

constexpr std::size_t kMaxNameBytes = 256;
constexpr std::string_view kContentRecipient = "all", kCodeRecipient = "python";

/// The first character that is no white space; 0 if there is none within the bound.
char first_character(std::string_view text) {
  const std::size_t first = text.substr(0, kMaxSpaceBytes).find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? '\0' : text[first];
}

CallSearch more_unless(bool at_end) {
  CallSearch search;
  search.outcome = at_end ? CallSearch::none : CallSearch::more;
  return search;
}

/// `size`: bytes that were looked at to know that, where that is more than a few.
CallSearch no_call(std::size_t size = 0) {
  CallSearch search;
  search.outcome = CallSearch::none;
  search.size = size;
  return search;
}

/// Of a JSON value that begins at `at` and whose end is not there.
CallSearch no_end(const JsonEnd& json, std::size_t at, bool at_end) {
  return json.failed() ? no_call(at + json.looked_at()) : more_unless(at_end);
}

CallSearch found(std::size_t size, std::vector<ToolCall> calls) { return {CallSearch::found, size, std::move(calls)}; }

/// A JSON text with what models write unescaped inside of texts escaped: line ends and other control characters. In
/// `room` if there are any.
std::string_view with_escapes(std::string_view json, std::string& room) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  if (std::none_of(json.begin(), json.end(), is_control)) return json;
  bool in_string = false, escaped = false;
  for (const char c : json) {
    if (in_string && is_control(c)) {
      room += c == '\n'   ? std::string("\\n")
              : c == '\t' ? std::string("\\t")
                          : format_text("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      room += c;
    }
    if (c == '"' && !escaped) in_string = !in_string;
    escaped = in_string && c == '\\' && !escaped;
  }
  return room;
}

/// A JSON object, or nothing.
std::optional<formats::JsonDocument> parse_object(std::string_view text) {
  if (text.empty() || text.front() != '{') return std::nullopt;
  auto parsed = formats::parse_json(text, "call");
  if (!parsed.ok() || !parsed.value().root().is_object()) return std::nullopt;
  return std::move(parsed.value());
}

/// The text of a member as it is written; empty if there is none.
std::string_view written_member(std::string_view object, std::string_view key) {
  for (const JsonMember& member : json_members(object))
    if (member.key == key) return member.value;
  return {};
}

/// {"name": ..., "arguments" or "parameters": {...}}, perhaps inside {"function": ...}, or with "function" for the
/// name.
std::optional<ToolCall> call_of_object(std::string_view written, bool is_inside = false) {
  std::string room;
  const std::string_view text = with_escapes(trim_space(written), room);
  const auto parsed = parse_object(text);
  if (!parsed) return std::nullopt;
  const Json& root = parsed->root();
  const Json* function = root.find("function");
  if (function != nullptr && function->is_object())
    return is_inside ? std::nullopt : call_of_object(written_member(text, "function"), true);
  const Json* name = root.find("name");
  if (name == nullptr) name = function;
  if (name == nullptr || name->text().empty()) return std::nullopt;

  ToolCall call{.name = std::string(name->text()), .arguments = "{}"};
  for (const std::string_view key : {"arguments", "parameters"}) {
    const Json* arguments = root.find(key);
    if (arguments == nullptr) continue;
    if (arguments->is_object()) {
      call.arguments = written_member(text, key);
    } else if (parse_object(trim_space(arguments->text()))) {
      call.arguments = trim_space(arguments->text());
    } else {
      return std::nullopt;
    }
    return call;
  }
  return call;
}

/// A JSON array of calls; nothing if any element is none.
std::optional<std::vector<ToolCall>> calls_of_array(std::string_view written) {
  std::string room;
  const std::string_view text = with_escapes(written, room);
  const auto parsed = formats::parse_json(text, "calls");
  if (!parsed.ok() || !parsed.value().root().is_array()) return std::nullopt;
  std::vector<ToolCall> calls;
  const std::vector<std::string_view> elements = json_elements(text);
  calls.reserve(elements.size());
  for (const std::string_view element : elements) {
    auto call = call_of_object(element);
    if (!call) return std::nullopt;
    calls.push_back(std::move(*call));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

CallSearch one_call(std::size_t size, std::optional<ToolCall> call) {
  if (!call) return no_call(size);
  std::vector<ToolCall> calls;
  calls.push_back(std::move(*call));
  return found(size, std::move(calls));
}

/// What follows a value: white space, and then `marker`, which may be missing at the end of the text.
struct Following {
  CallSearch::Outcome outcome;
  std::size_t end;  ///< found: after the marker
};
Following following(std::string_view text, std::size_t at, std::string_view marker, bool at_end) {
  const std::string_view near = text.substr(at, kMaxSpaceBytes + 1);
  const std::size_t first = std::min(near.find_first_not_of(kSpace), near.size());
  if (first > kMaxSpaceBytes) return {CallSearch::none, at};
  const std::string_view rest = text.substr(at + first);
  if (rest.starts_with(marker)) return {CallSearch::found, at + first + marker.size()};
  if (rest.empty() && at_end) return {CallSearch::found, text.size()};
  return {marker.starts_with(rest) && !at_end ? CallSearch::more : CallSearch::none, at + first};
}

CallSearch read_hermes(std::string_view text, bool at_end, const ToolList& tools, CallScan& scan) {
  constexpr std::string_view kEnd = "</tool_call>";
  const std::size_t first = text.substr(0, kMaxSpaceBytes + 1).find_first_not_of(kSpace);
  if (first == std::string_view::npos) return text.size() > kMaxSpaceBytes ? no_call() : more_unless(at_end);
  if (text[first] == '<') return read_tags(text, at_end, true, tools, scan.tags);
  if (text[first] != '{') return no_call(first);
  const auto size = scan.json.find(text.substr(first));
  if (!size) return no_end(scan.json, first, at_end);
  const Following end = following(text, first + *size, kEnd, at_end);
  if (end.outcome == CallSearch::more) return more_unless(at_end);
  if (end.outcome == CallSearch::none) return no_call(end.end);
  return one_call(end.end, call_of_object(text.substr(first, *size)));
}

/// The object that a call of DeepSeek's has as its arguments, from its brace on, and what follows it.
CallSearch read_deepseek_arguments(std::string_view text, std::size_t brace, std::string_view name, bool fenced,
                                   bool at_end, CallScan& scan) {
  constexpr std::string_view kEnd = "<｜tool▁call▁end｜>", kFence = "```";
  const auto size = scan.json.find(text.substr(brace));
  if (!size) return no_end(scan.json, brace, at_end);
  std::size_t at = brace + *size;
  if (fenced) {
    const Following fence = following(text, at, kFence, at_end);
    if (fence.outcome == CallSearch::more) return more_unless(at_end);
    if (fence.outcome == CallSearch::found) at = fence.end;
  }
  const Following end = following(text, at, kEnd, at_end);
  if (end.outcome == CallSearch::more) return more_unless(at_end);
  std::string room;
  const std::string_view arguments = with_escapes(text.substr(brace, *size), room);
  if (end.outcome == CallSearch::none || name.empty() || !parse_object(arguments)) return no_call(at);
  return one_call(end.end, ToolCall{.name = std::string(name), .arguments = std::string(arguments)});
}

CallSearch read_deepseek(std::string_view text, bool at_end, CallScan& scan) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>", kFence = "```";
  // "function" and then the name and a fence, or the name and then bare JSON: no further, however much has come.
  constexpr std::size_t kMaxHead = 4 * kMaxNameBytes;
  const std::size_t end = text.substr(0, kMaxHead).find("<｜tool▁call▁end｜>");
  const std::string_view head = text.substr(0, std::min(end, kMaxHead));
  const std::size_t separator = head.find(kSeparator), brace = head.find('{', separator);
  if (separator == std::string_view::npos || brace == std::string_view::npos)
    return text.size() >= kMaxHead || end != std::string_view::npos ? no_call(head.size()) : more_unless(at_end);
  const std::string_view between = head.substr(separator + kSeparator.size(), brace - separator - kSeparator.size());
  const std::size_t fence = between.find(kFence);
  const bool fenced = fence != std::string_view::npos;
  const std::string_view name = trim_space(fenced ? between.substr(0, fence) : head.substr(0, separator));
  if (!fenced && !trim_space(between).empty()) return no_call(brace);
  return read_deepseek_arguments(text, brace, name, fenced, at_end, scan);
}

/// The array of calls that follows, perhaps after spaces.
CallSearch read_array(std::string_view text, bool at_end, CallScan& scan) {
  const std::size_t begin = text.find('[');
  const auto size = scan.json.find(text.substr(begin));
  if (!size) return no_end(scan.json, begin, at_end);
  auto calls = calls_of_array(text.substr(begin, *size));
  if (!calls) return no_call(begin + *size);
  return found(begin + *size, std::move(*calls));
}

CallSearch read_firefunction(std::string_view text, bool at_end, CallScan& scan) {
  if (text.empty()) return more_unless(at_end);
  return text.front() == '[' ? read_array(text, at_end, scan) : no_call();
}

/// name[ARGS]{...}, name[CALL_ID]id[ARGS]{...} or name{...}
CallSearch read_named_object(std::string_view text, bool at_end, CallScan& scan) {
  // No further, however much of the text has come.
  const std::size_t brace = text.substr(0, 2 * kMaxNameBytes + 1).find('{');
  if (brace == std::string_view::npos) return text.size() > 2 * kMaxNameBytes ? no_call() : more_unless(at_end);
  const std::string_view head = text.substr(0, brace);
  const std::string_view name = trim_space(head.substr(0, std::min(head.find('['), head.size())));
  if (name.empty() || name.size() > kMaxNameBytes || name.find_first_of(" \t\r\n\"") != std::string_view::npos)
    return no_call();
  const auto size = scan.json.find(text.substr(brace));
  if (!size) return no_end(scan.json, brace, at_end);
  std::string room;
  const std::string_view arguments = with_escapes(text.substr(brace, *size), room);
  if (!parse_object(arguments)) return no_call(brace + *size);
  return one_call(brace + *size, ToolCall{.name = std::string(name), .arguments = std::string(arguments)});
}

CallSearch read_mistral(std::string_view text, bool at_end, CallScan& scan) {
  const char first = first_character(text);
  if (first == 0) return text.size() > kMaxSpaceBytes ? no_call() : more_unless(at_end);
  return first == '[' ? read_array(text, at_end, scan) : read_named_object(text, at_end, scan);
}

CallSearch read_llama3(std::string_view text, bool at_end, CallScan& scan) {
  const char first = first_character(text);
  if (first == 0) return text.size() > kMaxSpaceBytes ? no_call() : more_unless(at_end);
  if (first != '{') return no_call();
  const std::size_t begin = text.find('{');
  const auto size = scan.json.find(text.substr(begin));
  if (!size) return no_end(scan.json, begin, at_end);
  return one_call(begin + *size, call_of_object(text.substr(begin, *size)));
}

bool is_recipient(std::string_view name, const ToolList& tools) {
  return name == kContentRecipient || (name == kCodeRecipient && tools.takes_code()) || tools.has(name);
}

/// The first line of a part of Functionary's: to whom it goes. `outcome` is found, with its size and the line's end.
CallSearch read_recipient(std::string_view text, bool at_end, const ToolList& tools) {
  const std::size_t end = text.substr(0, kMaxNameBytes + 1).find('\n');
  if (end == std::string_view::npos) return text.size() > kMaxNameBytes ? no_call() : more_unless(at_end);
  return is_recipient(text.substr(0, end), tools) ? found(end + 1, {}) : no_call();
}

CallSearch read_functionary(std::string_view text, bool at_end, const ToolList& tools, CallScan& scan) {
  constexpr std::string_view kNext = ">>>";
  CallSearch line = read_recipient(text, at_end, tools);
  if (line.outcome != CallSearch::found) return line;
  const std::string_view name = text.substr(0, line.size - 1);
  if (name == kContentRecipient) return line;

  std::size_t end = std::max(scan.at, line.size);
  for (;; end += kNext.size()) {
    end = std::min(text.find(kNext, end), text.size());
    if (end == text.size()) break;
    CallSearch next = read_recipient(text.substr(end + kNext.size()), at_end, tools);
    if (next.outcome == CallSearch::found) break;
    if (next.outcome == CallSearch::more) {
      scan.at = end;
      return next;
    }
  }
  if (end == text.size() && !at_end) {
    scan.at = text.size() - std::min(text.size() - line.size, kNext.size() - 1);
    return more_unless(at_end);
  }
  std::string room;
  const std::string_view written = trim_space(text.substr(line.size, end - line.size));
  const std::string_view escaped = with_escapes(written, room);
  const std::string_view body = parse_object(escaped) ? escaped : written;
  ToolCall call{.name = std::string(name), .arguments = std::string(body)};
  call.is_code = !parse_object(body);
  if (call.is_code && name != kCodeRecipient) return no_call(end);
  return one_call(end, std::move(call));
}

}  // namespace

CallSearch read_calls(Format format, std::string_view text, bool at_end, const ToolList& tools, CallScan& scan) {
  switch (format) {
    case Format::hermes: return read_hermes(text, at_end, tools, scan);
    case Format::llama3: return read_llama3(text, at_end, scan);
    case Format::mistral: return read_mistral(text, at_end, scan);
    case Format::deepseek: return read_deepseek(text, at_end, scan);
    case Format::functionary: return read_functionary(text, at_end, tools, scan);
    case Format::firefunction: return read_firefunction(text, at_end, scan);
    case Format::automatic:
    case Format::plain: break;
  }
  return no_call();
}

CallSearch read_unmarked_call(std::string_view text, bool at_end, const ToolList& tools, CallScan& scan) {
  return read_tags(text, at_end, false, tools, scan.tags);
}

CallSearch read_bare_call(std::string_view text, const ToolList& tools, CallScan& scan) {
  const auto size = scan.json.find(text);
  if (!size) return no_end(scan.json, 0, false);
  auto call = call_of_object(text.substr(0, *size));
  if (!call || !tools.has(call->name)) return no_call();
  return one_call(*size, std::move(call));
}

bool may_be_bare_call(std::string_view text) {
  constexpr std::array<std::string_view, 6> kKeys = {"\"name\"", "\"type\"",       "\"function\"",
                                                     "\"id\"",   "\"parameters\"", "\"arguments\""};
  const std::size_t begin = text.find_first_not_of(" \t\r\n", 1);
  if (begin == std::string_view::npos) return true;
  const std::string_view key = text.substr(begin);
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [&](std::string_view known) { return key.starts_with(known) || known.starts_with(key); });
}

}  // namespace qinfer::reply
