// access.h: who may use the server. Where there are keys: who knows one. Where there are none and it listens at a
// loopback address: every program of this machine, but no page of the web that a browser of this machine shows. Such a
// page reaches the server under a name that leads to the loopback address (DNS rebinding), or by a request that it
// sends without reading what comes; so the Host must be known, and requests that do something must come from nowhere or
// from the server's own page. Other pages are let in by their origin, which is CORS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http.h"
#include "keys.h"
#include "refusal.h"

namespace server {

struct AccessOptions {
  std::string keys_path;                                    ///< empty: everybody may
  std::vector<std::string> allowed_hosts, allowed_origins;  ///< "*": all
};

class Access {
 public:
  /// `host`: the address that is listened at. Throws std::runtime_error where an option is not what it should be.
  Access(const AccessOptions& options, const std::string& host);
  /// Reads the keys again; where that fails they stay as they are, and the reason is returned.
  std::string reload() { return keys_.reload(); }
  /// Nothing, where the request may be answered. `is_open`: without a key.
  std::optional<Refusal> refusal_of(const Request& head, bool is_open) const;
  /// Of the key of a request that may be answered; 0 where none is asked for.
  std::uint32_t number_of(const Request& head) { return keys_.number_of(head.authorization); }
  /// Whether a browser asks what a page may ask, and the answer is yes. It has no key yet.
  bool is_preflight(const Request& head) const;
  /// Lines of the head that every answer to the request has.
  std::string fields(const Request& head) const;

 private:
  bool knows_host(std::string_view host) const;
  bool allows_origin(const std::string& origin) const;

  Keys keys_;
  bool is_private_;  ///< it is of this machine alone, without keys
  std::vector<std::string> hosts_, origins_;
};

}  // namespace server
