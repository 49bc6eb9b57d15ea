// PrefixTrie: the contents of a vocabulary as a tree of bytes, to find all tokens that a text begins with in one walk.
//
// Nodes are numbered breadth first, so that the children of one are side by side and those of the next follow: a node
// is 9 bytes. A walk takes one step a byte; the caller pays for its steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory_resource>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "text/table_memory.h"
#include "text/tokenizer.h"

namespace qinfer::text {

class PrefixTrie {
 public:
  static constexpr std::uint32_t kRoot = 0, kNone = UINT32_MAX;
  struct Entry {
    std::string_view content;
    TokenId id;
  };

  PrefixTrie() { root_.fill(kNone); }
  /// Of contents that are twice the last entry counts; empty ones are left out. The views are used during the call.
  Status build(std::vector<Entry> entries, CancelFlag cancel);

  /// The node that `byte` leads to; kNone if there is none.
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const {
    if (node == kRoot) return root_[byte];
    const std::uint8_t* const first = labels_.data() + nodes_[node].first_child;
    const std::uint8_t* const last = labels_.data() + nodes_[node + 1].first_child;
    const std::uint8_t* at = first;
    if (last - first > 8) {
      at = std::lower_bound(first, last, byte);
    } else {
      while (at != last && *at < byte) ++at;
    }
    return at != last && *at == byte ? static_cast<std::uint32_t>(at - labels_.data()) : kNone;
  }
  /// The node after all of `text`; kNone if no content begins so.
  std::uint32_t walk(std::string_view text) const {
    std::uint32_t node = kRoot;
    for (std::size_t i = 0; i < text.size() && node != kNone; ++i)
      node = child(node, static_cast<std::uint8_t>(text[i]));
    return node;
  }
  /// The token whose content ends at `node`; -1 if none does.
  TokenId token(std::uint32_t node) const { return nodes_[node].token; }

  std::uint64_t memory_bytes() const { return bytes_taken(nodes_) + bytes_taken(labels_); }
  void move_to(std::pmr::memory_resource* memory) {
    text::move_to(memory, nodes_);
    text::move_to(memory, labels_);
  }

 private:
  struct Node {
    std::uint32_t first_child = 0;
    TokenId token = -1;
  };
  std::pmr::vector<Node> nodes_{heap_memory()};           // and one more, where the children of the last end
  std::pmr::vector<std::uint8_t> labels_{heap_memory()};  // of each node; of the children of one in order
  std::array<std::uint32_t, 256> root_;                   // the root's children
};

}  // namespace qinfer::text
