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

/// What the conversation does not say itself.
std::vector<jinja::AddedVariable> added_variables(const Model& model, const Json& conversation,
                                                  const ChatOptions& options) {
  std::vector<jinja::AddedVariable> added;
  const source::ChatTemplates& known = model.named_tokens();
  const auto add_token = [&](std::string_view key, std::optional<std::string> text) {
    if (text && conversation.find(key) == nullptr) added.push_back({key, std::move(text)});
  };
  add_token("bos_token", source::bos_text(known, model.tokenizer(), model.spec()));
  add_token("eos_token", source::eos_text(known, model.tokenizer(), model.spec()));
  constexpr std::string_view kGenerates = "add_generation_prompt";
  if (options.generation_prompt && conversation.find(kGenerates) == nullptr)
    added.push_back({kGenerates, std::nullopt});
  return added;
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

Result<jinja::Date> parse_date(std::string_view text) {
  jinja::Date date;
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
jinja::Date system_date() {
  using namespace std::chrono;
  const auto now = floor<microseconds>(system_clock::now());
  const auto today = floor<days>(now);
  const year_month_day date(today);
  const auto time = duration_cast<seconds>(now - today).count();
  jinja::Date out;
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

namespace {

/// The template of the model that a conversation is rendered with.
Result<const source::ChatTemplate*> template_of(const Model& model, const Json& conversation,
                                                const ChatOptions& options) {
  const source::ChatTemplate* found = nullptr;
  if (options.template_name) {
    found = find_template(model, *options.template_name);
  } else {
    if (has_tools(conversation)) found = find_template(model, kToolTemplate);
    if (found == nullptr) found = find_template(model, source::kDefaultChatTemplate);
  }
  if (found != nullptr) return found;
  const Status& status = model.chat_template_status();
  if (!status.ok()) return error_at(status.code(), status.detail(), "{}", status.message());
  std::string names;
  for (const source::ChatTemplate& known : model.chat_templates()) names += (names.empty() ? "" : ", ") + known.name;
  if (names.empty()) return error(Code::not_found, "the model has no chat template: give one as template_text");
  return error(Code::not_found, "the model has no chat template \"{}\", but: {}",
               options.template_name.value_or(std::string(source::kDefaultChatTemplate)), names);
}

/// The same, ready to run; or the one that the host gave.
Result<std::shared_ptr<const CompiledTemplate>> compiled_template(const Model& model, const Json& conversation,
                                                                  const ChatOptions& options) {
  if (options.template_text) return CompiledTemplate::compile(*options.template_text);
  QINFER_ASSIGN(const source::ChatTemplate* found, template_of(model, conversation, options));
  return model.compiled_templates().get(*found);
}

Result<jinja::Rendered> render_with(const Model& model, const jinja::Template& compiled, const Json& conversation,
                                    const ChatOptions& options, const jinja::Date& date, const jinja::Limits& limits) {
  jinja::RenderOptions render;
  render.now = &date;
  render.cancel = options.cancel;
  render.added = added_variables(model, conversation, options);
  render.limits = limits;
  return compiled.render(conversation, render);
}

/// The forms that a template takes. Rendering the small conversations that tell has tighter bounds than others.
Result<openai::TemplateForms> forms_of(const Model& model, const CompiledTemplate& compiled,
                                       const ChatOptions& options) {
  constexpr jinja::Limits kLimits{.steps = 1 << 18, .output = 1 << 20, .memory = 4 << 20};
  return compiled.forms([&]() -> Result<openai::TemplateForms> {
    const auto render = [&](const std::string& conversation) -> std::optional<std::string> {
      const auto parsed = formats::parse_json(conversation, "conversation");
      if (!parsed.ok()) return std::nullopt;
      auto rendered = render_with(model, compiled.get(), parsed.value().root(), options, system_date(), kLimits);
      return rendered.ok() ? std::optional(std::move(rendered.value().text)) : std::nullopt;
    };
    openai::TemplateForms forms = openai::find_forms(compiled.source(), render);
    QINFER_TRY(options.cancel.check("rendering"));
    return forms;
  });
}

}  // namespace

Result<std::string_view> chat_template_for(const Model& model, const Json& conversation, const ChatOptions& options) {
  if (options.template_text) return std::string_view(*options.template_text);
  QINFER_ASSIGN(const source::ChatTemplate* found, template_of(model, conversation, options));
  return std::string_view(found->text);
}

Result<formats::JsonDocument> parse_conversation(std::string_view conversation, const ChatOptions& options) {
  QINFER_TRY(options.cancel.check("rendering"));
  QINFER_ASSIGN(formats::JsonDocument given, formats::parse_json(conversation, "conversation", options.cancel));
  if (!given.root().is_object()) return error(Code::invalid_argument, "conversation: expected an object with messages");
  return given;
}

Result<jinja::Rendered> render_chat(const Model& model, const Json& conversation, const ChatOptions& options) {
  QINFER_TRY(openai::check_texts_alone(conversation));
  QINFER_ASSIGN(const std::shared_ptr<const CompiledTemplate> compiled,
                compiled_template(model, conversation, options));
  jinja::Date date = system_date();
  if (options.now) {
    QINFER_ASSIGN(date, parse_date(*options.now));
  }
  formats::JsonDocument adapted;
  const Json* messages = &conversation;
  if (options.openai_forms) {
    QINFER_ASSIGN(const openai::TemplateForms forms, forms_of(model, *compiled, options));
    QINFER_ASSIGN(const std::optional<std::string> text, openai::adapt(conversation, forms));
    if (text) {
      QINFER_ASSIGN(adapted, formats::parse_json(*text, "conversation", options.cancel));
      messages = &adapted.root();
    }
  }
  Result<jinja::Rendered> rendered = render_with(model, compiled->get(), *messages, options, date, {});
  if (rendered.ok()) return rendered;
  Status status = rendered.take_status();
  // A bound of the template is none that a larger buffer of the host would lift.
  if (status.code() == Code::buffer_too_small)
    return error_at(Code::unsupported, status.detail(), "{}", status.message());
  return status;
}

Result<jinja::Rendered> render_chat(const Model& model, std::string_view conversation, const ChatOptions& options) {
  QINFER_ASSIGN(const formats::JsonDocument given, parse_conversation(conversation, options));
  return render_chat(model, given.root(), options);
}

Result<std::vector<text::TokenId>> tokenize_chat(const Model& model, std::string_view conversation,
                                                 const ChatOptions& options) {
  if (model.tokenizer() == nullptr) return error(Code::not_found, "the model has no tokenizer");
  QINFER_ASSIGN(const jinja::Rendered rendered, render_chat(model, conversation, options));
  return tokenize_rendered(model, rendered, options);
}

Result<std::vector<text::TokenId>> tokenize_rendered(const Model& model, const jinja::Rendered& rendered,
                                                     const ChatOptions& options) {
  text::EncodeOptions encode;
  encode.parse_special = true;
  encode.content = rendered.content;
  encode.plain_content = options.plain_content;
  encode.cancel = options.cancel;
  std::vector<text::TokenId> ids;
  QINFER_TRY(model.tokenizer()->encode(rendered.text, encode, ids));
  return ids;
}

}  // namespace qinfer::engine
