// Added tokens: contents such as "<|im_end|>" that are looked for in the text itself and never split or merged.
//
// Most are matched before normalisation; those marked "normalized" are matched, in normalised form, in the normalised
// text between the others. Of matches that overlap the leftmost counts, and of those the longest.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/span.h"
#include "base/status.h"
#include "text/table_memory.h"
#include "text/vocabulary.h"
#include "text/work.h"

namespace qinfer::text {

struct AddedToken {
  TokenId id = 0;
  bool lstrip = false, rstrip = false;  // also takes the white space before or after
  bool single_word = false;             // not inside a word
};

/// Which added tokens are looked for.
struct AddedTokenRule {
  bool skip_control = false;      ///< what matches a control token stays text
  bool plain_content = false;     ///< what matches any token stays text where content takes part
  std::span<const Span> content;  ///< takes part in no control token: ascending, apart from each other
};

/// A part of a text: one added token, or (id < 0) text between them.
struct Segment {
  TokenId id;
  std::size_t begin, end;
};

class AddedTokens {
 public:
  /// Contents must be valid UTF-8, not empty. Of tokens with the same content the first is found.
  Status add(std::string_view content, const AddedToken& token);
  /// To be called once after the last add.
  void finish();
  /// Adds one to those that finish() was called for, all of which are found by their contents in the vocabulary.
  Status add_later(const AddedToken& token, const Vocabulary& vocabulary);

  bool empty() const { return tokens_.empty(); }
  /// Whether one of them is a control token.
  bool has_control(const Vocabulary& vocabulary) const;
  /// Sets `segments` to the parts of `text`.
  Status split(std::string_view text, const AddedTokenRule& rule, const Vocabulary& vocabulary, Work& work,
               std::vector<Segment>& segments) const;
  std::uint64_t memory_bytes() const;
  void move_to(std::pmr::memory_resource* memory);

 private:
  static constexpr std::int32_t kNone = -1;
  struct Node {
    std::uint32_t first_edge = 0, edge_count = 0;
    std::int32_t token = kNone;  // index into tokens_ of the content that ends here
  };
  struct Edge {
    std::uint8_t byte;
    std::uint32_t node;
  };
  struct Match {
    std::int32_t token;
    std::size_t end;
  };
  void build_trie();
  /// Of those that end where `may_end` says. `walked`: how far it looked.
  template <typename MayEnd>
  Match longest_match(std::string_view text, std::size_t begin, std::size_t& walked, MayEnd&& may_end) const;

  std::size_t next_begin(std::string_view text, std::size_t at) const;

  std::vector<std::pair<std::string, AddedToken>> pending_;  // until finish()
  std::pmr::vector<AddedToken> tokens_{heap_memory()};
  std::pmr::vector<Node> nodes_{heap_memory()};  // node 0 is the root
  std::pmr::vector<Edge> edges_{heap_memory()};  // of each node side by side, sorted by byte
  std::array<std::uint32_t, 256> first_node_{};  // the root's children by byte; 0 = none
};

}  // namespace qinfer::text
