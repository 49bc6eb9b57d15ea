// messages_request.cpp: a request of Anthropic's messages, as a chat completion.
//
// Of a user's message the results of tools become messages of their own. A final message of the assistant, whose text
// the answer would go on with, is refused: chat completions begin a new one.
#include <limits>

#include "conversation.h"
#include "messages.h"

namespace server {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMaxStops = 256, kMaxStopBytes = 4096;

std::string at(const std::string& name, std::size_t index) { return name + '[' + std::to_string(index) + ']'; }

/// What is cached is decided here, and not by it. Programs send more in it than is known.
void check_cache_control(Fields& fields) {
  const Json* given = fields.find("cache_control");
  if (given == nullptr) return;
  Fields control(*given, fields.name_of("cache_control"));
  const std::string type = control.need_text("type");
  if (type != "ephemeral") refuse_value(control.name_of("type"), type, "ephemeral");
  const auto ttl = control.text("ttl");
  if (ttl && *ttl != "5m" && *ttl != "1h") refuse_value(control.name_of("ttl"), *ttl, "5m or 1h");
}

std::string text_of_block(Fields& block) {
  check_cache_control(block);
  block.pass_over({"citations"});
  std::string text = block.need_text("text");
  block.check_all_known();
  return text;
}

[[noreturn]] void refuse_block(const std::string& name, const std::string& type, std::string_view taken) {
  refuse_request("\"" + name + "\" is a block of type " + text_of(type.substr(0, 40)) + ", only " + std::string(taken) +
                 " are taken");
}

/// A text, or the texts of blocks, of which there are no others.
std::vector<std::string> texts_of(const Json& content, const std::string& name) {
  if (content.is_string()) return {content.get<std::string>()};
  if (!content.is_array()) refuse_value(name, content, "a text or a list of blocks");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < content.size(); ++i) {
    Fields block(content[i], at(name, i));
    const std::string type = block.need_text("type");
    if (type != "text") refuse_block(at(name, i), type, "texts");
    texts.push_back(text_of_block(block));
  }
  return texts;
}

std::string join(const std::vector<std::string>& texts, std::string_view between) {
  std::string joined;
  for (const std::string& text : texts) {
    if (&text != texts.data()) joined += between;
    joined += text;
  }
  return joined;
}

/// Claude Code's first block is another one in each request, and would make each prompt a new one from its start.
constexpr std::string_view kBilling = "x-anthropic-billing-header:";

void add_system(const Json& system, Conversation& into) {
  std::vector<std::string> texts = texts_of(system, "system");
  if (system.is_array())
    std::erase_if(texts, [](const std::string& text) { return text.starts_with(kBilling) || text.empty(); });
  if (!texts.empty()) into.add_text("system", join(texts, "\n"), false);
}

void add_result(Fields& block, const std::string& name, Conversation& into) {
  check_cache_control(block);
  const std::string id = block.need_text("tool_use_id");
  const Json* content = block.find("content");
  std::string text = content == nullptr ? std::string() : join(texts_of(*content, name + ".content"), "\n");
  if (block.boolean("is_error").value_or(false)) text.insert(0, "Error: ");
  block.check_all_known();
  into.add_result(id, std::move(text));
}

void add_user_block(const Json& given, const std::string& name, Conversation& into) {
  Fields block(given, name);
  const std::string type = block.need_text("type");
  if (type == "tool_result") return add_result(block, name, into);
  if (type != "text") refuse_block(name, type, "texts and results of tools");
  into.add_text("user", text_of_block(block), true);
}

void add_tool_use(Fields& block, Conversation& into) {
  check_cache_control(block);
  block.pass_over({"caller"});
  const std::string id = block.need_text("id"), tool = block.need_text("name");
  const Json& input = block.need("input", "an object");
  if (!input.is_object()) refuse_value(block.name_of("input"), input, "an object");
  block.check_all_known();
  into.add_call(id, tool, text_of(input));
}

void add_assistant_block(const Json& given, const std::string& name, Conversation& into) {
  Fields block(given, name);
  const std::string type = block.need_text("type");
  if (type == "text") {
    std::string text = text_of_block(block);
    if (!text.empty()) into.add_text("assistant", std::move(text), true);
  } else if (type == "thinking") {
    block.pass_over({"signature", "cache_control"});
    into.add_reasoning(block.need_text("thinking"));
    block.check_all_known();
  } else if (type == "tool_use") {
    add_tool_use(block, into);
  } else if (type != "redacted_thinking") {
    refuse_block(name, type, "texts, thinking and calls of tools");
  }
}

void add_message(const Json& given, const std::string& name, Conversation& into) {
  Fields message(given, name);
  const std::string role = message.need_text("role");
  if (role != "user" && role != "assistant" && role != "system")
    refuse_value(name + ".role", role, "user, assistant or system");
  const Json& content = message.need("content", "a text or a list of blocks");
  message.check_all_known();
  if (role == "system" || content.is_string()) {
    into.add_text(role, join(texts_of(content, name + ".content"), "\n"), role != "system");
    return;
  }
  if (!content.is_array()) refuse_value(name + ".content", content, "a text or a list of blocks");
  if (role == "user" && content.empty()) refuse_request("\"" + name + ".content\" is empty");
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string block = at(name + ".content", i);
    role == "user" ? add_user_block(content[i], block, into) : add_assistant_block(content[i], block, into);
  }
}

Json messages_of(Fields& fields, bool counts) {
  Conversation conversation;
  if (const Json* system = fields.find("system"); system != nullptr) add_system(*system, conversation);
  const Json& messages = fields.need("messages", "a list of messages");
  if (!messages.is_array() || messages.empty()) refuse_value("messages", messages, "a list of messages, not empty");
  for (std::size_t i = 0; i < messages.size(); ++i) add_message(messages[i], at("messages", i), conversation);
  if (!counts && conversation.last_role() == "assistant")
    refuse_request("\"" + at("messages", messages.size() - 1) +
                   "\" is of the assistant: an answer that goes on with it (prefill) is not supported, the last "
                   "message must be of the user");
  return conversation.take();
}

// ---- Tools

Json tool_of_fields(Fields& tool, const std::string& name) {
  const std::string type = tool.text("type").value_or("custom");
  if (type != "custom")
    refuse_request("\"" + name + ".type\" is " + text_of(type.substr(0, 40)) +
                   ": only tools with an input_schema are taken, which the client runs");
  const std::string tool_name = tool.need_text("name");
  if (tool_name.empty()) refuse_value(name + ".name", tool_name, "a name");
  const auto description = tool.text("description");
  const Json& schema = tool.need("input_schema", "a JSON schema");
  if (!schema.is_object()) refuse_value(name + ".input_schema", schema, "a JSON schema");
  check_cache_control(tool);
  const auto strict = tool.boolean("strict");
  tool.pass_over({"eager_input_streaming"});
  if (tool.boolean("defer_loading").value_or(false))
    refuse_request("\"" + name + ".defer_loading\" is not supported: all tools are offered");
  const Json* callers = tool.list("allowed_callers");
  if (callers != nullptr && *callers != Json::array({"direct"}))
    refuse_request("\"" + name + ".allowed_callers\" is not supported: expected [\"direct\"]");
  tool.refuse("input_examples", "put them into the description");
  tool.check_all_known();
  Json made = tool_of(tool_name, description, &schema);
  if (strict) made["function"]["strict"] = *strict;
  return made;
}

void add_tools(Fields& fields, Json& chat) {
  const Json* tools = fields.list("tools");
  if (tools == nullptr) return;
  Json made = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], at("tools", i));
    made.push_back(tool_of_fields(tool, at("tools", i)));
  }
  if (!made.empty()) chat["tools"] = std::move(made);
}

void add_tool_choice(Fields& fields, Json& chat) {
  const Json* given = fields.find("tool_choice");
  if (given == nullptr) return;
  Fields choice(*given, "tool_choice");
  const std::string type = choice.need_text("type");
  if (type == "auto" || type == "none") {
    chat["tool_choice"] = type;
  } else if (type == "any") {
    chat["tool_choice"] = "required";
  } else if (type == "tool") {
    chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice.need_text("name")}}}};
  } else {
    refuse_value("tool_choice.type", type, "auto, any, tool or none");
  }
  if (choice.boolean("disable_parallel_tool_use").value_or(false)) chat["parallel_tool_calls"] = false;
  choice.check_all_known();
}

// ---- Thinking, and how much of it

void add_thinking(Fields& fields, Json& chat, MessagesAsked& asked) {
  const Json* given = fields.find("thinking");
  if (given == nullptr) return;
  Fields thinking(*given, "thinking");
  const std::string type = thinking.need_text("type");
  if (type == "disabled") {
    chat["reasoning_effort"] = "none";
  } else if (type == "enabled" || type == "adaptive") {
    chat["reasoning"] = true;
    chat["chat_template_kwargs"] = {{"enable_thinking", true}};
    if (type == "enabled") {
      const auto budget = thinking.integer("budget_tokens", 1, kMostTokens);
      if (!budget) refuse_request("\"thinking.budget_tokens\" is missing, expected an integer");
      chat["max_reasoning_tokens"] = *budget;
    }
  } else {
    refuse_value("thinking.type", type, "enabled, adaptive or disabled");
  }
  const auto display = thinking.text("display");
  if (display && *display != "summarized" && *display != "omitted")
    refuse_value("thinking.display", *display, "summarized or omitted");
  asked.omits_thinking = display == "omitted";
  thinking.check_all_known();
}

void add_output_config(Fields& fields, Json& chat) {
  const Json* given = fields.find("output_config");
  if (given == nullptr) return;
  Fields config(*given, "output_config");
  if (const auto effort = config.text("effort"); effort) {
    if (*effort != "low" && *effort != "medium" && *effort != "high" && *effort != "xhigh" && *effort != "max")
      refuse_value("output_config.effort", *effort, "low, medium, high, xhigh or max");
    if (!chat.contains("reasoning_effort"))  // which thinking: disabled sets
      chat["reasoning_effort"] = *effort == "xhigh" || *effort == "max" ? "high" : *effort;
  }
  if (const Json* form = config.find("format"); form != nullptr) {
    Fields format(*form, "output_config.format");
    const std::string type = format.need_text("type");
    if (type != "json_schema") refuse_value("output_config.format.type", type, "json_schema");
    const Json& schema = format.need("schema", "a JSON schema");
    if (!schema.is_object()) refuse_value("output_config.format.schema", schema, "a JSON schema");
    chat["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", schema}}}};
    format.check_all_known();
  }
  config.check_all_known();
}

/// Of thinking in earlier turns the model's template keeps what it keeps: asking for that to be cleared changes
/// nothing.
void check_context_management(Fields& fields) {
  const Json* given = fields.find("context_management");
  if (given == nullptr) return;
  Fields management(*given, "context_management");
  if (const Json* edits = management.list("edits"); edits != nullptr) {
    for (std::size_t i = 0; i < edits->size(); ++i) {
      const std::string name = at("context_management.edits", i);
      const std::string type = Fields((*edits)[i], name).need_text("type");
      if (!type.starts_with("clear_thinking_"))
        refuse_request("\"" + name + "\" is not supported: nothing of a conversation is cut");
    }
  }
  management.check_all_known();
}

// ---- The rest

void add_stops(Fields& fields, Json& chat, MessagesAsked& asked) {
  const Json* stops = fields.list("stop_sequences");
  if (stops == nullptr) return;
  if (stops->size() > kMaxStops)
    refuse_request("\"stop_sequences\" has " + std::to_string(stops->size()) + " texts, expected at most " +
                   std::to_string(kMaxStops));
  for (std::size_t i = 0; i < stops->size(); ++i) {
    const Json& stop = (*stops)[i];
    if (!stop.is_string() || stop.get_ref<const std::string&>().empty() ||
        stop.get_ref<const std::string&>().size() > kMaxStopBytes)
      refuse_value(at("stop_sequences", i), stop, "a text of 1 to " + std::to_string(kMaxStopBytes) + " bytes");
    asked.stops.push_back(stop.get<std::string>());
  }
  if (!stops->empty()) chat["stop"] = *stops;
}

void check_others(Fields& fields) {
  check_cache_control(fields);
  fields.pass_over({"metadata", "service_tier", "inference_geo", "diagnostics", "user_profile_id"});
  check_context_management(fields);
  fields.refuse("container", "there are none");
  fields.refuse("mcp_servers", "the server calls no tools");
  if (const auto speed = fields.text("speed"); speed && *speed != "standard") refuse_value("speed", *speed, "standard");
  fields.check_all_known();
}

}  // namespace

Json chat_of_messages(std::string_view body, bool counts, MessagesAsked& asked) {
  const Json given = read_object(body);
  Fields fields(given, "");
  Json chat = Json::object();
  if (const auto model = fields.text("model"); model) chat["model"] = *model;
  chat["messages"] = messages_of(fields, counts);
  add_tools(fields, chat);
  add_tool_choice(fields, chat);
  add_thinking(fields, chat, asked);
  add_output_config(fields, chat);
  if (!counts) {
    const auto max_tokens = fields.integer("max_tokens", 1, kMostTokens);
    if (!max_tokens) refuse_request("\"max_tokens\" is missing, expected an integer");
    chat["max_tokens"] = *max_tokens;
    add_stops(fields, chat, asked);
    // Of these the names and the values are those of chat completions, which check them.
    for (const char* key : {"temperature", "top_p", "top_k"})
      if (const Json* value = fields.find(key); value != nullptr) chat[key] = *value;
    asked.is_stream = fields.boolean("stream").value_or(false);
  } else {
    fields.pass_over({"max_tokens", "stop_sequences", "temperature", "top_p", "top_k", "stream"});
  }
  check_others(fields);
  chat["stream"] = true;
  chat["stream_options"] = {{"include_usage", true}};
  return chat;
}

}  // namespace server
