// See prefix_trie.h.
#include "text/prefix_trie.h"

#include <algorithm>

#include "text/fields.h"

namespace qinfer::text {
namespace {

/// Nodes between two looks at the flag of a host that may cancel.
constexpr std::size_t kNodesPerLook = std::size_t{1} << 16;

}  // namespace

/// Breadth first over the sorted contents: a node is a range of them that share their first `depth` bytes. Only the
/// ranges whose nodes have no children yet are kept.
Status PrefixTrie::build(std::vector<Entry> entries, CancelFlag cancel) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.content < b.content; });
  struct Range {
    std::uint32_t begin, end;
  };
  std::vector<Range> level, next_level;
  const auto first = std::find_if(entries.begin(), entries.end(), [](const Entry& e) { return !e.content.empty(); });
  level.push_back({static_cast<std::uint32_t>(first - entries.begin()), static_cast<std::uint32_t>(entries.size())});
  nodes_.assign(1, Node());
  labels_.assign(1, 0);
  std::size_t parent = 0;
  for (std::size_t depth = 0; !level.empty(); ++depth, level.swap(next_level)) {
    next_level.clear();
    for (auto [begin, end] : level) {
      if (parent % kNodesPerLook == 0) QINFER_TRY(cancel.check("loading a tokenizer"));
      if (depth != 0)
        for (; begin < end && entries[begin].content.size() == depth; ++begin) nodes_[parent].token = entries[begin].id;
      nodes_[parent].first_child = static_cast<std::uint32_t>(nodes_.size());
      while (begin < end) {
        const char byte = entries[begin].content[depth];
        std::uint32_t next = begin;
        while (next < end && entries[next].content[depth] == byte) ++next;
        nodes_.emplace_back();
        labels_.push_back(static_cast<std::uint8_t>(byte));
        next_level.push_back({begin, next});
        begin = next;
      }
      ++parent;
    }
  }
  nodes_.push_back({static_cast<std::uint32_t>(nodes_.size()), -1});
  root_.fill(kNone);
  for (std::uint32_t i = nodes_[0].first_child; i < nodes_[1].first_child; ++i) root_[labels_[i]] = i;
  trim(nodes_);
  trim(labels_);
  return Status();
}

}  // namespace qinfer::text
