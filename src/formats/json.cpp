// See json.h.
#include "formats/json.h"

// A library must not abort: the parser's own consistency checks are compiled out in every build.
#define JSON_ASSERT(condition) static_cast<void>(0)
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>

namespace qinfer::formats {
namespace {

/// The text as nlohmann's lexer reads it: characters up to a limit that is moved on by a mebibyte at a time, so that a
/// request to stop is seen inside a long string too. After a request the text ends.
class Source {
 public:
  Source(std::string_view text, CancelFlag cancel) : text_(text), cancel_(cancel), limit_(text.data()) { go_on(); }

  bool ends_at(const char* at) { return at == limit_ && !go_on(); }
  bool cancelled() const { return cancelled_; }
  const char* begin() const { return text_.data(); }

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
  const char* limit_;
  bool cancelled_ = false;
};

class SourceIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit SourceIterator(Source* source, bool at_end = false)
      : source_(source), at_(at_end ? nullptr : source->begin()) {}
  reference operator*() const { return *at_; }
  SourceIterator& operator++() {
    ++at_;
    return *this;
  }
  SourceIterator operator++(int) {
    SourceIterator before = *this;
    ++at_;
    return before;
  }
  /// One of the two is the end.
  bool operator==(const SourceIterator& other) const { return source_->ends_at(at_ != nullptr ? at_ : other.at_); }
  bool operator!=(const SourceIterator& other) const { return !(*this == other); }

 private:
  Source* source_;
  const char* at_;
};

/// The value of a number's characters, whatever the decimal point of the host's locale is: the lexer puts that in the
/// place of the point, and converts by it. Beyond the range of double: infinity, or zero.
double parse_number(std::string text, double fallback) {
  for (char& c : text)
    if ((c < '0' || c > '9') && c != '-' && c != '+' && c != 'e' && c != 'E') c = '.';
  double value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? value : fallback;
}

/// Adapts nlohmann's SAX calls to JsonEvents and enforces the depth limit.
class SaxAdapter final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit SaxAdapter(JsonEvents& events) : events_(events) {}

  bool null() override { return events_.on_other({}); }
  bool boolean(bool value) override { return events_.on_other({JsonType::boolean, value, 0, 0}); }
  bool number_integer(number_integer_t value) override { return events_.on_integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX))
      return events_.on_other({JsonType::number, false, static_cast<double>(value), value});
    return events_.on_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override { return number(parse_number(text, value)); }
  bool string(string_t& value) override { return events_.on_string(value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return enter() && events_.on_begin(true); }
  bool key(string_t& value) override { return events_.on_key(value); }
  bool end_object() override { return leave() && events_.on_end(true); }
  bool start_array(std::size_t) override { return enter() && events_.on_begin(false); }
  bool end_array() override { return leave() && events_.on_end(false); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    offset = static_cast<std::int64_t>(position);
    message = e.what();
    return false;
  }

  std::int64_t offset = -1;
  std::string message;

 private:
  bool number(double value) { return events_.on_other({JsonType::number, false, value, 0}); }
  bool enter() {
    if (++depth_ <= kMaxJsonDepth) return true;
    message = format_text("nested deeper than {} levels", kMaxJsonDepth);
    return false;
  }
  bool leave() {
    --depth_;
    return true;
  }
  JsonEvents& events_;
  int depth_ = 0;
};

/// nlohmann's messages begin with "[json.exception.parse_error.101] "; the host does not need to know.
std::string_view strip_exception_tag(std::string_view message) {
  const auto end = message.find("] ");
  return message.starts_with("[json.exception") && end != message.npos ? message.substr(end + 2) : message;
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
  // nlohmann's lexer takes a NUL for the end of its input, and would ignore whatever follows.
  if (const auto at = text.find('\0'); at != text.npos)
    return error_at(Code::format, static_cast<std::int64_t>(at), "{}: a NUL byte at {}", name, at);
  SaxAdapter adapter(events);
  Source source(text, cancel);
  const bool complete = nlohmann::json::sax_parse(SourceIterator(&source), SourceIterator(&source, true), &adapter);
  if (source.cancelled()) return error(Code::cancelled, "reading {} was cancelled", name);
  if (complete || adapter.message.empty()) return Status();
  return error_at(Code::format, adapter.offset, "{}: {}", name, strip_exception_tag(adapter.message));
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

bool JsonTreeBuilder::on_key(std::string& key) {
  key_ = document_.keep(key);
  return true;
}

bool JsonTreeBuilder::on_string(std::string& value) {
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
