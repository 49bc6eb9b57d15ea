// rerank.h: how well documents answer a query: /v1/rerank in the form of Jina and Cohere, and /v1/score in vLLM's.
#pragma once

#include <functional>
#include <string>

#include "http.h"

namespace server {

class Engine;

struct Scorer {
  Engine& engine;
  const std::string& template_name;  ///< where the model's files do not say how a pair is written; "": they do
};
/// Asked between two evaluations and while a request waits: whether nobody waits for the answer any more.
using HasLeft = std::function<bool()>;

/// {"query", "documents": [text or {"text"}], "top_n", "return_documents", "instruction", "truncate_prompt_tokens"} to
/// {"results": [{"index", "relevance_score", "document"}], "usage"}, the best first, equal ones by index. Throws
/// Refusal.
Response rerank(const Scorer& scorer, const std::string& body, const HasLeft& has_left);
/// {"text_1", "text_2"}, a text with one or with several, or as many of each, to {"data": [{"index", "score"}],
/// "usage"} in the order of the texts.
Response score(const Scorer& scorer, const std::string& body, const HasLeft& has_left);

}  // namespace server
