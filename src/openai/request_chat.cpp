// See request.h: chat completions.
#include <algorithm>
#include <initializer_list>
#include <limits>

#include "formats/json_writer.h"
#include "openai/closed_schema.h"
#include "openai/request_fields.h"

namespace qinfer::openai {
namespace {

using formats::Json;

Status check_part(const Json& part, const std::string& where) {
  const std::string_view type = text_of(formats::find_field(part, "type"));
  if (type.empty()) return wrong_value(where, part, "a part with a type");
  const bool is_refusal = type == "refusal";
  if (type != "text" && !is_refusal)
    return error(Code::unsupported, "request: \"{}\" is a part of type \"{}\", only texts are taken", where,
                 beginning_of(type));
  const Json* text = formats::find_field(part, is_refusal ? "refusal" : "text");
  if (text == nullptr || !text->is_string()) return wrong_value(where, part, "a part with a text");
  return Status();
}

Status check_calls(const Json& calls, const std::string& where) {
  if (!calls.is_array()) return wrong_value(where, calls, "a list of calls");
  for (const Json& call : calls) {
    const Json* function = call.is_object() ? formats::find_field(call, "function") : nullptr;
    if (function == nullptr || !function->is_object() || text_of(formats::find_field(*function, "name")).empty())
      return wrong_value(where, call, "calls with a function that has a name");
    const Json* arguments = formats::find_field(*function, "arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object())
      return wrong_value(where + ".function.arguments", *arguments, "JSON as text, or an object");
  }
  return Status();
}

/// Each of them is a text, where it is there.
Status check_texts(const Json& object, std::initializer_list<std::string_view> keys, const std::string& where) {
  for (const std::string_view key : keys) {
    const Json* value = formats::find_field(object, key);
    if (value != nullptr && !value->is_string()) return wrong_value(format_text("{}.{}", where, key), *value, "a text");
  }
  return Status();
}

Status check_message(const Json& message, std::size_t index) {
  const std::string where = format_text("messages[{}]", index);
  if (!message.is_object()) return wrong_value(where, message, "an object");
  const Json* role = formats::find_field(message, "role");
  constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  if (role == nullptr) return error_at(Code::format, -1, "request: \"{}.role\" is missing", where);
  if (std::find(std::begin(kRoles), std::end(kRoles), role->text()) == std::end(kRoles))
    return wrong_value(where + ".role", *role, "system, developer, user, assistant or tool");
  for (const std::string_view key : {"audio", "function_call"})
    if (formats::find_field(message, key) != nullptr)
      return error(Code::unsupported, "request: \"{}.{}\" is not supported", where, key);
  QINFER_TRY(check_texts(message, {"name", "tool_call_id"}, where));
  const Json* calls = formats::find_field(message, "tool_calls");
  if (calls != nullptr) QINFER_TRY(check_calls(*calls, where + ".tool_calls"));
  const Json* content = formats::find_field(message, "content");
  if (content == nullptr) {
    if (role->text() == "assistant") return Status();
    return error_at(Code::format, -1, "request: \"{}.content\" is missing, expected a text or a list of parts", where);
  }
  if (content->is_string()) return Status();
  if (!content->is_array() || content->size() == 0)
    return wrong_value(where + ".content", *content, "a text or a list of parts, not empty");
  std::size_t i = 0;
  for (const Json& part : *content) QINFER_TRY(check_part(part, format_text("{}.content[{}]", where, i++)));
  return Status();
}

Status check_tools(const Json& tools) {
  if (!tools.is_array()) return wrong_value("tools", tools, "a list of tools");
  std::size_t i = 0;
  for (const Json& tool : tools) {
    const std::string where = format_text("tools[{}]", i++);
    if (!tool.is_object()) return wrong_value(where, tool, "an object");
    const std::string_view type = text_of(formats::find_field(tool, "type"));
    if (type != "function")
      return error(Code::unsupported, "request: \"{}.type\" is \"{}\", expected \"function\"", where,
                   beginning_of(type));
    const Json* function = formats::find_field(tool, "function");
    if (function == nullptr || !function->is_object() || text_of(formats::find_field(*function, "name")).empty())
      return wrong_value(where, tool, "a function with a name");
    const Json* parameters = formats::find_field(*function, "parameters");
    if (parameters != nullptr && !parameters->is_object())
      return wrong_value(where + ".function.parameters", *parameters, "a JSON schema");
    const Json* strict = formats::find_field(*function, "strict");
    if (strict != nullptr && !strict->is_boolean())
      return wrong_value(where + ".function.strict", *strict, "true or false");
  }
  return Status();
}

const Json* find_tool(const Json& tools, std::string_view name) {
  for (const Json& tool : tools)
    if (text_of(formats::find_field(*formats::find_field(tool, "function"), "name")) == name) return &tool;
  return nullptr;
}

/// "tool_choice" that asks for a call of any tool, or of the one that it names.
Status read_forced_call(const Json& choice, const Json* tools, Request& request) {
  if (tools == nullptr || tools->size() == 0)
    return error_at(Code::format, -1, "request: \"tool_choice\" asks for a call, and there are no \"tools\"");
  request.forces_call = true;
  if (!choice.is_object()) return Status();
  const std::string_view type = text_of(formats::find_field(choice, "type"));
  if (type != "function")
    return error(Code::unsupported, "request: \"tool_choice.type\" is \"{}\", expected \"function\"",
                 beginning_of(type));
  const Json* function = formats::find_field(choice, "function");
  const std::string_view name =
      function != nullptr && function->is_object() ? text_of(formats::find_field(*function, "name")) : "";
  if (name.empty()) return wrong_value("tool_choice", choice, "a function with a name");
  if (find_tool(*tools, name) == nullptr)
    return error_at(Code::format, -1, "request: \"tool_choice\" names \"{}\", which is none of the \"tools\"",
                    beginning_of(name));
  request.forced_name = name;
  return Status();
}

/// Whether the tools are offered, and whether one must be called.
Status read_tools(Fields& fields, const Json* tools, Request& request) {
  if (tools != nullptr) QINFER_TRY(check_tools(*tools));
  const Json* choice = fields.find("tool_choice");
  request.offers_tools = tools != nullptr && tools->size() != 0;
  if (choice == nullptr || choice->text() == "auto") return Status();
  if (choice->text() == "none") {
    request.offers_tools = false;
    return Status();
  }
  if (choice->is_object() || choice->text() == "required") return read_forced_call(*choice, tools, request);
  return wrong_value("tool_choice", *choice, "\"auto\", \"none\", \"required\" or a function with a name");
}

Status read_response_format(Fields& fields, Request& request) {
  const Json* format = fields.find("response_format");
  if (format == nullptr) return Status();
  const std::string_view type =
      format->is_object() ? text_of(formats::find_field(*format, "type")) : std::string_view();
  if (type == "text") return Status();
  if (type == "json_object") {
    const Json* schema = formats::find_field(*format, "schema");  // as llama.cpp's server takes one
    if (schema != nullptr && !schema->is_object() && !schema->is_boolean())
      return wrong_value("response_format.schema", *schema, "a JSON schema");
    request.schema = schema != nullptr ? json_text(*schema) : R"({"type":"object"})";
  } else if (type == "json_schema") {
    const Json* named = formats::find_field(*format, "json_schema");
    const Json* schema = named != nullptr && named->is_object() ? formats::find_field(*named, "schema") : nullptr;
    if (schema == nullptr)
      return error_at(Code::format, -1, "request: \"response_format.json_schema.schema\" is missing");
    if (!schema->is_object() && !schema->is_boolean())
      return wrong_value("response_format.json_schema.schema", *schema, "a JSON schema");
    QINFER_TRY(check_texts(*named, {"name", "description"}, "response_format.json_schema"));
    const Json* strict = formats::find_field(*named, "strict");
    if (strict != nullptr && !strict->is_boolean())
      return wrong_value("response_format.json_schema.strict", *strict, "true or false");
    formats::JsonWriter writer(request.schema);
    if (strict != nullptr && strict->boolean()) {
      write_closed_schema(*schema, writer);
    } else {
      writer.raw(json_text(*schema));
    }
  } else {
    return wrong_value("response_format", *format, "an object of type \"text\", \"json_object\" or \"json_schema\"");
  }
  if (request.offers_tools)
    return error(Code::unsupported,
                 "request: \"response_format\" of type {} leaves no room for calls of tools; send "
                 "\"tool_choice\": \"none\" with it",
                 type);
  return Status();
}

Status read_limits(Fields& fields, Request& request) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  QINFER_ASSIGN(const auto old_name, fields.integer("max_tokens", 1, kMost));
  QINFER_ASSIGN(const auto max_tokens, fields.integer("max_completion_tokens", 1, kMost));
  if (max_tokens || old_name) request.max_tokens = static_cast<std::uint32_t>(max_tokens ? *max_tokens : *old_name);
  QINFER_ASSIGN(const auto reasoning, fields.integer("max_reasoning_tokens", 0, kMost));
  request.max_reasoning_tokens = static_cast<std::uint32_t>(reasoning.value_or(0));
  // Reasoning that uses up all tokens would leave a content that a schema asks for without any.
  const bool has_schema = !request.schema.empty() || request.forces_call;
  if (!reasoning && has_schema && request.max_tokens)
    request.max_reasoning_tokens = std::max(*request.max_tokens / 2, 1U);
  return Status();
}

Status read_logprobs(Fields& fields, Request& request) {
  QINFER_ASSIGN(const auto logprobs, fields.boolean("logprobs"));
  QINFER_ASSIGN(const auto top, fields.integer("top_logprobs", 0, kMaxTopLogprobs));
  if (logprobs.value_or(false)) {
    request.logprobs = static_cast<std::uint32_t>(top.value_or(0));
  } else if (top.value_or(0) != 0) {
    return error_at(Code::format, -1, "request: \"top_logprobs\" is {} without \"logprobs\": true", *top);
  }
  return Status();
}

/// A field that is one of these texts, where it is there.
Status check_choice(Fields& fields, std::string_view key, std::initializer_list<std::string_view> texts) {
  const Json* value = fields.find(key);
  if (value == nullptr || (value->is_string() && std::find(texts.begin(), texts.end(), value->text()) != texts.end()))
    return Status();
  std::string expected = "one of";
  for (const std::string_view text : texts) expected += format_text(" \"{}\"", text);
  return wrong_value(key, *value, expected);
}

/// A text, or its parts, that much of the answer is like. Tokens are guessed without it.
Status check_prediction(const Json* prediction) {
  if (prediction == nullptr) return Status();
  const Json* content = prediction->is_object() ? formats::find_field(*prediction, "content") : nullptr;
  if (content == nullptr || text_of(formats::find_field(*prediction, "type")) != "content")
    return wrong_value("prediction", *prediction, "an object of type \"content\" with a content");
  if (content->is_string()) return Status();
  if (!content->is_array() || content->size() == 0)
    return wrong_value("prediction.content", *content, "a text or a list of parts, not empty");
  std::size_t i = 0;
  for (const Json& part : *content) QINFER_TRY(check_part(part, format_text("prediction.content[{}]", i++)));
  return Status();
}

Status refuse_others(Fields& fields, Request& request) {
  const Json* modalities = fields.find("modalities");
  if (modalities != nullptr &&
      !(modalities->is_array() && modalities->size() == 1 && modalities->begin()->text() == "text"))
    return wrong_value("modalities", *modalities, "[\"text\"]");
  const Json* store = fields.find("store");
  if (store != nullptr && !store->is_boolean()) return wrong_value("store", *store, "true or false");
  if (store != nullptr && store->boolean()) return fields.refuse("store", "nothing is stored");
  QINFER_TRY(fields.refuse("audio", "answers are text"));
  QINFER_TRY(fields.refuse("web_search_options", "nothing is searched"));
  QINFER_TRY(fields.refuse("moderation", "nothing is moderated"));
  QINFER_TRY(fields.refuse("functions", "send \"tools\""));
  QINFER_TRY(fields.refuse("function_call", "send \"tool_choice\""));
  QINFER_TRY(check_choice(fields, "verbosity", {"low", "medium", "high"}));
  QINFER_TRY(check_prediction(fields.find("prediction")));
  fields.pass_over(
      {"service_tier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "verbosity", "prediction"},
      request.unused);
  return Status();
}

/// Variables of the template beside messages and tools.
Status write_variables(Fields& fields, Request& request, formats::JsonWriter& writer) {
  QINFER_TRY(check_choice(fields, "reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"}));
  QINFER_ASSIGN(const auto effort, fields.text("reasoning_effort"));
  const Json* variables = fields.find("chat_template_kwargs");
  if (variables != nullptr && !variables->is_object())
    return wrong_value("chat_template_kwargs", *variables, "an object of the template's variables");
  const auto gives = [&](std::string_view key) { return variables != nullptr && variables->find(key) != nullptr; };
  for (const std::string_view key : {"messages", "tools"})
    if (gives(key))
      return error_at(Code::format, -1, "request: \"chat_template_kwargs\" has \"{}\", which is a field", key);
  if (effort && !gives("reasoning_effort")) writer.key("reasoning_effort").string(*effort);
  if (effort == "none" && !gives("enable_thinking")) writer.key("enable_thinking").boolean(false);
  if (variables != nullptr)
    for (const Json& variable : *variables) writer.key(variable.key()).raw(json_text(variable));
  QINFER_ASSIGN(const auto reasons, fields.boolean("reasoning"));
  request.reasons = reasons.value_or(effort != "none");
  return Status();
}

}  // namespace

Status read_chat(Fields& fields, Request& request) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr) return error_at(Code::format, -1, "request: \"messages\" is missing");
  if (!messages->is_array() || messages->size() == 0)
    return wrong_value("messages", *messages, "a list of messages, not empty");
  std::size_t i = 0;
  for (const Json& message : *messages) QINFER_TRY(check_message(message, i++));
  const Json* tools = fields.find("tools");
  QINFER_TRY(read_tools(fields, tools, request));
  QINFER_ASSIGN(const auto parallel, fields.boolean("parallel_tool_calls"));
  request.parallel_calls = parallel.value_or(true);
  QINFER_TRY(read_response_format(fields, request));
  QINFER_TRY(read_limits(fields, request));
  QINFER_TRY(read_logprobs(fields, request));

  formats::JsonWriter writer(request.conversation);
  writer.begin_object();
  writer.key("messages").raw(json_text(*messages));
  if (request.offers_tools) {
    writer.key("tools");
    write_tools(*tools, writer);
  }
  QINFER_TRY(write_variables(fields, request, writer));
  writer.end_object();
  return refuse_others(fields, request);
}

}  // namespace qinfer::openai
