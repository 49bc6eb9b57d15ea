// See normal_form.h. utf8proc supplies the properties, the decompositions and the composition; the ordering of
// combining marks is done here, because utf8proc's takes quadratic time on a long run of them.
#include "text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/library_chars.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

bool composes(NormalForm form) { return form == NormalForm::c || form == NormalForm::kc; }

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE | (composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (form == NormalForm::kc || form == NormalForm::kd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

/// What the first byte of a character is below if the form leaves the character alone, and no mark: U+0300 (C), U+00C0
/// (D), U+0080 (the others).
std::uint8_t low_end(NormalForm form) {
  if (form == NormalForm::c) return 0xCC;
  return form == NormalForm::d ? 0xC3 : 0x80;
}

/// U+11A7 composes with nothing, but utf8proc 2.8 takes it for a final consonant and swallows it. At the start of a
/// stretch it has no syllable before it.
constexpr char32_t kHangulFiller = 0x11A7;
constexpr int kLongestDecomposition = 32;  // of one character; Unicode's longest has 18

Status failed(std::int64_t code) { return error(Code::internal, "utf8proc failed with code {}", code); }

utf8proc_propval_t combining_class(std::int32_t code) { return utf8proc_get_property(code)->combining_class; }

/// Sorts each run of combining marks by their class, keeping the order of equals.
void order_marks(std::vector<std::int32_t>& code_points) {
  const auto by_class = [](std::int32_t a, std::int32_t b) { return combining_class(a) < combining_class(b); };
  const auto end = code_points.end();
  for (auto i = code_points.begin(); i != end;) {
    if (combining_class(*i) == 0) {
      ++i;
      continue;
    }
    auto run_end = i + 1;
    while (run_end != end && combining_class(*run_end) != 0) ++run_end;
    if (run_end - i > 1) std::stable_sort(i, run_end, by_class);
    i = run_end;
  }
}

/// Normalises a stretch that begins with a character that combines with none before it.
Status append_stretch(NormalForm form, std::string_view text, std::vector<std::int32_t>& code_points,
                      std::string& out) {
  const utf8proc_option_t options = options_of(form);
  code_points.clear();
  for (std::size_t i = 0; i < text.size();) {
    const Char c = char_at(text, i);
    std::int32_t parts[kLongestDecomposition];
    int last_boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<std::int32_t>(c.code), parts, kLongestDecomposition, options,
                                           &last_boundary);
    if (n < 0 || n > kLongestDecomposition) return failed(n);
    code_points.insert(code_points.end(), parts, parts + n);
    i += c.size;
  }
  order_marks(code_points);
  auto n = static_cast<utf8proc_ssize_t>(code_points.size());
  if (composes(form)) n = utf8proc_normalize_utf32(code_points.data(), n, options);
  if (n < 0) return failed(n);
  for (utf8proc_ssize_t i = 0; i < n; ++i)
    append_char(out, static_cast<char32_t>(code_points[static_cast<std::size_t>(i)]));
  return Status();
}

bool is_newer(char32_t code) { return code >= 0x300 && LibraryChar(code).is_newer_than_9(); }

}  // namespace

bool is_trivially_normal(NormalForm form, std::string_view text) {
  const std::uint8_t end = low_end(form);
  return std::all_of(text.begin(), text.end(), [&](char c) { return static_cast<std::uint8_t>(c) < end; });
}

Status append_normal_form(NormalForm form, std::string_view text, std::vector<std::int32_t>& code_points,
                          std::string& out) {
  const std::uint8_t low = low_end(form);
  const auto is_low = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]) < low; };
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t high = begin;
    while (high < text.size() && is_low(high)) ++high;
    if (high == text.size()) {
      out.append(text.substr(begin));
      return Status();
    }
    if (const Char c = char_at(text, high); is_newer(c.code)) {
      out.append(text.substr(begin, high + c.size - begin));
      begin = high + c.size;
      continue;
    }
    // Copy what is low, except the last character before something higher, with which that might compose.
    std::size_t stretch = high;
    if (stretch > begin) stretch -= char_before(text, stretch).size;
    out.append(text.substr(begin, stretch - begin));
    // The stretch ends before what no character before it can change.
    std::size_t end = high;
    while (end < text.size()) {
      const Char c = char_at(text, end);
      if (is_low(end) || is_newer(c.code) || (c.code == kHangulFiller && end != stretch)) break;
      end += c.size;
    }
    QINFER_TRY(append_stretch(form, text.substr(stretch, end - stretch), code_points, out));
    begin = end;
  }
  return Status();
}

}  // namespace qinfer::text
