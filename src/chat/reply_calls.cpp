// See reply_calls.h.
#include "chat/reply_calls.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace qinfer::chat {
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

CallSearch found(std::size_t size, std::vector<ToolCall> calls) { return {CallSearch::found, size, std::move(calls)}; }

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
std::optional<ToolCall> call_of_object(std::string_view text, bool is_inside = false) {
  text = trim_space(text);
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
std::optional<std::vector<ToolCall>> calls_of_array(std::string_view text) {
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

/// What is between `open` at `at` and the next `close`; moves `at` beyond it.
std::optional<std::string_view> take_between(std::string_view text, std::string_view open, std::string_view close,
                                             std::size_t& at) {
  const std::size_t begin = text.find(open, at);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = text.find(close, begin + open.size());
  if (end == std::string_view::npos) return std::nullopt;
  at = end + close.size();
  return text.substr(begin + open.size(), end - begin - open.size());
}

/// A parameter stands on lines of its own.
std::string_view without_line_ends(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

/// <function=name><parameter=key>value</parameter>...</function>. Values are JSON, or texts where the schema of the
/// tool says so or they are no JSON.
std::optional<ToolCall> call_of_tags(std::string_view text, const ToolList& tools) {
  std::size_t at = 0;
  const auto name = take_between(text, "<function=", ">", at);
  if (!name || trim_space(*name).empty()) return std::nullopt;
  ToolCall call{.name = std::string(trim_space(*name)), .arguments = "{"};
  const std::string_view body = text.substr(0, std::min(text.rfind("</function>"), text.size()));
  std::set<std::string_view> keys;
  while (const auto key = take_between(body, "<parameter=", ">", at)) {
    const std::size_t end = body.find("</parameter>", at);
    if (end == std::string_view::npos || keys.contains(*key)) return std::nullopt;
    const std::string_view value = without_line_ends(body.substr(at, end - at));
    at = end + std::string_view("</parameter>").size();
    if (!keys.empty()) call.arguments += ", ";
    keys.insert(*key);
    formats::append_json_string(*key, call.arguments);
    call.arguments += ": ";
    if (!tools.is_text(call.name, *key) && formats::parse_json(value, "value").ok())
      call.arguments += value;
    else
      formats::append_json_string(value, call.arguments);
  }
  call.arguments += '}';
  return call;
}

CallSearch one_call(std::size_t size, std::optional<ToolCall> call) {
  if (!call) return no_call(size);
  std::vector<ToolCall> calls;
  calls.push_back(std::move(*call));
  return found(size, std::move(calls));
}

/// The size of a call up to its end and with it; npos: to the end of the text.
std::size_t size_with(std::string_view text, std::size_t at, std::string_view end) {
  return at == std::string_view::npos ? text.size() : at + end.size();
}

/// Where `end` is, going on where the last search stopped.
std::size_t find_end(std::string_view text, std::string_view end, CallScan& scan) {
  const std::size_t at = text.find(end, scan.at);
  scan.at = at != std::string_view::npos ? at : text.size() - std::min(text.size(), end.size() - 1);
  return at;
}

CallSearch read_hermes(std::string_view text, bool at_end, const ToolList& tools, CallScan& scan) {
  constexpr std::string_view kEnd = "</tool_call>";
  const std::size_t end = find_end(text, kEnd, scan);
  if (end == std::string_view::npos && !at_end) return more_unless(at_end);
  const std::string_view whole = text.substr(0, std::min(end, text.size()));
  const std::size_t first = std::min(whole.find_first_not_of(kSpace), whole.size());
  if (!whole.substr(first).starts_with('{') && !whole.substr(first).starts_with("<function=")) return no_call(first);
  const std::string_view body = trim_space(whole);
  return one_call(size_with(text, end, kEnd), body.front() == '{' ? call_of_object(body) : call_of_tags(body, tools));
}

CallSearch read_deepseek(std::string_view text, bool at_end, CallScan& scan) {
  constexpr std::string_view kEnd = "<｜tool▁call▁end｜>", kSeparator = "<｜tool▁sep｜>", kFence = "```";
  const std::size_t end = find_end(text, kEnd, scan);
  if (end == std::string_view::npos && !at_end) return more_unless(at_end);
  const std::string_view body = text.substr(0, std::min(end, text.size()));
  const std::size_t separator = body.find(kSeparator);
  if (separator == std::string_view::npos) return no_call(body.size());
  // "function" and then the name and a fence, or the name and then bare JSON.
  std::string_view name = body.substr(0, separator);
  std::string_view arguments = body.substr(separator + kSeparator.size());
  const std::size_t fence = arguments.find(kFence);
  const std::size_t brace = arguments.find('{');
  if (fence < brace && brace != std::string_view::npos) {
    name = arguments.substr(0, fence);
    arguments = trim_space(arguments.substr(brace));
    if (arguments.ends_with(kFence)) arguments.remove_suffix(kFence.size());
  }
  name = trim_space(name);
  arguments = trim_space(arguments);
  if (name.empty() || !parse_object(arguments)) return no_call(body.size());
  return one_call(size_with(text, end, kEnd), ToolCall{.name = std::string(name), .arguments = std::string(arguments)});
}

/// The array of calls that follows, perhaps after spaces.
CallSearch read_array(std::string_view text, bool at_end, CallScan& scan) {
  const std::size_t begin = text.find('[');
  const auto size = scan.json.find(text.substr(begin));
  if (!size) return more_unless(at_end);
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
  if (!size) return more_unless(at_end);
  const std::string_view arguments = text.substr(brace, *size);
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
  if (!size) return more_unless(at_end);
  return one_call(begin + *size, call_of_object(text.substr(begin, *size)));
}

bool is_recipient(std::string_view name, const ToolList& tools) {
  return name == kContentRecipient || name == kCodeRecipient || tools.has(name);
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
  const std::string_view body = trim_space(text.substr(line.size, end - line.size));
  ToolCall call{.name = std::string(name), .arguments = std::string(body)};
  call.is_code = !parse_object(body);
  if (call.is_code && name != kCodeRecipient) return no_call(end);
  return one_call(end, std::move(call));
}

/// The names of the parameters that a tool's schema declares as texts.
std::vector<std::string> text_parameters(const Json& function) {
  std::vector<std::string> names;
  const Json* parameters = function.find("parameters");
  const Json* properties = parameters != nullptr ? parameters->find("properties") : nullptr;
  if (properties == nullptr || !properties->is_object()) return names;
  for (const Json& property : *properties) {
    const Json* type = property.find("type");
    if (type != nullptr && type->text() == "string") names.emplace_back(property.key());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

ToolList::ToolList(const formats::Json& conversation) {
  const Json* tools = conversation.find("tools");
  if (tools == nullptr || !tools->is_array()) return;
  for (const Json& tool : *tools) {
    const Json* function = tool.find("function");
    if (function == nullptr) function = &tool;
    const Json* name = function->find("name");
    if (name != nullptr && !name->text().empty())
      tools_.push_back({std::string(name->text()), text_parameters(*function)});
  }
}

const ToolList::Tool* ToolList::find(std::string_view name) const {
  for (const Tool& tool : tools_)
    if (tool.name == name) return &tool;
  return nullptr;
}

bool ToolList::is_text(std::string_view tool, std::string_view parameter) const {
  const Tool* found = find(tool);
  return found != nullptr &&
         std::binary_search(found->text_parameters.begin(), found->text_parameters.end(), parameter);
}

CallSearch read_calls(ReplyFormat format, std::string_view text, bool at_end, const ToolList& tools, CallScan& scan) {
  switch (format) {
    case ReplyFormat::hermes: return read_hermes(text, at_end, tools, scan);
    case ReplyFormat::llama3: return read_llama3(text, at_end, scan);
    case ReplyFormat::mistral: return read_mistral(text, at_end, scan);
    case ReplyFormat::deepseek: return read_deepseek(text, at_end, scan);
    case ReplyFormat::functionary: return read_functionary(text, at_end, tools, scan);
    case ReplyFormat::firefunction: return read_firefunction(text, at_end, scan);
    case ReplyFormat::automatic:
    case ReplyFormat::plain: break;
  }
  return no_call();
}

CallSearch read_bare_call(std::string_view text, const ToolList& tools, CallScan& scan) {
  const auto size = scan.json.find(text);
  if (!size) return {};
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

}  // namespace qinfer::chat
