// dialect.cpp: see dialect.h.
#include "dialect.h"

#include "messages.h"
#include "responses.h"

namespace server {

std::string Dialect::counted(std::uint32_t) const { return {}; }

std::shared_ptr<Dialect> dialect_of(std::string_view path) {
  if (path == "/v1/messages") return std::make_shared<Messages>(false);
  if (path == "/v1/messages/count_tokens") return std::make_shared<Messages>(true);
  if (path == "/v1/responses") return std::make_shared<Responses>();
  return nullptr;
}

}  // namespace server
