// See gguf_fields.h.
#include "source/gguf_fields.h"

#include <charconv>
#include <cmath>

#include "base/format.h"

namespace qinfer::source {
namespace {

double shortest(double value) {
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) != value || !std::isfinite(value)) return value;
  const std::string text = format_text("{}", narrow);
  double out = value;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

}  // namespace

GgufFields::GgufFields(const formats::Gguf& gguf, const GgufArchitecture& architecture)
    : gguf_(gguf), architecture_(architecture), hugging_face_(architecture.hugging_face) {
  tree_.on_begin(true);
}

std::string GgufFields::key(std::string_view name) const { return format_text("{}.{}", architecture_.name, name); }

Result<std::optional<std::int64_t>> GgufFields::integer(std::string_view name, std::int64_t min,
                                                        std::int64_t max) const {
  return metadata().integer(key(name), min, max);
}

Result<std::int64_t> GgufFields::required(std::string_view name, std::int64_t min, std::int64_t max) const {
  QINFER_ASSIGN(const auto value, integer(name, min, max));
  if (!value) return missing(name);
  return *value;
}

Result<std::optional<double>> GgufFields::number(std::string_view name, double min, double max) const {
  QINFER_ASSIGN(auto value, metadata().number(key(name)));
  if (value && !(*value >= min && *value <= max))
    return error_at(Code::format, -1, "{}: key \"{}\" is {}, expected {} to {}", file(), key(name), *value, min, max);
  if (value) value = shortest(*value);
  return value;
}

Result<std::optional<std::string_view>> GgufFields::text(std::string_view name) const {
  return metadata().string(key(name));
}

Result<std::optional<std::int64_t>> GgufFields::same_in_layers(std::string_view name, std::int64_t min,
                                                               std::int64_t max) const {
  const formats::GgufValue* stored = metadata().find(key(name));
  if (stored != nullptr && stored->is_array && stored->count != static_cast<std::uint64_t>(n_layers))
    return error_at(Code::format, -1, "{}: key \"{}\" has {} values, expected {}, one for each layer", file(),
                    key(name), stored->count, n_layers);
  QINFER_ASSIGN(const auto values, metadata().integers(key(name), min, max, true));
  if (!values) return std::optional<std::int64_t>();
  for (const std::int64_t value : *values)
    if (value != values->front())
      return error(Code::unsupported, "{}: key \"{}\" has {} and {}: layers that differ are not supported", file(),
                   key(name), values->front(), value);
  return std::optional<std::int64_t>(values->front());
}

Status GgufFields::missing(std::string_view name) const {
  return error_at(Code::format, -1, "{}: the key \"{}\" is missing", file(), key(name));
}

void GgufFields::add_key(std::string_view field) {
  std::string text(field);
  tree_.on_key(text);
}

void GgufFields::add(std::string_view field, std::int64_t value) {
  add_key(field);
  tree_.on_integer(value);
}

void GgufFields::add(std::string_view field, bool value) {
  add_key(field);
  tree_.on_other({.type = formats::JsonType::boolean, .boolean = value});
}

void GgufFields::add(std::string_view field, double value) {
  add_key(field);
  tree_.on_other({.type = formats::JsonType::number, .number = value});
}

void GgufFields::add_null(std::string_view field) {
  add_key(field);
  tree_.on_other({});
}

void GgufFields::add_text(std::string_view field, std::string_view value) {
  add_key(field);
  std::string text(value);
  tree_.on_string(text);
}

void GgufFields::add_list(std::string_view field, std::span<const std::int64_t> values) {
  add_key(field);
  tree_.on_begin(false);
  for (const std::int64_t value : values) tree_.on_integer(value);
  tree_.on_end(false);
}

void GgufFields::add_list(std::string_view field, std::span<const float> values) {
  add_key(field);
  tree_.on_begin(false);
  for (const float value : values)
    tree_.on_other({.type = formats::JsonType::number, .number = static_cast<double>(value)});
  tree_.on_end(false);
}

void GgufFields::add_list(std::string_view field, std::span<const std::string_view> values) {
  add_key(field);
  tree_.on_begin(false);
  for (const std::string_view value : values) {
    std::string text(value);
    tree_.on_string(text);
  }
  tree_.on_end(false);
}

void GgufFields::begin_object(std::string_view field) {
  add_key(field);
  tree_.on_begin(true);
}

void GgufFields::end_object() { tree_.on_end(true); }

Result<std::int64_t> GgufFields::add_window() {
  QINFER_ASSIGN(const auto window, integer("attention.sliding_window", 0, kMaxContext));
  if (window.value_or(0) != 0) add("sliding_window", *window);
  return window.value_or(0);
}

Status GgufFields::add_window_pattern(std::int64_t every) {
  const std::string name = key("attention.sliding_window_pattern");
  const formats::GgufValue* stored = metadata().find(name);
  std::vector<std::string_view> types;
  if (stored != nullptr && stored->is_array) {
    if (stored->type != formats::GgufType::boolean || stored->count != static_cast<std::uint64_t>(n_layers))
      return error_at(Code::format, -1, "{}: key \"{}\" is {} with {} values, expected booleans, one for each layer",
                      file(), name, stored->describe(), stored->count);
    for (const char byte : stored->bytes) types.emplace_back(byte != 0 ? "sliding_attention" : "full_attention");
  } else {
    QINFER_ASSIGN(const auto stated, metadata().integer(name, 1, kMaxLayers));
    for (std::int64_t i = 0; i < n_layers; ++i)
      types.emplace_back((i + 1) % stated.value_or(every) != 0 ? "sliding_attention" : "full_attention");
  }
  add_list("layer_types", types);
  return Status();
}

Result<formats::JsonDocument> GgufFields::take() {
  add_list("architectures", std::span<const std::string_view>(&hugging_face_, 1));
  tree_.on_end(true);
  if (!tree_.failure().empty()) return error(Code::internal, "{}: {}", file(), tree_.failure());
  return tree_.take();
}

}  // namespace qinfer::source
