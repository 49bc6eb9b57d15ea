// See nfc.h. utf8proc supplies the properties, the decompositions and the composition; the ordering of combining marks
// is done here, because utf8proc's takes quadratic time on a long run of them.
#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/utf8.h"

namespace qinfer::text {
namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
/// U+11A7 composes with nothing, but utf8proc 2.8 takes it for a final consonant and swallows it. At the start of a
/// stretch it has no syllable before it.
constexpr char32_t kHangulFiller = 0x11A7;
constexpr int kLongestDecomposition = 32;  // of one character; Unicode's longest canonical one has 4

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

/// Normalises a stretch that begins with a character below U+0300, or at the start of the text.
Status append_stretch(std::string_view text, std::vector<std::int32_t>& code_points, std::string& out) {
  code_points.clear();
  for (std::size_t i = 0; i < text.size();) {
    const Char c = char_at(text, i);
    std::int32_t parts[kLongestDecomposition];
    int last_boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<std::int32_t>(c.code), parts, kLongestDecomposition, kOptions,
                                           &last_boundary);
    if (n < 0 || n > kLongestDecomposition) return failed(n);
    code_points.insert(code_points.end(), parts, parts + n);
    i += c.size;
  }
  order_marks(code_points);
  const auto n =
      utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), kOptions);
  if (n < 0) return failed(n);
  for (utf8proc_ssize_t i = 0; i < n; ++i)
    append_char(out, static_cast<char32_t>(code_points[static_cast<std::size_t>(i)]));
  return Status();
}

/// 0xCC is the first byte of U+0300; nothing below is a combining mark or composes with what precedes it.
bool is_low(char c) { return static_cast<std::uint8_t>(c) < 0xCC; }

}  // namespace

bool is_trivially_nfc(std::string_view text) { return std::all_of(text.begin(), text.end(), is_low); }

Status append_nfc(std::string_view text, std::vector<std::int32_t>& code_points, std::string& out) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    // Copy what is below U+0300, except the last character before something higher, with which that might compose.
    const auto high = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), is_low);
    auto stretch = static_cast<std::size_t>(high - text.begin());
    if (stretch == text.size()) {
      out.append(text.substr(begin));
      return Status();
    }
    if (stretch > begin) stretch -= char_before(text, stretch).size;
    out.append(text.substr(begin, stretch - begin));
    // The stretch ends before the first pair of low characters, the second of which cannot change the first.
    std::size_t end = static_cast<std::size_t>(high - text.begin());
    while (end < text.size()) {
      const Char c = char_at(text, end);
      if (c.code < 0x300 || (c.code == kHangulFiller && end != stretch)) break;
      end += c.size;
    }
    QINFER_TRY(append_stretch(text.substr(stretch, end - stretch), code_points, out));
    begin = end;
  }
  return Status();
}

}  // namespace qinfer::text
