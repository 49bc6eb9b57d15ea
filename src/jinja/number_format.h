// Numbers as Python's format specifications write them.
#pragma once

#include <cstdint>
#include <string>

#include "jinja/run.h"

namespace qinfer::jinja {

/// What stands between "%" or "{:" and the end of a conversion.
struct FormatSpec {
  std::string fill = " ";
  bool has_fill = false;
  char align = '\0';  ///< < > ^ =, or none
  char sign = '-';    ///< + - or a blank
  bool has_sign = false;
  bool alternate = false, zero = false;
  char grouping = '\0';         ///< , or _
  std::int64_t width = 0;       ///< 0: none
  std::int64_t precision = -1;  ///< -1: none
  char type = '\0';
};

inline constexpr std::int64_t kMaxPrecision = 1000;

/// The digits of a float with so many after the point; at most kMaxPrecision.
std::string fixed_text(double value, int precision);
/// The number without padding, its sign first.
std::string integer_text(std::int64_t value, const FormatSpec& spec);
std::string number_text(double value, const FormatSpec& spec);
/// Pads to the width. `is_number`: to the right, and with "=" or zeros after the sign.
void write_padded(Run& run, TextBuilder& out, const Text& text, const FormatSpec& spec, bool is_number, Marks marks);

}  // namespace qinfer::jinja
