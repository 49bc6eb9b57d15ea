// The tools that a conversation offers, and what their schemas say of parameters: as which JSON value the text that a
// model wrote for one is meant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"

namespace qinfer::reply {

/// Of a parameter: the types of JSON that its schema allows, a bit for each; 0 where it says nothing of them.
using JsonTypes = std::uint32_t;
constexpr JsonTypes bit_of(formats::JsonType type) { return JsonTypes{1} << static_cast<unsigned>(type); }

/// {"function": {"name", "parameters"}} or {"name", "parameters"} each.
class ToolList {
 public:
  ToolList() = default;
  /// Of a conversation: its "tools".
  explicit ToolList(const formats::Json& conversation);
  /// Nothing may be called, not even what needs no schema.
  static ToolList none() {
    ToolList list;
    list.none_ = true;
    return list;
  }
  bool takes_code() const { return !none_; }
  bool empty() const { return tools_.empty(); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Whether some tool's name begins so.
  bool has_prefix(std::string_view name) const;
  /// Whether the schema of a tool has this parameter.
  bool has_parameter(std::string_view tool, std::string_view parameter) const;
  /// A value of a parameter as JSON. Where the schema allows texts it is one, unless it is the null that is allowed,
  /// too; otherwise it is JSON, or a literal of Python. What is neither is a text, and so is what no schema describes
  /// unless it is JSON.
  std::string value_of(std::string_view tool, std::string_view parameter, std::string_view text) const;

 private:
  struct Parameter {
    std::string name;
    JsonTypes types = 0;
  };
  struct Tool {
    std::string name;
    std::vector<Parameter> parameters;  ///< by name
  };
  const Tool* find(std::string_view name) const;
  const Parameter* find(std::string_view tool, std::string_view parameter) const;
  std::vector<Tool> tools_;
  bool none_ = false;
};

}  // namespace qinfer::reply
