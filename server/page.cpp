// page.cpp: see page.h.
#include "page.h"

#include <page_bytes.h>  // made by page/embed.cmake

namespace server {
namespace {

/// Of a list such as `"a", W/"b"`, or `*`.
bool has_tag(const std::string& list, const std::string& tag) {
  return list == "*" || list.find(tag) != std::string::npos;
}

/// The page's own style and script run and no others, it talks to this server alone, and no other page may frame it.
std::string policy() {
  return std::string("default-src 'none'; connect-src 'self'; img-src data:; style-src ") + kPageStyle +
         "; script-src " + kPageScript + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

}  // namespace

Response page(const Request& request) {
  const std::string tag = std::string("\"") + kPageHash + "\"";
  Response response = {has_tag(request.if_none_match, tag) ? 304 : 200, "text/html; charset=utf-8", kPage};
  response.fields = "Content-Security-Policy: " + policy() + "\r\nETag: " + tag +
                    "\r\nCache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n"
                    "Referrer-Policy: no-referrer\r\n";
  return response;
}

}  // namespace server
