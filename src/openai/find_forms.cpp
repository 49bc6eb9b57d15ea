// See conversation.h: the forms that a template takes.
#include "base/format.h"
#include "openai/conversation.h"

namespace qinfer::openai {
namespace {

constexpr std::string_view kFirst = "qzfirst", kSecond = "qzsecond", kKey = "qzkey", kValue = "qzvalue";

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// Whether the words of a content are there, and nothing of how parts are written.
bool is_good_content(const std::optional<std::string>& text) {
  return text && has(*text, kFirst) && has(*text, kSecond) && !has(*text, "'text'") && !has(*text, "\"text\"") &&
         !has(*text, "\\\"text");
}

/// Whether arguments are JSON or taken apart: not a dict as Python prints it, not a text in quotation marks.
bool is_good_call(const std::optional<std::string>& text) {
  return text && has(*text, kKey) && has(*text, kValue) && !has(*text, format_text("'{}'", kKey)) &&
         !has(*text, format_text("\\\"{}", kKey)) && !has(*text, "None");
}

/// With the variables that some templates fail without, and tools unless those are what it fails on.
std::string conversation_of(const std::string& messages, bool tools) {
  std::string offered;
  if (tools)
    offered = format_text(
        R"("tools":[{{"type":"function","function":{{"name":"qzcall","description":"d","parameters":{{"type":"object",)"
        R"("properties":{{"{}":{{"type":"string","description":"d"}}}}}}}}}}],)",
        kKey);
  return format_text(R"({{"messages":[{}],{}"bos_token":"","eos_token":"","functions":"[]","datetime":"now",)"
                     R"("add_generation_prompt":false}})",
                     messages, offered);
}

std::string call_message(const std::string& content, bool object) {
  const std::string arguments =
      object ? format_text(R"({{"{}":"{}"}})", kKey, kValue) : format_text(R"("{{\"{}\":\"{}\"}}")", kKey, kValue);
  return format_text(
      R"({{"role":"assistant","content":{},"tool_calls":[{{"id":"call00000","type":"function","function":)"
      R"({{"name":"qzcall","arguments":{}}}}}]}})",
      content, arguments);
}

std::string message(std::string_view role, const std::string& content) {
  return format_text(R"({{"role":"{}","content":{}}})", role, content);
}

/// Messages of which one has this role and content.
std::string with_content(Role role, const std::string& content, const TemplateForms& forms) {
  const std::string user = message("user", "\"w\"");
  switch (role) {
    case Role::system: return message("system", content) + "," + user;
    case Role::user: return message("user", content);
    case Role::assistant: return user + "," + message("assistant", content) + "," + user;
    case Role::tool: break;
  }
  return user + "," + call_message(forms.empty_content ? "\"\"" : "null", forms.object_arguments) +
         format_text(R"(,{{"role":"tool","name":"qzcall","tool_call_id":"call00000","content":{}}})", content);
}

void find_content_forms(Role role, const Render& render, bool tools, TemplateForms& forms) {
  const auto takes = [&](const std::string& content) {
    return is_good_content(render(conversation_of(with_content(role, content, forms), tools)));
  };
  const auto at = static_cast<std::size_t>(role);
  forms.text[at] = takes(format_text(R"("{} {}")", kFirst, kSecond));
  forms.parts[at] =
      takes(format_text(R"([{{"type":"text","text":"{}"}},{{"type":"text","text":" {}"}}])", kFirst, kSecond));
  if (!forms.parts[at]) forms.text[at] = true;
}

/// Whether there are any.
bool find_call_forms(const Render& render, bool tools, TemplateForms& forms) {
  bool good[2][2] = {};  // by arguments as an object, by a null content
  for (const bool object : {true, false}) {
    for (const bool null : {false, true}) {
      const std::string call = call_message(null ? "null" : "\"\"", object);
      const std::string messages = message("user", "\"w\"") + "," + call;
      good[object ? 1 : 0][null ? 1 : 0] = is_good_call(render(conversation_of(messages, tools)));
    }
  }
  const bool by_object = good[1][0] || good[1][1], by_text = good[0][0] || good[0][1];
  if (!by_object && !by_text) return false;
  forms.object_arguments = by_object;
  forms.text_arguments = by_text;
  const auto& row = good[by_object ? 1 : 0];
  forms.empty_content = row[0];
  forms.null_content = row[1];
  return true;
}

}  // namespace

TemplateForms find_forms(std::string_view source, const Render& render) {
  TemplateForms forms;
  forms.developer = has(source, "developer");
  bool tools = true;
  if (!find_call_forms(render, tools, forms)) {
    tools = !render(conversation_of(message("user", "\"w\""), false)) ||
            render(conversation_of(message("user", "\"w\""), true));
    if (!tools) find_call_forms(render, tools, forms);
  }
  for (const Role role : {Role::system, Role::user, Role::assistant, Role::tool})
    find_content_forms(role, render, tools, forms);
  return forms;
}

}  // namespace qinfer::openai
