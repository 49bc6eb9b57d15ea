// See word_piece.h.
#include "text/word_piece.h"

#include <algorithm>

#include "text/utf8.h"

namespace qinfer::text {
namespace {

bool has_more_characters(std::string_view word, std::uint64_t most) {
  if (word.size() <= most) return false;
  return static_cast<std::uint64_t>(std::count_if(word.begin(), word.end(), [](char c) {
           return !utf8_is_continuation(static_cast<std::uint8_t>(c));
         })) > most;
}

}  // namespace

Status WordPiece::init(const WordPieceOptions& options, std::string_view prefix, const Vocabulary& vocabulary,
                       CancelFlag cancel) {
  options_ = options;
  std::vector<PrefixTrie::Entry> entries;
  for (TokenId id = 0; vocabulary.contains(id); ++id)
    if ((vocabulary.flags(id) & kTokenInModel) != 0) entries.push_back({vocabulary.content(id), id});
  QINFER_TRY(trie_.build(std::move(entries), cancel));
  inside_ = trie_.walk(prefix);
  return Status();
}

bool WordPiece::encode(std::string_view word, Work& work, std::vector<TokenId>& out) const {
  if (!work.spend(word.size())) return false;
  if (has_more_characters(word, options_.max_characters)) {
    out.push_back(options_.unknown);
    return true;
  }
  const std::size_t before = out.size();
  for (std::size_t begin = 0; begin < word.size();) {
    std::uint32_t node = begin == 0 ? PrefixTrie::kRoot : inside_;
    TokenId longest = -1;
    std::size_t end = begin, at = begin;
    while (node != PrefixTrie::kNone && at < word.size()) {
      node = trie_.child(node, static_cast<std::uint8_t>(word[at++]));
      if (node == PrefixTrie::kNone || trie_.token(node) < 0) continue;
      longest = trie_.token(node);
      end = at;
    }
    if (!work.spend(1 + at - begin)) return false;
    if (longest < 0) {
      out.resize(before);
      out.push_back(options_.unknown);
      return true;
    }
    out.push_back(longest);
    begin = end;
  }
  return true;
}

}  // namespace qinfer::text
