// Vocabulary: which string each token id is, the inverse, and what is known of each id.
//
// Everything is stored in flat arrays addressed by id or by hash slot, with offsets instead of pointers: a vocabulary
// of 150,000 strings costs a handful of allocations, and its size can be counted exactly. Flags grow while texts are
// encoded, by what is found out of tokens (Bpe::is_whole()).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/table_memory.h"
#include "text/tokenizer.h"

namespace qinfer::text {

/// What is known of an id; 0 means that the file does not define it.
enum TokenFlag : std::uint8_t {
  kTokenInModel = 1,  // listed in model.vocab
  kTokenAdded = 2,    // listed in added_tokens
  kTokenControl = 4,  // left out of decoded text
  kTokenIsByte = 8,   // see Tokenizer::is_byte
  kTokenWhole = 16,   // merging its content gives this token, see Bpe::is_whole(); found out when it is first asked for
  kTokenParts = 32,   // merging its content gives others
  kTokenForm = 64,    // an added token that is found, and decoded, in another form than its content
};

class Vocabulary {
 public:
  /// Ids from `id_limit` on are refused.
  explicit Vocabulary(std::uint32_t id_limit = 0) : id_limit_(id_limit) {}

  /// Defines an id. Code::format, naming the token, if the id is out of range or taken or the content is not new.
  Status add(std::string_view content, std::int64_t id, std::uint8_t flags);
  /// Defines an id whose content another id has, which stays the one that find() gives.
  Status add_again(std::string_view content, std::int64_t id, std::uint8_t flags);
  /// The same, but find() gives the new id from now on.
  Status add_instead(std::string_view content, std::int64_t id, std::uint8_t flags);
  void set_flags(TokenId id, std::uint8_t flags) { remember(id, flags); }
  /// The same for what is found out while others read: threads that find out the same write the same.
  void remember(TokenId id, std::uint8_t flags) const {
    std::atomic_ref(flags_[static_cast<std::size_t>(id)]).fetch_or(flags, std::memory_order_relaxed);
  }
  /// Clears flags of all tokens. No other thread may use the vocabulary meanwhile.
  void clear_flags(std::uint8_t flags) {
    for (std::uint8_t& of_token : flags_) of_token &= static_cast<std::uint8_t>(~flags);
  }
  /// Appends the decoded form of the next id; to be called for every id from 0 on, then finish() once.
  void append_bytes(std::string_view bytes);
  /// Code::format if the hash table has a run of used slots that honest files do not come near.
  Status finish();

  std::uint32_t size() const { return static_cast<std::uint32_t>(flags_.size()); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < flags_.size(); }
  /// For any id; 0 for those that are not defined.
  std::uint8_t flags(TokenId id) const {
    if (!contains(id)) return 0;
    return std::atomic_ref(flags_[static_cast<std::size_t>(id)]).load(std::memory_order_relaxed);
  }
  /// The content as written in the file; empty if undefined.
  std::string_view content(TokenId id) const;
  /// The decoded form; empty if undefined.
  std::string_view bytes(TokenId id) const;
  std::uint32_t max_bytes() const { return max_bytes_; }

  std::optional<TokenId> find(std::string_view content) const;
  /// As find, but only what model.vocab lists.
  std::optional<TokenId> find_in_model(std::string_view content) const;

  std::uint64_t memory_bytes() const;
  void move_to(std::pmr::memory_resource* memory);

 private:
  std::size_t find_slot(std::string_view content, std::uint64_t hash) const;
  Status check_id(std::string_view content, std::int64_t id) const;
  Status insert(std::string_view content, TokenId id);
  void define(std::string_view content, TokenId id, std::uint8_t flags);
  void grow();

  std::uint32_t id_limit_;
  std::uint32_t count_ = 0;
  std::uint32_t max_bytes_ = 0;
  std::pmr::string content_blob_{heap_memory()}, bytes_blob_{heap_memory()};
  struct Place {
    std::uint32_t begin = 0, size = 0;
  };
  std::pmr::vector<Place> contents_{heap_memory()};              // by id: in content_blob_
  std::pmr::vector<std::uint32_t> bytes_end_{heap_memory()};     // by id: where its part of bytes_blob_ ends
  mutable std::pmr::vector<std::uint8_t> flags_{heap_memory()};  // by id
  std::pmr::vector<std::uint64_t> slots_{heap_memory()};         // upper half of the hash, id + 1; 0 = free
};

}  // namespace qinfer::text
