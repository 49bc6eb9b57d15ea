// "tool_choice" that asks for a call: the JSON schema of such a call, which a grammar enforces on the content of a
// reply. A call is {"name": ..., "arguments": {...}} whatever the family of the model writes otherwise, since a schema
// can say that, and the reply's parser reads it (reply::Setup::one_call).
#pragma once

#include <string>
#include <string_view>

#include "formats/json.h"

namespace qinfer::openai {

/// Of a call of the tool `name`, or of any where it is "". `tools`: as a request has them, checked. `arguments`: the
/// key of the arguments. References ("$ref") inside of a tool's parameters are made to hold where those stand then.
std::string forced_call_schema(const formats::Json& tools, std::string_view name, std::string_view arguments);

}  // namespace qinfer::openai
