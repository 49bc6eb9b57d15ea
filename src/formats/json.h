// Strict reading of JSON files (config.json, tokenizer.json, safetensors headers and indices).
//
// RapidJSON's SAX parser does the lexing. Large tables are read from the events of a parse (JsonEvents); what is
// small becomes a JsonDocument, a flat array of values whose destruction only frees. Both refuse what a careful reader
// must refuse (duplicate keys, nesting beyond 64, trailing bytes) with a Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"

namespace qinfer::formats {

inline constexpr int kMaxJsonDepth = 64;
/// Values of one JsonDocument, each of which takes 56 bytes besides its text.
inline constexpr std::size_t kMaxJsonValues = std::size_t{1} << 20;

enum class JsonType : std::uint8_t { null, boolean, integer, number, string, array, object };

/// null, a boolean, a floating-point number or an integer beyond int64.
struct JsonScalar {
  JsonType type = JsonType::null;
  bool boolean = false;
  double number = 0;           ///< an integer's too, rounded
  std::uint64_t large = 0;     ///< the integer, or 0
  std::string_view text = {};  ///< how a number was written; only during the call of a handler
};
std::string json_text(const JsonScalar& value);

/// One value of a JsonDocument. The values are in one array, in the order of the text: the members of an object or
/// elements of an array follow it, each with all that is inside it.
class Json {
 public:
  JsonType type() const { return type_; }
  bool is_null() const { return type_ == JsonType::null; }
  bool is_boolean() const { return type_ == JsonType::boolean; }
  /// An integer of 64 bits, written without fraction or exponent.
  bool is_integer() const { return type_ == JsonType::integer; }
  bool is_number() const { return type_ == JsonType::integer || type_ == JsonType::number; }
  bool is_string() const { return type_ == JsonType::string; }
  bool is_array() const { return type_ == JsonType::array; }
  bool is_object() const { return type_ == JsonType::object; }

  /// The name of a member of an object.
  std::string_view key() const { return key_; }
  /// The text of a string; empty for other types.
  std::string_view text() const { return is_string() ? text_ : std::string_view(); }
  /// How an integer beyond int64 was written; empty for all others.
  std::string_view spelling() const { return type_ == JsonType::number ? text_ : std::string_view(); }
  bool boolean() const { return type_ == JsonType::boolean && integer_ != 0; }
  std::int64_t integer() const { return type_ == JsonType::integer ? integer_ : 0; }
  double number() const { return type_ == JsonType::integer ? static_cast<double>(integer_) : number_; }

  /// How many members or elements it has.
  std::size_t size() const { return count_; }
  /// The member `key` of an object, null included; nullptr if there is none.
  const Json* find(std::string_view key) const;

  class Iterator {
   public:
    explicit Iterator(const Json* at) : at_(at) {}
    const Json& operator*() const { return *at_; }
    const Json* operator->() const { return at_; }
    Iterator& operator++() {
      at_ += at_->span_;
      return *this;
    }
    bool operator==(const Iterator& other) const = default;

   private:
    const Json* at_;
  };
  Iterator begin() const { return Iterator(this + 1); }
  Iterator end() const { return Iterator(this + span_); }

 private:
  friend class JsonTreeBuilder;
  std::string_view key_, text_;
  union {
    std::int64_t integer_ = 0;
    double number_;
  };
  std::uint32_t span_ = 1;   // values from this one to the end of what is inside it
  std::uint32_t count_ = 0;  // members or elements
  JsonType type_ = JsonType::null;
};

/// The text of a string; empty for other types, and where there is no value.
inline std::string_view text_of(const Json* value) { return value != nullptr ? value->text() : std::string_view(); }

/// The value as JSON, without spaces.
std::string json_text(const Json& value);
/// Appends `text` (valid UTF-8) as a JSON string, quotation marks included.
void append_json_string(std::string_view text, std::string& out);
/// "a string", for messages.
std::string_view type_name(JsonType type);
/// Whether two small values (at most 64 members in any object) are equal; larger ones are taken to differ.
bool same_value(const Json& a, const Json& b);

/// A parsed text: the values and their strings. References to values stay valid when it is moved.
class JsonDocument {
 public:
  /// null if nothing was parsed.
  const Json& root() const { return values_.empty() ? null_ : values_.front(); }

 private:
  friend class JsonTreeBuilder;
  /// Copies a text to where it stays.
  std::string_view keep(std::string_view text);

  Json null_;
  std::vector<Json> values_;
  std::vector<std::unique_ptr<char[]>> chunks_;
  std::size_t chunk_size_ = 0, chunk_used_ = 0;
};

/// Parses `text`, of at most 4 GiB, as one JSON value. A number with an exponent beyond 308 is refused, even of zero.
/// `name` (a file name) begins every message; detail is the byte offset.
Result<JsonDocument> parse_json(std::string_view text, std::string_view name, CancelFlag cancel = {});

/// As parse_json(), but NaN, Infinity and -Infinity, which Python's json module writes and JSON does not have, become
/// the strings "NaN" and so on. They do no harm in a field that is not read; where a number is read, the error names
/// the field.
Result<JsonDocument> parse_python_json(std::string_view text, std::string_view name, CancelFlag cancel = {});

/// Receives the events of a parse whose result must not become a tree, such as a tokenizer's tables. Each handler
/// returns false to stop with an error that it has stored itself. Texts are valid during the call.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool on_key(std::string_view key) = 0;
  virtual bool on_string(std::string_view value) = 0;
  virtual bool on_integer(std::int64_t value) = 0;
  virtual bool on_other(const JsonScalar& value) = 0;
  virtual bool on_begin(bool is_object) = 0;
  virtual bool on_end(bool is_object) = 0;
};

/// Feeds the events of `text` to `events`. Duplicate keys are the handler's to refuse. A handler that stopped the parse
/// has its own error: then the returned Status is ok() and the caller asks the handler. QINFER_E_CANCELLED within a
/// mebibyte of text of a request.
Status parse_json_events(std::string_view text, std::string_view name, JsonEvents& events, CancelFlag cancel);

/// Builds a document out of events: the handler of parse_json, usable for the parts of a file that are small.
class JsonTreeBuilder final : public JsonEvents {
 public:
  bool on_key(std::string_view key) override;
  bool on_string(std::string_view value) override;
  bool on_integer(std::int64_t value) override;
  bool on_other(const JsonScalar& value) override;
  bool on_begin(bool is_object) override;
  bool on_end(bool is_object) override;

  const std::string& failure() const { return failure_; }
  JsonDocument take() { return std::move(document_); }

 private:
  Json* add(JsonType type);
  bool check_keys(std::size_t object);
  JsonDocument document_;
  std::vector<std::size_t> open_;         // objects and arrays that have not ended, outermost first
  std::vector<std::string_view> sorted_;  // working space of check_keys()
  std::string_view key_;
  std::string failure_;
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
