// Conversations and replies for the programs that let the heap fail.
#include <stdexcept>

#include "operations.h"

namespace qinfer::faults {
namespace {

constexpr const char* kTemplate =
    "{% macro line(m) %}<s>{{ m.role | upper }}: {{ m['content'] | trim }}\n{% endmacro %}"
    "{% set ns = namespace(n=0) %}{% for m in messages %}{{ line(m) }}{% set ns.n = ns.n + m.content | length %}"
    "{% endfor %}{% for t in tools %}{{ t | tojson(indent=2) }}{% endfor %}{{ ns.n }} <tool_call>";
constexpr const char* kConversation =
    R"({"messages": [{"role": "system", "content": "Once upon <s> a time"}, {"role": "user", "content": "é 'x'"}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
    "a": {"type": "string"}, "n": {"type": "integer"}}}}}]})";
constexpr const char* kReply =
    "<think>so it is</think>Yes.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}</tool_call>"
    "<tool_call><function=f><parameter=n>1</parameter></function></tool_call> and so on";

/// The model that ships, without its weights, and the template above.
class ChatSubject : public Subject {
 public:
  explicit ChatSubject(const std::string& path) : runtime_(make_runtime()) {
    auto load = sized<qinfer_load_options>();
    load.flags = QINFER_LOAD_NO_WEIGHTS;
    MUST(qinfer_model_load(runtime_, path.c_str(), &load, &model_, &err));
    chat_.template_text = kTemplate;
    chat_.now = "2026-11-22";
  }
  ~ChatSubject() override {
    qinfer_model_free(model_);
    qinfer_runtime_free(runtime_);
  }

 protected:
  qinfer_runtime* runtime_;
  qinfer_model* model_ = nullptr;
  qinfer_chat_options chat_ = sized<qinfer_chat_options>();
};

class Chat : public ChatSubject {
 public:
  explicit Chat(const std::string& path) : ChatSubject(path), tokens_(2000) {}
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] {
      return qinfer_chat_tokenize(model_, kConversation, SIZE_MAX, &chat_, tokens_.data(), tokens_.size(), &n_, err);
    });
  }
  std::string result() override { return {reinterpret_cast<const char*>(tokens_.data()), n_ * sizeof(qinfer_token)}; }

 private:
  std::vector<qinfer_token> tokens_;
  std::size_t n_ = 0;
};

/// A reply from its creation to its message. One push that fails ends it: what follows is refused, and it can be freed.
class Reply : public ChatSubject {
 public:
  explicit Reply(const std::string& path) : ChatSubject(path), tokens_(500), message_(2000) {
    std::size_t n = 0;
    MUST(qinfer_tokenize(model_, kReply, SIZE_MAX, 0, tokens_.data(), tokens_.size(), &n, &err));
    tokens_.resize(n);
  }
  qinfer_status call(qinfer_error* err) override {
    auto options = sized<qinfer_reply_options>();
    options.format = QINFER_REPLY_HERMES;
    options.chat = &chat_;
    return faulty([&] {
      qinfer_status status = qinfer_reply_create(model_, kConversation, SIZE_MAX, &options, &reply_, err);
      parts_.clear();
      for (std::size_t i = 0; status == QINFER_OK && i < tokens_.size(); ++i) {
        status = qinfer_reply_push(reply_, tokens_[i], err);
        if (status == QINFER_OK) status = take(err);
      }
      if (status == QINFER_OK) status = qinfer_reply_finish(reply_, err);
      if (status == QINFER_OK) status = take(err);
      return status != QINFER_OK ? status
                                 : qinfer_reply_message(reply_, message_.data(), message_.size(), &n_message_, err);
    });
  }
  std::string result() override { return parts_ + std::string(message_.data(), n_message_); }
  void after() override {
    qinfer_reply_free(reply_);
    reply_ = nullptr;
  }

 private:
  qinfer_status take(qinfer_error* err) {
    auto part = sized<qinfer_reply_part>();
    for (;;) {
      const qinfer_status status = qinfer_reply_next(reply_, &part, err);
      if (status != QINFER_OK || part.kind == QINFER_PART_NONE) return status;
      if (parts_.size() + part.text_len < kRoom) parts_.append(part.text, part.text_len);
    }
  }

  static constexpr std::size_t kRoom = 1000;
  std::vector<qinfer_token> tokens_;
  std::vector<char> message_;
  std::size_t n_message_ = 0;
  std::string parts_ = std::string(kRoom, ' ');  // has its room before anything fails
  qinfer_reply* reply_ = nullptr;
};

}  // namespace

std::vector<Operation> chat_operations(const Files& files) {
  const std::string& shipped = files.shipped;
  return {{"chat_tokenize", [=] { return std::make_unique<Chat>(shipped); }, 1},
          {"reply", [=] { return std::make_unique<Reply>(shipped); }, 1}};
}

}  // namespace qinfer::faults
