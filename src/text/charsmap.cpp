// See charsmap.h. The trie is darts-clone's: a unit of 32 bits has the byte that leads to it, whether it has a value,
// and how far away its children are; the child of a byte is where the exclusive or of place, distance and byte says.
#include "text/charsmap.h"

#include <algorithm>
#include <vector>

#include "text/clusters.h"
#include "text/fields.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

/// Those in use have some 250 KB.
constexpr std::size_t kMaxCharsmapBytes = std::size_t{4} << 20;
/// Clusters of more bytes are read character by character.
constexpr std::size_t kMaxClusterBytes = 5;

bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
/// The byte, with the bit that marks a value: a unit that is a value is the child of no byte.
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::size_t distance_of(std::uint32_t unit) { return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200) >> 6); }

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : (text.ends_with('=') ? 1 : 0);
  text.remove_suffix(padding);
  std::string out;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = base64_digit(text[i]);
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 != 0) out.push_back(static_cast<char>(bits >> (6 - 2 * (i % 4))));
  }
  if (padding != 0 && (bits & ((1U << (2 * padding)) - 1)) != 0) return std::nullopt;
  return out;
}

Result<Charsmap> Charsmap::parse_base64(std::string_view base64, std::string_view where) {
  if (base64.size() / 4 > kMaxCharsmapBytes / 3)
    return error(Code::unsupported, "{}: the charsmap has {} characters, at most {} are supported", where,
                 base64.size(), kMaxCharsmapBytes / 3 * 4);
  const auto bytes = decode_base64(base64);
  if (!bytes) return malformed("{}: the charsmap is not base64", where);
  return parse(*bytes, where);
}

Result<Charsmap> Charsmap::parse(std::string_view bytes, std::string_view where) {
  if (bytes.size() > kMaxCharsmapBytes)
    return error(Code::unsupported, "{}: the charsmap has {} bytes, at most {} are supported", where, bytes.size(),
                 kMaxCharsmapBytes);
  const auto number_at = [&](std::size_t at) {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[at + i]));
    };
    return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  };
  if (bytes.size() < 4) return malformed("{}: the charsmap has {} bytes, expected 4 and more", where, bytes.size());
  const std::size_t n_units = number_at(0) / 4;
  if (n_units == 0 || n_units > (bytes.size() - 4) / 4)
    return malformed("{}: the charsmap's trie has {} bytes, expected 4 to {}", where, number_at(0), bytes.size() - 4);
  Charsmap map;
  map.units_.reserve(n_units);
  for (std::size_t i = 0; i < n_units; ++i) map.units_.push_back(number_at(4 + 4 * i));
  map.replacements_ = bytes.substr(4 + 4 * n_units);
  if (const std::size_t bad = find_invalid_utf8(map.replacements_); bad != map.replacements_.size())
    return malformed("{}: the charsmap's replacements are not valid UTF-8 at byte {}", where, bad);
  QINFER_TRY(map.check(where));
  trim(map.replacements_);
  return map;
}

/// Walks through all units that can be reached, each once.
Status Charsmap::check(std::string_view where) const {
  const auto outside = [&](std::size_t at) {
    return malformed("{}: the charsmap's trie leads to unit {} of {}", where, at, units_.size());
  };
  std::vector<bool> seen(units_.size());
  std::vector<std::uint32_t> open = {0};
  seen[0] = true;
  while (!open.empty()) {
    const std::uint32_t node = open.back();
    open.pop_back();
    const std::size_t base = node ^ distance_of(units_[node]);
    if (node != 0 && has_value(units_[node])) {
      if (base >= units_.size()) return outside(base);
      const std::uint32_t value = value_of(units_[base]);
      if (value > replacements_.size() ||
          (value < replacements_.size() && utf8_is_continuation(static_cast<std::uint8_t>(replacements_[value]))))
        return malformed("{}: the charsmap has the replacement at {}, where none of its {} bytes begins one", where,
                         value, replacements_.size());
    }
    for (std::size_t byte = 1; byte < 256; ++byte) {
      const std::size_t child = base ^ byte;
      if (child >= units_.size() || seen[child] || label_of(units_[child]) != byte) continue;
      seen[child] = true;
      open.push_back(static_cast<std::uint32_t>(child));
    }
  }
  return Status();
}

/// `take(size, is_last)` says of an entry of that size whether it counts, and whether to look no further.
template <typename Take>
Charsmap::Match Charsmap::find(std::string_view text, Take take) const {
  Match match;
  std::size_t at = distance_of(units_[0]);
  bool is_last = false;
  std::size_t i = 0;
  for (; i < text.size() && text[i] != '\0' && !is_last; ++i) {
    at ^= static_cast<std::uint8_t>(text[i]);
    if (at >= units_.size() || label_of(units_[at]) != static_cast<std::uint8_t>(text[i])) break;
    const std::uint32_t unit = units_[at];
    at ^= distance_of(unit);
    if (!has_value(unit) || !take(i + 1, is_last)) continue;
    match.size = i + 1;
    match.replacement = std::string_view(replacements_).substr(value_of(units_[at]));
  }
  match.replacement = match.replacement.substr(0, match.replacement.find('\0'));
  match.steps = i;
  return match;
}

Charsmap::Match Charsmap::shortest(std::string_view text) const {
  return find(text, [](std::size_t, bool& is_last) { return is_last = true; });
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  return find(text, [&](std::size_t size, bool&) {
    return size == text.size() || !utf8_is_continuation(static_cast<std::uint8_t>(text[size]));
  });
}

Status Charsmap::append_by_cluster(std::string_view text, std::size_t max_bytes, Work& work, std::string& out) const {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = cluster_end(text, begin);
    if (!work.spend(2 * (end - begin))) return work.stopped(begin);
    if (end - begin <= kMaxClusterBytes) {
      const Match match = shortest(text.substr(begin, end - begin));
      if (match.size != 0) {
        out += match.replacement;
        begin = end;
      }
    }
    while (begin < end) {
      const std::string_view character = text.substr(begin, char_at(text, begin).size);
      const Match match = shortest(character);
      out += match.size != 0 ? match.replacement : character;
      begin += character.size();
      QINFER_TRY(check_expanded(out.size(), max_bytes));
    }
    QINFER_TRY(check_expanded(out.size(), max_bytes));
  }
  return Status();
}

Status Charsmap::append_by_prefix(std::string_view text, std::size_t max_bytes, Work& work, std::string& out) const {
  for (std::size_t begin = 0; begin < text.size();) {
    const Match match = longest(text.substr(begin));
    if (!work.spend(1 + match.steps)) return work.stopped(begin);
    const std::size_t size = match.size != 0 ? match.size : char_at(text, begin).size;
    out += match.size != 0 ? match.replacement : text.substr(begin, size);
    QINFER_TRY(check_expanded(out.size(), max_bytes));
    begin += size;
  }
  return Status();
}

}  // namespace qinfer::text
