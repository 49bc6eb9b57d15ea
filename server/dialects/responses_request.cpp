// responses_request.cpp: a request of OpenAI's responses, as a chat completion.
//
// Nothing is stored, so that a request has the whole conversation: "store" may be asked for, since clients do so when
// they say nothing, and is answered with false; what would need a stored response is refused.
#include <algorithm>
#include <array>
#include <limits>

#include "conversation.h"
#include "responses.h"

namespace server {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

std::string at(const std::string& name, std::size_t index) { return name + '[' + std::to_string(index) + ']'; }

std::string quoted(const std::string& type) { return text_of(type.substr(0, 40)); }

// ---- Items of the conversation

/// The texts of parts of these types.
std::vector<std::string> texts_of(const Json& content, const std::string& name,
                                  std::initializer_list<std::string_view> types) {
  if (content.is_string()) return {content.get<std::string>()};
  if (!content.is_array()) refuse_value(name, content, "a text or a list of parts");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < content.size(); ++i) {
    Fields part(content[i], at(name, i));
    const std::string type = part.need_text("type");
    if (std::find(types.begin(), types.end(), type) == types.end())
      refuse_request("\"" + at(name, i) + "\" is a part of type " + quoted(type) + ", only texts are taken");
    texts.push_back(part.need_text(type == "refusal" ? "refusal" : "text"));
    part.pass_over({"annotations", "logprobs", "prompt_cache_breakpoint"});
    part.check_all_known();
  }
  return texts;
}

std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text;
  return joined;
}

void add_message(Fields& item, const std::string& name, Conversation& into) {
  const std::string role = item.need_text("role");
  constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system", "developer"};
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end())
    refuse_value(name + ".role", role, "user, assistant, system or developer");
  const Json& content = item.need("content", "a text or a list of parts");
  auto texts = texts_of(content, name + ".content", {"input_text", "output_text", "text", "refusal"});
  item.pass_over({"id", "status", "phase"});
  bool joins = role == "assistant";
  for (std::string& text : texts) into.add_text(role, std::move(text), std::exchange(joins, true));
  if (texts.empty()) into.add_text(role, "", joins);
}

void add_call(Fields& item, Conversation& into) {
  item.pass_over({"id", "status", "caller"});
  const std::string call = item.need_text("call_id"), name = item.need_text("name");
  if (name.empty()) refuse_value(item.name_of("name"), name, "a name");
  into.add_call(call, name, item.need_text("arguments"));
}

void add_call_output(Fields& item, const std::string& name, Conversation& into) {
  item.pass_over({"id", "status", "caller", "name"});
  const std::string call = item.need_text("call_id");
  const Json& output = item.need("output", "a text or a list of parts");
  into.add_result(call, join(texts_of(output, name + ".output", {"input_text"})));
}

/// Its text, or where there is none a summary of it.
void add_reasoning(Fields& item, const std::string& name, Conversation& into) {
  item.pass_over({"id", "status", "encrypted_content"});
  std::string text;
  if (const Json* content = item.list("content"); content != nullptr)
    text = join(texts_of(*content, name + ".content", {"reasoning_text", "text"}));
  if (const Json* summary = item.list("summary"); summary != nullptr) {
    const std::string short_text = join(texts_of(*summary, name + ".summary", {"summary_text"}));
    if (text.empty()) text = short_text;
  }
  into.add_reasoning(text);
}

void add_item(const Json& given, const std::string& name, Conversation& into) {
  Fields item(given, name);
  const std::string type = item.text("type").value_or("message");
  if (type == "message") {
    add_message(item, name, into);
  } else if (type == "function_call") {
    add_call(item, into);
  } else if (type == "function_call_output") {
    add_call_output(item, name, into);
  } else if (type == "reasoning") {
    add_reasoning(item, name, into);
  } else {
    refuse_request("\"" + name + "\" is an item of type " + quoted(type) +
                   ", only message, function_call, function_call_output and reasoning are taken");
  }
  item.check_all_known();
}

Json messages_of(Fields& fields) {
  Conversation conversation;
  if (const auto instructions = fields.text("instructions"); instructions && !instructions->empty())
    conversation.add_text("system", *instructions, false);
  const Json& input = fields.need("input", "a text or a list of items");
  if (input.is_string()) {
    conversation.add_text("user", input.get<std::string>(), false);
  } else if (input.is_array() && !input.empty()) {
    for (std::size_t i = 0; i < input.size(); ++i) add_item(input[i], at("input", i), conversation);
  } else {
    refuse_value("input", input, "a text or a list of items, not empty");
  }
  return conversation.take();
}

// ---- Tools

void add_tools(Fields& fields, Json& chat, Json& shown) {
  const Json* tools = fields.list("tools");
  if (tools == nullptr) return;
  Json made = Json::array();
  shown["tools"] = *tools;
  for (std::size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], at("tools", i));
    const std::string type = tool.need_text("type");
    if (type != "function")
      refuse_request("\"" + at("tools", i) + ".type\" is " + quoted(type) +
                     ": only tools of type \"function\" are taken, which the client runs");
    const std::string name = tool.need_text("name");
    if (name.empty()) refuse_value(at("tools", i) + ".name", name, "a name");
    const auto description = tool.text("description");
    const Json* parameters = tool.find("parameters");
    if (parameters != nullptr && !parameters->is_object())
      refuse_value(at("tools", i) + ".parameters", *parameters, "a JSON schema");
    const auto strict = tool.boolean("strict");
    if (tool.boolean("defer_loading").value_or(false))
      refuse_request("\"" + at("tools", i) + ".defer_loading\" is not supported: all tools are offered");
    tool.pass_over({"output_schema"});
    tool.check_all_known();
    made.push_back(tool_of(name, description, parameters));
    if (strict) made.back()["function"]["strict"] = *strict;
    for (const char* key : {"parameters", "strict"})  // which each tool of a response has
      if (!shown["tools"][i].contains(key)) shown["tools"][i][key] = nullptr;
  }
  if (!made.empty()) chat["tools"] = std::move(made);
}

void add_tool_choice(Fields& fields, Json& chat, Json& shown) {
  if (const auto parallel = fields.boolean("parallel_tool_calls"); parallel)
    shown["parallel_tool_calls"] = chat["parallel_tool_calls"] = *parallel;
  const Json* given = fields.find("tool_choice");
  if (given == nullptr) return;
  shown["tool_choice"] = *given;
  if (given->is_string()) {
    if (*given != "auto" && *given != "none" && *given != "required")
      refuse_value("tool_choice", *given, "\"auto\", \"none\", \"required\" or a function");
    chat["tool_choice"] = *given;
    return;
  }
  Fields choice(*given, "tool_choice");
  const std::string type = choice.need_text("type");
  if (type != "function") refuse_request("\"tool_choice.type\" is " + quoted(type) + ", only \"function\" is taken");
  chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice.need_text("name")}}}};
  choice.check_all_known();
}

// ---- What the text must be, and reasoning

void add_format(const Json& given, Json& chat) {
  Fields format(given, "text.format");
  const std::string type = format.need_text("type");
  if (type == "json_schema") {
    Json named = {{"name", format.need_text("name")}, {"schema", format.need("schema", "a JSON schema")}};
    format.text("description");
    if (const auto strict = format.boolean("strict"); strict) named["strict"] = *strict;
    chat["response_format"] = {{"type", type}, {"json_schema", std::move(named)}};
  } else if (type == "json_object") {
    chat["response_format"] = {{"type", type}};
  } else if (type != "text") {
    refuse_value("text.format.type", type, "text, json_object or json_schema");
  }
  format.check_all_known();
}

void add_text(Fields& fields, Json& chat, Json& shown) {
  const Json* given = fields.find("text");
  if (given == nullptr) return;
  Fields text(*given, "text");
  text.text("verbosity");
  if (const Json* format = text.find("format"); format != nullptr) {
    add_format(*format, chat);
    shown["text"]["format"] = *format;
  }
  text.check_all_known();
}

void add_reasoning_effort(Fields& fields, Json& chat, Json& shown) {
  const Json* given = fields.find("reasoning");
  if (given == nullptr) return;
  Fields reasoning(*given, "reasoning");
  if (const auto effort = reasoning.text("effort"); effort) {
    constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    const auto found = std::find(kEfforts.begin(), kEfforts.end(), *effort);
    if (found == kEfforts.end())
      refuse_value("reasoning.effort", *effort, "none, minimal, low, medium, high, xhigh or max");
    // Templates know low, medium and high; less is none, and more is high.
    const auto place = static_cast<std::size_t>(found - kEfforts.begin());
    chat["reasoning_effort"] = place < 2 ? "none" : kEfforts[std::min<std::size_t>(place, 4)];
    shown["reasoning"]["effort"] = *effort;
  }
  for (const char* key : {"summary", "generate_summary", "context"}) reasoning.text(key);
  if (const auto mode = reasoning.text("mode"); mode && *mode != "standard")
    refuse_value("reasoning.mode", *mode, "standard");
  reasoning.check_all_known();
}

// ---- The rest

void check_include(Fields& fields) {
  const Json* include = fields.list("include");
  if (include == nullptr) return;
  for (std::size_t i = 0; i < include->size(); ++i) {
    const Json& one = (*include)[i];
    if (!one.is_string()) refuse_value(at("include", i), one, "a text");
    if (one == "message.output_text.logprobs")
      refuse_request("\"" + at("include", i) +
                     "\" is not supported: log probabilities are those of /v1/chat/completions");
  }
}

void check_others(Fields& fields, Json& shown) {
  fields.boolean("store");
  if (fields.boolean("background").value_or(false))
    refuse_request("\"background\" is not supported: nothing is stored, an answer is given to its request alone");
  for (const char* key : {"previous_response_id", "conversation", "prompt"})
    fields.refuse(key, "nothing is stored, send the whole conversation as \"input\"");
  fields.refuse("context_management", "nothing of a conversation is cut");
  fields.refuse("moderation", "nothing is moderated");
  if (const auto truncation = fields.text("truncation"); truncation && *truncation != "disabled")
    refuse_value("truncation", *truncation, "\"disabled\": nothing of a conversation is cut");
  if (const auto top = fields.integer("top_logprobs", 0, 20); top.value_or(0) != 0)
    refuse_request("\"top_logprobs\" is not supported: log probabilities are those of /v1/chat/completions");
  check_include(fields);
  if (const Json* metadata = fields.find("metadata"); metadata != nullptr) {
    if (!metadata->is_object()) refuse_value("metadata", *metadata, "an object of texts");
    for (const auto& [key, value] : metadata->items())
      if (!value.is_string()) refuse_value("metadata." + key.substr(0, 40), value, "a text");
    shown["metadata"] = *metadata;
  }
  if (const Json* options = fields.find("stream_options"); options != nullptr) {
    Fields stream(*options, "stream_options");
    stream.boolean("include_obfuscation");
    stream.check_all_known();
  }
  fields.pass_over({"user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_options",
                    "prompt_cache_retention", "max_tool_calls"});
  fields.check_all_known();
}

/// What a response says where nothing was asked for.
Json defaults() {
  return {{"instructions", nullptr},
          {"max_output_tokens", nullptr},
          {"metadata", Json::object()},
          {"parallel_tool_calls", true},
          {"previous_response_id", nullptr},
          {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
          {"store", false},
          {"temperature", 1.0},
          {"text", {{"format", {{"type", "text"}}}}},
          {"tool_choice", "auto"},
          {"tools", Json::array()},
          {"top_p", 1.0},
          {"truncation", "disabled"}};
}

}  // namespace

Json chat_of_responses(std::string_view body, ResponsesAsked& asked) {
  const Json given = read_object(body);
  Fields fields(given, "");
  Json& shown = asked.shown = defaults();
  Json chat = Json::object();
  if (const auto model = fields.text("model"); model) chat["model"] = *model;
  chat["messages"] = messages_of(fields);
  if (const Json* instructions = fields.find("instructions"); instructions != nullptr)
    shown["instructions"] = *instructions;
  add_tools(fields, chat, shown);
  add_tool_choice(fields, chat, shown);
  add_text(fields, chat, shown);
  add_reasoning_effort(fields, chat, shown);
  if (const auto most = fields.integer("max_output_tokens", 1, kMostTokens); most)
    shown["max_output_tokens"] = chat["max_completion_tokens"] = *most;
  for (const char* key : {"temperature", "top_p"})  // chat completions check them
    if (const Json* value = fields.find(key); value != nullptr) shown[key] = chat[key] = *value;
  asked.is_stream = fields.boolean("stream").value_or(false);
  check_others(fields, shown);
  chat["stream"] = true;
  chat["stream_options"] = {{"include_usage", true}};
  return chat;
}

}  // namespace server
