// See bpe.h. Short words are merged by repeated scans, long ones with a heap over a linked list: a whole text can be
// one word where there is no pre-tokenizer, and must not take quadratic time.
#include "text/bpe.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "text/fields.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

constexpr std::size_t kShortWord = 48;  // characters, or bytes of one that is looked up; where the heap begins to win
constexpr std::uint32_t kEnd = UINT32_MAX;
constexpr TokenId kMerged = -1;   // into the symbol before
constexpr TokenId kNoToken = -2;  // a character that is none, by score
/// As in vocabulary.cpp; this table is up to two thirds full, so that runs are up to some 250 long.
constexpr std::size_t kMaxPairProbes = 1024;

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
    if (++probes > kMaxPairProbes) return malformed("too many pairs share a hash value");
  slots_[i] = {key, {rank, merged}};
  return Status();
}

Status MergeTable::check() const {
  const auto is_used = [](const Slot& slot) { return slot.pair != UINT64_MAX; };
  if (longest_run(slots_, is_used) > kMaxPairProbes) return malformed("too many pairs share a hash value");
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
  init_tables();
}

void Bpe::init_by_score(const BpeOptions& options, std::pmr::vector<std::uint32_t> ranks,
                        const Vocabulary& vocabulary) {
  options_ = options;
  vocabulary_ = &vocabulary;
  ranks_ = std::move(ranks);
  longest_ = 0;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i] != MergeTable::kNoRank)
      longest_ = std::max(longest_, static_cast<std::uint32_t>(vocabulary.content(static_cast<TokenId>(i)).size()));
  init_tables();
}

namespace {

/// The first place after `from` at which a space follows another character; the size of the text if there is none.
std::size_t next_cut(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find(kMetaspace, from + 1); at != text.npos;
       at = text.find(kMetaspace, at + kMetaspace.size()))
    if (!text.substr(0, at).ends_with(kMetaspace)) return at;
  return text.size();
}

/// Whether no token has a space after another character.
bool keeps_spaces_first(const Vocabulary& vocabulary) {
  for (std::uint32_t i = 0; i < vocabulary.size(); ++i) {
    const std::string_view content = vocabulary.content(static_cast<TokenId>(i));
    if ((vocabulary.flags(static_cast<TokenId>(i)) & kTokenInModel) != 0 && next_cut(content, 0) != content.size())
      return false;
  }
  return true;
}

}  // namespace

void Bpe::init_tables() {
  std::string character;
  for (char32_t code = 0; code < kByteLevelEnd; ++code) {
    character.clear();
    append_char(character, code);
    low_ids_[code] = vocabulary_->find_in_model(character).value_or(-1);
  }
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string name = "<0x00>";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    name[3] = kDigits[byte / 16];
    name[4] = kDigits[byte % 16];
    byte_ids_[byte] = vocabulary_->find_in_model(name).value_or(-1);
  }
  // Not where a character that is left out lets what is on both sides of it meet, or one that has no token stands
  // before a space as if it ended with one.
  const bool leaves_nothing_out =
      options_.unknown >= 0 || (options_.byte_fallback && std::count(byte_ids_.begin(), byte_ids_.end(), -1) == 0);
  const bool keeps_all =
      leaves_nothing_out && (options_.unknown < 0 || !vocabulary_->content(options_.unknown).ends_with(kMetaspace));
  cuts_at_spaces_ = options_.inside.empty() && options_.end_of_word.empty() && vocabulary_->find_in_model(kMetaspace) &&
                    (ranks_.empty() ? keeps_all && !merges_.joins_at_spaces() : keeps_spaces_first(*vocabulary_));
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
    std::string_view character = word.substr(i, c.size);
    const bool has_prefix = i != 0 && !options_.inside.empty();
    i += c.size;
    const bool has_suffix = i == word.size() && !options_.end_of_word.empty();
    std::string spelling;
    if (has_prefix) spelling = options_.inside;
    if (has_prefix || has_suffix) character = spelling.append(character);
    if (has_suffix) character = spelling.append(options_.end_of_word);
    const bool is_low = c.code < kByteLevelEnd && !has_prefix && !has_suffix;
    const TokenId id = is_low ? low_ids_[c.code] : vocabulary_->find_in_model(character).value_or(-1);
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

namespace {

/// Merges the symbols of a word until no two neighbours merge. `find(left, right)` gives the merge of two symbols.
/// False if there are no more steps.
template <typename Find>
bool merge_symbols(Work& work, BpeScratch& scratch, Find find) {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto append_pair = [&](std::uint32_t position) {
    const auto& symbol = symbols[position];
    if (symbol.next == kEnd) return false;
    const MergeTable::Merge merge = find(symbol, symbols[symbol.next]);
    if (merge.rank == MergeTable::kNoRank) return false;
    heap.push_back(static_cast<std::uint64_t>(merge.rank) << 32 | position);
    return true;
  };
  const auto push = [&](std::uint32_t position) {
    if (append_pair(position)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  heap.clear();
  for (std::uint32_t i = 0; i < symbols.size(); ++i) append_pair(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    if (!work.spend(1)) return false;
    const std::uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto position = static_cast<std::uint32_t>(top);
    auto& left = symbols[position];
    if (left.id == kMerged || left.next == kEnd) continue;
    // An entry is stale if the rank at its position has changed. If another pair of the same rank is there now, that is
    // the next one anyway.
    const MergeTable::Merge merge = find(left, symbols[left.next]);
    if (merge.rank != top >> 32) continue;
    auto& right = symbols[left.next];
    left.id = merge.id;
    left.next = right.next;
    right.id = kMerged;
    if (left.next != kEnd) symbols[left.next].previous = position;
    if (left.previous != kEnd) push(left.previous);
    push(position);
  }
  return true;
}

/// Where a word's symbol number i of `count` is linked to.
BpeScratch::Symbol linked(TokenId id, std::uint32_t i, std::uint32_t count, std::uint32_t begin) {
  return {id, i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1, begin};
}

}  // namespace

bool Bpe::merge_long(Work& work, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  const auto count = static_cast<std::uint32_t>(scratch.ids.size());
  symbols.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) symbols[i] = linked(scratch.ids[i], i, count, 0);
  using Symbol = BpeScratch::Symbol;
  if (!merge_symbols(work, scratch,
                     [this](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); }))
    return false;
  scratch.ids.clear();
  for (std::uint32_t i = 0; i != kEnd; i = symbols[i].next) scratch.ids.push_back(symbols[i].id);
  return true;
}

MergeTable::Merge Bpe::find_by_score(std::string_view spelling) const {
  const auto id = vocabulary_->find_in_model(spelling);
  if (!id) return {};
  return {ranks_[static_cast<std::size_t>(*id)], *id};
}

bool Bpe::encode_by_score(std::string_view word, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  for (std::size_t i = 0; i < word.size(); i += char_at(word, i).size)
    symbols.push_back({kNoToken, 0, 0, static_cast<std::uint32_t>(i)});
  const auto count = static_cast<std::uint32_t>(symbols.size());
  const auto end_of = [&](const BpeScratch::Symbol& symbol) {
    return symbol.next == kEnd ? word.size() : symbols[symbol.next].begin;
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols[i] = linked(kNoToken, i, count, symbols[i].begin);
    const std::size_t end = i + 1 == count ? word.size() : symbols[i + 1].begin;
    const auto id = vocabulary_->find_in_model(word.substr(symbols[i].begin, end - symbols[i].begin));
    if (id) symbols[i].id = *id;
  }
  using Symbol = BpeScratch::Symbol;
  bool has_steps = true;
  const auto find = [&](const Symbol& left, const Symbol& right) {
    const std::string_view spelling = word.substr(left.begin, end_of(right) - left.begin);
    if (spelling.size() > longest_) return MergeTable::Merge();
    has_steps = has_steps && work.spend(1 + spelling.size() / 16);
    return has_steps ? find_by_score(spelling) : MergeTable::Merge();
  };
  if (!merge_symbols(work, scratch, find) || !has_steps) return false;
  for (std::uint32_t i = 0; i != kEnd && i < count; i = symbols[i].next) {
    const Symbol& symbol = symbols[i];
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
    } else if (!options_.byte_fallback ||
               !append_byte_tokens(word.substr(symbol.begin, end_of(symbol) - symbol.begin), out)) {
      if (options_.unknown >= 0) out.push_back(options_.unknown);
    }
  }
  return true;
}

bool Bpe::merge(std::string_view part, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const {
  if (!ranks_.empty()) return encode_by_score(part, work, scratch, out);
  split_into_characters(part, scratch.ids);
  if (scratch.ids.size() > kShortWord) {
    if (!merge_long(work, scratch)) return false;
  } else {
    merge_short(scratch);
  }
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  return true;
}

/// Whether a word that is spelled as the token becomes the token. What is found out is the same for every thread that
/// does; no step of a call is spent on it, so that a call's steps depend on its text alone.
bool Bpe::is_whole(TokenId id, std::string_view content, BpeScratch& scratch) const {
  const std::uint8_t flags = vocabulary_->flags(id);
  if ((flags & (kTokenWhole | kTokenParts)) != 0) return (flags & kTokenWhole) != 0;
  Work free(UINT64_MAX, {});
  scratch.trial.clear();
  const bool whole =
      merge(content, free, scratch, scratch.trial) && scratch.trial.size() == 1 && scratch.trial.front() == id;
  vocabulary_->remember(id, whole ? kTokenWhole : kTokenParts);
  return whole;
}

namespace {

/// A word of 1 to 16 bytes as the table of known words has it, without its token.
BpeScratch::KnownWord known_form(std::string_view word) {
  BpeScratch::KnownWord form;
  form.size = static_cast<std::uint32_t>(word.size());
  if (word.size() >= 8) {
    std::memcpy(&form.first, word.data(), 8);
    std::memcpy(&form.last, word.data() + word.size() - 8, 8);
  } else if (word.size() >= 4) {
    std::uint32_t first = 0, last = 0;
    std::memcpy(&first, word.data(), 4);
    std::memcpy(&last, word.data() + word.size() - 4, 4);
    form.first = first;
    form.last = last;
  } else {
    for (const std::size_t i : {std::size_t{0}, word.size() / 2, word.size() - 1})
      form.first = form.first << 8 | static_cast<std::uint8_t>(word[i]);
  }
  return form;
}

std::size_t known_place(const BpeScratch::KnownWord& form) {
  std::uint64_t hash = (form.first ^ form.size) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ hash >> 32 ^ form.last) * 0xD6E8FEB86659FD93U;
  return static_cast<std::size_t>(hash >> (64 - BpeScratch::kKnownBits));
}

}  // namespace

bool Bpe::encode_part(std::string_view part, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const {
  BpeScratch::KnownWord form;
  BpeScratch::KnownWord* place = nullptr;
  if (!scratch.known.empty() && part.size() <= 16 && !part.empty()) {
    form = known_form(part);
    place = &scratch.known[known_place(form)];
    if (place->first == form.first && place->last == form.last && place->size == form.size) {
      out.push_back(place->id);
      return true;
    }
  }
  // The last character of a word is written with what ends words, so that a token is not spelled as its word.
  if (options_.ignore_merges || (part.size() <= kShortWord && options_.end_of_word.empty())) {
    const auto id = vocabulary_->find_in_model(part);
    if (id && (options_.ignore_merges || is_whole(*id, part, scratch))) {
      out.push_back(*id);
      form.id = *id;
      if (place != nullptr) *place = form;
      return true;
    }
  }
  return merge(part, work, scratch, out);
}

bool Bpe::encode(std::string_view word, Work& work, BpeScratch& scratch, std::vector<TokenId>& out) const {
  if (word.size() >= kEnd || !work.spend(word.size() * (1 + options_.inside.size()) + options_.end_of_word.size()))
    return false;
  if (!cuts_at_spaces_ || options_.ignore_merges) return encode_part(word, work, scratch, out);
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t end = next_cut(word, begin);
    if (!encode_part(word.substr(begin, end - begin), work, scratch, out)) return false;
    begin = end;
  }
  return true;
}

}  // namespace qinfer::text
