// "strict": true of a schema or a tool: each object has no other properties than those that its schema names. OpenAI's
// service refuses strict schemas that do not say so; here they are closed, since a small model that may invent
// properties does, without end.
#pragma once

#include "formats/json.h"
#include "formats/json_writer.h"

namespace qinfer::openai {

/// The schema with "additionalProperties": false in each object that says nothing of them. An object whose properties
/// may be named by other schemas too ("allOf", "$ref", "if", "anyOf" beside "properties" ...) stays as it is.
void write_closed_schema(const formats::Json& schema, formats::JsonWriter& writer);

/// Tools as a request has them, checked; the parameters of those that are strict are closed. That they are is not for
/// the model to read.
void write_tools(const formats::Json& tools, formats::JsonWriter& writer);

}  // namespace qinfer::openai
