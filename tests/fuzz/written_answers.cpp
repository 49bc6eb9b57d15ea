// written_answers.cpp: see written_answers.h.
#include "written_answers.h"

#include <charconv>

namespace qinfer::fuzz {
namespace {

std::size_t number(std::string_view text, int base) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) throw "not a number: " + std::string(text);
  return value;
}

}  // namespace

std::optional<std::string_view> WrittenReader::line() {
  const std::size_t end = rest_.find("\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest_.substr(0, end);
  if (line.find_first_of("\r\n") != std::string_view::npos) throw std::string("a bare CR or LF in a line");
  rest_.remove_prefix(end + 2);
  return line;
}

std::optional<WrittenAnswer> WrittenReader::head() {
  WrittenAnswer answer;
  length_.reset();
  is_chunked_ = false;
  const auto first = line();
  if (!first) return std::nullopt;
  if (!first->starts_with("HTTP/1.1 ") || first->size() < 14 || (*first)[12] != ' ')
    throw "not a status line: " + std::string(*first);
  answer.status = static_cast<int>(number(first->substr(9, 3), 10));
  for (auto field = line();; field = line()) {
    if (!field) return std::nullopt;
    if (field->empty()) break;
    const std::size_t colon = field->find(": ");
    if (colon == std::string_view::npos) throw "not a field: " + std::string(*field);
    const std::string_view name = field->substr(0, colon), value = field->substr(colon + 2);
    if (name == "Content-Length" && !length_) {
      length_ = number(value, 10);
    } else if (name == "Transfer-Encoding" && !is_chunked_ && value == "chunked") {
      is_chunked_ = true;
    } else if (name == "X-Id" && !answer.id) {
      answer.id = number(value, 10);
    } else if (name == "Connection" && value == "close") {
      answer.says_close = true;
    } else if (name == "X-Request-Id") {
      if (value.empty() || value.size() > 128) throw "a request's id: " + std::string(*field);
    } else if (name != "Content-Type" && name != "Cache-Control" && name != "X-Accel-Buffering") {
      throw "a field that is not expected: " + std::string(*field);
    }
  }
  if (length_ && is_chunked_) throw std::string("a length, and chunks");
  return answer;
}

void WrittenReader::body(WrittenAnswer& answer, bool is_head) {
  if (is_head || answer.status == 304) {
    answer.is_complete = true;
  } else if (is_chunked_) {
    answer.is_complete = read_chunks(answer);
  } else {
    answer.ends_by_close = !length_;
    if (answer.ends_by_close && !answer.says_close) throw std::string("an answer without an end");
    answer.body_bytes = std::min(rest_.size(), length_.value_or(rest_.size()));
    answer.is_complete = answer.ends_by_close || answer.body_bytes == *length_;
    rest_.remove_prefix(answer.body_bytes);
  }
}

bool WrittenReader::read_chunks(WrittenAnswer& answer) {
  for (;;) {
    const auto size = line();
    if (!size) return false;
    const std::size_t n = number(*size, 16);
    if (rest_.size() < n + 2) return false;
    if (rest_.substr(n, 2) != "\r\n") throw std::string("a chunk is not as long as it says");
    rest_.remove_prefix(n + 2);
    if (n == 0) return true;
    answer.body_bytes += n;
  }
}

}  // namespace qinfer::fuzz
