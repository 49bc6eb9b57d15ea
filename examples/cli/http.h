// http.h: requests to the Hugging Face hub, by the system's libcurl where it was there when qinfer was built.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace cli {

/// Whether this build has libcurl.
bool can_download();

struct HttpAnswer {
  long status = 0;                             ///< 0: none came
  std::map<std::string, std::string> headers;  ///< of the last answer; names in lower case
  std::string failure;  ///< why the answer is not whole; empty if it is, or if the rest of it was not wanted
  std::string header(const char* name) const;
};

class Http {
 public:
  /// Called with each piece of a body of status 200 or 206; false ends the request. Of other bodies little is read.
  using OnBody = std::function<bool(const HttpAnswer& so_far, std::string_view bytes)>;

  /// `token` goes to the scheme, host and port of `endpoint` and nowhere else. An endpoint with https is not left for
  /// plain http.
  Http(std::string endpoint, std::string token);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  /// Follows redirects to any host.
  HttpAnswer get(const std::string& url, std::uint64_t from, const OnBody& on_body);
  /// The headers; follows redirects within the endpoint.
  HttpAnswer head(const std::string& url);

 private:
  bool is_endpoint(const std::string& url) const;
  HttpAnswer send(const std::string& url, bool only_headers, std::uint64_t from, const OnBody& on_body,
                  std::string& redirect);

  std::string endpoint_, token_;
  void* curl_ = nullptr;
};

}  // namespace cli
