// refusal.h: a request that cannot be answered.
#pragma once

#include <string>

namespace server {

/// The status of HTTP, and OpenAI's form of the error.
struct Refusal {
  int status = 500;
  std::string json;
};
Refusal refusal(int status, const std::string& type, const std::string& message, const std::string& code = "");

}  // namespace server
