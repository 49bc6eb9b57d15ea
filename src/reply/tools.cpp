// See tools.h.
#include "reply/tools.h"

#include <algorithm>
#include <utility>

#include "reply/json.h"
#include "reply/python_literal.h"

namespace qinfer::reply {
namespace {

using formats::Json;
using formats::JsonType;

/// What a schema may refer to, and how much of it is looked at: a schema may refer to itself.
struct SchemaWalk {
  const Json& root;
  int left = 1000;  ///< schemas
};

constexpr int kMaxSchemaDepth = 32;

JsonTypes types_named(std::string_view name) {
  if (name == "string") return bit_of(JsonType::string);
  if (name == "integer") return bit_of(JsonType::integer);
  if (name == "number") return bit_of(JsonType::number);
  if (name == "boolean") return bit_of(JsonType::boolean);
  if (name == "null") return bit_of(JsonType::null);
  if (name == "array") return bit_of(JsonType::array);
  return name == "object" ? bit_of(JsonType::object) : 0;
}

/// The schema that "#/a/b" refers to; null if there is none.
const Json* referred(const Json& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const Json* at = &root;
  while (at != nullptr && reference.starts_with('/')) {
    reference.remove_prefix(1);
    const std::size_t end = std::min(reference.find('/'), reference.size());
    at = at->is_object() ? at->find(reference.substr(0, end)) : nullptr;
    reference.remove_prefix(end);
  }
  return reference.empty() ? at : nullptr;
}

JsonTypes types_of(const Json& schema, SchemaWalk& walk, int depth = 0) {
  if (!schema.is_object() || depth > kMaxSchemaDepth || --walk.left < 0) return 0;
  JsonTypes types = 0;
  if (const Json* type = schema.find("type")) {
    if (type->is_string()) return types_named(type->text());
    if (type->is_array())
      for (const Json& one : *type) types |= types_named(one.text());
    if (types != 0) return types;
  }
  if (const Json* values = schema.find("enum"); values != nullptr && values->is_array())
    for (const Json& value : *values) types |= bit_of(value.type());
  if (const Json* value = schema.find("const")) types |= bit_of(value->type());
  if (const Json* reference = schema.find("$ref"))
    if (const Json* target = referred(walk.root, reference->text())) types |= types_of(*target, walk, depth + 1);
  for (const std::string_view key : {"anyOf", "oneOf", "allOf"})
    if (const Json* choices = schema.find(key); choices != nullptr && choices->is_array())
      for (const Json& choice : *choices) types |= types_of(choice, walk, depth + 1);
  return types;
}

}  // namespace

ToolList::ToolList(const Json& conversation) {
  const Json* tools = conversation.find("tools");
  if (tools == nullptr || !tools->is_array()) return;
  for (const Json& entry : *tools) {
    const Json* function = entry.find("function");
    if (function == nullptr) function = &entry;
    const Json* name = function->find("name");
    if (name == nullptr || name->text().empty()) continue;
    Tool tool{std::string(name->text()), {}};
    const Json* schema = function->find("parameters");
    const Json* properties = schema != nullptr ? schema->find("properties") : nullptr;
    if (properties != nullptr && properties->is_object())
      for (const Json& property : *properties) {
        SchemaWalk walk{*schema};
        tool.parameters.push_back({std::string(property.key()), types_of(property, walk)});
      }
    std::sort(tool.parameters.begin(), tool.parameters.end(),
              [](const Parameter& a, const Parameter& b) { return a.name < b.name; });
    tools_.push_back(std::move(tool));
  }
}

const ToolList::Tool* ToolList::find(std::string_view name) const {
  for (const Tool& tool : tools_)
    if (tool.name == name) return &tool;
  return nullptr;
}

bool ToolList::has_prefix(std::string_view name) const {
  return std::any_of(tools_.begin(), tools_.end(), [&](const Tool& tool) { return tool.name.starts_with(name); });
}

const ToolList::Parameter* ToolList::find(std::string_view tool, std::string_view parameter) const {
  const Tool* found = find(tool);
  if (found == nullptr) return nullptr;
  const auto at = std::lower_bound(found->parameters.begin(), found->parameters.end(), parameter,
                                   [](const Parameter& p, std::string_view name) { return p.name < name; });
  return at != found->parameters.end() && at->name == parameter ? &*at : nullptr;
}

bool ToolList::has_parameter(std::string_view tool, std::string_view parameter) const {
  return find(tool, parameter) != nullptr;
}

std::string ToolList::value_of(std::string_view tool, std::string_view parameter, std::string_view text) const {
  const Parameter* found = find(tool, parameter);
  const JsonTypes types = found != nullptr ? found->types : 0;
  const std::string_view written = trim_space(text);
  if ((types & bit_of(JsonType::null)) != 0 && (written == "null" || written == "None")) return "null";
  if ((types & bit_of(JsonType::string)) == 0) {
    if (formats::parse_json(written, "value").ok()) return std::string(types == 0 ? text : written);
    if (types != 0)
      if (auto json = json_of_python(written)) return *std::move(json);
  }
  std::string out;
  formats::append_json_string(text, out);
  return out;
}

}  // namespace qinfer::reply
