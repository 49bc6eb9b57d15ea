// See kv_cache.h.
#include "engine/kv_cache.h"

#include "engine/block_table.h"

namespace qinfer::engine {
namespace {

/// The largest cache that `left` bytes hold, for a message.
std::string describe_fit(const Model& model, const CacheBlueprint& cache, std::uint64_t left) {
  KvCacheOptions options = cache.options;
  options.budget_bytes = 0;
  std::uint64_t fits = 0, too_many = left / cache.layouts[0].block_bytes() + 1;
  while (too_many - fits > 1) {
    options.budget_blocks = fits + (too_many - fits) / 2;
    const auto size =
        cache_size(model.spec(), cache.layouts, model.blueprint().batch_capacity, options, cache.all_at_once);
    const bool fit = size.ok() && size.value().bytes + size.value().list_bytes <= left;
    (fit ? fits : too_many) = options.budget_blocks;
  }
  return format_text("{} blocks of {} tokens would fit", fits, cache.block_tokens);
}

}  // namespace

Result<std::shared_ptr<KvCache>> KvCache::create(std::shared_ptr<const Model> model, const KvCacheOptions& options) {
  if (!model->has_weights())
    return error(Code::state, "the model was loaded with QINFER_LOAD_NO_WEIGHTS: it can have no KV cache");
  std::shared_ptr<KvCache> cache(new KvCache);
  CacheBlueprint& blueprint = cache->blueprint_;
  QINFER_ASSIGN(blueprint, plan_cache(model->spec(), model->target(), model->blueprint().batch_capacity, options));
  const CacheSize& size = blueprint.size;
  const auto what_fits = [&](std::uint64_t left) { return describe_fit(*model, blueprint, left); };
  QINFER_ASSIGN(cache->charge_, model->charge(size.bytes + size.list_bytes, "a KV cache", what_fits));
  const auto budget = std::make_shared<kv::Budget>(size.bytes);
  for (std::size_t g = 0; g < blueprint.layouts.size(); ++g) {
    QINFER_ASSIGN(auto created,
                  kv::BlockPool::create(blueprint.layouts[g], blueprint.pool(g), model->runtime().allocator(), budget));
    cache->pools_.push_back(std::move(created));
  }
  cache->model_ = std::move(model);
  return cache;
}

std::size_t KvCache::count_known(std::span<const std::int32_t> tokens, std::uint32_t prefix_space) const {
  if (!keeps_prefixes()) return 0;
  const std::size_t size = block_tokens(), most = tokens.size() / size;
  std::vector<kv::PrefixName> names(most);
  std::size_t n = pool().find(kv::PrefixIndex::start_of(prefix_space), tokens.first(most * size), names);
  // The next token sees blocks of all groups; where one is missing, an earlier end may do without it.
  for (std::size_t g = 1; g < n_groups() && n != 0;) {
    const std::size_t first = BlockTable::first_seen(model_->spec().kv_groups[g].window, block_tokens(), n * size);
    const std::size_t missing = pool(g).count_to_last_missing({names.data() + first, n - first});
    if (missing != 0) n = first + missing - 1;
    g = missing == 0 ? g + 1 : 1;
  }
  return n * size;
}

kv::PoolStats KvCache::stats() const {
  kv::PoolStats sum;
  for (const auto& pool : pools_) {
    const kv::PoolStats stats = pool->stats();
    sum.blocks_used += stats.blocks_used;
    sum.blocks_shared += stats.blocks_shared;
    sum.blocks_cached += stats.blocks_cached;
    sum.bytes_committed += stats.bytes_committed;
  }
  sum.blocks_total = blueprint_.size.blocks_total;
  sum.bytes_reserved = blueprint_.size.bytes;
  return sum;
}

std::uint64_t KvCache::resident_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& pool : pools_) bytes += pool->resident_bytes();
  return bytes;
}

std::string KvCache::describe_room() const {
  if (pools_.size() == 1) {
    const kv::PoolStats stats = pools_[0]->stats();
    return format_text("{} of {} blocks free", stats.blocks_total - stats.blocks_used, stats.blocks_total);
  }
  return format_text("{} of {} bytes free", pools_[0]->budget().free_bytes(), blueprint_.size.bytes);
}

}  // namespace qinfer::engine
