// http.cpp: see http.h.
#include "http.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "support.h"

#ifdef QINFER_HAS_CURL
#include <curl/curl.h>
#endif

namespace cli {

std::string HttpAnswer::header(const char* name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

#ifdef QINFER_HAS_CURL

namespace {

constexpr int kMaxRedirects = 8;

struct Transfer {
  HttpAnswer answer;
  const Http::OnBody* on_body;
  CURL* curl;
  std::exception_ptr thrown;  // by on_body: no exception may pass through libcurl
  std::size_t skipped = 0;    // bytes that were read of a body that is of no use
  std::chrono::steady_clock::time_point skips_since;
  bool skipped_enough = false;
};

/// Reads a short body that is of no use to its end, after which the connection can be used again. False: it is long, or
/// comes slowly.
bool skip_body(Transfer& transfer, std::size_t size) {
  constexpr std::size_t kMaxBytes = std::size_t{16} << 10;
  constexpr std::chrono::seconds kMaxTime(3);
  const auto now = std::chrono::steady_clock::now();
  if (transfer.skipped == 0) transfer.skips_since = now;
  transfer.skipped += size;
  transfer.skipped_enough = transfer.skipped > kMaxBytes || now - transfer.skips_since > kMaxTime;
  return !transfer.skipped_enough;
}

std::size_t take_header(char* bytes, std::size_t, std::size_t size, void* user) {
  auto& answer = static_cast<Transfer*>(user)->answer;
  std::string line(bytes, size);
  if (line.starts_with("HTTP/")) answer.headers.clear();  // an interim answer came before
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return size;
  std::string name = line.substr(0, colon), value = line.substr(colon + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  value.erase(0, value.find_first_not_of(" \t"));
  value.erase(value.find_last_not_of(" \t\r\n") + 1);
  answer.headers[name] = value;
  return size;
}

std::size_t take_body(char* bytes, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &transfer.answer.status);
  if (transfer.answer.status != 200 && transfer.answer.status != 206) return skip_body(transfer, size) ? size : 0;
  try {
    return (*transfer.on_body)(transfer.answer, {bytes, size}) ? size : 0;
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 0;
  }
}

/// "https://host:443", with the port even where the URL leaves it out; empty for what is no URL.
std::string origin_of(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parts(curl_url(), curl_url_cleanup);
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return {};
  std::string origin;
  for (const CURLUPart part : {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT}) {
    char* text = nullptr;
    if (curl_url_get(parts.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
    origin.append(text).append(" ");
    curl_free(text);
  }
  std::transform(origin.begin(), origin.end(), origin.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return origin;
}

/// Where the answer for `url` redirects to; empty if it does not.
std::string redirect_of(const HttpAnswer& answer, const std::string& url) {
  const std::string location = answer.header("location");
  if (answer.status / 100 != 3 || location.empty()) return {};
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parts(curl_url(), curl_url_cleanup);
  char* text = nullptr;
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_set(parts.get(), CURLUPART_URL, location.c_str(), CURLU_URLENCODE) !=
          CURLUE_OK ||  // also a relative one
      curl_url_get(parts.get(), CURLUPART_URL, &text, 0) != CURLUE_OK)
    return {};
  std::string redirect = text;
  curl_free(text);
  return redirect;
}

}  // namespace

bool can_download() { return true; }

Http::Http(std::string endpoint, std::string token) : endpoint_(std::move(endpoint)), token_(std::move(token)) {
  const std::string origin = origin_of(endpoint_);
  if (!origin.starts_with("http ") && !origin.starts_with("https "))
    throw UsageError(json_string(endpoint_) + " is no endpoint: expected a URL such as https://huggingface.co");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_ = curl_easy_init();
  if (curl_ == nullptr) throw Failure("libcurl cannot be used");
}

Http::~Http() {
  curl_easy_cleanup(curl_);
  curl_global_cleanup();
}

bool Http::is_endpoint(const std::string& url) const { return origin_of(url) == origin_of(endpoint_); }

HttpAnswer Http::send(const std::string& url, bool only_headers, std::uint64_t from, const OnBody& on_body,
                      std::string& redirect) {
  constexpr long kConnectSeconds = 30, kStallSeconds = 60;
  CURL* const curl = curl_;
  curl_easy_reset(curl);
  Transfer transfer{};
  transfer.on_body = &on_body;
  transfer.curl = curl;
  const std::string protocols = endpoint_.starts_with("https:") ? "https" : "http,https";
  const std::string range = std::to_string(from) + "-";
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(nullptr, curl_slist_free_all);
  if (!token_.empty() && is_endpoint(url))
    headers.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + token_).c_str()));
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, protocols.c_str());
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, protocols == "https" ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "qinfer");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl, CURLOPT_NOBODY, only_headers ? 1L : 0L);
  if (from != 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  const CURLcode code = curl_easy_perform(curl);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.answer.status);
  if (code != CURLE_OK && !transfer.skipped_enough) transfer.answer.failure = curl_easy_strerror(code);
  redirect = redirect_of(transfer.answer, url);  // libcurl names none after a transfer that was stopped
  return std::move(transfer.answer);
}

HttpAnswer Http::get(const std::string& url, std::uint64_t from, const OnBody& on_body) {
  std::string at = url, redirect;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    HttpAnswer answer = send(at, false, from, on_body, redirect);
    if (redirect.empty() || !answer.failure.empty()) return answer;
    at = redirect;
  }
  throw Failure(url + ": more than " + std::to_string(kMaxRedirects) + " redirects");
}

HttpAnswer Http::head(const std::string& url) {
  std::string at = url, redirect;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    HttpAnswer answer = send(
        at, true, 0, [](const auto&, std::string_view) { return true; }, redirect);
    if (redirect.empty() || !answer.failure.empty() || !is_endpoint(redirect)) return answer;
    at = redirect;
  }
  throw Failure(url + ": more than " + std::to_string(kMaxRedirects) + " redirects");
}

#else

bool can_download() { return false; }
Http::Http(std::string, std::string) {
  throw Failure("this qinfer was built without libcurl (package libcurl4-openssl-dev) and downloads nothing");
}
Http::~Http() = default;
HttpAnswer Http::get(const std::string&, std::uint64_t, const OnBody&) { return {}; }
HttpAnswer Http::head(const std::string&) { return {}; }

#endif

}  // namespace cli
