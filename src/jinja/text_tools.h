// What filters and methods of texts share: each makes a text whose bytes keep the marks they had.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "jinja/characters.h"
#include "jinja/run.h"

namespace qinfer::jinja {

enum class Case : std::uint8_t { upper, lower, folded, swapped, capitalized, title };
Value change_case(Run& run, const Text& text, Case wanted);
/// jinja2's filter title, whose words begin after white space, '-' and opening brackets.
Value title_words(Run& run, const Text& text);
/// Without the characters of `chars` at its ends, or without white space where it is null.
Value strip(Run& run, const Text& text, const Text* chars, bool left, bool right);
/// n is the most replacements; all where negative.
Value replace(Run& run, const Text& text, const Text& from, const Text& to, std::int64_t n, bool markup);
/// Parts between `separator`, or between white space where it is null.
Value split(Run& run, const Text& text, const Text* separator, std::int64_t n, bool from_right);
Value split_lines(Run& run, const Text& text, bool keep_ends);
/// `separator.join(items)`; fails for what is no text unless `convert`.
Value join(Run& run, const Text& separator, const List& items, bool convert);
/// In `width` characters, with `fill` around it. -1: text left, 0: centred, 1: right.
Value justify(Run& run, const Text& text, std::int64_t width, const Text& fill, int side);
Value indent(Run& run, const Text& text, const Text& indention, bool first, bool blank);
/// Python's int(text, base); nullopt where it is no integer. Fails beyond 64 bits.
std::optional<std::int64_t> parse_integer(Run& run, std::string_view text, std::int64_t base);
std::optional<double> parse_number(Run& run, std::string_view text);

}  // namespace qinfer::jinja
