// See vocabulary.h.
#include "text/vocabulary.h"

#include <algorithm>
#include <cstring>

#include "text/fields.h"

namespace qinfer::text {
namespace {

/// A file made to collide could make every search a walk through the whole table. A table of 4 million random entries,
/// half full, has runs of up to some 80 used slots; what needs more is refused.
constexpr std::size_t kMaxTokenProbes = 256;
constexpr std::size_t kFirstSlots = 1024;

/// Up to 7 bytes as a number, without a loop: parts that overlap where the size is no power of two.
std::uint64_t last_bytes(std::string_view s) {
  const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<std::uint8_t>(s[i])}; };
  if (s.size() >= 4) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, s.data(), 4);
    std::memcpy(&high, s.data() + s.size() - 4, 4);
    return low | std::uint64_t{high} << 32;
  }
  if (s.empty()) return 0;
  return byte(0) | byte(s.size() / 2) << 8 | byte(s.size() - 1) << 16;
}

std::uint64_t hash_of(std::string_view s) {
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15U;
  std::uint64_t hash = kMultiplier ^ s.size();
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
  };
  while (s.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, s.data(), 8);
    mix(word);
    s.remove_prefix(8);
  }
  mix(last_bytes(s));
  mix(hash >> 29);
  return hash;
}

std::uint64_t slot_value(std::uint64_t hash, TokenId id) {
  return (hash & 0xFFFFFFFF00000000U) | (static_cast<std::uint64_t>(id) + 1);
}
TokenId slot_id(std::uint64_t slot) { return static_cast<TokenId>((slot & 0xFFFFFFFFU) - 1); }

}  // namespace

std::string_view Vocabulary::content(TokenId id) const {
  if (!contains(id)) return {};
  const auto i = static_cast<std::size_t>(id);
  return {content_blob_.data() + contents_[i].begin, contents_[i].size};
}

std::string_view Vocabulary::bytes(TokenId id) const {
  if (!contains(id)) return {};
  const auto i = static_cast<std::size_t>(id);
  const std::uint32_t begin = i == 0 ? 0 : bytes_end_[i - 1];
  return {bytes_blob_.data() + begin, bytes_end_[i] - begin};
}

/// The slot of `content`, or the free one where it would go. slots_ is never full, so the search ends.
std::size_t Vocabulary::find_slot(std::string_view content, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = static_cast<std::size_t>(hash) & mask;; i = (i + 1) & mask) {
    const std::uint64_t slot = slots_[i];
    if (slot == 0) return i;
    if (((slot ^ hash) >> 32) == 0 && this->content(slot_id(slot)) == content) return i;
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view content) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint64_t slot = slots_[find_slot(content, hash_of(content))];
  if (slot == 0) return std::nullopt;
  return slot_id(slot);
}

std::optional<TokenId> Vocabulary::find_in_model(std::string_view content) const {
  const auto id = find(content);
  return id && (flags(*id) & kTokenInModel) != 0 ? id : std::nullopt;
}

void Vocabulary::grow() {
  const std::pmr::vector<std::uint64_t> old = std::move(slots_);
  slots_.assign(std::max(kFirstSlots, old.size() * 2), 0);
  const std::size_t mask = slots_.size() - 1;
  for (const std::uint64_t slot : old) {
    if (slot == 0) continue;
    std::size_t i = static_cast<std::size_t>(hash_of(content(slot_id(slot)))) & mask;
    while (slots_[i] != 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

Status Vocabulary::insert(std::string_view content, TokenId id) {
  if (2 * (static_cast<std::size_t>(count_) + 1) > slots_.size()) grow();
  const std::uint64_t hash = hash_of(content);
  const std::size_t i = find_slot(content, hash);
  if (slots_[i] != 0) {
    return malformed("the token {} has two ids, {} and {}", in_quotes(content), slot_id(slots_[i]), id);
  }
  const std::size_t mask = slots_.size() - 1;
  if (((i - static_cast<std::size_t>(hash)) & mask) > kMaxTokenProbes)
    return malformed("the token {} is one of too many that share a hash value", in_quotes(content));
  slots_[i] = slot_value(hash, id);
  ++count_;
  return Status();
}

Status Vocabulary::check_id(std::string_view content, std::int64_t id) const {
  if (id < 0 || id >= static_cast<std::int64_t>(id_limit_)) {
    return malformed("the token {} has the id {}, expected 0 to {}", in_quotes(content), id,
                     static_cast<std::int64_t>(id_limit_) - 1);
  }
  if (static_cast<std::uint64_t>(id) < flags_.size() && flags_[static_cast<std::size_t>(id)] != 0) {
    return malformed("the id {} is given to two tokens, {} and {}", id,
                     in_quotes(this->content(static_cast<TokenId>(id))), in_quotes(content));
  }
  return Status();
}

Status Vocabulary::add(std::string_view content, std::int64_t id, std::uint8_t flags) {
  QINFER_TRY(check_id(content, id));
  QINFER_TRY(insert(content, static_cast<TokenId>(id)));
  define(content, static_cast<TokenId>(id), flags);
  return Status();
}

Status Vocabulary::add_again(std::string_view content, std::int64_t id, std::uint8_t flags) {
  QINFER_TRY(check_id(content, id));
  define(content, static_cast<TokenId>(id), flags);
  return Status();
}

Status Vocabulary::add_instead(std::string_view content, std::int64_t id, std::uint8_t flags) {
  if (!find(content)) return add(content, id, flags);
  QINFER_TRY(add_again(content, id, flags));
  const std::uint64_t hash = hash_of(content);
  slots_[find_slot(content, hash)] = slot_value(hash, static_cast<TokenId>(id));
  return Status();
}

void Vocabulary::define(std::string_view content, TokenId id, std::uint8_t flags) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= flags_.size()) {
    flags_.resize(index + 1);
    contents_.resize(index + 1);
  }
  flags_[index] = flags;
  contents_[index] = {static_cast<std::uint32_t>(content_blob_.size()), static_cast<std::uint32_t>(content.size())};
  content_blob_.append(content);
}

void Vocabulary::append_bytes(std::string_view bytes) {
  bytes_blob_.append(bytes);
  bytes_end_.push_back(static_cast<std::uint32_t>(bytes_blob_.size()));
  max_bytes_ = std::max(max_bytes_, static_cast<std::uint32_t>(bytes.size()));
}

Status Vocabulary::finish() {
  const auto is_used = [](std::uint64_t slot) { return slot != 0; };
  if (longest_run(slots_, is_used) > kMaxTokenProbes) return malformed("too many tokens share a hash value");
  trim(content_blob_);
  trim(bytes_blob_);
  trim(contents_);
  trim(bytes_end_);
  trim(flags_);
  return Status();
}

std::uint64_t Vocabulary::memory_bytes() const {
  return bytes_taken(content_blob_) + bytes_taken(bytes_blob_) + bytes_taken(contents_) + bytes_taken(bytes_end_) +
         bytes_taken(flags_) + bytes_taken(slots_);
}

void Vocabulary::move_to(std::pmr::memory_resource* memory) {
  text::move_to(memory, content_blob_);
  text::move_to(memory, bytes_blob_);
  text::move_to(memory, contents_);
  text::move_to(memory, bytes_end_);
  text::move_to(memory, flags_);
  text::move_to(memory, slots_);
}

}  // namespace qinfer::text
