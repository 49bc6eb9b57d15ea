// See added_tokens.h. The contents form a trie that is walked from every position of the text whose byte begins one.
#include "text/added_tokens.h"

#include <algorithm>

#include "text/fields.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

/// Bounds the walk from one position.
constexpr std::size_t kMaxContentBytes = 4096;

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !is_word_character(char_before(text, begin).code)) &&
         (end == text.size() || !is_word_character(char_at(text, end).code));
}

/// Looks up where content is, at positions that never go back.
class ContentCursor {
 public:
  explicit ContentCursor(std::span<const Span> parts) : parts_(parts) {}
  /// Whether content has a byte of [begin, end). `begin` must not be less than before.
  bool has_part_of(std::size_t begin, std::size_t end) {
    while (!parts_.empty() && parts_.front().end <= begin) parts_ = parts_.subspan(1);
    return !parts_.empty() && parts_.front().begin < end;
  }

 private:
  std::span<const Span> parts_;
};

}  // namespace

Status AddedTokens::add(std::string_view content, const AddedToken& token) {
  if (content.size() > kMaxContentBytes) {
    return error(Code::unsupported, "the added token {} has {} bytes, at most {} are supported", in_quotes(content),
                 content.size(), kMaxContentBytes);
  }
  pending_.emplace_back(content, token);
  return Status();
}

void AddedTokens::finish() {
  std::stable_sort(pending_.begin(), pending_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  pending_.erase(std::unique(pending_.begin(), pending_.end(), same), pending_.end());
  tokens_.reserve(pending_.size());
  for (const auto& [content, token] : pending_) tokens_.push_back(token);
  build_trie();
  pending_ = {};
}

Status AddedTokens::add_later(const AddedToken& token, const Vocabulary& vocabulary) {
  for (const AddedToken& known : tokens_) pending_.emplace_back(vocabulary.content(known.id), known);
  QINFER_TRY(add(vocabulary.content(token.id), token));
  tokens_.clear();
  nodes_.clear();
  edges_.clear();
  first_node_ = {};
  finish();
  return Status();
}

/// Breadth first over the sorted contents: a node is a range of them that share their first `depth` bytes.
void AddedTokens::build_trie() {
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges;
  if (!pending_.empty()) ranges.push_back({0, pending_.size(), 0});
  nodes_.resize(ranges.size());
  for (std::size_t n = 0; n < ranges.size(); ++n) {
    auto [begin, end, depth] = ranges[n];
    if (pending_[begin].first.size() == depth) nodes_[n].token = static_cast<std::int32_t>(begin++);
    nodes_[n].first_edge = static_cast<std::uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = pending_[begin].first[depth];
      std::size_t next = begin;
      while (next < end && pending_[next].first[depth] == byte) ++next;
      edges_.push_back({static_cast<std::uint8_t>(byte), static_cast<std::uint32_t>(nodes_.size())});
      ++nodes_[n].edge_count;
      nodes_.emplace_back();
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
  }
  if (!nodes_.empty())
    for (std::size_t i = 0; i < nodes_[0].edge_count; ++i) first_node_[edges_[i].byte] = edges_[i].node;
  trim(tokens_);
  trim(nodes_);
  trim(edges_);
}

bool AddedTokens::has_control(const Vocabulary& vocabulary) const {
  return std::any_of(tokens_.begin(), tokens_.end(),
                     [&](const AddedToken& token) { return (vocabulary.flags(token.id) & kTokenControl) != 0; });
}

template <typename MayEnd>
AddedTokens::Match AddedTokens::longest_match(std::string_view text, std::size_t begin, std::size_t& walked,
                                              MayEnd&& may_end) const {
  Match best{kNone, begin};
  std::uint32_t node = first_node_[static_cast<std::uint8_t>(text[begin])];
  walked = begin + 1;
  for (std::size_t i = begin + 1; node != 0; ++i) {
    walked = i;
    if (nodes_[node].token != kNone && may_end(tokens_[static_cast<std::size_t>(nodes_[node].token)], i))
      best = {nodes_[node].token, i};
    if (i == text.size()) break;
    const auto byte = static_cast<std::uint8_t>(text[i]);
    const auto first = edges_.begin() + nodes_[node].first_edge;
    const auto last = first + nodes_[node].edge_count;
    const auto edge = std::lower_bound(first, last, byte, [](const Edge& e, std::uint8_t b) { return e.byte < b; });
    node = edge != last && edge->byte == byte ? edge->node : 0;
  }
  return best;
}

/// Where a token may begin, from `at` on.
std::size_t AddedTokens::next_begin(std::string_view text, std::size_t at) const {
  if (nodes_[0].edge_count == 1) return std::min(text.find(static_cast<char>(edges_[0].byte), at), text.size());
  while (at < text.size() && first_node_[static_cast<std::uint8_t>(text[at])] == 0) ++at;
  return at;
}

Status AddedTokens::split(std::string_view text, const AddedTokenRule& rule, const Vocabulary& vocabulary, Work& work,
                          std::vector<Segment>& segments) const {
  segments.clear();
  ContentCursor content(rule.content);
  std::size_t covered = 0;                     // where the last token ended, its white space included
  std::size_t space_begin = 0, space_end = 0;  // the white space that was found last: from inside it is not read again
  for (std::size_t at = 0; at < text.size() && !tokens_.empty();) {
    if (first_node_[static_cast<std::uint8_t>(text[at])] == 0) {  // as nearly everywhere
      at = next_begin(text, at + 1);
      continue;
    }
    std::size_t walked = at;
    // What content takes part in is no match at all, so that a shorter token before it is one.
    const Match match = longest_match(text, at, walked, [&](const AddedToken& token, std::size_t end) {
      const bool guarded = rule.plain_content || (vocabulary.flags(token.id) & kTokenControl) != 0;
      return !guarded || !content.has_part_of(at, end);
    });
    if (!work.spend(walked - at)) return work.stopped(at);
    if (match.token == kNone) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = match.end;
    at = match.end;
    const AddedToken& token = tokens_[static_cast<std::size_t>(match.token)];
    if (rule.skip_control && (vocabulary.flags(token.id) & kTokenControl) != 0) continue;
    if (token.single_word && !is_single_word(text, begin, end)) continue;
    if (token.lstrip) {
      while (begin > covered && is_white_space(char_before(text, begin).code)) begin -= char_before(text, begin).size;
    }
    if (token.rstrip) {
      const std::size_t after = end;
      if (end >= space_begin && end < space_end) end = space_end;
      while (end < text.size() && is_white_space(char_at(text, end).code)) end += char_at(text, end).size;
      space_begin = after;
      space_end = end;
    }
    if (covered < begin) segments.push_back({kNone, covered, begin});
    segments.push_back({token.id, begin, end});
    // Not the larger of the two: a token that is itself white space can be inside what rstrip took before it, and the
    // rest of that white space is then text again. That is what Hugging Face's tokenizers does.
    covered = end;
  }
  if (covered < text.size()) segments.push_back({kNone, covered, text.size()});
  return Status();
}

std::uint64_t AddedTokens::memory_bytes() const {
  return bytes_taken(tokens_) + bytes_taken(nodes_) + bytes_taken(edges_);
}

void AddedTokens::move_to(std::pmr::memory_resource* memory) {
  text::move_to(memory, tokens_);
  text::move_to(memory, nodes_);
  text::move_to(memory, edges_);
}

}  // namespace qinfer::text
