// See chat_tokens.h.
#include "source/chat_tokens.h"

#include <algorithm>
#include <string_view>

#include "jinja/template.h"
#include "text/fields.h"
#include "text/tables.h"

namespace qinfer::source {
namespace {

using text::in_quotes;
using text::TokenId;

/// Added tokens with these names end a turn in every model that has them.
constexpr std::string_view kEndNames[] = {
    "<|eot_id|>",      "<|eom_id|>",         "<|im_end|>",    "<|end|>",
    "<|return|>",      "<|call|>",           "<end_of_turn>", "<|endoftext|>",
    "<|end_of_text|>", "<end_of_utterance>", "<EOT>",         "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};

/// A name that ends only a part of a turn in models that have another token, too.
struct Exception {
  std::string_view name, beside;
};
constexpr Exception kExceptions[] = {{"<|end|>", "<|return|>"}};

constexpr std::string_view kQuestion = "How far is it?", kAnswer = "Two miles.", kNext = "And back?";
/// A template that needs more for three short messages is left alone.
constexpr jinja::Limits kLimits{.steps = 1 << 20, .output = 4 << 20, .memory = 16 << 20};
constexpr std::size_t kMaxLiteral = 64;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

std::optional<std::string> special_text(const ChatTemplates& templates, const std::optional<std::string>& said,
                                        const text::Tokenizer* tokenizer, TokenId id) {
  if (said || templates.has_texts || tokenizer == nullptr || id < 0) return said;
  const std::string_view content = tokenizer->content(id);
  return content.empty() ? std::nullopt : std::optional<std::string>(content);
}

class TurnEnds {
 public:
  TurnEnds(const ChatTemplates& templates, text::Tokenizer& tokenizer, model::ModelSpec& spec, Notes& notes,
           CancelFlag cancel)
      : templates_(templates), tokenizer_(tokenizer), spec_(spec), notes_(notes), cancel_(cancel) {}

  Status run() {
    const std::size_t named = spec_.end_tokens.size();
    add_known();
    for (const ChatTemplate& one : templates_.list)
      if (one.name == kDefaultChatTemplate) QINFER_TRY(read_template(one.text));
    spec_.n_found_ends = spec_.end_tokens.size() - named;
    return Status();
  }

 private:
  bool is_added(TokenId id) const { return (tokenizer_.tables().vocabulary.flags(id) & text::kTokenAdded) != 0; }
  bool is_end(TokenId id) const {
    return std::find(spec_.end_tokens.begin(), spec_.end_tokens.end(), id) != spec_.end_tokens.end();
  }
  bool is_exception(std::string_view name) const {
    return std::any_of(std::begin(kExceptions), std::end(kExceptions), [&](const Exception& exception) {
      return exception.name == name && tokenizer_.find(exception.beside);
    });
  }
  /// A token of the model, which it can draw.
  std::optional<TokenId> find(std::string_view name) const {
    const auto id = name.empty() ? std::nullopt : tokenizer_.find(name);
    return id && static_cast<std::uint32_t>(*id) < spec_.n_vocab ? id : std::nullopt;
  }

  /// What tokenizer_config.json and the table of names say.
  void add_known() {
    const auto add = [&](TokenId id) {
      if (!is_end(id)) spec_.end_tokens.push_back(id);
      tokenizer_.mark_control(id);
    };
    if (templates_.eos_text)
      if (const auto id = find(*templates_.eos_text)) add(*id);
    for (const std::string_view name : kEndNames)
      if (const auto id = find(name); id && is_added(*id) && !is_exception(name)) add(*id);
  }

  Status read_template(std::string_view text) {
    auto compiled = jinja::Template::compile(text);
    if (!compiled.ok()) return Status();
    QINFER_ASSIGN(const auto answered, render(compiled.value(), 2, false));
    if (!answered) return Status();
    const auto after = answered->text.rfind(kAnswer);
    if (after == std::string::npos) return Status();
    const std::string end(literal_at(*answered, after + kAnswer.size()));
    const auto id = find(end);
    if (!id || is_exception(end)) return Status();
    QINFER_ASSIGN(const bool ends, ends_turn(compiled.value(), *answered, end));
    if (!ends) return Status();
    QINFER_TRY(take_end(*id));
    return take_openers(compiled.value(), *answered, end);
  }

  /// The first `n_messages` of three.
  Result<std::optional<jinja::Rendered>> render(const jinja::Template& compiled, int n_messages, bool asks) const {
    std::string json = format_text(R"({{"messages":[{{"role":"user","content":"{}"}})", kQuestion);
    if (n_messages > 1) json += format_text(R"(,{{"role":"assistant","content":"{}"}})", kAnswer);
    if (n_messages > 2) json += format_text(R"(,{{"role":"user","content":"{}"}})", kNext);
    // Older templates for tools insist on these.
    json += format_text(R"(],"functions":"","datetime":"","add_generation_prompt":{})", asks);
    const auto add = [&](std::string_view key, const std::optional<std::string>& text) {
      if (!text) return;
      json += format_text(",\"{}\":", key);
      formats::append_json_string(*text, json);
    };
    add("bos_token", bos_text(templates_, &tokenizer_, spec_));
    add("eos_token", eos_text(templates_, &tokenizer_, spec_));
    json += "}";
    QINFER_ASSIGN(const formats::JsonDocument variables, formats::parse_json(json, "conversation"));
    jinja::RenderOptions options;
    const jinja::Date date;
    options.now = &date;
    options.limits = kLimits;
    options.cancel = cancel_;
    auto rendered = compiled.render(variables.root(), options);
    if (rendered.ok()) return std::optional(std::move(rendered.value()));
    if (Status status = rendered.take_status(); status.code() == Code::cancelled) return status;
    return std::optional<jinja::Rendered>();
  }

  /// <...> or [...] of the template at a place of a text, after white space; empty if there is none.
  static std::string_view literal_at(const jinja::Rendered& rendered, std::size_t from) {
    std::string_view text = trimmed(std::string_view(rendered.text).substr(from));
    const char close = text.starts_with('<') ? '>' : text.starts_with('[') ? ']' : '\0';
    const std::size_t last = text.substr(0, kMaxLiteral).find(close);
    if (close == '\0' || last == text.npos || last < 2) return {};
    text = text.substr(0, last + 1);
    if (std::any_of(text.begin(), text.end(), is_space)) return {};
    const auto begin = static_cast<std::size_t>(text.data() - rendered.text.data()), end = begin + text.size();
    for (const Span& span : rendered.content)
      if (span.begin < end && begin < span.end) return {};
    return text;
  }

  /// Whether nothing of the same turn comes after it: nothing at all, or the next turn, or what ends all of the text.
  /// Some templates ask for an answer, or say more, after the last message in any case; then the next turn is told by
  /// what the text begins with, after a token that begins all texts.
  Result<bool> ends_turn(const jinja::Template& compiled, const jinja::Rendered& answered, std::string_view end) const {
    const auto rest_after = [&](std::string_view text) {
      return trimmed(trimmed(text.substr(text.rfind(kAnswer) + kAnswer.size())).substr(end.size()));
    };
    const std::string_view last = rest_after(answered.text);
    if (last.empty()) return true;
    QINFER_ASSIGN(const auto all, render(compiled, 3, false));
    if (!all) return false;
    const std::string_view text = all->text;
    const std::size_t answer = text.rfind(kAnswer), question = text.find(kQuestion), next = text.rfind(kNext);
    if (answer == text.npos || question == text.npos || next == text.npos || answer > next) return false;
    if (literal_at(*all, answer + kAnswer.size()) != end) return false;
    // </answer> closes what <answer> opened, inside of the turn.
    if (end.starts_with("</") && text.find(format_text("<{}", end.substr(2))) != text.npos) return false;
    const std::string_view rest = rest_after(text.substr(0, next));
    if (!text.substr(0, question).ends_with(rest)) return false;
    const std::string eos = eos_text(templates_, &tokenizer_, spec_).value_or("");
    if (!eos.empty() && last.starts_with(eos)) return !rest.starts_with(eos);
    const std::string_view first = literal_at(*all, 0), second = literal_at(*all, first.size());
    return rest.empty() || (!first.empty() && rest.starts_with(first)) || (!second.empty() && rest.starts_with(second));
  }

  Status take_end(TokenId id) {
    const bool was_text = !is_added(id), is_new = !is_end(id);
    if (was_text || is_new)
      notes_.add("the token {} {}{} ends a turn in the chat template: it is taken for {}", id,
                 in_quotes(tokenizer_.content(id)), was_text ? ", which is ordinary text in the files," : "",
                 was_text ? "a control token and an end token" : "an end token");
    if (is_new) spec_.end_tokens.push_back(id);
    return tokenizer_.make_added(id);
  }

  /// What the next turn of the user and the next answer begin with.
  Status take_openers(const jinja::Template& compiled, const jinja::Rendered& answered, std::string_view end) {
    QINFER_ASSIGN(const auto asked, render(compiled, 2, true));
    if (asked && asked->text.starts_with(answered.text))
      QINFER_TRY(take_opener(literal_at(*asked, answered.text.size())));
    QINFER_ASSIGN(const auto all, render(compiled, 3, false));
    const std::size_t answer = all ? all->text.rfind(kAnswer) : std::string::npos;
    const std::size_t after = answer == std::string::npos ? answer : all->text.find(end, answer);
    if (after == std::string::npos) return Status();
    return take_opener(literal_at(*all, after + end.size()));
  }

  Status take_opener(std::string_view opener) {
    const auto id = find(opener);
    if (!id || is_added(*id)) return Status();
    notes_.add(
        "the token {} {}, which is ordinary text in the files, begins a turn in the chat template: it is taken for "
        "a control token",
        *id, in_quotes(opener));
    return tokenizer_.make_added(*id);
  }

  const ChatTemplates& templates_;
  text::Tokenizer& tokenizer_;
  model::ModelSpec& spec_;
  Notes& notes_;
  CancelFlag cancel_;
};

}  // namespace

bool is_end_name(std::string_view name) {
  return std::find(std::begin(kEndNames), std::end(kEndNames), name) != std::end(kEndNames);
}

bool has_marker_shape(std::string_view text) {
  return text.size() > 2 && text.size() <= kMaxLiteral && std::none_of(text.begin(), text.end(), is_space) &&
         ((text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']'));
}

std::optional<std::string> bos_text(const ChatTemplates& templates, const text::Tokenizer* tokenizer,
                                    const model::ModelSpec& spec) {
  return special_text(templates, templates.bos_text, tokenizer,
                      templates.bos_id >= 0 ? templates.bos_id : spec.bos_token);
}

std::optional<std::string> eos_text(const ChatTemplates& templates, const text::Tokenizer* tokenizer,
                                    const model::ModelSpec& spec) {
  const TokenId first = spec.end_tokens.empty() ? -1 : spec.end_tokens.front();
  return special_text(templates, templates.eos_text, tokenizer, templates.eos_id >= 0 ? templates.eos_id : first);
}

Status find_end_tokens(const ChatTemplates& templates, text::Tokenizer& tokenizer, model::ModelSpec& spec, Notes& notes,
                       CancelFlag cancel) {
  return TurnEnds(templates, tokenizer, spec, notes, cancel).run();
}

}  // namespace qinfer::source
