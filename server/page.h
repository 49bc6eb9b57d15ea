// page.h: the chat page for people, which GET / gives: page/index.html, put into the program when it is built.
#pragma once

#include "http.h"

namespace server {

/// The page; 304 without it if the client says that it has it.
Response page(const Request& request);

}  // namespace server
