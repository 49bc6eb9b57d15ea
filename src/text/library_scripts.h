// Scripts of characters as Hugging Face's tokenizers knows them for UnicodeScripts: its table is of an older Unicode
// than unicode.h, counts Hiragana and Katakana as Han, and has characters of no script.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace qinfer::text {

/// Where another script begins: the first character shifted left by 8 bits, and a number that stands for the script.
extern const std::uint32_t kScriptRuns[];
extern const std::size_t kScriptRunCount;

inline constexpr std::uint8_t kAnyScript = 0;

inline std::uint8_t library_script(char32_t code) {
  const std::uint32_t* end = kScriptRuns + kScriptRunCount;
  const std::uint32_t* after = std::upper_bound(kScriptRuns, end, static_cast<std::uint32_t>(code) << 8 | 0xff);
  return static_cast<std::uint8_t>(after[-1] & 0xff);
}

}  // namespace qinfer::text
