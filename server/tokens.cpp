// tokens.cpp: /tokenize and /detokenize in vLLM's form, and the tokens of a request.
#include <nlohmann/json.hpp>

#include "server.h"

namespace server {
namespace {

nlohmann::json parse(const std::string& body) {
  auto parsed = nlohmann::json::parse(body, nullptr, false);
  if (!parsed.is_object()) throw refusal(400, "invalid_request_error", "The body is not a JSON object");
  return parsed;
}

template <typename Make>
Response answer_or_refusal(const Make& make) {
  try {
    const nlohmann::json answer = make();
    return {200, "application/json", answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
  } catch (const Refusal& refused) {
    return {refused.status, "application/json", refused.json};
  } catch (const qi::Error& error) {
    const Refusal refused = refusal_of(error);
    return {refused.status, "application/json", refused.json};
  }
}

}  // namespace

std::uint32_t count_tokens(const qi::Model& model, std::int32_t kind, const std::string& body) try {
  const auto call = [](const auto& function) {
    qi::detail::FullError error;
    qi::detail::check(function(error.arg()), error);
  };
  qinfer_openai_request* request = nullptr;
  call([&](auto* error) {
    return qinfer_openai_request_create(model.native(), kind, body.data(), body.size(), nullptr, &request, error);
  });
  const std::unique_ptr<qinfer_openai_request, void (*)(qinfer_openai_request*)> freed(request,
                                                                                       qinfer_openai_request_free);
  return qi::detail::filled<qinfer_openai_info>(
             [&](auto* out, auto* error) { return qinfer_openai_request_get_info(request, out, error); })
      .longest_prompt;
} catch (const qi::Error& error) {
  throw refusal_of(error);
}

void Server::tokenize(const Connected& connection, const Request& request) {
  const Response response = answer_or_refusal([&] {
    const nlohmann::json asked = parse(request.body);
    const auto prompt = asked.find("prompt");
    if (prompt == asked.end() || !prompt->is_string())
      throw refusal(400, "invalid_request_error", "prompt is missing, or not a text");
    const auto special = asked.find("add_special_tokens");
    const bool adds_special = special == asked.end() || !special->is_boolean() || special->get<bool>();
    const std::vector<qi::Token> tokens =
        engine_.model().tokenize(prompt->get_ref<const std::string&>(), adds_special ? QINFER_TEXT_ADD_SPECIAL : 0);
    return nlohmann::json{
        {"count", tokens.size()}, {"max_model_len", engine_.model().info().context_tokens}, {"tokens", tokens}};
  });
  metrics_.count_answer(response.status);
  connection->respond(response);
}

void Server::detokenize(const Connected& connection, const Request& request) {
  const Response response = answer_or_refusal([&] {
    const nlohmann::json asked = parse(request.body);
    const auto tokens = asked.find("tokens");
    if (tokens == asked.end() || !tokens->is_array())
      throw refusal(400, "invalid_request_error", "tokens is missing, or not an array");
    std::vector<qi::Token> ids;
    for (const nlohmann::json& token : *tokens) {
      if (!token.is_number_integer() || token < 0 || token > INT32_MAX)
        throw refusal(400, "invalid_request_error", "tokens has something else than ids");
      ids.push_back(token.get<qi::Token>());
    }
    qi::Detokenizer detokenizer(engine_.model());
    std::string text;
    for (const qi::Token id : ids) text += detokenizer.push(id);
    text += detokenizer.finish();
    nlohmann::json answer;
    answer["prompt"] = text;
    return answer;
  });
  metrics_.count_answer(response.status);
  connection->respond(response);
}

}  // namespace server
