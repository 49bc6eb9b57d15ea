// See kv_store.h.
#include "engine/kv_store.h"

#include <algorithm>

namespace qinfer::engine {
namespace {

/// A line for each thing that two caches must have in common, so that the blocks of one are those of the other.
std::string describe(const KvCache& cache) {
  const Model& model = cache.model();
  std::string text = format_text("{}\n{}\n", model.fingerprints().model, model.origin());
  for (std::size_t g = 0; g < cache.n_groups(); ++g) {
    const KvLayout& layout = cache.layout(g);
    text += format_text("{} {} {} {} {} {} {} {}\n", dtype_name(layout.type), layout.n_layers, layout.n_kv_heads,
                        layout.head_dim, layout.head_dim_padded, layout.block_tokens, static_cast<int>(layout.order),
                        model.spec().kv_groups[g].window);
  }
  return text;
}

Status cancelled_call() { return Status::fixed(Code::cancelled, "cancelled"); }
bool is_set(KvStore::Cancelled cancelled) { return cancelled != nullptr && cancelled->load(std::memory_order_relaxed); }

}  // namespace

KvStore::KvStore(std::shared_ptr<KvCache> cache, std::unique_ptr<kv::BlockFiles> files)
    : cache_(std::move(cache)), files_(std::move(files)), description_(describe(*cache_)) {}

Result<std::unique_ptr<KvStore>> KvStore::open(std::shared_ptr<KvCache> cache, const KvStoreOptions& options) {
  if (!cache->keeps_prefixes())
    return error(Code::unsupported, "the cache keeps no prefixes (QINFER_CACHE_PREFIX): nothing could be found in it");
  QINFER_ASSIGN(auto files, kv::BlockFiles::open(options.path, options.most_bytes));
  return std::unique_ptr<KvStore>(new KvStore(std::move(cache), std::move(files)));
}

std::vector<kv::BlockKey> KvStore::keys_of(Tokens tokens, std::size_t n, std::string_view tenant) const {
  std::vector<kv::BlockKey> keys;
  keys.reserve(n);
  kv::BlockKey parent = root(tenant);
  for (std::size_t i = 0; i < n; ++i) keys.push_back(parent = files_->key_of(parent, block_of(tokens, i)));
  return keys;
}

// ---- Keeping

Status KvStore::write_block(const Session& session, std::size_t i, const kv::BlockKey& key,
                            const kv::BlockKey& parent) {
  for (std::size_t g = 0; g < cache_->n_groups(); ++g) {
    const auto group = static_cast<std::uint32_t>(g);
    if (!session.keys().tables()[g].holds(i) || files_->has(key, group)) continue;
    const KvLayout& layout = cache_->layout(g);
    const auto tile = static_cast<std::uint32_t>(i) * layout.tiles_per_block();
    const std::byte* block = session.keys().view(g).k_tile(layout, 0, 0, tile);
    QINFER_TRY(files_->write({key, parent, group, block_of(session.tokens(), i)}, {block, layout.block_bytes()}));
  }
  return Status();
}

Result<std::size_t> KvStore::keep(const Session& session, std::string_view tenant, Cancelled cancelled) {
  if (&session.cache() != cache_.get())
    return error(Code::invalid_argument, "the session is of another cache than the store");
  const SessionKeys& keys = session.keys();
  if (keys.untrusted())
    return error(Code::unsupported, "keys and values of a session that was loaded from a snapshot are not kept");
  const std::size_t n_full = session.evaluated() / cache_->block_tokens();
  const std::vector<kv::BlockKey> names = keys_of(session.tokens(), n_full, tenant);
  // A conversation that is larger than the folder may be is kept as far as it fits, or it would push out its beginning.
  std::uint64_t room = files_->most_bytes();
  std::size_t n = 0;
  for (; n < n_full; ++n) {
    std::uint64_t bytes = 0;
    for (std::size_t g = 0; g < cache_->n_groups(); ++g) bytes += keys.tables()[g].holds(n) ? file_bytes(g) : 0;
    if (bytes > room) break;
    if (!keys.tables()[0].holds(n) && !files_->has(names[n], 0)) break;  // without it nothing after it is found
    if (is_set(cancelled)) return cancelled_call();
    QINFER_TRY(write_block(session, n, names[n], n == 0 ? root(tenant) : names[n - 1]));
    room -= bytes;
  }
  files_->use({names.data(), n});
  return n * cache_->block_tokens();
}

// ---- Fetching

/// One call of fetch(). While it runs it holds all blocks that it has found or read, so that none is evicted for
/// another; at the end they are given back, and stay cached.
class KvStore::Fetch {
 public:
  Fetch(KvStore& store, Tokens tokens, std::string_view tenant, kv::PrefixName start, std::size_t most)
      : store_(store),
        cache_(*store.cache_),
        tokens_(tokens),
        keys_(store.keys_of(tokens, most, tenant)),
        names_(most),
        held_(cache_.n_groups()),
        root_(store.root(tenant)),
        start_(start) {
    for (auto& held : held_) held.reserve(most);
  }
  ~Fetch() {
    for (std::size_t g = 0; g < held_.size(); ++g) cache_.pool(g).give_back(held_[g]);
  }
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;

  /// How many blocks there are, in the cache or in files.
  std::size_t look() {
    n_known_ = cache_.pool().find(start_, tokens_.first(keys_.size() * cache_.block_tokens()), names_);
    std::size_t n = n_known_;
    while (n < keys_.size() && store_.files_->has(keys_[n], 0)) ++n;
    return shorten_to_windows(n);
  }
  bool has_all(std::size_t n) const { return n <= n_known_ && n_not_beside(n) == 0; }

  /// The first n blocks; returns how many the cache has now.
  Result<std::size_t> bring(std::size_t n, Cancelled cancelled) {
    std::vector<std::size_t> first(held_.size());
    for (std::size_t g = 0; g < held_.size(); ++g) first[g] = first_seen(g, n);
    for (std::size_t i = 0; i < n; ++i) {
      if (is_set(cancelled)) return cancelled_call();
      QINFER_ASSIGN(const bool there, hold_first(i));
      if (!there) return i;
      for (std::size_t g = 1; g < held_.size(); ++g)
        if (i >= first[g]) QINFER_TRY(hold_beside(g, i));
    }
    return n;
  }
  std::span<const kv::BlockKey> keys(std::size_t n) const { return {keys_.data(), n}; }

 private:
  /// The first block that a token after n blocks sees: of the first group all are needed, to find the others.
  std::size_t first_seen(std::size_t g, std::size_t n) const {
    const std::uint32_t window = g == 0 ? 0 : cache_.model().spec().kv_groups[g].window;
    return BlockTable::first_seen(window, cache_.block_tokens(), n * cache_.block_tokens());
  }
  bool is_beside(std::size_t g, std::size_t i) const {
    return i < n_known_ && cache_.pool(g).count_to_last_missing({&names_[i], 1}) == 0;
  }
  std::size_t n_not_beside(std::size_t n) const {
    std::size_t missing = 0;
    for (std::size_t g = 1; g < held_.size(); ++g)
      for (std::size_t i = first_seen(g, n); i < n; ++i) missing += is_beside(g, i) ? 0 : 1;
    return missing;
  }
  /// The longest beginning at whose end every group has all blocks that the next token sees.
  std::size_t shorten_to_windows(std::size_t n) const {
    for (std::size_t g = 1; g < held_.size();) {
      std::size_t i = n;
      while (i > first_seen(g, n) &&
             (is_beside(g, i - 1) || store_.files_->has(keys_[i - 1], static_cast<std::uint32_t>(g))))
        --i;
      if (i <= first_seen(g, n)) {
        ++g;
      } else {
        n = i - 1;  // without the block that is missing
        g = 1;
      }
    }
    return n;
  }
  kv::BlockFile file(std::size_t g, std::size_t i) const {
    return {keys_[i], i == 0 ? root_ : keys_[i - 1], static_cast<std::uint32_t>(g), store_.block_of(tokens_, i)};
  }

  /// A block of the caller's with what the file has. False: there is no room, or no such file.
  Result<bool> read(std::size_t g, std::size_t i, std::uint32_t& block) {
    kv::BlockPool& pool = cache_.pool(g);
    if (!store_.files_->has(keys_[i], static_cast<std::uint32_t>(g))) return false;
    buffer_.resize(pool.layout().block_bytes());
    QINFER_ASSIGN(const bool there, store_.files_->read(file(g, i), buffer_));
    if (!there || !pool.take({&block, 1})) return false;
    if (pool.ensure_backed({&block, 1}) == Code::ok && pool.fill(block, buffer_.data()) == Code::ok) return true;
    pool.give_back({&block, 1});
    return false;
  }

  Result<bool> hold_first(std::size_t i) {
    kv::BlockPool& pool = cache_.pool();
    std::uint32_t block = 0;
    if (i < n_known_ && pool.adopt({&names_[i], 1}, {&block, 1})) {
      held_[0].push_back(block);
      return true;
    }
    n_known_ = std::min(n_known_, i);  // evicted meanwhile
    QINFER_ASSIGN(const bool there, read(0, i, block));
    if (!there) return false;
    const kv::PrefixName parent = i == 0 ? start_ : names_[i - 1];
    names_[i] = pool.publish(parent, store_.block_of(tokens_, i), block);
    if (names_[i].generation != 0 && names_[i].block != block) {  // another has it since: that one's then
      pool.give_back({&block, 1});
      if (!pool.adopt({&names_[i], 1}, {&block, 1})) return false;
    }
    held_[0].push_back(block);
    return names_[i].generation != 0;
  }

  /// Where that fails an evaluation finds the block missing, and adopts less.
  Status hold_beside(std::size_t g, std::size_t i) {
    kv::BlockPool& pool = cache_.pool(g);
    std::uint32_t block = 0;
    if (!pool.adopt_beside({&names_[i], 1}, {&block, 1})) {
      QINFER_ASSIGN(const bool there, read(g, i, block));
      if (!there) return Status();
      pool.publish_beside(names_[i], block);
    }
    held_[g].push_back(block);
    return Status();
  }

  KvStore& store_;
  KvCache& cache_;
  Tokens tokens_;
  std::vector<kv::BlockKey> keys_;
  std::vector<kv::PrefixName> names_;
  std::vector<std::vector<std::uint32_t>> held_;  ///< of each group
  std::vector<std::byte> buffer_;
  kv::BlockKey root_;
  kv::PrefixName start_;
  std::size_t n_known_ = 0;  ///< blocks that the cache had when it began
};

Result<std::size_t> KvStore::fetch(Tokens tokens, std::string_view tenant, std::uint32_t prefix_space,
                                   Cancelled cancelled) {
  if (tokens.empty()) return std::size_t{0};
  Fetch fetch(*this, tokens, tenant, kv::PrefixIndex::start_of(prefix_space),
              (tokens.size() - 1) / cache_->block_tokens());
  const std::size_t n = fetch.look();
  std::size_t brought = n;
  if (!fetch.has_all(n)) {
    QINFER_ASSIGN(brought, fetch.bring(n, cancelled));
  }
  files_->use(fetch.keys(brought));
  return brought * cache_->block_tokens();
}

}  // namespace qinfer::engine
