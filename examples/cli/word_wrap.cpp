// word_wrap.cpp: see word_wrap.h.
#include "word_wrap.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstddef>
#include <cstring>
#include <cwchar>
#include <utility>

namespace cli {
namespace {

constexpr int kTab = 8;
constexpr std::string_view kFence = "```";

/// Bytes of the UTF-8 character that begins with this byte; 1 for a byte that begins none.
std::size_t size_of_character(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
}

int columns_of_character(std::string_view bytes) {
  std::mbstate_t state{};
  wchar_t wide = 0;
  if (std::mbrtowc(&wide, bytes.data(), bytes.size(), &state) > bytes.size()) return 1;  // the terminal shows U+FFFD
  const int columns = wcwidth(wide);
  return columns < 0 ? 1 : columns;
}

}  // namespace

int columns_of(std::string_view text) {
  int columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, size_of_character(text[at]));
    columns += columns_of_character(character);
    at += character.size();
  }
  return columns;
}

void use_utf8() {
  if (std::setlocale(LC_CTYPE, "") == nullptr || std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

int terminal_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

void WordWrap::add(std::string_view text) {
  if (columns_ == 0) {
    flush();
    write_(text);
    return;
  }
  for (const char byte : text) {
    character_ += byte;
    if (character_.size() < size_of_character(character_.front())) continue;
    add_character(character_);
    character_.clear();
  }
}

void WordWrap::add_character(std::string_view character) {
  if (character == "\n") {
    end_line();
    return;
  }
  if (line_begin_.size() < kFence.size()) line_begin_ += character;
  if (character == " " || character == "\t") {
    end_word();
    spaces_ += character;
    space_columns_ += character == " " ? 1 : kTab - (column_ + space_columns_) % kTab;
    return;
  }
  const int columns = columns_of_character(character);
  if (columns == 2) end_word();  // a line may be broken before a wide character
  word_ += character;
  word_columns_ += columns;
  if (columns == 2 || word_columns_ >= columns_) end_word();  // and after it
}

void WordWrap::end_word() {
  if (word_.empty()) return;
  if (has_word_ && !in_code_ && column_ + space_columns_ + word_columns_ > columns_) {
    write_("\n");
    column_ = 0;
  } else {
    write_(spaces_);
    column_ += space_columns_;
  }
  write_(word_);
  column_ += word_columns_;
  if (column_ > columns_) column_ %= columns_;  // the terminal has broken it
  has_word_ = true;
  spaces_.clear();
  word_.clear();
  space_columns_ = word_columns_ = 0;
}

void WordWrap::end_line() {
  end_word();
  write_("\n");
  if (line_begin_.starts_with(kFence)) in_code_ = !in_code_;
  spaces_.clear();
  line_begin_.clear();
  space_columns_ = column_ = 0;
  has_word_ = false;
}

void WordWrap::flush() {
  word_ += std::exchange(character_, {});
  end_word();
}

std::string wrapped(std::string_view text, int columns) {
  std::string out;
  WordWrap wrap([&](std::string_view part) { out += part; });
  wrap.set_columns(columns);
  wrap.add(text);
  wrap.flush();
  return out;
}

}  // namespace cli
