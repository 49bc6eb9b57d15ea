// See chat_reply.h.
#include "engine/chat_reply.h"

#include <algorithm>
#include <limits>

namespace qinfer::engine {
namespace {

using formats::Json;

/// Calls in earlier messages, so that new ones are given other ids.
std::uint32_t count_calls(const Json& conversation) {
  std::size_t n = 0;
  const Json* messages = conversation.find("messages");
  if (messages == nullptr || !messages->is_array()) return 0;
  for (const Json& message : *messages) {
    const Json* calls = message.find("tool_calls");
    if (calls != nullptr && calls->is_array()) n += calls->size();
  }
  return static_cast<std::uint32_t>(std::min<std::size_t>(n, std::numeric_limits<std::uint16_t>::max()));
}

/// Whether the prompt ends with the beginning of reasoning, written by the template itself.
bool ends_in_reasoning(const jinja::Rendered& prompt, std::string_view think) {
  const std::size_t last = prompt.text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return false;
  const std::string_view text = std::string_view(prompt.text).substr(0, last + 1);
  return text.ends_with(think) && (prompt.content.empty() || prompt.content.back().end <= text.size() - think.size());
}

/// What the prompt has begun of the reply.
reply::Setup setup_of(reply::Format format, const Json& conversation, const jinja::Rendered& prompt) {
  const reply::Syntax& syntax = reply::syntax_of(format);
  reply::Setup setup;
  setup.format = format;
  setup.tools = reply::ToolList(conversation);
  setup.n_earlier_calls = count_calls(conversation);
  setup.in_reasoning = ends_in_reasoning(prompt, syntax.think);
  if (format == reply::Format::functionary && prompt.text.ends_with(syntax.call)) setup.begun = syntax.call;
  return setup;
}

}  // namespace

ChatReply::ChatReply(std::shared_ptr<const Model> model, reply::Setup setup)
    : model_(std::move(model)),
      detokenizer_(*model_->tokenizer()),
      text_(std::size_t{3} * model_->tokenizer()->max_token_bytes() + 16),
      parser_(std::move(setup)) {
  // Also where no calls are looked for: their markers are content then.
  const reply::Syntax& syntax = reply::syntax_of(parser_.syntax().format);
  const auto add = [&](std::string_view marker) {
    const auto id = marker.empty() ? std::nullopt : model_->tokenizer()->find(marker);
    if (id && model_->tokenizer()->is_control(*id)) markers_.emplace_back(*id, marker);
  };
  for (const std::string_view marker : {syntax.call, syntax.think, syntax.think_end}) add(marker);
  for (const std::string_view marker : syntax.ignored) add(marker);
  for (const std::string_view marker : syntax.inside) add(marker);
}

Result<std::unique_ptr<ChatReply>> ChatReply::create(std::shared_ptr<const Model> model, std::string_view conversation,
                                                     const ChatOptions& options, reply::Format format, bool reasons) {
  if (model->tokenizer() == nullptr) return error(Code::not_found, "the model has no tokenizer");
  QINFER_ASSIGN(const formats::JsonDocument given, parse_conversation(conversation, options));
  QINFER_ASSIGN(const jinja::Rendered prompt, render_chat(*model, given.root(), options));
  if (format == reply::Format::automatic) {
    QINFER_ASSIGN(const std::string_view text, chat_template_for(*model, given.root(), options));
    format = reply::find_format(text);
  }
  return create(std::move(model), given.root(), prompt, {format, reasons, true});
}

Result<std::unique_ptr<ChatReply>> ChatReply::create(std::shared_ptr<const Model> model, const Json& conversation,
                                                     const jinja::Rendered& prompt, const ReplyOptions& options) {
  reply::Setup setup = setup_of(options.format, conversation, prompt);
  setup.in_reasoning = setup.in_reasoning && options.reasons;
  setup.reasons = options.reasons;
  setup.calls = options.calls;
  setup.one_call = options.one_call;
  std::unique_ptr<ChatReply> reply(new ChatReply(std::move(model), std::move(setup)));
  QINFER_TRY(reply->find_reasoning_end());
  return reply;
}

Status ChatReply::find_reasoning_end() {
  text::EncodeOptions options;
  options.parse_special = true;
  return model_->tokenizer()->encode(parser_.syntax().think_end, options, reasoning_end_);
}

Status ChatReply::check_open() const {
  return finished_ ? Status::fixed(Code::state, "the reply is finished: make another one for the next turn") : Status();
}

Status ChatReply::push(text::TokenId token) {
  QINFER_TRY(check_open());
  push_text({text_.data(), detokenizer_.push(token, text_)});
  push_marker(token);
  return Status();
}

void ChatReply::push_text(std::string_view text) {
  if (!finished_) parser_.push(text);
}

void ChatReply::push_marker(text::TokenId token) {
  const auto marker = find_marker(token);
  if (marker != markers_.end()) push_text(marker->second);
}

ChatReply::Markers::const_iterator ChatReply::find_marker(text::TokenId token) const {
  return std::find_if(markers_.begin(), markers_.end(), [&](const auto& m) { return m.first == token; });
}

ChatReply::Given ChatReply::given() const {
  Given given = given_;
  given.text += expected_.size();
  return given;
}

reply::Part ChatReply::take() {
  reply::Part part = cut_ ? std::move(*cut_) : parser_.next();
  cut_.reset();
  return part;
}

reply::Part ChatReply::next() {
  for (;;) {
    reply::Part part = take();
    if (part.kind == reply::PartKind::none) return part;
    if (part.kind == reply::PartKind::call) {
      given_.before_calls.push_back(given_.text);
      expected_.clear();
      return part;
    }
    given_.text += part.text.size();
    if (expected_.empty()) return part;
    // What was given before and has become a part again; unless it has become something else.
    const std::size_t n = std::min(part.text.size(), expected_.size());
    if (part.text.compare(0, n, expected_, 0, n) != 0) {
      expected_.clear();
      return part;
    }
    part.text.erase(0, n);
    expected_.erase(0, n);
    if (!part.text.empty()) return part;
  }
}

void ChatReply::skip(const Given& given) {
  for (std::size_t call = given_.before_calls.size();; ++call) {
    // What was given before the next call, or at all. Where that call is gone, so is what was given after it.
    const std::size_t limit = call < given.before_calls.size() ? given.before_calls[call] : given.text;
    reply::Part part = take();
    for (; part.kind == reply::PartKind::content || part.kind == reply::PartKind::reasoning; part = take()) {
      const std::size_t n = std::min(part.text.size(), limit - std::min(limit, given_.text));
      given_.text += n;
      part.text.erase(0, n);
      if (part.text.empty()) continue;
      cut_ = std::move(part);
      return;
    }
    if (part.kind == reply::PartKind::none) return expect(limit - std::min(limit, given_.text));
    if (call >= given.before_calls.size() || given_.text != limit) {
      cut_ = std::move(part);
      return;
    }
    given_.before_calls.push_back(given_.text);
  }
}

/// Of n bytes that were given and are no part now, some were of tokens that are gone, and some are held back, as the
/// beginning of a marker.
void ChatReply::expect(std::size_t n) {
  if (n == 0) return;
  reply::Parser ended = parser_;
  ended.finish();
  for (reply::Part part = ended.next();
       part.kind == reply::PartKind::content || part.kind == reply::PartKind::reasoning; part = ended.next())
    expected_ += part.text;
  expected_.resize(std::min(expected_.size(), n));
}

std::unique_ptr<ChatReply> ChatReply::clone() const {
  std::unique_ptr<ChatReply> copy(new ChatReply(*this));
  copy->forced = {};
  return copy;
}

void ChatReply::restore(const Mark& mark) {
  detokenizer_ = mark.detokenizer;
  parser_ = mark.parser;
  given_ = mark.given;
  cut_ = mark.cut;
  expected_ = mark.expected;
  finished_ = false;
}

Status ChatReply::finish() {
  QINFER_TRY(check_open());
  finished_ = true;
  parser_.push({text_.data(), detokenizer_.finish(text_)});
  parser_.finish();
  return Status();
}

}  // namespace qinfer::engine
