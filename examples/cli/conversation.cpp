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
  session_.set_sampler(options_.sampler);
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
  const bool has_system = !messages.empty() && messages[0].value("role", "") == "system";
  Json kept = Json::array();
  if (has_system) kept.push_back(messages[0]);
  messages = std::move(kept);
  open_calls_.clear();
}

void Conversation::set_system(const std::string& text) {
  root_["messages"] = Json::array();
  if (!text.empty()) root_["messages"].push_back(message("system", text));
  open_calls_.clear();
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
}

TurnCounts Conversation::ask(const std::string& text, const qi::Cancel& cancel, const OnPart& on_part) {
  std::vector<Json> added;
  added.push_back(message("user", text));
  return reply(std::move(added), cancel, on_part);
}

TurnCounts Conversation::answer_calls(const std::vector<std::string>& results, const qi::Cancel& cancel,
                                      const OnPart& on_part) {
  std::vector<Json> added;
  for (std::size_t i = 0; i < results.size() && i < open_calls_.size(); ++i) {
    Json result = message("tool", results[i]);
    result["name"] = open_calls_[i].name;
    result["tool_call_id"] = open_calls_[i].id;
    added.push_back(std::move(result));
  }
  return reply(std::move(added), cancel, on_part);
}

TurnCounts Conversation::reply(std::vector<Json> added, const qi::Cancel& cancel, const OnPart& on_part) {
  Json next = root_;
  for (Json& one : added) next["messages"].push_back(std::move(one));
  const std::string conversation = dump(next);
  const qinfer_chat_options chat = chat_options();
  auto reply_options = qi::options<qinfer_reply_options>();
  reply_options.chat = &chat;
  if (options_.no_reasoning && grammar_.is_set()) reply_options.flags |= QINFER_REPLY_NO_REASONING;
  qi::Reply reply(model_, conversation, reply_options);
  const std::vector<qinfer_token> prompt = model_.tokenize_chat(conversation, chat);
  if (prompt.size() >= context_tokens_)
    throw Failure("the conversation has " + count_text(prompt.size()) + ", and there is room for " +
                  std::to_string(context_tokens_) + ": begin a new one with /reset, or give more room with --context");
  session_.set_tokens(prompt);
  const TurnCounts counts = generate(reply, cancel, on_part);
  if (counts.finish == 0 && counts.new_tokens == 0) return counts;  // cancelled before there was a reply

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
