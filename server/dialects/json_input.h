// json_input.h: JSON from clients, read with bounds, and typed access to its fields by name. Fields remembers each name
// that it was asked for, so that a field with any other name can be refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace server {

/// Members stay in their order, which prompts are made of.
using Json = nlohmann::ordered_json;

/// The bounds of the library's own requests, so that none passes here that would not pass there.
inline constexpr std::size_t kMaxBytes = std::size_t{64} << 20, kMaxDepth = 64, kMaxValues = std::size_t{1} << 20;

/// An object. Throws Refusal for what is no JSON, or has a key twice.
Json read_object(std::string_view text);
/// Nothing for what is no JSON object within the bounds.
std::optional<Json> try_read_object(std::string_view text);
/// In one line; what is no UTF-8 is replaced.
std::string text_of(const Json& value);

/// Throws Refusal: the field `name` is this, and something else was expected.
[[noreturn]] void refuse_value(const std::string& name, const Json& value, std::string_view expected);
/// Throws Refusal: the request is wrong, or asks for what is not there.
[[noreturn]] void refuse_request(const std::string& reason);

/// null is as if the field were not there.
class Fields {
 public:
  /// `name`: of the object in messages; "" for the request. Throws Refusal for what is no object, as all others do for
  /// what is not as it must be.
  Fields(const Json& object, std::string name);

  const Json* find(std::string_view key);
  const Json& need(std::string_view key, std::string_view expected);
  std::optional<std::string> text(std::string_view key);
  std::string need_text(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max);
  /// A list, or null.
  const Json* list(std::string_view key);

  /// Fields that change nothing.
  void pass_over(std::initializer_list<std::string_view> keys);
  void refuse(std::string_view key, std::string_view reason);
  void check_all_known() const;

  std::string name_of(std::string_view key) const;

 private:
  const Json& object_;
  std::string name_;
  std::vector<std::string_view> known_;
};

}  // namespace server
