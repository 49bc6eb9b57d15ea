// Charsmap: SentencePiece's compiled table of replacements ("precompiled_charsmap"), in practice NFKC with some more.
//
// The bytes are: the size of a double-array trie in bytes, as 32 bits; the trie, whose values are offsets; and the
// replacements, each ended by a NUL. Hugging Face's library and SentencePiece read it in different ways, and both are
// here, because tokenizer.json stands for the one and GGUF for the other:
//  - the former replaces a whole grapheme cluster of less than 6 bytes by what the shortest entry that it begins with
//    says, and all else character by character;
//  - the latter replaces, from the left, the longest entry that the rest of the text begins with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/table_memory.h"
#include "text/work.h"

namespace qinfer::text {

/// The bytes; none if the text is not base64.
std::optional<std::string> decode_base64(std::string_view text);

class Charsmap {
 public:
  /// Checks all that a text could reach. Code::format if it is not such a table.
  static Result<Charsmap> parse(std::string_view bytes, std::string_view where);
  /// The same of base64.
  static Result<Charsmap> parse_base64(std::string_view base64, std::string_view where);

  /// Work::stopped() when there are no more steps; Code::unsupported if `out` grows beyond max_bytes.
  Status append_by_cluster(std::string_view text, std::size_t max_bytes, Work& work, std::string& out) const;
  Status append_by_prefix(std::string_view text, std::size_t max_bytes, Work& work, std::string& out) const;

  std::uint64_t memory_bytes() const { return bytes_taken(units_) + bytes_taken(replacements_); }
  void move_to(std::pmr::memory_resource* memory) {
    text::move_to(memory, units_);
    text::move_to(memory, replacements_);
  }

 private:
  struct Match {
    std::size_t size = 0;  // of what is replaced; 0: nothing is
    std::string_view replacement;
    std::size_t steps = 0;  // that it took
  };
  Match shortest(std::string_view text) const;
  /// Of entries that end between two characters of the text.
  Match longest(std::string_view text) const;
  template <typename Take>
  Match find(std::string_view text, Take take) const;
  Status check(std::string_view where) const;

  std::pmr::vector<std::uint32_t> units_{heap_memory()};
  std::pmr::string replacements_{heap_memory()};
};

}  // namespace qinfer::text
