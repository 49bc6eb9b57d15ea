// Byte-pair encoding: turns one word into token ids by merging neighbours, the pair of lowest rank first. Either a
// table lists the pairs that merge, each with its rank, or (SentencePiece) two neighbours merge where what
// they spell together is a token, whose score gives the rank.
//
// Two things make most words cheap, and change no result:
//  - Most words are one token. Whether merging a token's own spelling gives that token is found out when it first is a
//    word, and remembered (is_whole()).
//  - Where SentencePiece's models have no pre-tokenizer a whole text is one word. But where no merge joins a space
//    ("\u2581") to another character before it, nothing merges across such a place: the word is cut there
//    (cuts_at_spaces_).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/byte_level.h"
#include "text/table_memory.h"
#include "text/vocabulary.h"
#include "text/work.h"

namespace qinfer::text {

/// How SentencePiece spells a space.
inline constexpr std::string_view kMetaspace = "\u2581";

/// Merges by the pair of ids that they join: an open-addressing hash table.
class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = UINT32_MAX;
  struct Merge {
    std::uint32_t rank = kNoRank;
    TokenId id = -1;
  };

  void reserve(std::size_t count);
  /// Rank by order of addition. A pair that is added twice has its last rank. reserve() must have made room.
  Status add(TokenId left, TokenId right, std::uint32_t rank, TokenId merged);
  /// One of them joins a space, as kMetaspace spells it, to another character before it.
  void note_join_at_space() { joins_at_spaces_ = true; }
  bool joins_at_spaces() const { return joins_at_spaces_; }
  /// To be called once after the last add(): Code::format if the table has a run of used slots that honest files do not
  /// come near.
  Status check() const;
  /// rank == kNoRank if the pair does not merge.
  Merge find(TokenId left, TokenId right) const;
  std::uint64_t memory_bytes() const { return bytes_taken(slots_); }
  void move_to(std::pmr::memory_resource* memory) { text::move_to(memory, slots_); }

 private:
  struct Slot {
    std::uint64_t pair = UINT64_MAX;
    Merge merge;
  };
  std::pmr::vector<Slot> slots_{heap_memory()};
  bool joins_at_spaces_ = false;
};

struct BpeOptions {
  TokenId unknown = -1;  // -1: characters without a token are left out
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;    // a word that is in the vocabulary is that token
  std::string inside = {};       // what is written before each character of a word but the first
  std::string end_of_word = {};  // what is written after its last one; both at most kMaxAffixBytes
};

/// Working space, reused from word to word.
struct BpeScratch {
  struct Symbol {
    TokenId id;                    // kMerged once merged away
    std::uint32_t previous, next;  // kEnd at the ends
    std::uint32_t begin;           // in the word; only by_score
  };
  std::vector<TokenId> ids;
  std::vector<MergeTable::Merge> merges;  // merges[i] joins ids[i] and ids[i + 1]
  std::vector<Symbol> symbols;
  std::vector<std::uint64_t> heap;  // rank and position
  std::vector<TokenId> trial;

  /// A word of at most 16 bytes that is one token, exactly: its first and last 8 bytes, which overlap.
  struct KnownWord {
    std::uint64_t first = 0, last = 0;
    std::uint32_t size = 0;  ///< 0: none
    TokenId id = -1;
  };
  /// For a text that is long enough for words to come again: the table that is searched first, for it stays in the
  /// core's cache. Empty: not used.
  std::vector<KnownWord> known;
  static constexpr unsigned kKnownBits = 9;
  void expect_text(std::size_t bytes) {
    if (bytes >= 1024) known.resize(std::size_t{1} << kKnownBits);
  }
};

class Bpe {
 public:
  /// Sets up the tables; `vocabulary` must stay at its address.
  void init(const BpeOptions& options, MergeTable merges, const Vocabulary& vocabulary);
  /// The same for merges by score: ranks[id] is that of a merge which makes the token, MergeTable::kNoRank where none
  /// does. Of equal ranks the leftmost merge comes first. A character that is no token may be part of one.
  void init_by_score(const BpeOptions& options, std::pmr::vector<std::uint32_t> ranks, const Vocabulary& vocabulary);
  /// Merges by score make this token no more. (Where merges are listed, those that lead to it stay.)
  void forbid(TokenId id) {
    if (static_cast<std::size_t>(id) < ranks_.size()) ranks_[static_cast<std::size_t>(id)] = MergeTable::kNoRank;
  }
  /// Appends the ids of `word`, which is spelled as in the vocabulary. False if there are no more steps for it.
  bool encode(std::string_view word, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const;
  /// What stands for characters without a token; -1: nothing does.
  TokenId unknown() const { return options_.unknown; }
  std::uint64_t memory_bytes() const { return merges_.memory_bytes() + bytes_taken(ranks_); }
  void move_to(std::pmr::memory_resource* memory) {
    merges_.move_to(memory);
    text::move_to(memory, ranks_);
  }

 private:
  void init_tables();
  void split_into_characters(std::string_view word, std::vector<TokenId>& ids) const;
  bool append_byte_tokens(std::string_view character, std::vector<TokenId>& ids) const;
  void merge_short(BpeScratch& scratch) const;
  bool merge_long(Work& work, BpeScratch& scratch) const;
  bool encode_part(std::string_view part, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const;
  bool merge(std::string_view part, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const;
  bool is_whole(TokenId id, std::string_view content, BpeScratch& scratch) const;
  bool encode_by_score(std::string_view word, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const;
  MergeTable::Merge find_by_score(std::string_view spelling) const;

  BpeOptions options_;
  const Vocabulary* vocabulary_ = nullptr;
  MergeTable merges_;
  std::pmr::vector<std::uint32_t> ranks_{heap_memory()};  // by id; empty if merges are listed
  std::uint32_t longest_ = 0;                             // bytes of a token that merges make, by score
  bool cuts_at_spaces_ = false;
  std::array<TokenId, kByteLevelEnd> low_ids_{};  // tokens of single characters below kByteLevelEnd; -1 = none
  std::array<TokenId, 256> byte_ids_{};           // "<0x00>" to "<0xFF>"; -1 = none
};

}  // namespace qinfer::text
