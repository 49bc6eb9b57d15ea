// See json.h.
#include "formats/json.h"

namespace qinfer::formats {
namespace {

/// Adapts nlohmann's SAX calls to JsonEvents and enforces the depth limit.
class SaxAdapter final : public nlohmann::json_sax<Json> {
 public:
  explicit SaxAdapter(JsonEvents& events) : events_(events) {}

  bool null() override { return events_.on_other(Json()); }
  bool boolean(bool value) override { return events_.on_other(Json(value)); }
  bool number_integer(number_integer_t value) override { return events_.on_integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) return events_.on_other(Json(value));
    return events_.on_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return events_.on_other(Json(value)); }
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
  bool enter() {
    if (++depth_ <= kMaxJsonDepth) return true;
    message = fmt::format("nested deeper than {} levels", kMaxJsonDepth);
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

std::string_view type_name(const Json& value) {
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number()) return "a number";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return "null";
}

}  // namespace

Status parse_json_events(std::string_view text, std::string_view name, JsonEvents& events) {
  // nlohmann's lexer takes a NUL for the end of its input, and would ignore whatever follows.
  if (const auto at = text.find('\0'); at != text.npos)
    return error_at(Code::format, static_cast<std::int64_t>(at), "{}: a NUL byte at {}", name, at);
  SaxAdapter adapter(events);
  const bool complete = Json::sax_parse(text.begin(), text.end(), &adapter);
  if (complete || adapter.message.empty()) return Status();
  return error_at(Code::format, adapter.offset, "{}: {}", name, strip_exception_tag(adapter.message));
}

bool JsonTreeBuilder::add(Json value) {
  if (stack_.empty()) {
    root_ = std::move(value);
    has_root_ = true;
    if (root_.is_structured()) stack_.push_back(&root_);
    return true;
  }
  Json& parent = *stack_.back();
  Json* added = nullptr;
  if (parent.is_array()) {
    parent.push_back(std::move(value));
    added = &parent.back();
  } else {
    added = &(parent[key_] = std::move(value));
  }
  if (added->is_structured()) stack_.push_back(added);
  return true;
}

bool JsonTreeBuilder::on_key(std::string& key) {
  if (stack_.back()->contains(key)) {
    failure_ = fmt::format("the key \"{}\" appears twice in one object", key);
    return false;
  }
  key_ = std::move(key);
  return true;
}
bool JsonTreeBuilder::on_string(std::string& value) { return add(Json(std::move(value))); }
bool JsonTreeBuilder::on_integer(std::int64_t value) { return add(Json(value)); }
bool JsonTreeBuilder::on_other(Json value) { return add(std::move(value)); }
bool JsonTreeBuilder::on_begin(bool is_object) { return add(is_object ? Json::object() : Json::array()); }
bool JsonTreeBuilder::on_end(bool) {
  stack_.pop_back();
  return true;
}

Result<Json> parse_json(std::string_view text, std::string_view name) {
  JsonTreeBuilder builder;
  QINFER_TRY(parse_json_events(text, name, builder));
  if (!builder.failure().empty()) return error_at(Code::format, -1, "{}: {}", name, builder.failure());
  return builder.take();
}

const Json* find_field(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Status FieldReader::wrong_type(std::string_view key, const Json& value, std::string_view expected) const {
  return error_at(Code::format, -1, "{}: \"{}\" is {}, expected {}", where_, key, type_name(value), expected);
}

Result<std::optional<std::int64_t>> FieldReader::integer(std::string_view key, std::int64_t min,
                                                         std::int64_t max) const {
  const Json* value = find_field(object_, key);
  if (value == nullptr) return std::optional<std::int64_t>();
  std::int64_t number = 0;
  if (value->is_number_integer() && !(value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX)) {
    number = value->get<std::int64_t>();
  } else if (value->is_number_float() && value->get<double>() == static_cast<double>(static_cast<std::int64_t>(std::min(
                                                                     std::max(value->get<double>(), -9e15), 9e15)))) {
    number = static_cast<std::int64_t>(value->get<double>());  // 1e6 and 10000.0 are common spellings of integers
  } else {
    return wrong_type(key, *value, "an integer");
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
  return std::optional<double>(value->get<double>());
}

Result<std::optional<bool>> FieldReader::boolean(std::string_view key) const {
  const Json* value = find_field(object_, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong_type(key, *value, "true or false");
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> FieldReader::string(std::string_view key) const {
  const Json* value = find_field(object_, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(key, *value, "a string");
  return std::optional<std::string>(value->get<std::string>());
}

}  // namespace qinfer::formats
