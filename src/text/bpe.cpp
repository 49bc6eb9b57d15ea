// See bpe.h. Short words are merged by repeated scans, long ones with a heap over a linked list: a whole text can be
// one word where there is no pre-tokenizer, and must not take quadratic time.
#include "text/bpe.h"

#include <algorithm>
#include <functional>

#include "text/fields.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

constexpr std::size_t kShortWord = 48;  // characters; where the heap begins to win
constexpr std::uint32_t kEnd = UINT32_MAX;
/// As in vocabulary.cpp; this table is up to two thirds full, so that runs are up to some 250 long.
constexpr std::size_t kMaxProbes = 1024;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

std::size_t pair_hash(std::uint64_t key) {
  key *= 0x9E3779B97F4A7C15U;
  key ^= key >> 32;
  key *= 0x9E3779B97F4A7C15U;
  return static_cast<std::size_t>(key >> 29);
}

}  // namespace

void MergeTable::reserve(std::size_t count) {
  std::size_t slots = 1;
  while (slots < count + count / 2 + 1) slots *= 2;
  slots_.assign(slots, Slot());
}

Status MergeTable::add(TokenId left, TokenId right, std::uint32_t rank, TokenId merged) {
  const std::uint64_t key = pair_key(left, right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = pair_hash(key) & mask;
  for (std::size_t probes = 0; slots_[i].pair != UINT64_MAX && slots_[i].pair != key; i = (i + 1) & mask)
    if (++probes > kMaxProbes) return malformed("model.merges: too many pairs share a hash value");
  slots_[i] = {key, {rank, merged}};
  return Status();
}

Status MergeTable::check() const {
  const auto is_used = [](const Slot& slot) { return slot.pair != UINT64_MAX; };
  if (longest_run(slots_, is_used) > kMaxProbes) return malformed("model.merges: too many pairs share a hash value");
  return Status();
}

MergeTable::Merge MergeTable::find(TokenId left, TokenId right) const {
  const std::uint64_t key = pair_key(left, right);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = pair_hash(key) & mask;; i = (i + 1) & mask) {
    if (slots_[i].pair == key) return slots_[i].merge;
    if (slots_[i].pair == UINT64_MAX) return Merge();
  }
}

void Bpe::init(const BpeOptions& options, MergeTable merges, const Vocabulary& vocabulary) {
  options_ = options;
  vocabulary_ = &vocabulary;
  merges_ = std::move(merges);
  std::string character;
  for (char32_t code = 0; code < kByteLevelEnd; ++code) {
    character.clear();
    append_char(character, code);
    low_ids_[code] = vocabulary.find_in_model(character).value_or(-1);
  }
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_ids_[byte] = vocabulary.find_in_model(fmt::format("<0x{:02X}>", byte)).value_or(-1);
}

bool Bpe::append_byte_tokens(std::string_view character, std::vector<TokenId>& ids) const {
  const std::size_t size = ids.size();
  for (const char c : character) {
    const TokenId id = byte_ids_[static_cast<std::uint8_t>(c)];
    if (id < 0) {
      ids.resize(size);
      return false;
    }
    ids.push_back(id);
  }
  return true;
}

void Bpe::split_into_characters(std::string_view word, std::vector<TokenId>& ids) const {
  ids.clear();
  bool unknown_pending = false;  // so that a run of unknown characters can become one token
  for (std::size_t i = 0; i < word.size();) {
    const Char c = char_at(word, i);
    const std::string_view character = word.substr(i, c.size);
    i += c.size;
    const TokenId id = c.code < kByteLevelEnd ? low_ids_[c.code] : vocabulary_->find_in_model(character).value_or(-1);
    if (id >= 0) {
      if (unknown_pending) ids.push_back(options_.unknown);
      unknown_pending = false;
      ids.push_back(id);
    } else if (options_.byte_fallback && append_byte_tokens(character, ids)) {
      // A pending unknown token stays pending, and so comes after these bytes, as in Hugging Face's tokenizers.
    } else if (options_.unknown >= 0) {
      if (unknown_pending && !options_.fuse_unknown) ids.push_back(options_.unknown);
      unknown_pending = true;
    }
  }
  if (unknown_pending) ids.push_back(options_.unknown);
}

void Bpe::merge_short(BpeScratch& scratch) const {
  auto& ids = scratch.ids;
  auto& merges = scratch.merges;
  merges.clear();
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) merges.push_back(merges_.find(ids[i], ids[i + 1]));
  for (;;) {
    const auto best =
        std::min_element(merges.begin(), merges.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (best == merges.end() || best->rank == MergeTable::kNoRank) return;
    const std::ptrdiff_t i = best - merges.begin();
    const auto at = ids.begin() + i;
    *at = best->id;
    ids.erase(at + 1);
    merges.erase(best);
    if (i > 0) merges[static_cast<std::size_t>(i - 1)] = merges_.find(at[-1], at[0]);
    if (at + 1 != ids.end()) merges[static_cast<std::size_t>(i)] = merges_.find(at[0], at[1]);
  }
}

/// Queues the merge of the symbol at `position` with the next one, if there is one.
void Bpe::push_pair(std::uint32_t position, BpeScratch& scratch) const {
  const auto& symbol = scratch.symbols[position];
  if (symbol.next == kEnd) return;
  const MergeTable::Merge merge = merges_.find(symbol.id, scratch.symbols[symbol.next].id);
  if (merge.rank == MergeTable::kNoRank) return;
  scratch.heap.push_back(static_cast<std::uint64_t>(merge.rank) << 32 | position);
}

bool Bpe::merge_long(Work& work, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto count = static_cast<std::uint32_t>(scratch.ids.size());
  symbols.resize(count);
  for (std::uint32_t i = 0; i < count; ++i)
    symbols[i] = {scratch.ids[i], i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1};
  heap.clear();
  for (std::uint32_t i = 0; i < count; ++i) push_pair(i, scratch);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](std::uint32_t position) {
    const std::size_t before = heap.size();
    push_pair(position, scratch);
    if (heap.size() != before) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    if (!work.spend(1)) return false;
    const std::uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto position = static_cast<std::uint32_t>(top);
    auto& left = symbols[position];
    if (left.id < 0 || left.next == kEnd) continue;
    // An entry is stale if its pair has changed since. A rank belongs to one pair only, so it tells.
    const MergeTable::Merge merge = merges_.find(left.id, symbols[left.next].id);
    if (merge.rank != top >> 32) continue;
    auto& right = symbols[left.next];
    left.id = merge.id;
    left.next = right.next;
    right.id = -1;
    if (left.next != kEnd) symbols[left.next].previous = position;
    if (left.previous != kEnd) push(left.previous);
    push(position);
  }
  scratch.ids.clear();
  for (std::uint32_t i = 0; i != kEnd; i = symbols[i].next) scratch.ids.push_back(symbols[i].id);
  return true;
}

bool Bpe::encode(std::string_view word, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const {
  if (word.size() >= kEnd || !work.spend(word.size())) return false;
  if (options_.ignore_merges) {
    if (const auto id = vocabulary_->find_in_model(word)) {
      out.push_back(*id);
      return true;
    }
  }
  split_into_characters(word, scratch.ids);
  if (scratch.ids.size() > kShortWord) {
    if (!merge_long(work, scratch)) return false;
  } else {
    merge_short(scratch);
  }
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  return true;
}

}  // namespace qinfer::text
