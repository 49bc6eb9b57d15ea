// access.cpp: see access.h.
#include "access.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <stdexcept>

namespace server {
namespace {

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Of what is a name, an address, or an address in brackets, with or without a port; empty: it is none of these.
std::string name_of(std::string_view host) {
  const bool is_v6 = host.starts_with('[');
  const std::size_t end = is_v6 ? host.find(']') : host.find(':');
  if (is_v6 && end == std::string_view::npos) return {};
  std::string_view name = host.substr(0, end), rest = host.substr(std::min(host.size(), name.size()));
  if (is_v6) name.remove_prefix(1), rest.remove_prefix(1);
  if (rest == ":" || (!rest.empty() && (rest[0] != ':' || rest.find_first_not_of("0123456789", 1) != rest.npos)))
    return {};
  if (name.ends_with('.')) name.remove_suffix(1);
  return lowered(name);
}

/// A page that was got from an address is never another server's: only names can be made to lead elsewhere.
bool is_address(const std::string& name) {
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  return !error;
}

std::string checked_host(const std::string& name) {
  const std::string known = "-._abcdefghijklmnopqrstuvwxyz0123456789";
  const std::string host = lowered(name);
  if (host != "*" && (host.empty() || host.find_first_not_of(known) != std::string::npos))
    throw std::runtime_error("--allowed-host " + name + ": not a name without a port, such as models.example.com");
  return host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
}

std::string checked_origin(const std::string& origin) {
  const std::size_t colon = origin.find("://");
  const bool is_url = colon != 0 && colon != std::string::npos && colon + 3 < origin.size() &&
                      std::all_of(origin.begin(), origin.end(), [](char c) { return c > ' ' && c < 0x7F; }) &&
                      origin.find_first_of("/?#,", colon + 3) == std::string::npos;
  if (origin != "*" && origin != "null" && !is_url)
    throw std::runtime_error("--allow-origin " + origin + ": not an origin, such as https://example.com:8443, nor *");
  return lowered(origin);
}

/// Whether what a browser says of a request is that it comes from a page, and not one of this server's. A browser that
/// says more than the origin is believed, for a proxy may have changed the Host.
bool is_foreign(const Request& head) {
  if (!head.fetch_site.empty()) return head.fetch_site != "same-origin" && head.fetch_site != "none";
  if (head.origin.empty()) return false;
  const std::string origin = lowered(head.origin), host = lowered(head.host);
  return origin != "http://" + host && origin != "https://" + host;
}

}  // namespace

Access::Access(const AccessOptions& options, const std::string& host)
    : keys_(options.keys_path),
      is_private_(options.keys_path.empty() && boost::asio::ip::make_address(host).is_loopback()) {
  for (const std::string& name : options.allowed_hosts) hosts_.push_back(checked_host(name));
  for (const std::string& origin : options.allowed_origins) origins_.push_back(checked_origin(origin));
}

bool Access::knows_host(std::string_view host) const {
  if (host.empty() || contains(hosts_, "*")) return true;  // no browser leaves it out
  const std::string name = name_of(host);
  return !name.empty() &&
         (name == "localhost" || name.ends_with(".localhost") || is_address(name) || contains(hosts_, name));
}

bool Access::allows_origin(const std::string& origin) const {
  return !origin.empty() && (contains(origins_, "*") || contains(origins_, lowered(origin)));
}

std::optional<Refusal> Access::refusal_of(const Request& head, bool is_open) const {
  if (is_private_ && !knows_host(head.host))
    return refusal(403, "permission_error",
                   "The Host " + head.host.substr(0, 255) +
                       " is not known here: without keys this server answers to localhost, to addresses, and to names "
                       "that it was started with (--allowed-host NAME)",
                   "host_not_allowed");
  const bool does_something = head.method != "GET" && head.method != "OPTIONS";
  if (is_private_ && does_something && is_foreign(head) && !allows_origin(head.origin))
    return refusal(403, "permission_error",
                   "Pages of " + (head.origin.empty() ? "other servers" : head.origin.substr(0, 255)) +
                       " are not allowed to ask here: those are that this server was started with (--allow-origin "
                       "ORIGIN)",
                   "origin_not_allowed");
  if (is_open || keys_.allow(head.authorization)) return std::nullopt;
  return refusal(401, "invalid_request_error", "No or a wrong API key was given", "invalid_api_key");
}

bool Access::is_preflight(const Request& head) const {
  return head.method == "OPTIONS" && !head.asked_method.empty() && allows_origin(head.origin) &&
         (!is_private_ || knows_host(head.host));
}

std::string Access::fields(const Request& head) const {
  if (origins_.empty()) return {};
  if (!allows_origin(head.origin)) return "Vary: Origin\r\n";
  const bool are_all = contains(origins_, "*");
  std::string fields = "Access-Control-Allow-Origin: " + (are_all ? "*" : head.origin) + "\r\n";
  if (!are_all) fields += "Vary: Origin\r\n";
  if (!is_preflight(head)) return fields + "Access-Control-Expose-Headers: Retry-After, X-Request-Id\r\n";
  fields += "Access-Control-Allow-Methods: GET, HEAD, POST\r\nAccess-Control-Max-Age: 7200\r\n";
  return head.asked_fields.empty() ? fields : fields + "Access-Control-Allow-Headers: " + head.asked_fields + "\r\n";
}

}  // namespace server
