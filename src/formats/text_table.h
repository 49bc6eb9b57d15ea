// A table of texts by key: two flat arrays, so that a table out of a hostile file takes no more than a few times the
// bytes that the file has for it, and is built in n log n time whatever its keys are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qinfer::formats {

class TextTable {
 public:
  /// A later value of a key that is there already takes its place, as find() and the order see it after finish().
  void add(std::string_view key, std::string_view value);
  /// Sorts by key. To be called once after the last add(). Returns a key that was added twice, if there is one; of its
  /// values the last one stays.
  std::optional<std::string> finish();

  std::size_t size() const { return entries_.size(); }
  /// In ascending order of the keys. Both texts are followed by a NUL in memory.
  std::string_view key(std::size_t i) const;
  std::string_view value(std::size_t i) const;
  /// The value of a key; nullopt if there is none.
  std::optional<std::string_view> find(std::string_view key) const;
  /// The same, or an empty text.
  std::string_view value_or_empty(std::string_view key) const { return find(key).value_or(std::string_view()); }

 private:
  struct Entry {
    std::uint64_t begin;  // of the key in texts_; the value follows the key's NUL
    std::uint32_t key_size, value_size;
  };
  std::string_view key_of(const Entry& entry) const { return {texts_.data() + entry.begin, entry.key_size}; }
  std::vector<char> texts_;
  std::vector<Entry> entries_;
};

}  // namespace qinfer::formats
