// Strict reading of JSON files (config.json, tokenizer.json, safetensors headers and indices).
//
// nlohmann-json does the parsing through its SAX interface; this layer refuses what a careful reader must refuse
// (duplicate keys, nesting beyond 64, trailing bytes) with a Status instead of an exception, and offers typed access
// that names the missing or wrong field.
#pragma once

// A library must not abort: the parser's own consistency checks are compiled out in every build.
#define JSON_ASSERT(condition) static_cast<void>(0)
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace qinfer::formats {

using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 64;

/// Parses `text` as one JSON value. `name` (a file name) begins every message; detail is the byte offset.
Result<Json> parse_json(std::string_view text, std::string_view name);

/// Receives the events of a parse whose result must not become a tree, such as a tokenizer's tables. Each handler
/// returns false to stop with an error that it has stored itself.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool on_key(std::string& key) = 0;
  virtual bool on_string(std::string& value) = 0;
  virtual bool on_integer(std::int64_t value) = 0;
  /// null, booleans, floating-point numbers and integers beyond int64.
  virtual bool on_other(Json value) = 0;
  virtual bool on_begin(bool is_object) = 0;
  virtual bool on_end(bool is_object) = 0;
};

/// Feeds the events of `text` to `events`. Duplicate keys are the handler's to refuse. A handler that stopped the parse
/// has its own error: then the returned Status is ok() and the caller asks the handler.
Status parse_json_events(std::string_view text, std::string_view name, JsonEvents& events);

/// Builds a tree out of events: the handler behind parse_json, usable for the parts of a file that are small.
class JsonTreeBuilder final : public JsonEvents {
 public:
  bool on_key(std::string& key) override;
  bool on_string(std::string& value) override;
  bool on_integer(std::int64_t value) override;
  bool on_other(Json value) override;
  bool on_begin(bool is_object) override;
  bool on_end(bool is_object) override;

  bool complete() const { return stack_.empty() && has_root_; }
  const std::string& failure() const { return failure_; }
  Json take() { return std::move(root_); }

 private:
  bool add(Json value);
  Json root_;
  std::vector<Json*> stack_;
  std::string key_;
  std::string failure_;
  bool has_root_ = false;
};

/// The field `key` of an object, or null if it is absent or JSON null.
const Json* find_field(const Json& object, std::string_view key);

/// Typed access to the fields of one object; `where` ("config.json") begins each message. Fields that are absent or
/// null give std::nullopt; a wrong type or a value out of range is QINFER_E_FORMAT.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  const Json& object() const { return object_; }
  bool has(std::string_view key) const { return find_field(object_, key) != nullptr; }

  Result<std::optional<std::int64_t>> integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string>> string(std::string_view key) const;

  /// As above, but the field must be there.
  Result<std::int64_t> required_integer(std::string_view key, std::int64_t min, std::int64_t max) const;

 private:
  Status wrong_type(std::string_view key, const Json& value, std::string_view expected) const;
  const Json& object_;
  std::string where_;
};

}  // namespace qinfer::formats
