// See letters.h.
#include "text/letters.h"

#include "text/library_chars.h"
#include "text/normal_form.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

/// The only character whose lower case is two.
constexpr char32_t kCapitalIWithDot = 0x130;
constexpr std::string_view kSmallIWithDot = "i\u0307";

bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_ascii(char c) { return static_cast<std::uint8_t>(c) < 0x80; }
char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

void append_lower(std::string_view character, char32_t code, std::string& out) {
  if (code == kCapitalIWithDot) {
    out += kSmallIWithDot;
  } else if (const char32_t lower = lower_case(code); lower == code) {
    out += character;
  } else {
    append_char(out, lower);
  }
}

/// Appends what `append(character, code, out)` makes of each character.
template <typename Append>
void append_each(std::string_view text, std::string& out, Append append) {
  for (std::size_t i = 0; i < text.size();) {
    const Char c = char_at(text, i);
    append(text.substr(i, c.size), c.code, out);
    i += c.size;
  }
}

/// Cleans, sets ideographs apart, and makes ASCII lower case, in which nothing that follows differs.
void append_clean(const BertLetters& letters, std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size();) {
    if (is_ascii(text[i])) {
      const char c = text[i++];
      const auto byte = static_cast<std::uint8_t>(c);
      if (letters.clean_text && (byte < 0x20 || byte == 0x7F)) {
        if (c == '\t' || c == '\n' || c == '\r') out.push_back(' ');
      } else {
        out.push_back(letters.lowercase ? lower_ascii(c) : c);
      }
      continue;
    }
    const Char c = char_at(text, i);
    const std::string_view character = text.substr(i, c.size);
    i += c.size;
    if (letters.clean_text && (c.code == 0xFFFD || LibraryChar(c.code).is_control())) continue;
    if (letters.clean_text && is_white_space(c.code)) {
      out.push_back(' ');
    } else if (letters.handle_chinese_chars && is_ideograph(c.code)) {
      out.push_back(' ');
      out += character;
      out.push_back(' ');
    } else {
      out += character;
    }
  }
}

}  // namespace

Status append_bert(const BertLetters& letters, std::string_view text, std::string& work_space,
                   std::vector<std::int32_t>& code_points, std::string& out) {
  const std::size_t begin = out.size();
  append_clean(letters, text, out);
  // Nothing below U+0080 is an accent, or changes any more.
  if (is_trivially_normal(NormalForm::kd, std::string_view(out).substr(begin))) return Status();
  if (!letters.strip_accents && !letters.lowercase) return Status();
  work_space.clear();
  if (letters.strip_accents) {
    QINFER_TRY(append_normal_form(NormalForm::d, std::string_view(out).substr(begin), code_points, work_space));
  } else {
    work_space.assign(out, begin);
  }
  out.resize(begin);
  append_each(work_space, out, [&](std::string_view character, char32_t code, std::string& to) {
    if (code < 0x80) {
      to += character;
      if (letters.lowercase) to.back() = lower_ascii(to.back());  // of a letter that had an accent
    } else if (!letters.strip_accents || !LibraryChar(code).is_accent()) {
      if (letters.lowercase) {
        append_lower(character, code, to);
      } else {
        to += character;
      }
    }
  });
  return Status();
}

void append_lower_case(std::string_view text, std::string& out) { append_each(text, out, append_lower); }

void append_without_marks(std::string_view text, std::string& out) {
  append_each(text, out, [](std::string_view character, char32_t code, std::string& to) {
    if (!LibraryChar(code).is_mark()) to += character;
  });
}

void append_nmt(std::string_view text, std::string& out) {
  append_each(text, out, [](std::string_view character, char32_t c, std::string& to) {
    const bool removed =
        (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                       c == 0xFFFD;
    if (space) {
      to.push_back(' ');
    } else if (!removed) {
      to += character;
    }
  });
}

std::string_view without_space(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_white_space(char_at(text, 0).code)) text.remove_prefix(char_at(text, 0).size);
  while (right && !text.empty() && is_white_space(char_before(text, text.size()).code))
    text.remove_suffix(char_before(text, text.size()).size);
  return text;
}

}  // namespace qinfer::text
