// See closed_schema.h.
#include "openai/closed_schema.h"

#include <algorithm>
#include <array>

namespace qinfer::openai {
namespace {

using formats::Json;
using formats::JsonWriter;

// Keywords whose values are schemas, lists of them or objects of them. What is in others, such as "const" and "enum",
// is no schema, and what is under "not" and "if" would mean something else if it were closed.
constexpr std::array<std::string_view, 6> kOfSchemas = {"additionalProperties", "contains",      "items",
                                                        "prefixItems",          "propertyNames", "unevaluatedItems"};
constexpr std::array<std::string_view, 4> kOfNamedSchemas = {"properties", "$defs", "definitions", "patternProperties"};
// Those whose schemas are of the same value as the one that they are in.
constexpr std::array<std::string_view, 2> kChoices = {"anyOf", "oneOf"};
constexpr std::array<std::string_view, 5> kOfSameValue = {"$ref", "allOf", "dependentSchemas", "if",
                                                          "unevaluatedProperties"};

template <std::size_t n>
bool is_one_of(std::string_view key, const std::array<std::string_view, n>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool is_of_objects(const Json& schema) {
  const Json* type = schema.find("type");
  if (text_of(type) == "object") return true;
  if (type != nullptr && type->is_array())
    for (const Json& one : *type)
      if (one.text() == "object") return true;
  const Json* properties = schema.find("properties");
  return properties != nullptr && properties->is_object();
}

/// Whether other schemas may name properties of the same object.
bool is_mixed(const Json& schema) {
  const auto has = [&](std::string_view key) { return schema.find(key) != nullptr; };
  return std::any_of(kOfSameValue.begin(), kOfSameValue.end(), has) ||
         (is_of_objects(schema) && std::any_of(kChoices.begin(), kChoices.end(), has));
}

void write_schema(const Json& schema, bool closes, JsonWriter& writer);

void write_list(const Json& schemas, bool closes, JsonWriter& writer) {
  writer.begin_array();
  for (const Json& one : schemas) write_schema(one, closes, writer);
  writer.end_array();
}

void write_named(const Json& schemas, JsonWriter& writer) {
  writer.begin_object();
  for (const Json& one : schemas) {
    writer.key(one.key());
    write_schema(one, true, writer);
  }
  writer.end_object();
}

/// The depth of the recursion is that of the JSON, which is bounded.
void write_schema(const Json& schema, bool closes, JsonWriter& writer) {
  if (!schema.is_object()) return writer.raw(json_text(schema));
  closes = closes && !is_mixed(schema);
  writer.begin_object();
  for (const Json& member : schema) {
    writer.key(member.key());
    if (member.is_object() && is_one_of(member.key(), kOfNamedSchemas)) {
      write_named(member, writer);
    } else if (member.is_array() && is_one_of(member.key(), kChoices)) {
      write_list(member, closes, writer);
    } else if (member.is_array() && is_one_of(member.key(), kOfSchemas)) {
      write_list(member, true, writer);
    } else if (is_one_of(member.key(), kOfSchemas)) {
      write_schema(member, true, writer);
    } else {
      writer.raw(json_text(member));
    }
  }
  if (closes && is_of_objects(schema) && schema.find("additionalProperties") == nullptr)
    writer.key("additionalProperties").boolean(false);
  writer.end_object();
}

void write_function(const Json& function, bool is_strict, JsonWriter& writer) {
  writer.begin_object();
  for (const Json& field : function) {
    if (field.key() == "strict") continue;
    writer.key(field.key());
    if (is_strict && field.key() == "parameters") {
      write_closed_schema(field, writer);
    } else {
      writer.raw(json_text(field));
    }
  }
  writer.end_object();
}

void write_tool(const Json& tool, bool is_strict, JsonWriter& writer) {
  writer.begin_object();
  for (const Json& field : tool) {
    writer.key(field.key());
    if (field.key() == "function") {
      write_function(field, is_strict, writer);
    } else {
      writer.raw(json_text(field));
    }
  }
  writer.end_object();
}

}  // namespace

void write_closed_schema(const Json& schema, JsonWriter& writer) { write_schema(schema, true, writer); }

void write_tools(const Json& tools, JsonWriter& writer) {
  writer.begin_array();
  for (const Json& tool : tools) {
    const Json* strict = formats::find_field(*formats::find_field(tool, "function"), "strict");
    write_tool(tool, strict != nullptr && strict->boolean(), writer);
  }
  writer.end_array();
}

}  // namespace qinfer::openai
