// What the tests of OpenAI's interface share: handles, an answer from the first token to the last byte, and tokens that
// are drawn whatever the model would draw.
#pragma once

#include <qinfer/qinfer.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "support/c_api.h"
#include "support/catch.h"

namespace qinfer::test {

inline const std::string kStoriesModel = QINFER_TEST_MODELS "/tiny-stories";
inline const std::string kChatModel = QINFER_TEST_MODELS "/tiny-chat";

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* handle) const { Free(handle); }
};
using OpenAiRequest = std::unique_ptr<qinfer_openai_request, Freed<qinfer_openai_request, qinfer_openai_request_free>>;
using OpenAiAnswer = std::unique_ptr<qinfer_openai_answer, Freed<qinfer_openai_answer, qinfer_openai_answer_free>>;
using DrawnChoice = std::unique_ptr<qinfer_generation, Freed<qinfer_generation, qinfer_generation_free>>;

inline OpenAiRequest request_of(const qi::Model& model, std::int32_t kind, const nlohmann::json& json) {
  qinfer_openai_request* out = nullptr;
  const std::string text = json.dump();
  REQUIRE_OK(qinfer_openai_request_create(model.native(), kind, text.data(), text.size(), nullptr, &out, &err));
  return OpenAiRequest(out);
}

inline qinfer_openai_info info_of(const OpenAiRequest& request) {
  auto info = qi::options<qinfer_openai_info>();
  REQUIRE_OK(qinfer_openai_request_get_info(request.get(), &info, &err));
  return info;
}

inline OpenAiAnswer answer_to(const OpenAiRequest& request) {
  auto options = qi::options<qinfer_openai_answer_options>();
  options.id = "id-1";
  options.model = "tiny";
  options.created = 17;
  qinfer_openai_answer* out = nullptr;
  REQUIRE_OK(qinfer_openai_answer_create(request.get(), &options, &out, &err));
  return OpenAiAnswer(out);
}

inline std::string take(const OpenAiAnswer& answer, std::int32_t* complete = nullptr) {
  std::string bytes(1 << 16, 0);
  std::size_t n = 0;
  REQUIRE_OK(qinfer_openai_answer_bytes(answer.get(), bytes.data(), bytes.size(), &n, complete, &err));
  bytes.resize(n);
  return bytes;
}

inline DrawnChoice choice_of(const OpenAiRequest& request, std::size_t choice, qi::Session& session,
                             const qinfer_cancel* cancel = nullptr) {
  qinfer_generation* out = nullptr;
  REQUIRE_OK(qinfer_openai_generation_create(request.get(), choice, session.native(), cancel, &out, &err));
  return DrawnChoice(out);
}

inline void step(const OpenAiAnswer& answer, std::size_t choice, const DrawnChoice& generation, std::int32_t& ended) {
  auto info = qi::options<qinfer_token_info>();
  REQUIRE_OK(qinfer_generation_next(generation.get(), &info, &err));
  REQUIRE_OK(qinfer_openai_answer_add(answer.get(), choice, generation.get(), &ended, &err));
}

/// All bytes of the answer to a request that draws tokens.
inline std::string answered(const qi::Model& model, std::int32_t kind, const nlohmann::json& json,
                            std::uint32_t max_logits = 0) {
  const OpenAiRequest request = request_of(model, kind, json);
  const OpenAiAnswer answer = answer_to(request);
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = max_logits;
  qi::Session session(cache, options);
  std::string bytes;
  for (std::size_t choice = 0; choice < info_of(request).n_choices; ++choice) {
    const DrawnChoice generation = choice_of(request, choice, session);
    std::int32_t ended = 0;
    REQUIRE_OK(qinfer_openai_answer_begin(answer.get(), choice, generation.get(), &ended, &err));
    while (ended == 0) {
      step(answer, choice, generation, ended);
      bytes += take(answer);
    }
  }
  std::int32_t complete = 0;
  bytes += take(answer, &complete);
  CHECK(complete == 1);
  return bytes;
}

inline nlohmann::json user(const std::string& text) {
  return nlohmann::json::array({{{"role", "user"}, {"content", text}}});
}

inline nlohmann::json weather_tools() {
  return nlohmann::json::parse(R"([{"type": "function", "function": {"name": "get_weather",
      "description": "Get the current weather in a city", "parameters": {"type": "object",
      "properties": {"city": {"type": "string", "description": "The city"}}, "required": ["city"]}}}])");
}

/// Has these tokens drawn, and then whatever the model draws.
class Forced final : public qi::LogitsHook {
 public:
  explicit Forced(std::vector<qi::Token> tokens) : tokens_(std::move(tokens)) {}
  bool apply(float* logits, std::uint32_t n_vocab) override {
    if (at_ == tokens_.size()) return true;
    for (std::uint32_t i = 0; i < n_vocab; ++i)
      if (i != static_cast<std::uint32_t>(tokens_[at_])) logits[i] = -INFINITY;
    return true;
  }
  bool accept(qi::Token) override {
    if (at_ < tokens_.size()) ++at_;
    return true;
  }
  bool rewind(std::size_t) override { return true; }

 private:
  std::vector<qi::Token> tokens_;
  std::size_t at_ = 0;
};

inline std::vector<qi::Token> tokens_of(const qi::Model& model, const std::vector<std::string>& texts) {
  std::vector<qi::Token> tokens;
  for (const std::string& text : texts)
    for (const qi::Token token : model.tokenize(text)) tokens.push_back(token);
  return tokens;
}

}  // namespace qinfer::test
