// See conversation.h: conversations put into the forms of a template.
#include "openai/conversation.h"

#include <algorithm>

#include "formats/json_writer.h"

namespace qinfer::openai {
namespace {

using formats::Json;
using formats::JsonWriter;

Role role_of(const Json& message) {
  const std::string_view role = text_of(message.find("role"));
  if (role == "system" || role == "developer") return Role::system;
  if (role == "assistant") return Role::assistant;
  return role == "tool" || role == "function" ? Role::tool : Role::user;
}

bool has_calls(const Json& message) {
  const Json* calls = message.find("tool_calls");
  return calls != nullptr && calls->is_array() && calls->size() != 0;
}

/// How many lists and objects are inside each other.
int depth_of(const Json& value) {
  int depth = 0;
  if (value.is_object() || value.is_array())
    for (const Json& inside : value) depth = std::max(depth, depth_of(inside));
  return value.is_object() || value.is_array() ? depth + 1 : 0;
}

/// Of arguments as an object; around them are six, and what JSON may have is formats::kMaxJsonDepth.
constexpr int kMaxArgumentDepth = formats::kMaxJsonDepth - 8;

/// The text of a part, or null for a part of another kind.
const Json* text_of_part(const Json& part) {
  if (part.is_string()) return &part;
  const Json* text = part.find("text");
  if (text == nullptr) text = part.find("refusal");
  return text != nullptr && text->is_string() ? text : nullptr;
}

/// Writes a conversation anew, and notes whether anything is another than it was.
class Adapter {
 public:
  explicit Adapter(const TemplateForms& forms) : forms_(forms), writer_(out_) {}

  Result<std::optional<std::string>> run(const Json& conversation) {
    writer_.begin_object();
    for (const Json& member : conversation) {
      const bool is_list = member.key() == "tools" || member.key() == "documents";
      if (is_list && (member.is_null() || (member.is_array() && member.size() == 0))) {
        changed_ = true;
        continue;
      }
      writer_.key(member.key());
      if (member.key() == "messages" && member.is_array()) {
        QINFER_TRY(write_messages(member));
      } else {
        writer_.raw(json_text(member));
      }
    }
    writer_.end_object();
    if (!changed_) return std::optional<std::string>();
    return std::optional<std::string>(std::move(out_));
  }

 private:
  Status write_messages(const Json& messages) {
    writer_.begin_array();
    std::size_t i = 0;
    for (const Json& message : messages) {
      if (message.is_object()) {
        QINFER_TRY(write_message(message, i));
      } else {
        writer_.raw(json_text(message));
      }
      ++i;
    }
    writer_.end_array();
    return Status();
  }

  Status write_message(const Json& message, std::size_t index) {
    const Role role = role_of(message);
    const bool calls = has_calls(message);
    writer_.begin_object();
    bool has_content = false;
    for (const Json& member : message) {
      if (member.key() == "content") {
        has_content = true;
        QINFER_TRY(write_content(member, role, calls, index));
      } else if (member.is_null() || (member.key() == "tool_calls" && !calls)) {
        changed_ = true;
      } else if (member.key() == "tool_calls") {
        write_calls(member);
      } else if (member.key() == "role" && member.text() == "developer" && !forms_.developer) {
        writer_.key("role").string("system");
        changed_ = true;
      } else {
        writer_.key(member.key()).raw(json_text(member));
      }
    }
    // The service lets a message that calls tools have no content; to templates it is one without words.
    if (!has_content) QINFER_TRY(write_content(Json(), role, calls, index));
    if (!has_content) changed_ = true;
    writer_.end_object();
    return Status();
  }

  Status write_content(const Json& content, Role role, bool calls, std::size_t index) {
    writer_.key("content");
    const auto at = static_cast<std::size_t>(role);
    if (content.is_null() || (calls && (content.is_string() ? content.text().empty() : content.size() == 0))) {
      const bool as_null = calls && (content.is_null() ? forms_.null_content : !forms_.empty_content);
      if (as_null) {
        changed_ = changed_ || !content.is_null();
        writer_.null();
      } else {
        changed_ = changed_ || !content.is_string();
        writer_.string("");
      }
      return Status();
    }
    if (content.is_array() && !forms_.parts[at]) return write_joined(content, index);
    if (content.is_string() && !forms_.text[at]) {
      writer_.begin_array();
      writer_.begin_object();
      writer_.key("type").string("text");
      writer_.key("text").string(content.text());
      writer_.end_object();
      writer_.end_array();
      changed_ = true;
      return Status();
    }
    writer_.raw(json_text(content));
    return Status();
  }

  Status write_joined(const Json& parts, std::size_t index) {
    std::string joined;
    std::size_t i = 0;
    for (const Json& part : parts) {
      const Json* text = text_of_part(part);
      if (text == nullptr)
        return error(Code::invalid_argument, "messages[{}].content[{}] is of type {}, the model's template takes text",
                     index, i, part.find("type") != nullptr ? json_text(*part.find("type")) : "null");
      joined += text->text();
      ++i;
    }
    writer_.string(joined);
    changed_ = true;
    return Status();
  }

  void write_calls(const Json& calls) {
    writer_.key("tool_calls");
    writer_.begin_array();
    for (const Json& call : calls) {
      const Json* function = call.find("function");
      if (function == nullptr || !function->is_object()) {
        writer_.raw(json_text(call));
        continue;
      }
      writer_.begin_object();
      for (const Json& member : call) {
        writer_.key(member.key());
        if (&member == function) {
          write_function(member);
        } else {
          writer_.raw(json_text(member));
        }
      }
      writer_.end_object();
    }
    writer_.end_array();
  }

  void write_function(const Json& function) {
    writer_.begin_object();
    for (const Json& member : function) {
      writer_.key(member.key());
      if (member.key() == "arguments") {
        write_arguments(member);
      } else {
        writer_.raw(json_text(member));
      }
    }
    writer_.end_object();
  }

  /// A text that is no JSON, or too deep, as a model may have written it, stays a text.
  void write_arguments(const Json& arguments) {
    if (arguments.is_string() && arguments.text().find_first_not_of(" \t\r\n") == std::string_view::npos) {
      changed_ = true;  // of a call without arguments
      writer_.raw(forms_.object_arguments ? "{}" : "\"{}\"");
      return;
    }
    if (arguments.is_string() && forms_.object_arguments) {
      const auto parsed = formats::parse_json(arguments.text(), "arguments");
      if (parsed.ok() && parsed.value().root().is_object() && depth_of(parsed.value().root()) <= kMaxArgumentDepth) {
        changed_ = true;
        writer_.raw(arguments.text());
        return;
      }
    } else if (arguments.is_object() && !forms_.object_arguments && forms_.text_arguments) {
      changed_ = true;
      writer_.string(json_text(arguments));
      return;
    }
    writer_.raw(json_text(arguments));
  }

  const TemplateForms& forms_;
  std::string out_;
  JsonWriter writer_;
  bool changed_ = false;
};

/// What a part is that holds an image, sound or video; empty for another. Parts of templates of transformers name it by
/// their type or, some of them, by a member alone.
std::string_view media_of(const Json& part) {
  constexpr std::string_view kMedia[] = {"image",       "image_url", "input_image", "audio",      "audio_url",
                                         "input_audio", "video",     "video_url",   "input_video"};
  if (!part.is_object()) return {};
  const Json* type = formats::find_field(part, "type");
  for (const std::string_view media : kMedia)
    if (type != nullptr ? type->text() == media : formats::find_field(part, media) != nullptr) return media;
  return {};
}

}  // namespace

Result<std::optional<std::string>> adapt(const Json& conversation, const TemplateForms& forms) {
  return Adapter(forms).run(conversation);
}

Status check_texts_alone(const Json& conversation) {
  const Json* messages = formats::find_field(conversation, "messages");
  if (messages == nullptr || !messages->is_array()) return Status();
  std::size_t index = 0;
  for (const Json& message : *messages) {
    const Json* content = message.is_object() ? formats::find_field(message, "content") : nullptr;
    std::size_t i = 0;
    if (content != nullptr && content->is_array())
      for (const Json& part : *content) {
        if (const std::string_view media = media_of(part); !media.empty())
          return error(Code::unsupported,
                       "messages[{}].content[{}] is of type \"{}\": models are run on text alone, leave it out", index,
                       i, media);
        ++i;
      }
    ++index;
  }
  return Status();
}

}  // namespace qinfer::openai
