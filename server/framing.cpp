// framing.cpp: see framing.h.
#include "framing.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace server {
namespace {

bool is_token_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

/// Of a field's value, or of a request's target.
bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < ' ' && byte != '\t') || byte == 0x7F;
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

HeadProblem bad(std::string message) { return {400, std::move(message)}; }

/// The next line, without its end.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find("\r\n");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return line;
}

HeadProblem check_request_line(std::string_view line) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return bad("the request line is not METHOD TARGET HTTP/1.1");
  const std::string_view target = line.substr(first + 1, last - first - 1), version = line.substr(last + 1);
  if (!is_token(line.substr(0, first)) || target.find(' ') != std::string_view::npos || has_control_characters(line))
    return bad("the request line is not METHOD TARGET HTTP/1.1");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return {505, "HTTP/1.1 is spoken here, and HTTP/1.0"};
  if (target.front() != '/' && target != "*") return bad("the target is not a path: this is no proxy");
  return {};
}

/// The fields that say where a request ends and whom it is for.
struct Framing {
  std::size_t hosts = 0;
  std::optional<std::string_view> length, encoding;
};

HeadProblem note_field(std::string_view name, std::string_view value, Framing& framing) {
  if (is_same_name(name, "host")) ++framing.hosts;
  const bool is_length = is_same_name(name, "content-length");
  if (!is_length && !is_same_name(name, "transfer-encoding")) return {};
  std::optional<std::string_view>& known = is_length ? framing.length : framing.encoding;
  if (known) return bad(std::string(name) + " is there twice");
  known = value;
  return {};
}

HeadProblem check_framing(const Framing& framing, std::string_view request_line, const HeadLimits& limits) {
  const bool is_old = request_line.ends_with("HTTP/1.0");
  if (framing.hosts > 1 || (framing.hosts == 0 && !is_old)) return bad("there must be one Host");
  if (framing.length && framing.encoding) return bad("Content-Length and Transfer-Encoding exclude each other");
  if (framing.encoding && (is_old || !is_same_name(*framing.encoding, "chunked")))
    return bad("the only Transfer-Encoding is chunked");
  if (!framing.length) return {};
  const std::string_view length = *framing.length;
  if (length.empty() || !std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return bad("Content-Length is not a number");
  const std::string_view digits = length.substr(std::min(length.find_first_not_of('0'), length.size()));
  constexpr std::size_t kDigits = 18;  // of numbers that can be read
  if (digits.size() > kDigits || (!digits.empty() && std::stoull(std::string(digits)) > limits.most_body_bytes))
    return {413, "the body is larger than " + std::to_string(limits.most_body_bytes) + " bytes"};
  return {};
}

}  // namespace

std::size_t find_end_of_head(std::string_view bytes) {
  for (std::size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    if (at == 0 || bytes[at - 1] != '\r') return std::string_view::npos;
    if (at >= 3 && bytes.substr(at - 3, 4) == "\r\n\r\n") return at + 1;
  }
  return 0;
}

HeadProblem check_head(std::string_view head, const HeadLimits& limits) {
  std::string_view rest = head;
  const std::string_view request_line = take_line(rest);
  if (HeadProblem problem = check_request_line(request_line); problem.status != 0) return problem;
  Framing framing;
  std::size_t n_fields = 0;
  while (rest != "\r\n") {
    const std::string_view line = take_line(rest);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return bad("a line of the head is not NAME: VALUE");
    if (has_control_characters(line)) return bad("a line of the head has control characters");
    if (++n_fields > limits.most_fields)
      return {431, "more than " + std::to_string(limits.most_fields) + " fields in the head"};
    HeadProblem problem = note_field(line.substr(0, colon), trimmed(line.substr(colon + 1)), framing);
    if (problem.status != 0) return problem;
  }
  return check_framing(framing, request_line, limits);
}

}  // namespace server
