// KvStore: keys and values that are kept in files (kv/block_files.h), so that what a conversation has cost once is not
// paid again when it goes on, also after the process has ended.
//
// keep() writes the full blocks of a session that are not in the folder yet. fetch() looks for the longest beginning of
// a list of tokens that is there, and puts its blocks into the cache as *cached* ones (kv/block_pool.h): an evaluation
// adopts them like those of another session, and where room is needed they are evicted like those. So a store needs a
// cache that keeps prefixes, and nothing that it does can harm a session.
//
// Blocks are those of one model, one way to compute them and one layout; others are not found. Of a group of layers
// with a window a session has the last blocks alone: such a conversation is found where it was kept, not at any place
// before. Blocks that came out of a snapshot are not kept, as they are not shared either (session_keys.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/session.h"
#include "kv/block_files.h"

namespace qinfer::engine {

struct KvStoreOptions {
  std::string path;
  std::uint64_t most_bytes = 0;
};

class KvStore {
 public:
  using Tokens = std::span<const std::int32_t>;
  using Cancelled = const std::atomic<bool>*;  ///< looked at before each block; may be null

  /// QINFER_E_UNSUPPORTED for a cache that keeps no prefixes.
  static Result<std::unique_ptr<KvStore>> open(std::shared_ptr<KvCache> cache, const KvStoreOptions& options);

  const KvCache& cache() const { return *cache_; }
  /// Returns how many of the session's tokens are in the folder now, from the first on. QINFER_E_UNSUPPORTED for keys
  /// and values that came out of a snapshot.
  Result<std::size_t> keep(const Session& session, std::string_view tenant, Cancelled cancelled);
  /// Returns how many of the tokens the cache knows now, from the first on, the last one never: as much as has room.
  /// Sessions of `prefix_space` find them.
  Result<std::size_t> fetch(Tokens tokens, std::string_view tenant, std::uint32_t prefix_space, Cancelled cancelled);
  kv::BlockFilesStats stats() const { return files_->stats(); }

 private:
  class Fetch;
  KvStore(std::shared_ptr<KvCache> cache, std::unique_ptr<kv::BlockFiles> files);
  kv::BlockKey root(std::string_view tenant) const { return files_->root(description_ + std::string(tenant)); }
  Tokens block_of(Tokens tokens, std::size_t i) const {
    return tokens.subspan(i * cache_->block_tokens(), cache_->block_tokens());
  }
  std::vector<kv::BlockKey> keys_of(Tokens tokens, std::size_t n, std::string_view tenant) const;
  Status write_block(const Session& session, std::size_t i, const kv::BlockKey& key, const kv::BlockKey& parent);
  std::uint64_t file_bytes(std::size_t group) const {
    return kv::BlockFiles::file_bytes(cache_->layout(group).block_bytes(), cache_->block_tokens());
  }

  std::shared_ptr<KvCache> cache_;
  std::unique_ptr<kv::BlockFiles> files_;
  std::string description_;  ///< what the values depend on, but for tokens and tenant
};

}  // namespace qinfer::engine
