// Typed access to the key-values of a GGUF file. See gguf.h.
#include <algorithm>
#include <cstring>
#include <limits>

#include "formats/gguf.h"

namespace qinfer::formats {
namespace {

constexpr std::string_view kTypeNames[] = {"u8",      "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "boolean", "string", "array", "u64", "i64", "f64"};

template <typename T>
T value_at(std::string_view bytes, std::uint64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// The i-th value of an integer type; nullopt if it is of another type or beyond int64.
std::optional<std::int64_t> integer_at(const GgufValue& value, std::uint64_t i) {
  switch (value.type) {
    case GgufType::u8: return value_at<std::uint8_t>(value.bytes, i);
    case GgufType::i8: return value_at<std::int8_t>(value.bytes, i);
    case GgufType::u16: return value_at<std::uint16_t>(value.bytes, i);
    case GgufType::i16: return value_at<std::int16_t>(value.bytes, i);
    case GgufType::u32: return value_at<std::uint32_t>(value.bytes, i);
    case GgufType::i32: return value_at<std::int32_t>(value.bytes, i);
    case GgufType::i64: return value_at<std::int64_t>(value.bytes, i);
    case GgufType::u64: {
      const auto large = value_at<std::uint64_t>(value.bytes, i);
      return static_cast<std::int64_t>(
          std::min(large, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
    }
    case GgufType::f32:
    case GgufType::boolean:
    case GgufType::string:
    case GgufType::array:
    case GgufType::f64: break;
  }
  return std::nullopt;
}

std::optional<double> number_at(const GgufValue& value, std::uint64_t i) {
  if (value.type == GgufType::f32) return value_at<float>(value.bytes, i);
  if (value.type == GgufType::f64) return value_at<double>(value.bytes, i);
  if (const auto integer = integer_at(value, i)) return static_cast<double>(*integer);
  return std::nullopt;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) { return kTypeNames[static_cast<std::size_t>(type)]; }

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 64));
  for (char& c : out)
    if (c < ' ' || c > '~' || c == '"') c = '?';
  return out;
}

std::string GgufValue::describe() const {
  return is_array ? format_text("an array of {}", gguf_type_name(type)) : std::string(gguf_type_name(type));
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto at = std::lower_bound(values_.begin(), values_.end(), key,
                                   [](const GgufValue& value, std::string_view k) { return value.key < k; });
  return at != values_.end() && at->key == key ? &*at : nullptr;
}

Status GgufMetadata::wrong_type(const GgufValue& value, std::string_view expected) const {
  return error_at(Code::format, -1, "{}: key \"{}\" is {}, expected {}", file_, printable(value.key), value.describe(),
                  expected);
}

Result<std::optional<std::vector<std::int64_t>>> GgufMetadata::integers(std::string_view key, std::int64_t min,
                                                                        std::int64_t max, bool one_is_a_list) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<std::int64_t>>();
  if ((!value->is_array && !one_is_a_list) || value->type == GgufType::string || value->type == GgufType::boolean ||
      value->type == GgufType::f32 || value->type == GgufType::f64)
    return wrong_type(*value, "an array of integers");
  std::vector<std::int64_t> out(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    out[i] = integer_at(*value, i).value_or(0);
    if (out[i] < min || out[i] > max)
      return error_at(Code::format, -1, "{}: key \"{}\" holds {} at index {}, expected {} to {}", file_, key, out[i], i,
                      min, max);
  }
  return std::optional(std::move(out));
}

Result<std::optional<std::int64_t>> GgufMetadata::integer(std::string_view key, std::int64_t min,
                                                          std::int64_t max) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  const auto found = value->is_array ? std::nullopt : integer_at(*value, 0);
  if (!found) return wrong_type(*value, "an integer");
  if (*found < min || *found > max)
    return error_at(Code::format, -1, "{}: key \"{}\" is {}, expected {} to {}", file_, key, *found, min, max);
  return found;
}

Result<std::optional<double>> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<double>();
  const auto found = value->is_array ? std::nullopt : number_at(*value, 0);
  if (!found) return wrong_type(*value, "a number");
  return found;
}

Result<std::optional<bool>> GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (value->is_array || value->type != GgufType::boolean) return wrong_type(*value, "a boolean");
  return std::optional<bool>(value->bytes[0] != 0);
}

Result<std::optional<std::string_view>> GgufMetadata::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  if (!value->is_text()) return wrong_type(*value, "a string");
  return std::optional<std::string_view>(value->text());
}

Result<std::optional<std::vector<float>>> GgufMetadata::floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<float>>();
  if (!value->is_array || value->type != GgufType::f32) return wrong_type(*value, "an array of f32");
  std::vector<float> out(value->count);
  if (!out.empty()) std::memcpy(out.data(), value->bytes.data(), out.size() * sizeof(float));
  return std::optional(std::move(out));
}

Result<std::optional<std::vector<bool>>> GgufMetadata::booleans(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<bool>>();
  if (!value->is_array || value->type != GgufType::boolean) return wrong_type(*value, "an array of booleans");
  std::vector<bool> out(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) out[i] = value->bytes[i] != 0;
  return std::optional(std::move(out));
}

Result<std::optional<std::vector<std::string_view>>> GgufMetadata::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<std::string_view>>();
  if (!value->is_array || value->type != GgufType::string) return wrong_type(*value, "an array of strings");
  std::vector<std::string_view> out(value->count);
  std::uint64_t at = 0;
  for (std::string_view& text : out) {
    std::uint64_t length = 0;
    std::memcpy(&length, value->bytes.data() + at, 8);
    text = value->bytes.substr(at + 8, length);
    at += 8 + length;
  }
  return std::optional(std::move(out));
}

}  // namespace qinfer::formats
