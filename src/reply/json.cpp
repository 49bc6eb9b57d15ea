// See json.h.
#include "reply/json.h"

namespace qinfer::reply {
namespace {

/// Walks a text that is valid JSON.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  /// Skips white space, and says which character comes; 0 at the end.
  char peek() {
    at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void skip() { ++at_; }

  /// One value, as written.
  std::string_view value() {
    const char first = peek();
    const std::size_t begin = at_;
    if (first == '{' || first == '[') {
      JsonEnd end;
      at_ += end.find(text_.substr(at_)).value_or(text_.size() - at_);
    } else if (first == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
        if (text_[at_] == '\\') ++at_;
      ++at_;
    } else {
      at_ = text_.find_first_of(",]} \t\r\n", at_);
    }
    at_ = std::min(at_, text_.size());
    return text_.substr(begin, at_ - begin);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::size_t> JsonEnd::find(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '<') {
      failed_ = true;
      return std::nullopt;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (depth_ <= 1) return at_ + 1;
      --depth_;
    }
  }
  return std::nullopt;
}

std::vector<JsonMember> json_members(std::string_view object) {
  std::vector<JsonMember> members;
  Walker walker(object);
  walker.peek();
  walker.skip();  // the brace
  while (walker.peek() == '"' || walker.peek() == ',') {
    if (walker.peek() == ',') walker.skip();
    std::string_view key = walker.value();
    if (key.size() < 2) break;
    key = key.substr(1, key.size() - 2);
    if (walker.peek() != ':') break;
    walker.skip();
    members.push_back({key, walker.value()});
  }
  return members;
}

std::vector<std::string_view> json_elements(std::string_view array) {
  std::vector<std::string_view> elements;
  Walker walker(array);
  walker.peek();
  walker.skip();  // the bracket
  while (walker.peek() != ']' && walker.peek() != '\0') {
    elements.push_back(walker.value());
    if (walker.peek() == ',') walker.skip();
  }
  return elements;
}

std::string_view trim_space(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace qinfer::reply
