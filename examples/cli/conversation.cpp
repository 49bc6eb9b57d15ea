// conversation.cpp: see conversation.h.
#include "conversation.h"

#include <algorithm>
#include <utility>

#include "prompt.h"
#include "support.h"

namespace cli {
namespace {

/// Room for a long conversation, without the memory of a model's whole context where that is very long.
constexpr std::uint32_t kDefaultContext = 8192;

std::uint32_t context_of(const qi::Model& model, std::uint32_t wanted) {
  return wanted != 0 ? wanted : std::min(kDefaultContext, model.info().context_tokens);
}

qinfer_session_options session_options(std::uint32_t max_tokens, std::uint32_t max_draft) {
  auto options = qi::options<qinfer_session_options>();
  options.max_tokens = max_tokens;
  options.max_draft = max_draft;
  return options;
}

Json message(const char* role, const std::string& content) { return Json{{"role", role}, {"content", content}}; }

/// What is not UTF-8, as from a terminal of another encoding, becomes U+FFFD.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool has_role(const Json& one, std::string_view role) {
  const auto found = one.find("role");
  return found != one.end() && found->is_string() && found->get_ref<const std::string&>() == role;
}

/// Where the turns begin: after the system's message, and at each message of the user after that.
std::vector<std::size_t> turns_of(const Json& messages) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool leads = i == 0 && (has_role(messages[i], "system") || has_role(messages[i], "developer"));
    if (!leads && (begins.empty() || has_role(messages[i], "user"))) begins.push_back(i);
  }
  return begins;
}

/// The conversation without its oldest turns.
Json without_turns(const Json& conversation, const std::vector<std::size_t>& begins, std::size_t n) {
  Json rest = conversation;
  Json& messages = rest["messages"];
  const auto at = [&](std::size_t turn) { return messages.begin() + static_cast<std::ptrdiff_t>(begins[turn]); };
  if (n != 0) messages.erase(at(0), at(n));
  return rest;
}

}  // namespace

Conversation::Conversation(const qi::Model& model, ConversationOptions options)
    : model_(model),
      options_(std::move(options)),
      context_tokens_(context_of(model, options_.context_tokens)),
      cache_(make_cache(model, options_.kv, context_tokens_)),
      session_(cache_, session_options(context_tokens_, options_.max_draft)),
      grammar_(model, options_.grammar),
      root_(options_.variables) {
  root_["messages"] = Json::array();
  if (!options_.tools.is_null()) root_["tools"] = options_.tools;
  set_system(options_.system);
}

qinfer_chat_options Conversation::chat_options() const {
  auto chat = qi::options<qinfer_chat_options>();
  chat.flags = QINFER_CHAT_GENERATION_PROMPT;
  if (!options_.template_text.empty()) chat.template_text = options_.template_text.c_str();
  if (!options_.now.empty()) chat.now = options_.now.c_str();
  return chat;
}

void Conversation::reset() {
  Json& messages = root_["messages"];
  Json kept = Json::array();
  if (!messages.empty() && has_role(messages[0], "system")) kept.push_back(messages[0]);
  messages = std::move(kept);
  open_calls_.clear();
  dropped_ = 0;
}

void Conversation::set_system(const std::string& text) {
  root_["messages"] = Json::array();
  if (!text.empty()) root_["messages"].push_back(message("system", text));
  open_calls_.clear();
  dropped_ = 0;
}

std::string Conversation::system() const {
  const Json& messages = root_["messages"];
  if (messages.empty() || !has_role(messages[0], "system")) return {};
  const auto content = messages[0].find("content");
  return content != messages[0].end() && content->is_string() ? content->get<std::string>() : std::string();
}

std::string Conversation::text() const { return root_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

namespace {

/// Of a text that is no conversation nothing.
Json read_conversation(const std::string& text) {
  Json read = Json::parse(text, nullptr, false);
  return read.is_object() && read.contains("messages") && read["messages"].is_array() ? read : Json();
}

}  // namespace

bool Conversation::is_conversation(const std::string& text) { return !read_conversation(text).is_null(); }

void Conversation::load(const std::string& text) {
  Json read = read_conversation(text);
  if (read.is_null()) throw Failure("not a conversation: expected a JSON object with an array of messages");
  root_ = std::move(read);
  open_calls_.clear();
  dropped_ = 0;
}

std::size_t Conversation::last_question() const {
  const Json& messages = root_["messages"];
  for (std::size_t i = messages.size(); i > 0; --i)
    if (has_role(messages[i - 1], "user")) return i - 1;
  throw Failure("there is no message yet");
}

std::string Conversation::question() const {
  const Json& last = root_["messages"][last_question()];
  const auto content = last.find("content");
  if (content == last.end() || !content->is_string()) throw Failure("the last message is not a text");
  return content->get<std::string>();
}

void Conversation::undo() {
  Json& messages = root_["messages"];
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(last_question()), messages.end());
  open_calls_.clear();
  dropped_ = 0;  // the next prompt finds out anew
}

TurnCounts Conversation::ask(const std::string& text, const qi::Cancel& cancel, const OnPart& on_part) {
  Json next = root_;
  next["messages"].push_back(message("user", text));
  return reply(std::move(next), cancel, on_part);
}

TurnCounts Conversation::ask_instead(const std::string& text, const qi::Cancel& cancel, const OnPart& on_part) {
  Json next = root_;
  Json& messages = next["messages"];
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(last_question()), messages.end());
  messages.push_back(message("user", text));
  return reply(std::move(next), cancel, on_part);
}

TurnCounts Conversation::retry(const qi::Cancel& cancel, const OnPart& on_part) {
  Json next = root_;
  Json& messages = next["messages"];
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(last_question() + 1), messages.end());
  return reply(std::move(next), cancel, on_part);
}

TurnCounts Conversation::answer_calls(const std::vector<std::string>& results, const qi::Cancel& cancel,
                                      const OnPart& on_part) {
  Json next = root_;
  for (std::size_t i = 0; i < results.size() && i < open_calls_.size(); ++i) {
    Json result = message("tool", results[i]);
    result["name"] = open_calls_[i].name;
    result["tool_call_id"] = open_calls_[i].id;
    next["messages"].push_back(std::move(result));
  }
  return reply(std::move(next), cancel, on_part);
}

std::vector<qinfer_token> Conversation::fit(const Json& next, std::string& conversation, std::size_t& dropped) const {
  const qinfer_chat_options chat = chat_options();
  const std::vector<std::size_t> begins = turns_of(next["messages"]);
  dropped = begins.empty() ? 0 : std::min(dropped_, begins.size() - 1);
  // Room that a reply is to find. More is made at once, because a prompt with another beginning is evaluated anew.
  const std::size_t quarter = context_tokens_ / 4;
  const std::size_t reply = options_.max_tokens == 0 ? quarter : std::min<std::size_t>(quarter, options_.max_tokens);
  std::size_t wanted = options_.drops_oldest ? reply : 0;
  for (;; ++dropped) {
    conversation = dump(without_turns(next, begins, dropped));
    std::vector<qinfer_token> prompt = model_.tokenize_chat(conversation, chat);
    const bool fits = prompt.size() < context_tokens_;
    if (fits && prompt.size() + wanted <= context_tokens_) return prompt;
    wanted = 2 * reply;
    if (options_.drops_oldest && dropped + 1 < begins.size()) continue;
    if (fits) return prompt;
    const char* what = options_.drops_oldest ? "the last turn alone has " : "the conversation has ";
    throw ContextFull(what + count_text(prompt.size()) + ", and there is room for " + std::to_string(context_tokens_));
  }
}

TurnCounts Conversation::reply(Json next, const qi::Cancel& cancel, const OnPart& on_part) {
  std::string conversation;
  std::size_t dropped = 0;
  const std::vector<qinfer_token> prompt = fit(next, conversation, dropped);
  const qinfer_chat_options chat = chat_options();
  auto reply_options = qi::options<qinfer_reply_options>();
  reply_options.chat = &chat;
  if (options_.no_reasoning && grammar_.is_set()) reply_options.flags |= QINFER_REPLY_NO_REASONING;
  qi::Reply reply(model_, conversation, reply_options);
  set_sampler(session_, options_.sampler, options_.sampler_texts);
  session_.set_tokens(prompt);
  TurnCounts counts = generate(reply, cancel, on_part);
  if (counts.finish == 0 && counts.new_tokens == 0) return counts;  // cancelled before there was a reply

  counts.dropped_turns = dropped > dropped_ ? dropped - dropped_ : 0;
  dropped_ = dropped;
  next["messages"].push_back(Json::parse(reply.message()));
  root_ = std::move(next);
  total_.prompt_tokens += counts.prompt_tokens;
  total_.new_tokens += counts.new_tokens;
  total_.prefill_ns += counts.prefill_ns;
  total_.decode_ns += counts.decode_ns;
  return counts;
}

void Conversation::drain(qi::Reply& reply, const OnPart& on_part) {
  for (qi::Reply::Part part = reply.next(); part.kind != QINFER_PART_NONE; part = reply.next()) {
    if (part.kind == QINFER_PART_CALL)
      open_calls_.push_back({part.name, part.id, part.text});
    else
      on_part(part.kind, part.text);
  }
}

TurnCounts Conversation::generate(qi::Reply& reply, const qi::Cancel& cancel, const OnPart& on_part) {
  TurnCounts counts;
  counts.prompt_tokens = session_.pending();
  open_calls_.clear();
  qi::GenerateOptions request;
  request.max_tokens = options_.max_tokens;
  request.cancel = &cancel;
  request.reply = &reply;
  request.max_reasoning_tokens = options_.max_reasoning;
  request.on_token = [&](std::string_view, qinfer_token) {
    drain(reply, on_part);
    return true;
  };
  auto result = qi::options<qinfer_generate_result>();
  try {
    counts.prefill_ns = evaluate_prompt(session_, cancel);
    grammar_.begin(session_);
    session_.generate(request, &result);
    grammar_.end(session_);
  } catch (const qi::Error& error) {
    grammar_.end(session_);
    if (error.status() != QINFER_E_CANCELLED) throw;
    grammar_.check();
  }
  reply.finish();
  drain(reply, on_part);
  counts.new_tokens = result.new_tokens;
  counts.decode_ns = result.decode_ns;
  counts.finish = result.finish;
  counts.in_reasoning = (result.flags & QINFER_RESULT_IN_REASONING) != 0;
  return counts;
}

}  // namespace cli
