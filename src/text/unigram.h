// Unigram (SentencePiece's default, as T5 and XLM-R have it): turns a word into the tokens whose scores add up to the
// most. Of sums that are equal the one that is found first counts, which is that with the longer last token; sums are
// those of double precision, in the order of the text, as in Hugging Face's library.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/prefix_trie.h"
#include "text/table_memory.h"
#include "text/vocabulary.h"
#include "text/work.h"

namespace qinfer::text {

struct UnigramOptions {
  TokenId unknown = -1;        ///< what characters without a token become; -1: they are an error
  bool byte_fallback = false;  ///< they become the tokens of their bytes, if there are all
};

/// Working space, reused from word to word.
struct UnigramScratch {
  static constexpr std::uint32_t kUnreached = UINT32_MAX;
  /// The best way to a place of the word: its last token, and where that begins.
  struct Place {
    double score = 0;
    std::uint32_t begin = kUnreached;
    TokenId id = -1;
  };
  struct Part {
    std::uint32_t begin, end;
    TokenId id;
  };
  std::vector<Place> places;
  std::vector<Part> parts;
};

class Unigram {
 public:
  /// Sets up the tables; `scores` are those of the ids, NaN of tokens that no text becomes, and `vocabulary` must stay
  /// at its address. `lowest`: of scores that count, for what an unknown character costs.
  Status init(const UnigramOptions& options, std::pmr::vector<double> scores, double lowest,
              const Vocabulary& vocabulary, CancelFlag cancel);
  /// Appends the ids of `word`. Work::stopped() if there are no more steps for it, Code::unsupported for a character
  /// without a token where there is no unknown token either.
  Status encode(std::string_view word, Work& work, UnigramScratch& scratch, std::vector<TokenId>& out) const;
  TokenId unknown() const { return options_.unknown; }
  std::uint64_t memory_bytes() const { return trie_.memory_bytes() + bytes_taken(scores_); }
  void move_to(std::pmr::memory_resource* memory) {
    trie_.move_to(memory);
    text::move_to(memory, scores_);
  }

 private:
  Status find_best(std::string_view word, Work& work, UnigramScratch& scratch) const;
  void append_unknown(std::string_view part, std::vector<TokenId>& out) const;

  UnigramOptions options_;
  const Vocabulary* vocabulary_ = nullptr;
  PrefixTrie trie_;
  std::pmr::vector<double> scores_{heap_memory()};  // by id
  double unknown_score_ = 0;
  std::array<TokenId, 256> byte_ids_{};  // "<0x00>" to "<0xFF>"; -1 = none
};

}  // namespace qinfer::text
