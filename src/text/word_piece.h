// WordPiece: turns one word into the longest token that it begins with, then the longest that the rest begins with, and
// so on; tokens inside a word are written with a prefix ("##"). A word of which a part is no token, or that has too
// many characters, is the unknown token as a whole.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/prefix_trie.h"
#include "text/vocabulary.h"
#include "text/work.h"

namespace qinfer::text {

struct WordPieceOptions {
  TokenId unknown = -1;
  std::uint64_t max_characters = 100;  ///< of a word
};

class WordPiece {
 public:
  /// `prefix` is what tokens inside a word begin with.
  Status init(const WordPieceOptions& options, std::string_view prefix, const Vocabulary& vocabulary,
              CancelFlag cancel);
  /// Appends the ids of `word`. False if there are no more steps for it.
  bool encode(std::string_view word, Work& work, std::vector<TokenId>& out) const;
  TokenId unknown() const { return options_.unknown; }
  std::uint64_t memory_bytes() const { return trie_.memory_bytes(); }
  void move_to(std::pmr::memory_resource* memory) { trie_.move_to(memory); }

 private:
  WordPieceOptions options_;
  PrefixTrie trie_;
  std::uint32_t inside_ = PrefixTrie::kNone;  // the node after the prefix
};

}  // namespace qinfer::text
