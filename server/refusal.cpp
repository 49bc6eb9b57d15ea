// refusal.cpp: see refusal.h.
#include "refusal.h"

#include <nlohmann/json.hpp>

namespace server {

Refusal refusal(int status, const std::string& type, const std::string& message, const std::string& code) {
  nlohmann::json body = {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (!code.empty()) body["code"] = code;
  return {status,
          nlohmann::json{{"error", std::move(body)}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

}  // namespace server
