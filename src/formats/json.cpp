// See json.h.
#include "formats/json.h"

// A library must not abort: the parser's own consistency checks are compiled out in every build.
#define RAPIDJSON_ASSERT(condition) static_cast<void>(0)
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>

namespace qinfer::formats {
namespace {

/// The text as the parser reads it: up to a limit that is moved on by a mebibyte at a time, so that a request to stop
/// is seen inside a long string too. After a request the text ends, which the parser takes a NUL for.
class Source {
 public:
  // NOLINTBEGIN(readability-identifier-naming): as RapidJSON calls them
  using Ch = char;
  Ch Peek() { return at_ != limit_ || go_on() ? *at_ : '\0'; }
  Ch Take() { return at_ != limit_ || go_on() ? *at_++ : '\0'; }
  std::size_t Tell() const { return static_cast<std::size_t>(at_ - text_.data()); }
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) {}
  void Flush() {}
  std::size_t PutEnd(Ch*) { return 0; }
  // NOLINTEND(readability-identifier-naming)

  Source(std::string_view text, std::size_t begin, CancelFlag cancel)
      : text_(text), cancel_(cancel), at_(text.data() + begin), limit_(at_) {}
  bool cancelled() const { return cancelled_; }

 private:
  bool go_on() {
    constexpr std::size_t kStep = std::size_t{1} << 20;
    const auto left = static_cast<std::size_t>(text_.data() + text_.size() - limit_);
    cancelled_ = cancelled_ || cancel_.requested();
    if (left == 0 || cancelled_) return false;
    limit_ += std::min(left, kStep);
    return true;
  }
  std::string_view text_;
  CancelFlag cancel_;
  const char* at_;
  const char* limit_;
  bool cancelled_ = false;
};

/// Where there is no memory the parser would go on without it.
struct ThrowingAllocator {
  // NOLINTBEGIN(readability-identifier-naming): as RapidJSON calls them
  static void* Malloc(std::size_t size) { return size == 0 ? nullptr : checked(std::malloc(size)); }
  static void* Realloc(void* old, std::size_t, std::size_t size) {
    if (size != 0) return checked(std::realloc(old, size));
    std::free(old);
    return nullptr;
  }
  static void Free(void* memory) { std::free(memory); }
  // NOLINTEND(readability-identifier-naming)
 private:
  static void* checked(void* memory) {
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
};

/// Whether a number of JSON that is beyond what a double can be is too large, and not too small.
bool is_above_one(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t mantissa = std::min(text.find_first_of("eE"), text.size());
  const auto digits = static_cast<std::int64_t>(std::min(text.find('.'), mantissa));  // before the point
  const auto first = static_cast<std::int64_t>(std::min(text.find_first_of("123456789"), mantissa));
  std::int64_t exponent = 0;
  if (mantissa != text.size()) {
    std::string_view rest = text.substr(mantissa + 1);
    const bool is_negative = rest.starts_with('-');
    if (rest.starts_with('+')) rest.remove_prefix(1);
    if (std::from_chars(rest.data(), rest.data() + rest.size(), exponent).ec != std::errc()) return !is_negative;
    constexpr std::int64_t kMoreThanDigits = std::int64_t{1} << 40;
    exponent = std::clamp(exponent, -kMoreThanDigits, kMoreThanDigits);
  }
  return digits - first + exponent > 0;
}

/// Adapts RapidJSON's events to JsonEvents, enforces the depth limit, and reads numbers.
class Adapter {
 public:
  Adapter(JsonEvents& events, bool has_escapes) : events_(events), has_escapes_(has_escapes) {}
  std::string message;  ///< what was wrong, if it was found here; empty if the events refused something

  // NOLINTBEGIN(readability-identifier-naming): as RapidJSON calls them
  bool Null() { return events_.on_other({}); }
  bool Bool(bool value) { return events_.on_other({JsonType::boolean, value, 0, 0, {}}); }
  bool RawNumber(const char* text, unsigned size, bool) { return number({text, size}); }
  bool Key(const char* text, unsigned size, bool) { return is_text({text, size}) && events_.on_key({text, size}); }
  bool String(const char* text, unsigned size, bool) {
    return is_text({text, size}) && events_.on_string({text, size});
  }
  bool StartObject() { return enter() && events_.on_begin(true); }
  bool EndObject(unsigned) { return leave() && events_.on_end(true); }
  bool StartArray() { return enter() && events_.on_begin(false); }
  bool EndArray(unsigned) { return leave() && events_.on_end(false); }
  // Never called: numbers come as they are written.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  // NOLINTEND(readability-identifier-naming)

 private:
  bool fail(std::string text) {
    message = std::move(text);
    return false;
  }

  /// An escape may give the second half of a surrogate pair without the first, which is no character.
  bool is_text(std::string_view text) {
    if (!has_escapes_) return true;
    for (std::size_t at = text.find('\xED'); at != text.npos; at = text.find('\xED', at + 1))
      if (static_cast<unsigned char>(text[at + 1]) >= 0xA0)
        return fail("an escape is the second half of a surrogate pair, without the first");
    return true;
  }

  bool number(std::string_view text) {
    const char* const end = text.data() + text.size();
    const auto is_all = [&](std::from_chars_result result) { return result.ec == std::errc() && result.ptr == end; };
    std::int64_t integer = 0;
    if (is_all(std::from_chars(text.data(), end, integer))) return events_.on_integer(integer);
    std::uint64_t large = 0;
    if (is_all(std::from_chars(text.data(), end, large)))
      return events_.on_other({JsonType::number, false, static_cast<double>(large), large, text});
    double value = 0;
    if (std::from_chars(text.data(), end, value).ec == std::errc::result_out_of_range) {
      if (is_above_one(text)) return fail(format_text("number overflow parsing '{}'", text));
      value = text.starts_with('-') ? -0.0 : 0.0;
    }
    return events_.on_other({JsonType::number, false, value, 0, text});
  }

  bool enter() { return ++depth_ <= kMaxJsonDepth || fail(format_text("nested deeper than {} levels", kMaxJsonDepth)); }
  bool leave() {
    --depth_;
    return true;
  }
  JsonEvents& events_;
  bool has_escapes_;
  int depth_ = 0;
};

/// "line 2, column 5: ...", of an error at an offset.
std::string describe_place(std::string_view text, std::size_t offset, std::string_view what) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 in the first line
  return format_text("line {}, column {}: {}", line, offset - line_begin + 1, what);
}

std::string describe_error(rapidjson::ParseErrorCode code, std::string_view text, std::size_t offset) {
  if (code == rapidjson::kParseErrorStringInvalidEncoding)
    return "a text that is not valid UTF-8, or has a control character that is not escaped";
  if (offset == text.size()) return "unexpected end of the text";
  if (code == rapidjson::kParseErrorNumberTooBig) {
    const std::string_view number = text.substr(offset);
    return format_text("number overflow parsing '{}'", number.substr(0, number.find_first_not_of("+-.0123456789eE")));
  }
  if (code == rapidjson::kParseErrorDocumentRootNotSingular) return "syntax error: more follows the value";
  std::string what = rapidjson::GetParseError_En(code);
  if (what.ends_with('.')) what.pop_back();
  return "syntax error: " + what;
}

void append_number(double value, std::string& out) {
  const std::size_t begin = out.size();
  append_text(out, "{}", value);
  if (out.find_first_of(".en", begin) == out.npos) out += ".0";  // still not an integer
}

/// Nesting is bounded by kMaxJsonDepth, so recursion is too.
void append_value(const Json& value, std::string& out) {
  switch (value.type()) {
    case JsonType::null: out += "null"; return;
    case JsonType::boolean: out += value.boolean() ? "true" : "false"; return;
    case JsonType::integer: append_text(out, "{}", value.integer()); return;
    case JsonType::number:
      if (value.spelling().empty()) {
        append_number(value.number(), out);
      } else {
        out += value.spelling();
      }
      return;
    case JsonType::string: append_json_string(value.text(), out); return;
    case JsonType::array:
    case JsonType::object: break;
  }
  const bool is_object = value.is_object();
  char separator = is_object ? '{' : '[';
  if (value.size() == 0) out += separator;
  for (const Json& member : value) {
    out += separator;
    separator = ',';
    if (is_object) {
      append_json_string(member.key(), out);
      out += ':';
    }
    append_value(member, out);
  }
  out += is_object ? '}' : ']';
}

}  // namespace

std::string_view type_name(JsonType type) {
  switch (type) {
    case JsonType::null: return "null";
    case JsonType::boolean: return "a boolean";
    case JsonType::integer:
    case JsonType::number: return "a number";
    case JsonType::string: return "a string";
    case JsonType::array: return "an array";
    case JsonType::object: return "an object";
  }
  return "null";
}

void append_json_string(std::string_view text, std::string& out) {
  constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  out += '"';
  for (const char c : text) {
    if (const std::size_t at = kSpecial.find(c); at != kSpecial.npos) {
      out += '\\';
      out += kLetters[at];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      append_text(out, "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string json_text(const JsonScalar& value) {
  if (value.type == JsonType::null) return "null";
  if (value.type == JsonType::boolean) return value.boolean ? "true" : "false";
  if (value.large != 0) return format_text("{}", value.large);
  std::string out;
  append_number(value.number, out);
  return out;
}

std::string json_text(const Json& value) {
  std::string out;
  append_value(value, out);
  return out;
}

bool same_value(const Json& a, const Json& b) {
  constexpr std::size_t kMost = 64;
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.type() != b.type() || a.size() != b.size() || (a.is_object() && a.size() > kMost)) return false;
  if (a.is_boolean()) return a.boolean() == b.boolean();
  if (a.is_string()) return a.text() == b.text();
  Json::Iterator other = b.begin();
  for (const Json& member : a) {
    const Json* match = a.is_object() ? b.find(member.key()) : &*other;
    if (match == nullptr || !same_value(member, *match)) return false;
    ++other;
  }
  return true;
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Json& member : *this)
    if (member.key_ == key) return &member;
  return nullptr;
}

std::string_view JsonDocument::keep(std::string_view text) {
  constexpr std::size_t kChunk = 16384;
  if (text.empty()) return {};
  if (text.size() > chunk_size_ - chunk_used_) {
    const std::size_t size = std::max(kChunk, text.size());
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    chunk_size_ = size;
    chunk_used_ = 0;
  }
  char* at = chunks_.back().get() + chunk_used_;
  std::memcpy(at, text.data(), text.size());
  chunk_used_ += text.size();
  return {at, text.size()};
}

Status parse_json_events(std::string_view text, std::string_view name, JsonEvents& events, CancelFlag cancel) {
  if (text.starts_with("version https://git-lfs"))
    return error_at(Code::format, 0,
                    "{}: a pointer to a git-LFS object, not the file itself: fetch it with git lfs pull", name);
  // The parser counts a string's bytes in 32 bits.
  if (text.size() > UINT32_MAX)
    return error_at(Code::format, -1, "{}: {} bytes of JSON, at most {} are read", name, text.size(), UINT32_MAX);
  // The parser takes a NUL for the end of its input.
  if (const auto at = text.find('\0'); at != text.npos)
    return error_at(Code::format, static_cast<std::int64_t>(at), "{}: a NUL byte at {}", name, at);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseValidateEncodingFlag;
  Source source(text, text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0, cancel);
  Adapter adapter(events, text.find("\\u") != text.npos);
  rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, ThrowingAllocator> reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(source, adapter);
  if (source.cancelled()) return error(Code::cancelled, "reading {} was cancelled", name);
  if (!result.IsError() || (result.Code() == rapidjson::kParseErrorTermination && adapter.message.empty()))
    return Status();
  const std::size_t at = std::min(result.Offset(), text.size());
  const std::string what = adapter.message.empty() ? describe_error(result.Code(), text, at) : adapter.message;
  return error_at(Code::format, static_cast<std::int64_t>(at), "{}: {}", name, describe_place(text, at, what));
}

Json* JsonTreeBuilder::add(JsonType type) {
  std::vector<Json>& values = document_.values_;
  if (values.size() == kMaxJsonValues) {
    failure_ = format_text("more than {} values", kMaxJsonValues);
    return nullptr;
  }
  Json& value = values.emplace_back();
  value.type_ = type;
  if (!open_.empty()) {
    ++values[open_.back()].count_;
    value.key_ = std::exchange(key_, {});
  }
  return &value;
}

bool JsonTreeBuilder::on_key(std::string_view key) {
  key_ = document_.keep(key);
  return true;
}

bool JsonTreeBuilder::on_string(std::string_view value) {
  Json* added = add(JsonType::string);
  if (added != nullptr) added->text_ = document_.keep(value);
  return added != nullptr;
}

bool JsonTreeBuilder::on_integer(std::int64_t value) {
  Json* added = add(JsonType::integer);
  if (added != nullptr) added->integer_ = value;
  return added != nullptr;
}

bool JsonTreeBuilder::on_other(const JsonScalar& value) {
  Json* added = add(value.type);
  if (added == nullptr) return false;
  if (value.type == JsonType::boolean) added->integer_ = value.boolean ? 1 : 0;
  if (value.type == JsonType::number) added->number_ = value.number;
  if (value.large != 0) added->text_ = document_.keep(format_text("{}", value.large));
  return true;
}

bool JsonTreeBuilder::on_begin(bool is_object) {
  if (add(is_object ? JsonType::object : JsonType::array) == nullptr) return false;
  open_.push_back(document_.values_.size() - 1);
  return true;
}

bool JsonTreeBuilder::on_end(bool is_object) {
  const std::size_t at = open_.back();
  open_.pop_back();
  document_.values_[at].span_ = static_cast<std::uint32_t>(document_.values_.size() - at);
  return !is_object || check_keys(at);
}

/// By sorting: unlike a hash table it takes no longer for names that were chosen to collide.
bool JsonTreeBuilder::check_keys(std::size_t object) {
  sorted_.clear();
  for (const Json& member : document_.values_[object]) sorted_.push_back(member.key_);
  std::sort(sorted_.begin(), sorted_.end());
  const auto twice = std::adjacent_find(sorted_.begin(), sorted_.end());
  if (twice == sorted_.end()) return true;
  failure_ = format_text("the key \"{}\" appears twice in one object", *twice);
  return false;
}

Result<JsonDocument> parse_json(std::string_view text, std::string_view name, CancelFlag cancel) {
  JsonTreeBuilder builder;
  QINFER_TRY(parse_json_events(text, name, builder, cancel));
  if (!builder.failure().empty()) return error_at(Code::format, -1, "{}: {}", name, builder.failure());
  return builder.take();
}

Result<JsonDocument> parse_python_json(std::string_view text, std::string_view name, CancelFlag cancel) {
  constexpr std::string_view kNames[] = {"NaN", "Infinity", "-Infinity"};
  std::string quoted;
  std::size_t copied = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        in_string = false;
      continue;
    }
    in_string = text[i] == '"';
    for (const std::string_view word : kNames) {
      if (!text.substr(i).starts_with(word)) continue;
      const std::size_t next = text.find_first_not_of(" \t\r\n", i + word.size());
      if (next != text.npos && text[next] == ':') break;  // no name of a member
      append_text(quoted, "{}\"{}\"", text.substr(copied, i - copied), word);
      copied = i + word.size();
      i = copied - 1;
      break;
    }
  }
  if (copied == 0) return parse_json(text, name, cancel);
  return parse_json(quoted.append(text.substr(copied)), name, cancel);
}

const Json* find_field(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status FieldReader::wrong_type(std::string_view key, const Json& value, std::string_view expected) const {
  return error_at(Code::format, -1, "{}: \"{}\" is {}, expected {}", where_, key, type_name(value.type()), expected);
}

Result<std::optional<std::int64_t>> FieldReader::integer(std::string_view key, std::int64_t min,
                                                         std::int64_t max) const {
  constexpr double kWhole = 9e15;  // below it every integer is a double
  const Json* value = find_field(object_, key);
  if (value == nullptr) return std::optional<std::int64_t>();
  std::int64_t number = value->integer();
  if (!value->is_integer()) {
    // 1e6 and 10000.0 are common spellings of integers.
    const double real = value->number();
    if (!value->is_number() || !(real >= -kWhole && real <= kWhole) ||
        real != static_cast<double>(static_cast<std::int64_t>(real)))
      return wrong_type(key, *value, "an integer");
    number = static_cast<std::int64_t>(real);
  }
  if (number < min || number > max)
    return error_at(Code::format, -1, "{}: \"{}\" is {}, expected {} to {}", where_, key, number, min, max);
  return std::optional<std::int64_t>(number);
}

Result<std::int64_t> FieldReader::required_integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  QINFER_ASSIGN(const auto value, integer(key, min, max));
  if (!value) return error_at(Code::format, -1, "{}: the field \"{}\" is missing", where_, key);
  return *value;
}

Result<std::optional<double>> FieldReader::number(std::string_view key) const {
  const Json* value = find_field(object_, key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong_type(key, *value, "a number");
  return std::optional<double>(value->number());
}

Result<std::optional<bool>> FieldReader::boolean(std::string_view key) const {
  const Json* value = find_field(object_, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong_type(key, *value, "true or false");
  return std::optional<bool>(value->boolean());
}

Result<std::optional<std::string>> FieldReader::string(std::string_view key) const {
  const Json* value = find_field(object_, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(key, *value, "a string");
  return std::optional<std::string>(value->text());
}

}  // namespace qinfer::formats
