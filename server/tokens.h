// tokens.h: texts and conversations as tokens: /tokenize, /detokenize and /tokenizer_info in vLLM's form, and the count
// of a request's tokens. They take time in proportion to what is asked, so they are for threads that may take it.
#pragma once

#include <qinfer/qinfer.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "http.h"

namespace server {

/// {"prompt", "add_special_tokens"} or {"messages", "tools", "chat_template_kwargs"}. With "return_token_strs" the
/// texts of the tokens too. Throws Refusal, as all of these.
Response tokenize(const qi::Model& model, std::uint32_t context, const std::string& body);
/// {"tokens"} to {"prompt"}.
Response detokenize(const qi::Model& model, const std::string& body);
Response tokenizer_info(const qi::Model& model, std::uint32_t context);

/// Of the first prompt of a request of OpenAI's interface, which is only read.
std::vector<qi::Token> tokens_of_request(const qi::Model& model, std::int32_t kind, const std::string& body);

}  // namespace server
