// tokens.cpp: see tokens.h.
#include "tokens.h"

#include <memory>

#include "engine.h"
#include "server/dialects/json_input.h"

namespace server {
namespace {

template <typename Call>
void call(const Call& function) {
  qi::detail::FullError error;
  qi::detail::check(function(error.arg()), error);
}

Response answer(const Json& json) { return {200, "application/json", text_of(json)}; }

/// A conversation as a request of chat completions has it.
std::vector<qi::Token> tokens_of_conversation(const qi::Model& model, Fields& fields) {
  Json request = Json::object();
  for (const char* key : {"messages", "tools", "chat_template_kwargs"})
    if (const Json* value = fields.find(key)) request[key] = *value;
  if (!fields.boolean("add_generation_prompt").value_or(true))
    fields.refuse("add_generation_prompt", "the prompt of a chat ends where its answer begins");
  return tokens_of_request(model, QINFER_OPENAI_CHAT, text_of(request));
}

}  // namespace

std::vector<qi::Token> tokens_of_request(const qi::Model& model, std::int32_t kind, const std::string& body) try {
  qinfer_openai_request* request = nullptr;
  call([&](auto* error) {
    return qinfer_openai_request_create(model.native(), kind, body.data(), body.size(), nullptr, &request, error);
  });
  const std::unique_ptr<qinfer_openai_request, void (*)(qinfer_openai_request*)> owner(request,
                                                                                       qinfer_openai_request_free);
  return qi::detail::collected<std::vector<qi::Token>>(
      64, [&](auto... out) { return qinfer_openai_request_tokens(request, 0, out...); });
} catch (const qi::Error& error) {
  throw refusal_of(error);
}

Response tokenize(const qi::Model& model, std::uint32_t context, const std::string& body) try {
  const Json asked = read_object(body);
  Fields fields(asked, "");
  fields.pass_over({"model"});
  const bool shows_texts = fields.boolean("return_token_strs").value_or(false);
  std::vector<qi::Token> tokens;
  if (fields.find("messages") != nullptr) {
    tokens = tokens_of_conversation(model, fields);
  } else {
    const std::string prompt = fields.need_text("prompt");
    const bool adds_special = fields.boolean("add_special_tokens").value_or(true);
    tokens = model.tokenize(prompt, adds_special ? QINFER_TEXT_ADD_SPECIAL : 0);
  }
  fields.check_all_known();
  Json given = {{"count", tokens.size()}, {"max_model_len", context}, {"tokens", tokens}};
  given["token_strs"] = nullptr;
  if (shows_texts) {
    given["token_strs"] = Json::array();
    for (const qi::Token token : tokens) given["token_strs"].push_back(model.token_text(token));
  }
  return answer(given);
} catch (const qi::Error& error) {
  throw refusal_of(error);
}

Response detokenize(const qi::Model& model, const std::string& body) try {
  const Json asked = read_object(body);
  Fields fields(asked, "");
  fields.pass_over({"model"});
  const Json& tokens = fields.need("tokens", "a list of tokens");
  if (!tokens.is_array()) refuse_value("tokens", tokens, "a list of tokens");
  fields.check_all_known();
  qi::Detokenizer detokenizer(model);
  std::string text;
  for (const Json& token : tokens) {
    if (!token.is_number_integer() || token < 0 || token >= model.info().n_vocab)
      refuse_value("tokens", token, "tokens of the vocabulary");
    text += detokenizer.push(token.get<qi::Token>());
  }
  text += detokenizer.finish();
  Json given = Json::object();
  given["prompt"] = text;
  return answer(given);
} catch (const qi::Error& error) {
  throw refusal_of(error);
}

Response tokenizer_info(const qi::Model& model, std::uint32_t context) {
  const auto text_or_null = [&](qi::Token token) { return token < 0 ? Json(nullptr) : Json(model.token_text(token)); };
  const std::vector<qi::Token> ends = model.end_tokens();
  Json given = {{"tokenizer_class", "qinfer"}, {"model_max_length", context}};
  given["bos_token"] = text_or_null(model.info().bos_token);
  given["eos_token"] = ends.empty() ? Json(nullptr) : text_or_null(ends.front());
  given["pad_token"] = given["eos_token"];
  given["chat_template"] = nullptr;
  try {
    given["chat_template"] = model.chat_template();
  } catch (const qi::Error&) {  // it has none
  }
  return answer(given);
}

}  // namespace server
