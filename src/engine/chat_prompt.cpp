// See chat_prompt.h.
#include "engine/chat_prompt.h"

#include <charconv>
#include <chrono>

#include "source/chat_tokens.h"

namespace qinfer::engine {
namespace {

using formats::Json;

constexpr std::string_view kToolTemplate = "tool_use";

const source::ChatTemplate* find_template(const Model& model, std::string_view name) {
  for (const source::ChatTemplate& known : model.chat_templates())
    if (known.name == name) return &known;
  return nullptr;
}

bool has_tools(const Json& conversation) {
  const Json* tools = conversation.find("tools");
  return tools != nullptr && tools->is_array() && tools->size() > 0;
}

/// A member of an object, with the comma after it.
std::string text_member(std::string_view key, std::string_view value) {
  std::string out = format_text("\"{}\":\"", key);
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += format_text("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out + "\",";
}

/// The conversation with what it does not say itself.
std::string completed(const Model& model, std::string_view conversation, const Json& root, const ChatOptions& options) {
  std::string added;
  const source::ChatTemplates& known = model.named_tokens();
  const auto add_token = [&](std::string_view key, const std::optional<std::string>& text) {
    if (text && root.find(key) == nullptr) added += text_member(key, *text);
  };
  add_token("bos_token", source::bos_text(known, model.tokenizer(), model.spec()));
  add_token("eos_token", source::eos_text(known, model.tokenizer(), model.spec()));
  if (options.generation_prompt && root.find("add_generation_prompt") == nullptr)
    added += "\"add_generation_prompt\":true,";
  const std::size_t brace = conversation.find('{');
  if (root.size() == 0 && !added.empty()) added.pop_back();  // its comma
  return format_text("{{{}{}", added, conversation.substr(brace + 1));
}

/// Reads digits and what follows them.
bool take_number(std::string_view& text, std::size_t digits, char after, int& out) {
  if (text.size() < digits) return false;
  const auto [end, code] = std::from_chars(text.data(), text.data() + digits, out);
  if (code != std::errc() || end != text.data() + digits || text[0] == '-') return false;
  text.remove_prefix(digits);
  if (after == 0) return true;
  if (text.empty() || text[0] != after) return false;
  text.remove_prefix(1);
  return true;
}

Result<chat::Date> parse_date(std::string_view text) {
  chat::Date date;
  std::string_view rest = text;
  bool ok = take_number(rest, 4, '-', date.year) && take_number(rest, 2, '-', date.month) &&
            take_number(rest, 2, 0, date.day);
  if (ok && !rest.empty()) {
    ok = rest[0] == 'T' || rest[0] == ' ';
    rest.remove_prefix(1);
    ok = ok && take_number(rest, 2, ':', date.hour) && take_number(rest, 2, ':', date.minute) &&
         take_number(rest, 2, 0, date.second) && rest.empty();
  }
  using std::chrono::year, std::chrono::month, std::chrono::day;
  ok = ok && date.year >= 1 && date.month >= 1 && date.day >= 1 && date.hour < 24 && date.minute < 60 &&
       date.second < 60 &&
       (year(date.year) / month(static_cast<unsigned>(date.month)) / day(static_cast<unsigned>(date.day))).ok();
  if (ok) return date;
  return error(Code::invalid_argument,
               "now is \"{}\", expected a date such as 2026-11-22, or with a time as in 2026-11-22T15:04:05", text);
}

/// In UTC: the zone of a process comes from its environment, which the library does not read.
chat::Date system_date() {
  using namespace std::chrono;
  const auto now = floor<microseconds>(system_clock::now());
  const auto today = floor<days>(now);
  const year_month_day date(today);
  const auto time = duration_cast<seconds>(now - today).count();
  chat::Date out;
  out.year = static_cast<int>(date.year());
  out.month = static_cast<int>(static_cast<unsigned>(date.month()));
  out.day = static_cast<int>(static_cast<unsigned>(date.day()));
  out.hour = static_cast<int>(time / 3600);
  out.minute = static_cast<int>(time / 60 % 60);
  out.second = static_cast<int>(time % 60);
  out.microsecond = static_cast<int>((now - floor<seconds>(now)).count());
  return out;
}

}  // namespace

Result<std::string_view> chat_template_for(const Model& model, const Json& conversation, const ChatOptions& options) {
  if (options.template_text) return std::string_view(*options.template_text);
  const source::ChatTemplate* found = nullptr;
  if (options.template_name) {
    found = find_template(model, *options.template_name);
  } else {
    if (has_tools(conversation)) found = find_template(model, kToolTemplate);
    if (found == nullptr) found = find_template(model, source::kDefaultChatTemplate);
  }
  if (found != nullptr) return std::string_view(found->text);
  const Status& status = model.chat_template_status();
  if (!status.ok()) return error_at(status.code(), status.detail(), "{}", status.message());
  std::string names;
  for (const source::ChatTemplate& known : model.chat_templates()) names += (names.empty() ? "" : ", ") + known.name;
  if (names.empty()) return error(Code::not_found, "the model has no chat template: give one as template_text");
  return error(Code::not_found, "the model has no chat template \"{}\", but: {}",
               options.template_name.value_or(std::string(source::kDefaultChatTemplate)), names);
}

Result<chat::Rendered> render_chat(const Model& model, std::string_view conversation, const ChatOptions& options) {
  QINFER_TRY(options.cancel.check("rendering"));
  QINFER_ASSIGN(const formats::JsonDocument given, formats::parse_json(conversation, "conversation", options.cancel));
  if (!given.root().is_object()) return error(Code::invalid_argument, "conversation: expected an object with messages");
  QINFER_ASSIGN(const std::string_view text, chat_template_for(model, given.root(), options));
  QINFER_ASSIGN(const chat::Template compiled, chat::Template::compile(text));
  chat::RenderOptions render;
  chat::Date date = system_date();
  if (options.now) {
    QINFER_ASSIGN(date, parse_date(*options.now));
  }
  render.now = &date;
  render.cancel = options.cancel;
  QINFER_ASSIGN(const formats::JsonDocument variables,
                formats::parse_json(completed(model, conversation, given.root(), options), "conversation"));
  Result<chat::Rendered> rendered = compiled.render(variables.root(), render);
  if (rendered.ok()) return rendered;
  Status status = rendered.take_status();
  // A bound of the template is none that a larger buffer of the host would lift.
  if (status.code() == Code::buffer_too_small)
    return error_at(Code::unsupported, status.detail(), "{}", status.message());
  return status;
}

Result<std::vector<text::TokenId>> tokenize_chat(const Model& model, std::string_view conversation,
                                                 const ChatOptions& options) {
  if (model.tokenizer() == nullptr) return error(Code::not_found, "the model has no tokenizer");
  QINFER_ASSIGN(const chat::Rendered rendered, render_chat(model, conversation, options));
  std::vector<text::TextPart> content;
  content.reserve(rendered.content.size());
  for (const chat::Span& span : rendered.content) content.push_back({span.begin, span.end});
  text::EncodeOptions encode;
  encode.parse_special = true;
  encode.content = content;
  encode.plain_content = options.plain_content;
  encode.cancel = options.cancel;
  std::vector<text::TokenId> ids;
  QINFER_TRY(model.tokenizer()->encode(rendered.text, encode, ids));
  return ids;
}

}  // namespace qinfer::engine
