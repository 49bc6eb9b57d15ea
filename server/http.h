// http.h: requests and answers of HTTP as the routes see them, and the answers that any of them may give.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "record.h"

namespace server {

struct Request {
  std::string method, target;  ///< the target without what follows '?'
  std::string authorization, if_none_match, host, origin;
  std::string fetch_site;                  ///< Sec-Fetch-Site
  std::string asked_method, asked_fields;  ///< Access-Control-Request-Method and -Headers
  std::uint32_t key = 0;                   ///< the number of its key; 0 where none is asked for
  std::uint64_t length = 0;                ///< of the body, as the head says; 0 where it does not
  std::string body;
  std::shared_ptr<Record> record = {};  ///< what the log will say of it
  std::shared_ptr<void> part;           ///< what the body has of the bound of all (bodies.h), until it is let go
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::string fields = {};  ///< more lines of the head, each with its end
};

std::string_view reason_of(int status);

}  // namespace server
