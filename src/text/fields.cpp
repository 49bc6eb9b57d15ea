// See fields.h.
#include "text/fields.h"

#include <algorithm>

#include "text/utf8.h"

namespace qinfer::text {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    if (i >= kShown) {
      out += "...";
      break;
    }
    const Char c = char_at(text, i);
    if (c.code < 0x20 || c.code == 0x7F) {
      out += format_text("\\u{:04x}", static_cast<unsigned>(c.code));
    } else {
      out.append(text.substr(i, c.size));
    }
    i += c.size;
  }
  return out + "\"";
}

Result<std::string> component_kind(const Json& value, std::string_view where) {
  if (!value.is_object()) return malformed("{} is not an object", where);
  return required_string(value, "type", where);
}

Status check_fields(const Json& object, std::string_view where, std::initializer_list<std::string_view> known) {
  for (const Json& item : object) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end())
      return error(Code::unsupported, "{}: the field {} is not supported", where, in_quotes(item.key()));
  }
  return Status();
}

Status unsupported_kind(std::string_view where, std::string_view kind, std::string_view known) {
  return error(Code::unsupported, "{}: the type {} is not supported; supported are {}", where, in_quotes(kind), known);
}

Result<const Json*> required_array(const Json& object, std::string_view key, std::string_view where) {
  const Json* value = formats::find_field(object, key);
  if (value == nullptr) return malformed("{}: the field \"{}\" is missing", where, key);
  if (!value->is_array()) return malformed("{}: \"{}\" is not an array", where, key);
  return value;
}

Result<std::string> required_string(const Json& object, std::string_view key, std::string_view where) {
  QINFER_ASSIGN(auto value, FieldReader(object, std::string(where)).string(key));
  if (!value) return malformed("{}: the field \"{}\" is missing", where, key);
  return std::move(*value);
}

Result<bool> required_boolean(const Json& object, std::string_view key, std::string_view where) {
  QINFER_ASSIGN(const auto value, FieldReader(object, std::string(where)).boolean(key));
  if (!value) return malformed("{}: the field \"{}\" is missing", where, key);
  return *value;
}

Result<char32_t> required_character(const Json& object, std::string_view key, std::string_view where) {
  QINFER_ASSIGN(const std::string value, required_string(object, key, where));
  if (value.empty() || char_at(value, 0).size != value.size())
    return malformed("{}: \"{}\" is {}, expected one character", where, key, in_quotes(value));
  return char_at(value, 0).code;
}

}  // namespace qinfer::text
