// See session.h: KvCache, and the keys and values of a session: its tables, the prefix cache, truncation.
//
// The prefix cache, with windows. The pool of the first group finds blocks by their tokens; those of the other groups
// find theirs by the name of the first group's block for the same positions. To go on after n known blocks, a session
// needs of each group the blocks that its layers see from there: all n or, with a window, the last of them. Some of
// these may have been evicted. Then a shorter beginning is adopted, at whose end no window sees the gap
// (shorten_to_windows()), and the rest is computed again.
#include <algorithm>
#include <cstring>

#include "engine/session.h"

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

Status Session::open_tables() {
  if (memory_layout_.n_groups == 0) return Status();
  tables_ = std::make_unique<BlockTable[]>(memory_layout_.n_groups);
  auto* entries = reinterpret_cast<std::uint32_t*>(memory_.data() + memory_layout_.table);
  for (std::size_t g = 0; g < memory_layout_.n_groups; ++g)
    QINFER_TRY(tables_[g].open(cache_->pool(g), model().spec().kv_groups[g].window,
                               {entries + g * memory_layout_.max_blocks, memory_layout_.max_blocks}));
  return Status();
}

Session::~Session() = default;  // the tables, which go first, give back their blocks

Code Session::extend_tables(std::size_t n) {
  for (BlockTable& table : tables()) {
    const Code code = table.extend(n_evaluated_, n);
    if (code != Code::ok) return code;
  }
  return Code::ok;
}

Code Session::reserve_blocks(std::size_t n) {
  const std::size_t chunk = model().scratch_layout().batch_capacity;
  Code code = Code::ok;
  for (BlockTable& table : tables())
    if (code == Code::ok && !table.obtain_promise(table.blocks_to_promise(n_evaluated_, n, chunk, 0), n_evaluated_, n))
      code = Code::kv_full;
  if (code == Code::ok) code = extend_tables(std::min(n, chunk));
  if (code != Code::ok) give_back_unused();
  return code;
}

void Session::give_back_unused() {
  for (BlockTable& table : tables()) table.give_back_unused(n_evaluated_);
}

void Session::finish_evaluation() {
  give_back_unused();
  for (BlockTable& table : tables()) table.give_back_unseen(n_evaluated_);
}

const char* Session::find_inconsistency() const {
  for (const BlockTable& table : tables()) {
    const char* wrong = table.find_inconsistency(n_evaluated_);
    if (wrong == nullptr) wrong = table.pool().find_inconsistency({});
    if (wrong != nullptr) return wrong;
  }
  return nullptr;
}

void Session::forget_everything() {
  n_evaluated_ = n_logits_ = 0;
  give_back_unused();
  forget_names();
  untrusted_ = false;
}

Status Session::truncate(std::size_t n_tokens) {
  if (n_tokens > n_tokens_)
    return error(Code::invalid_argument, "cannot truncate to {} tokens: the session holds {}", n_tokens, n_tokens_);
  return cut(n_tokens, false);
}

Status Session::cut(std::size_t n_tokens, bool others_follow) {
  const bool cut = n_tokens < n_tokens_;
  if (cut) QINFER_TRY(rewind_hook(n_tokens));
  n_tokens_ = n_tokens;
  ++revision_;
  // Nothing pending means that there are logits, or an embedding; after a cancelled evaluation there may be none.
  const bool ready =
      n_tokens == n_evaluated_ && (others_follow || n_logits_ != 0 || n_tokens == 0 || !model().spec().causal);
  if (!model().spec().causal && cut) forget_everything();
  if (n_tokens > n_evaluated_ || ready) return Status();
  // The last token kept is evaluated again, for its logits, from which the next token is drawn. Everything is evaluated
  // again where that is not possible: from a sum of hidden states no token can be subtracted, and a window that has
  // moved on has given back the blocks that the next token to be evaluated sees.
  const std::size_t next = others_follow || n_tokens == 0 ? n_tokens : n_tokens - 1;
  bool all = n_tokens == 0 || memory_layout_.embeddings;
  for (const BlockTable& table : tables()) all = all || !table.reaches_back_from(next);
  if (all) {
    forget_everything();
    return Status();
  }
  n_evaluated_ = next;
  n_logits_ = 0;
  give_back_unused();
  forget_names();
  if (n_evaluated_ == 0) untrusted_ = false;
  return Status();
}

std::span<const std::int32_t> Session::tokens_of_block(std::size_t block, std::size_t n_blocks) const {
  return {token_data() + block * block_tokens(), n_blocks * block_tokens()};
}

void Session::forget_names() { n_named_ = std::min(n_named_, n_evaluated_ / block_tokens()); }

void Session::adopt_prefix(std::size_t keep) {
  give_back_unused();
  const std::size_t size = block_tokens(), first = n_evaluated_ / size;
  if (!cache_->keeps_prefixes() || memory_layout_.embeddings || n_evaluated_ % size != 0 || n_named_ != first ||
      pending() < size + keep)
    return;
  // With a window, blocks of tokens evaluated before would be given back, and drop_adopted() could not undo that.
  for (const BlockTable& table : tables())
    if (table.window() != 0 && n_evaluated_ != 0) return;
  const std::size_t most = (pending() - keep) / size;
  const kv::PrefixName parent = first == 0 ? kv::PrefixIndex::kStart : name_data()[first - 1];
  std::size_t n = cache_->pool().find(parent, tokens_of_block(first, most), {name_data() + first, most});
  n = shorten_to_windows(first, n);
  if (n != 0 && !adopt_blocks(first, n)) n = 0;  // evicted just now, or no more mappings: computed instead
  n_named_ = first + n;
  n_evaluated_ += n * size;
  metrics_.cached_tokens += n * size;
  model().runtime().metrics().cached_tokens += n * size;
  eval_state_.adopted = n;
}

/// Of n known blocks the longest beginning at whose end the windows of all groups find every block that they see.
std::size_t Session::shorten_to_windows(std::size_t first, std::size_t n) const {
  for (bool shorter = true; shorter && n != 0;) {
    shorter = false;
    for (const BlockTable& table : tables().subspan(1)) {
      const std::size_t begin = std::max(first, table.first_seen((first + n) * block_tokens()));
      const std::size_t missing = table.pool().count_to_last_missing({name_data() + begin, first + n - begin});
      if (missing == 0) continue;
      // A beginning that ends after the missing block, though earlier than this one, would see it as well.
      n = begin + missing - 1 - first;
      shorter = true;
    }
  }
  return n;
}

/// Adopts blocks [first, first + n) of all groups, of those with a window only the last ones that it sees. False, and
/// nothing is adopted, if one of them is not findable any more or cannot be mapped.
bool Session::adopt_blocks(std::size_t first, std::size_t n) {
  const std::size_t end = first + n;
  std::size_t g = 0;
  for (; g < memory_layout_.n_groups; ++g) {
    BlockTable& table = tables_[g];
    const std::size_t begin = std::max(first, table.first_seen(end * block_tokens()));
    const std::span<const kv::PrefixName> names(name_data() + begin, end - begin);
    const std::span<std::uint32_t> blocks = table.entries(begin, end);
    if (!(g == 0 ? table.pool().adopt(names, blocks) : table.pool().adopt_beside(names, blocks))) break;
    if (!table.accept(begin, end)) break;
  }
  if (g == memory_layout_.n_groups) return true;
  give_back_unused();
  return false;
}

void Session::drop_adopted() {
  const std::size_t n_tokens = eval_state_.adopted * block_tokens();
  n_evaluated_ -= n_tokens;
  metrics_.cached_tokens -= n_tokens;
  model().runtime().metrics().cached_tokens -= n_tokens;
  eval_state_.adopted = 0;
  give_back_unused();
  forget_names();
}

void Session::advance(std::size_t n) {
  n_evaluated_ += n;
  if (untrusted_ && !same_origin_) origin_ = kMixedOrigin;
  if (cache_->keeps_prefixes() && !untrusted_) publish_full_blocks();
}

void Session::publish_full_blocks() {
  const std::size_t full = n_evaluated_ / block_tokens();
  if (n_named_ == full) return;
  kv::BlockPool& pool = cache_->pool();
  // A name may stand for the block of another session with the same tokens, which may have been evicted since; then
  // this session's block is published in its place.
  n_named_ = pool.count_current({name_data(), n_named_});
  for (; n_named_ < full; ++n_named_) {
    if (!tables_[0].holds(n_named_)) return;  // the window has moved on
    const kv::PrefixName parent = n_named_ == 0 ? kv::PrefixIndex::kStart : name_data()[n_named_ - 1];
    const kv::PrefixName name = pool.publish(parent, tokens_of_block(n_named_, 1), tables_[0][n_named_]);
    if (name.generation == 0) return;  // evicted just now: next time
    name_data()[n_named_] = name;
    for (BlockTable& table : tables().subspan(1))
      if (table.holds(n_named_)) table.pool().publish_beside(name, table[n_named_]);
  }
}

Session::KvBytes Session::kv_bytes() const {
  KvBytes bytes{};
  for (const BlockTable& table : tables()) {
    const std::size_t shared = table.pool().count_shared(table.held());
    const std::uint64_t size = table.layout().block_bytes();
    bytes.own += (table.held().size() - shared) * size;
    bytes.shared += shared * size;
    bytes.reserved += table.reserved_bytes();
  }
  return bytes;
}

namespace {

/// The first layer of a group (by number in the group) whose keys or values at [first, end) are not all finite; -1:
/// there is none. Of types that are wider than f16 none is looked for.
std::int64_t layer_beyond(const KvLayout& layout, const KvView& view, std::size_t first, std::size_t end,
                          bool& is_key) {
  if (layout.type != DType::f16) return -1;
  const auto is_finite = [](const std::byte* at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return (bits & 0x7C00) != 0x7C00;
  };
  for (std::uint32_t layer = 0; layer < layout.n_layers; ++layer)
    for (std::uint32_t head = 0; head < layout.n_kv_heads; ++head)
      for (auto position = static_cast<std::uint32_t>(first); position < end; ++position) {
        const std::byte* keys = view.k_tile(layout, layer, head, position / kTileTokens);
        const std::byte* values = keys + layout.tile_bytes();
        for (std::uint32_t i = 0; i < layout.head_dim; ++i) {
          is_key = !is_finite(keys + 2 * layout.k_index(position, i));
          if (is_key || !is_finite(values + 2 * layout.v_index(position, i))) return layer;
        }
      }
  return -1;
}

}  // namespace

Status Session::explained(Status status) const {
  if (status.code() != Code::numeric) return status;
  for (std::size_t g = 0; g < memory_layout_.n_groups; ++g) {
    bool is_key = false;
    const std::int64_t found =
        layer_beyond(cache_->layout(g), kv_view(g), tables()[g].first_position(), n_evaluated_, is_key);
    const std::vector<model::LayerSpec>& layers = model().spec().layers;
    for (std::size_t i = 0; found >= 0 && i < layers.size(); ++i) {
      const model::AttentionSpec* attention = layers[i].attention();
      if (attention != nullptr && attention->has_own_kv() && attention->kv_group == g && attention->kv_index == found)
        return error(Code::numeric,
                     "{}: {} of layer {} are beyond f16, the cache's type (kv_type), which ends at 65504: bf16 and f32 "
                     "hold them",
                     status.message(), is_key ? "keys" : "values", i);
    }
  }
  return status;
}

}  // namespace qinfer::engine
