// See forced_call.h.
#include "openai/forced_call.h"

#include "base/format.h"
#include "formats/json_writer.h"

namespace qinfer::openai {
namespace {

using formats::Json;
using formats::JsonWriter;

/// A schema with references to its own root ("#", "#/$defs/x") as ones to `root`, where it is put. The depth of the
/// recursion is that of the JSON, which is bounded.
void write_moved(const Json& value, std::string_view root, JsonWriter& writer) {
  if (value.is_object()) {
    writer.begin_object();
    for (const Json& member : value) {
      writer.key(member.key());
      const bool is_own_reference = member.key() == "$ref" && member.text().starts_with('#');
      if (is_own_reference) {
        writer.string(std::string(root).append(member.text().substr(1)));
      } else {
        write_moved(member, root, writer);
      }
    }
    writer.end_object();
  } else if (value.is_array()) {
    writer.begin_array();
    for (const Json& element : value) write_moved(element, root, writer);
    writer.end_array();
  } else {
    writer.raw(json_text(value));
  }
}

/// Arguments are an object, whether the schema says so or not; without one there are none.
void write_parameters(const Json* parameters, std::string_view root, JsonWriter& writer) {
  if (parameters == nullptr || parameters->size() == 0)
    return writer.raw(R"({"type":"object","properties":{},"additionalProperties":false})");
  if (parameters->find("type") != nullptr) return write_moved(*parameters, root, writer);
  writer.begin_object();
  writer.key("type").string("object");
  for (const Json& member : *parameters) {
    writer.key(member.key());
    write_moved(member, root, writer);
  }
  writer.end_object();
}

void write_call(const Json& function, const std::string& place, std::string_view arguments, JsonWriter& writer) {
  writer.begin_object();
  writer.key("type").string("object");
  writer.key("properties").begin_object();
  writer.key("name").begin_object();
  writer.key("const").string(text_of(formats::find_field(function, "name")));
  writer.end_object();
  writer.key(arguments);
  write_parameters(formats::find_field(function, "parameters"), format_text("{}/properties/{}", place, arguments),
                   writer);
  writer.end_object();
  writer.key("required").begin_array();
  writer.string("name");
  writer.string(arguments);
  writer.end_array();
  writer.key("additionalProperties").boolean(false);
  writer.end_object();
}

}  // namespace

std::string forced_call_schema(const Json& tools, std::string_view name, std::string_view arguments) {
  std::string schema;
  JsonWriter writer(schema);
  const bool is_one = !name.empty() || tools.size() == 1;
  if (!is_one) {
    writer.begin_object();
    writer.key("anyOf").begin_array();
  }
  std::size_t i = 0;
  for (const Json& tool : tools) {
    const Json& function = *formats::find_field(tool, "function");
    if (!name.empty() && text_of(formats::find_field(function, "name")) != name) continue;
    write_call(function, is_one ? "#" : format_text("#/anyOf/{}", i++), arguments, writer);
    if (!name.empty()) break;
  }
  if (!is_one) {
    writer.end_array();
    writer.end_object();
  }
  return schema;
}

}  // namespace qinfer::openai
