// qinfer_chat.hpp - conversations over qinfer.hpp, without JSON by hand: messages, tools and replies that come in
// parts. Each turn evaluates only what is new. C++17, header-only.
//
//   qi::Chat chat(qi::Model::load("path/to/model"));
//   std::string answer = chat.send("What is the capital of France?");
//   for (const qi::Part& part : chat.stream("And of Italy?"))
//     if (part.kind == QINFER_PART_CONTENT) std::cout << part.text << std::flush;
//
// A turn that fails takes its message back. Of one that is left, by a break, a callback or a qi::Cancel, the reply
// stays as far as it came; without any reply the message is taken back, too.
#ifndef QINFER_CHAT_HPP
#define QINFER_CHAT_HPP

#include <qinfer/qinfer.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace qi {

/// A piece of a reply: new text of its content or reasoning, or a whole call of a tool.
using Part = Reply::Part;
/// Return false to leave the reply. May throw: the reply is left, then the exception goes on to the caller.
using OnPart = std::function<bool(const Part& part)>;

/// A tool that the model may call.
struct Tool {
  std::string name, description;
  std::string parameters{};  ///< a JSON schema of an object; empty: none is told
};

/// A call of a tool, in a message of the model.
struct ToolCall {
  std::string name, id, arguments;  ///< arguments: JSON. What a model wrote is as unchecked as any text from outside
};

/// All texts are UTF-8, and may hold any character.
struct Message {
  std::string role, content;           ///< role: "system", "user", "assistant", "tool" and what else the template knows
  std::string reasoning{};             ///< of the model, before the content
  std::vector<ToolCall> tool_calls{};  ///< of the model
  std::string tool_call_id{}, name{};  ///< of a tool: the call that it answers
};

struct ChatOptions {
  std::string system{};           ///< the first message; empty: none
  std::vector<Tool> tools{};      ///< that the model may call
  std::uint32_t max_context = 0;  ///< tokens of the conversation at most; 0 = what the model has been made for
  std::string template_name{};    ///< one of the model's; empty: see qinfer_chat_options
  std::string template_text{};    ///< a template instead of the model's; empty: the model's
  std::string now{};              ///< what the template is told the date is, "2026-11-22"; empty: the system's clock
  bool plain_content = false;     ///< what messages say holds no added tokens at all
};

struct TurnOptions {
  std::uint32_t max_tokens = 0;            ///< of the reply; 0 = no bound but the context
  std::uint32_t max_reasoning_tokens = 0;  ///< of these; then the content begins; 0 = no bound
  bool reasoning = true;                   ///< false: nothing is taken for reasoning
  /// What the content has to fulfil. It takes the place of the session's hook, which there is none after the turn; with
  /// `reasoning` false it holds from the first token on. Used while the turn begins.
  const Constraint* constraint = nullptr;
  const Cancel* cancel = nullptr;  ///< must outlive the turn
};

namespace detail {

[[noreturn]] inline void refuse(const std::string& message, std::int64_t detail = 0) {
  throw Error(QINFER_E_INVALID_ARGUMENT, message.c_str(), detail);
}

/// How many bytes the character at text[at] has; 0: it is none of UTF-8.
inline std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  // No long form of what has a shorter one, no half of a surrogate pair, nothing beyond U+10FFFF.
  const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (second < least || second > most) return 0;
  const std::size_t n = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  for (std::size_t i = at + 2; i < at + n; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return n;
}

/// Writes a conversation as JSON.
class ConversationWriter {
 public:
  std::string out{};

  /// A text; `where` names it for errors.
  void text(std::string_view value, const std::string& where) {
    out += '"';
    for (std::size_t at = 0; at < value.size();) {
      const std::size_t n = utf8_length(value, at);
      if (n == 0)
        refuse(where + " is not UTF-8, from byte " + std::to_string(at) + " on", static_cast<std::int64_t>(at));
      const char c = value[at];
      if (static_cast<unsigned char>(c) < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
        out += escape;
      } else {
        if (c == '"' || c == '\\') out += '\\';
        out.append(value, at, n);
      }
      at += n;
    }
    out += '"';
  }
  void member(const char* key, std::string_view value, const std::string& where) {
    out += std::string(", \"") + key + "\": ";
    text(value, where + "." + key);
  }
  void optional(const char* key, std::string_view value, const std::string& where) {
    if (!value.empty()) member(key, value, where);
  }

  void message(const Message& message, const std::string& where) {
    if (message.role.empty())
      refuse(where + ".role is empty, expected \"user\", \"assistant\", \"system\" or \"tool\"");
    out += "{\"role\": ";
    text(message.role, where + ".role");
    member("content", message.content, where);
    optional("reasoning_content", message.reasoning, where);
    optional("tool_call_id", message.tool_call_id, where);
    optional("name", message.name, where);
    for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
      out += i == 0 ? ", \"tool_calls\": [" : ", ";
      call(message.tool_calls[i], where + ".tool_calls[" + std::to_string(i) + "]");
    }
    out += message.tool_calls.empty() ? "}" : "]}";
  }
  void call(const ToolCall& call, const std::string& where) {
    out += "{\"type\": \"function\"";
    optional("id", call.id, where);
    out += ", \"function\": {\"name\": ";
    text(call.name, where + ".name");
    member("arguments", call.arguments, where);
    out += "}}";
  }
  void tool(const Model& model, const Tool& tool, const std::string& where) {
    if (tool.name.empty()) refuse(where + ".name is empty, expected what the model is to call");
    out += "{\"type\": \"function\", \"function\": {\"name\": ";
    text(tool.name, where + ".name");
    optional("description", tool.description, where);
    if (!tool.parameters.empty()) {
      check_object(model, tool.parameters, where + ".parameters (of \"" + tool.name + "\")");
      out += ", \"parameters\": " + tool.parameters;
    }
    out += "}}";
  }

 private:
  /// What is not one JSON object could change the meaning of what is around it.
  static void check_object(const Model& model, const std::string& json, const std::string& where) {
    auto options = qi::options<qinfer_chat_options>();
    options.template_text = "x";
    try {
      model.render_chat(json, options);
    } catch (const Error& error) {
      throw Error(error.status(), (where + ", as a JSON object: " + error.what()).c_str(), error.detail());
    }
  }
};

/// A reply that is being drawn.
struct ChatTurn {
  ChatTurn(const Model& model, const std::string& conversation, const qinfer_chat_options& chat,
           const TurnOptions& turn_options)
      : reply(model, conversation, reply_options(chat, turn_options)) {}
  static qinfer_reply_options reply_options(const qinfer_chat_options& chat, const TurnOptions& turn_options) {
    auto out = qi::options<qinfer_reply_options>();
    out.chat = &chat;
    out.flags = turn_options.reasoning ? 0 : QINFER_REPLY_NO_REASONING;
    return out;
  }
  void drain() {
    for (Part part = reply.next(); part.kind != QINFER_PART_NONE; part = reply.next()) {
      if (part.kind == QINFER_PART_CONTENT) message.content += part.text;
      if (part.kind == QINFER_PART_REASONING) message.reasoning += part.text;
      if (part.kind == QINFER_PART_CALL) message.tool_calls.push_back({part.name, part.id, part.text});
      ready.push_back(std::move(part));
    }
  }
  void finish() {
    if (!over) generation->finish();
    over = true;
    reply.finish();
    drain();
  }

  Reply reply;
  std::optional<Generation> generation{};
  std::deque<Part> ready{};  ///< that were not given yet
  Message message{"assistant", ""};
  std::function<void()> why{};  ///< throws the reason for which the constraint failed
  bool over = false;
};

/// A chat, which its streams share.
class ChatState {
 public:
  ChatState(std::shared_ptr<const Model> used, Session drawn_in, ChatOptions with)
      : model(std::move(used)), session(std::move(drawn_in)), options(std::move(with)) {
    if (!options.system.empty()) messages.push_back({"system", options.system});
  }

  std::string conversation() const {
    ConversationWriter writer;
    writer.out = "{\"messages\": [";
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (i != 0) writer.out += ", ";
      writer.message(messages[i], "messages[" + std::to_string(i) + "]");
    }
    for (std::size_t i = 0; i < options.tools.size(); ++i) {
      writer.out += i == 0 ? "], \"tools\": [" : ", ";
      writer.tool(*model, options.tools[i], "tools[" + std::to_string(i) + "]");
    }
    writer.out += "]";
    for (const auto& [name, value] : variables) writer.out.append(", ").append(name).append(": ").append(value);
    return writer.out + "}";
  }

  /// Begins a turn and returns its number. content NULL: a reply to the messages as they are.
  std::uint64_t begin(const std::string_view* content, const TurnOptions& turn_options) {
    leave(number_);
    asked_ = content != nullptr;
    n_before_ = messages.size();
    if (asked_) messages.push_back({"user", std::string(*content)});
    try {
      start(turn_options);
    } catch (...) {
      close(false);
      throw;
    }
    return ++number_;
  }

  std::optional<Part> next(std::uint64_t number) {
    if (turn_ == nullptr || number != number_) return std::nullopt;
    while (turn_->ready.empty()) {
      if (turn_->over) {
        close(true);
        return std::nullopt;
      }
      step();
    }
    Part part = std::move(turn_->ready.front());
    turn_->ready.pop_front();
    return part;
  }

  /// The reply so far becomes a message, if there is any.
  void leave(std::uint64_t number) noexcept {
    if (turn_ == nullptr || number != number_) return;
    try {
      const bool any = turn_->over || turn_->generation->result().new_tokens != 0;
      if (any && !turn_->over) turn_->finish();
      close(any);
    } catch (...) {  // for want of memory
      close(false);
    }
  }

  std::shared_ptr<const Model> model;
  Session session;
  ChatOptions options;
  std::vector<Message> messages{};
  std::map<std::string, std::string> variables{};  ///< of the template; names and values are JSON
  qinfer_generate_result result = qi::options<qinfer_generate_result>();

 private:
  void start(const TurnOptions& turn_options) {
    if (messages.empty()) refuse("there is no message to reply to");
    auto chat = qi::options<qinfer_chat_options>();
    chat.flags = QINFER_CHAT_GENERATION_PROMPT | QINFER_CHAT_OPENAI_FORMS;
    if (options.plain_content) chat.flags |= QINFER_CHAT_PLAIN_CONTENT;
    if (!options.template_name.empty()) chat.template_name = options.template_name.c_str();
    if (!options.template_text.empty()) chat.template_text = options.template_text.c_str();
    if (!options.now.empty()) chat.now = options.now.c_str();
    chat.cancel = turn_options.cancel != nullptr ? turn_options.cancel->native() : nullptr;
    const std::string json = conversation();
    set_tokens(model->tokenize_chat(json, chat));

    turn_ = std::make_unique<ChatTurn>(*model, json, chat, turn_options);
    constrained_ = turn_options.constraint != nullptr;
    if (constrained_) turn_->why = turn_options.constraint->begin(session);
    GenerateOptions request;
    request.max_tokens = turn_options.max_tokens;
    request.max_reasoning_tokens = turn_options.max_reasoning_tokens;
    request.cancel = turn_options.cancel;
    request.reply = &turn_->reply;
    turn_->generation.emplace(session, request);
  }

  void set_tokens(const std::vector<Token>& tokens) {
    const std::uint64_t most = session.info().max_tokens;
    if (tokens.size() >= most) {
      const std::string full = "the conversation has " + std::to_string(tokens.size()) + " tokens, and a context of " +
                               std::to_string(most) + " has no room for a reply: shorten or remove messages";
      throw Error(QINFER_E_CONTEXT_FULL, full.c_str(), static_cast<std::int64_t>(tokens.size()));
    }
    session.set_tokens(tokens);
  }

  void step() {
    try {
      turn_->over = turn_->generation->next().finish != 0;
      if (turn_->over) turn_->finish();
      turn_->drain();
    } catch (const Error& error) {
      const bool cancelled = error.status() == QINFER_E_CANCELLED;
      const std::exception_ptr failure = cancelled ? failure_of_constraint() : nullptr;
      if (!cancelled || failure) close(false);
      leave(number_);  // where it is still there: it was cancelled
      if (failure) std::rethrow_exception(failure);
      throw;
    }
  }

  std::exception_ptr failure_of_constraint() const {
    try {
      if (turn_->why) turn_->why();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void close(bool keeps_reply) {
    if (turn_ != nullptr && turn_->generation) result = turn_->generation->result();
    if (keeps_reply) messages.push_back(std::move(turn_->message));
    if (!keeps_reply && asked_ && messages.size() == n_before_ + 1) messages.pop_back();
    turn_.reset();
    if (std::exchange(constrained_, false)) session.set_logits_hook(nullptr);
  }

  std::unique_ptr<ChatTurn> turn_{};
  std::uint64_t number_ = 0;  ///< of the last turn that has begun
  std::size_t n_before_ = 0;  ///< messages before the turn
  bool asked_ = false;        ///< it has added one of the user
  bool constrained_ = false;  ///< it has set the session's hook
};

}  // namespace detail

/// The parts of a reply as they come, through next() or as a range. When it ends, or is destroyed before, the reply
/// becomes the last message. Another turn of the chat ends it. One that has ended, or was moved from, gives no more.
class ChatStream {
 public:
  ChatStream(ChatStream&&) noexcept = default;
  ChatStream& operator=(ChatStream&& other) noexcept {
    std::swap(state_, other.state_);  // the destructor of the other leaves what this was
    std::swap(number_, other.number_);
    return *this;
  }
  ~ChatStream() { leave(); }

  /// Computes until there is a part; none: the reply is complete.
  std::optional<Part> next() { return state_ != nullptr ? state_->next(number_) : std::nullopt; }
  /// Ends it now.
  void leave() noexcept {
    if (state_ != nullptr) state_->leave(number_);
  }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Part;
    using difference_type = std::ptrdiff_t;
    using pointer = const Part*;
    using reference = const Part&;
    Iterator() = default;
    explicit Iterator(ChatStream& stream) : stream_(&stream), part_(stream.next()) {}
    reference operator*() const { return *part_; }
    pointer operator->() const { return &*part_; }
    Iterator& operator++() {
      part_ = stream_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    /// Whether both are at the end, or neither is.
    bool operator==(const Iterator& other) const { return part_.has_value() == other.part_.has_value(); }
    bool operator!=(const Iterator& other) const { return !(*this == other); }

   private:
    ChatStream* stream_ = nullptr;
    std::optional<Part> part_{};
  };
  Iterator begin() { return Iterator(*this); }
  static Iterator end() { return {}; }

 private:
  friend class Chat;
  ChatStream(std::shared_ptr<detail::ChatState> state, std::uint64_t number)
      : state_(std::move(state)), number_(number) {}

  std::shared_ptr<detail::ChatState> state_;
  std::uint64_t number_;
};

/// A conversation with a model. It is for one thread at a time. After a move only the new object can be used.
class Chat {
 public:
  /// The model must outlive the chat and its streams, and stay where it is.
  explicit Chat(const Model& model, ChatOptions options = {})
      : Chat(std::shared_ptr<const Model>(&model, [](const Model*) {}), std::move(options)) {}
  /// With a model of its own.
  explicit Chat(Model&& model, ChatOptions options = {})
      : Chat(std::make_shared<const Model>(std::move(model)), std::move(options)) {}
  /// In a session of that model, which brings its sampler and its hook. The hook rests while a reply reasons.
  Chat(const Model& model, Session&& session, ChatOptions options = {})
      : state_(std::make_shared<detail::ChatState>(std::shared_ptr<const Model>(&model, [](const Model*) {}),
                                                   std::move(session), std::move(options))) {}

  /// A message of the user; returns the content of the reply. Calls of tools are in calls().
  std::string send(std::string_view content, const TurnOptions& options = {}) { return send(content, {}, options); }
  /// The same with the parts as they come.
  std::string send(std::string_view content, const OnPart& on_part, const TurnOptions& options = {}) {
    return said(stream(content, options), on_part);
  }
  ChatStream stream(std::string_view content, const TurnOptions& options = {}) {
    return ChatStream(state_, state().begin(&content, options));
  }

  /// A reply to the messages as they are, such as results of tools.
  std::string reply(const TurnOptions& options = {}) { return reply({}, options); }
  std::string reply(const OnPart& on_part, const TurnOptions& options = {}) {
    return said(stream_reply(options), on_part);
  }
  ChatStream stream_reply(const TurnOptions& options = {}) {
    return ChatStream(state_, state().begin(nullptr, options));
  }

  void add(Message message) { messages().push_back(std::move(message)); }
  /// What a tool has answered to a call. Add the results of all calls, then ask for the reply().
  void add_result(const ToolCall& call, std::string content) {
    Message message{"tool", std::move(content)};
    message.tool_call_id = call.id;
    message.name = call.name;
    add(std::move(message));
  }
  /// The calls in the last message.
  std::vector<ToolCall> calls() const {
    return messages().empty() ? std::vector<ToolCall>() : messages().back().tool_calls;
  }

  /// May be changed between turns.
  std::vector<Message>& messages() { return state().messages; }
  const std::vector<Message>& messages() const { return state().messages; }
  /// May be changed between turns.
  std::vector<Tool>& tools() { return state().options.tools; }
  /// Another variable of the template, such as enable_thinking: true or false, or a whole number.
  template <class Value, std::enable_if_t<std::is_integral_v<Value>, int> = 0>
  void set_variable(std::string_view name, Value value) {
    if constexpr (std::is_same_v<Value, bool>)
      set_json(name, value ? "true" : "false");
    else
      set_json(name, std::to_string(value));
  }
  /// The same for a text.
  void set_variable(std::string_view name, std::string_view text) {
    detail::ConversationWriter value;
    value.text(text, "the variable \"" + std::string(name) + "\"");
    set_json(name, value.out);
  }

  /// For its sampler, its hook and its counts.
  Session& session() { return state().session; }
  /// How the last turn ended, and what it took.
  const qinfer_generate_result& result() const { return state().result; }
  /// The conversation as JSON, as Model::render_chat takes it.
  std::string conversation() const { return state().conversation(); }

 private:
  Chat(std::shared_ptr<const Model> model, ChatOptions options) {
    auto wanted = qi::options<qinfer_session_options>();
    wanted.max_tokens = options.max_context;
    KvCache cache(*model);
    state_ = std::make_shared<detail::ChatState>(std::move(model), Session(cache, wanted), std::move(options));
  }
  detail::ChatState& state() const {
    if (state_ == nullptr) detail::refuse("the Chat was moved from");
    return *state_;
  }
  static std::string said(ChatStream stream, const OnPart& on_part) {
    std::string content;
    while (const std::optional<Part> part = stream.next()) {
      if (part->kind == QINFER_PART_CONTENT) content += part->text;
      if (on_part && !on_part(*part)) break;
    }
    return content;
  }
  void set_json(std::string_view name, std::string value) {
    if (name == "messages" || name == "tools")
      detail::refuse("the variable \"" + std::string(name) + "\" is the chat's own: change " + std::string(name) +
                     "()");
    detail::ConversationWriter key;
    key.text(name, "the name of a variable");
    state().variables[key.out] = std::move(value);
  }

  std::shared_ptr<detail::ChatState> state_{};
};

}  // namespace qi
#endif  // QINFER_CHAT_HPP
