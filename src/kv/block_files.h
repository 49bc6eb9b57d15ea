// Blocks of keys and values as files in a folder, one each, found by their tokens and by all tokens before them: what
// was computed for a conversation need not be computed again when it goes on, in another process too.
//
// Names. A file is named after a *key*, the 128-bit hash of the block's tokens, its *parent's* key and a secret of the
// folder; the parent of the first block is a *root*, the hash of what else the values depend on (model, kernels,
// layout) and of the tenant, so that those who do not share a tenant's name find nothing of its. Conversations that
// begin alike share the files of their beginning. A file repeats its key, its parent's and its tokens, which are
// compared. Who does not know the secret cannot find tokens with the same key as others.
//
// Example, with blocks of 32 tokens: a session of 100 tokens gives three files, A (tokens 0 to 31, parent: the root), B
// (32 to 63, parent A) and C (64 to 95, parent B). In a model with several groups of layers each has its own files of
// the same keys.
//
// Room. The files have at most so many bytes; of those beyond the ones used longest ago are removed. When a beginning
// is used its last block counts as used first, and its first one last: a file is not removed before those that need it.
// The time of a file says when it was used last, so that this is known to the next process too.
//
// Damage. A file appears under its name when it is whole, and has a checksum (XXH3, 64 bits) of all that is in it; one
// that is damaged is removed as if it had not been there. Nothing is synced: a crash of the machine may damage files,
// not more.
//
// Used by any threads at once: a lock guards the list, and another one lets one thread write at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "platform/folder.h"

namespace qinfer::kv {

using BlockKey = std::array<std::uint64_t, 2>;

/// One file: the block of a group of layers for the positions that `key` names.
struct BlockFile {
  BlockKey key, parent;
  std::uint32_t group;
  std::span<const std::int32_t> tokens;
};

struct BlockFilesStats {
  std::uint64_t n_files = 0, bytes = 0;
  std::uint64_t written = 0, read = 0, removed = 0, damaged = 0;  ///< files, since it was opened
};

class BlockFiles {
 public:
  /// QINFER_E_STATE while the folder is in use, QINFER_E_FORMAT where its secret is damaged.
  static Result<std::unique_ptr<BlockFiles>> open(const std::string& path, std::uint64_t most_bytes);

  BlockKey root(std::string_view description) const;
  BlockKey key_of(const BlockKey& parent, std::span<const std::int32_t> tokens) const;
  /// Bytes of the file of a block, head included.
  static std::uint64_t file_bytes(std::uint64_t block_bytes, std::size_t n_tokens);
  std::uint64_t most_bytes() const { return most_bytes_; }

  bool has(const BlockKey& key, std::uint32_t group) const;
  /// A file with this content; nothing where it is there.
  Status write(const BlockFile& file, std::span<const std::byte> block);
  /// Fills `out`, all of the block. False: it is not there, or was damaged.
  Result<bool> read(const BlockFile& file, std::span<std::byte> out);
  /// These were used now, all groups of each key, the last first.
  void use(std::span<const BlockKey> keys);
  BlockFilesStats stats() const;

 private:
  using Name = std::pair<BlockKey, std::uint32_t>;  ///< key and group
  struct Entry {
    std::uint64_t bytes = 0;
    std::list<Name>::iterator place;
  };
  using Secret = std::array<std::byte, 192>;

  BlockFiles(platform::Folder folder, std::string path, std::uint64_t most_bytes)
      : folder_(std::move(folder)), path_(std::move(path)), most_bytes_(most_bytes) {}
  static std::string text_of(const Name& name);
  Status read_secret();
  Status read_list();
  BlockKey hash(std::string_view bytes) const;
  void add(const Name& name, std::uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void forget(const Name& name, bool is_damaged) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool remove_oldest(std::uint64_t room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  platform::Folder folder_;
  const std::string path_;
  const std::uint64_t most_bytes_;
  Secret secret_ = {};
  Mutex writing_;
  mutable Mutex mutex_;  ///< taken after writing_
  std::map<Name, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<Name> order_ ABSL_GUARDED_BY(mutex_);  ///< used longest ago first
  BlockFilesStats stats_ ABSL_GUARDED_BY(mutex_);
  std::int64_t last_use_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace qinfer::kv
