// See text_table.h.
#include "formats/text_table.h"

#include <algorithm>

namespace qinfer::formats {

void TextTable::add(std::string_view key, std::string_view value) {
  entries_.push_back({texts_.size(), static_cast<std::uint32_t>(key.size()), static_cast<std::uint32_t>(value.size())});
  for (const std::string_view text : {key, value}) {
    texts_.insert(texts_.end(), text.begin(), text.end());
    texts_.push_back('\0');
  }
}

std::optional<std::string> TextTable::finish() {
  // Entries of one key keep the order of their addition, which that of their texts is.
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    const int order = key_of(a).compare(key_of(b));
    return order != 0 ? order < 0 : a.begin < b.begin;
  });
  std::optional<std::string> twice;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const bool again = kept != 0 && key_of(entries_[kept - 1]) == key_of(entries_[i]);
    if (again && !twice) twice = std::string(key_of(entries_[i]));
    if (again) --kept;
    entries_[kept++] = entries_[i];
  }
  entries_.resize(kept);
  return twice;
}

std::string_view TextTable::key(std::size_t i) const { return key_of(entries_[i]); }

std::string_view TextTable::value(std::size_t i) const {
  const Entry& entry = entries_[i];
  return {texts_.data() + entry.begin + entry.key_size + 1, entry.value_size};
}

std::optional<std::string_view> TextTable::find(std::string_view key) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), key,
                                   [this](const Entry& entry, std::string_view k) { return key_of(entry) < k; });
  if (at == entries_.end() || key_of(*at) != key) return std::nullopt;
  return value(static_cast<std::size_t>(at - entries_.begin()));
}

}  // namespace qinfer::formats
