// KvCache: the pools of blocks that hold keys and values, one pool for each group of layers that keep theirs alike, and
// the budget that they share. An encoder's cache has none: it keeps nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/blueprint.h"
#include "engine/model.h"
#include "kv/block_pool.h"

namespace qinfer::engine {

class KvCache {
 public:
  static Result<std::shared_ptr<KvCache>> create(std::shared_ptr<const Model> model, const KvCacheOptions& options);

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  std::size_t n_groups() const { return pools_.size(); }
  kv::BlockPool& pool(std::size_t group = 0) { return *pools_[group]; }
  const kv::BlockPool& pool(std::size_t group = 0) const { return *pools_[group]; }
  const KvLayout& layout(std::size_t group = 0) const { return pools_[group]->layout(); }
  std::span<const KvLayout> layouts() const { return blueprint_.layouts; }
  std::uint32_t block_tokens() const { return blueprint_.block_tokens; }
  const CacheBlueprint& blueprint() const { return blueprint_; }
  bool keeps_prefixes() const { return !pools_.empty() && pools_[0]->keeps_prefixes(); }

  /// Of these tokens, from the first on, those that a new session of this prefix space would find evaluated if it had
  /// more tokens after them: whole blocks.
  std::size_t count_known(std::span<const std::int32_t> tokens, std::uint32_t prefix_space) const;
  /// Of all groups together.
  kv::PoolStats stats() const;
  std::uint64_t resident_bytes() const;
  /// "3 of 8 blocks free", or where blocks differ in size, the same in bytes.
  std::string describe_room() const;

 private:
  KvCache() = default;
  std::shared_ptr<const Model> model_;
  Charge charge_;  // given back when the memory is
  CacheBlueprint blueprint_;
  std::vector<std::unique_ptr<kv::BlockPool>> pools_;
};

}  // namespace qinfer::engine
