// See session_keys.h: block tables, the prefix cache, what is said of a session's keys and values. Reading them from a
// snapshot is in session_snapshot.cpp.
//
// The prefix cache, with windows. The pool of the first group finds blocks by their tokens; those of the other groups
// find theirs by the name of the first group's block for the same positions. To go on after n known blocks, a session
// needs of each group the blocks that its layers see from there: all n or, with a window, the last of them. Some of
// these may have been evicted. Then a shorter beginning is adopted, at whose end no window sees the gap
// (shorten_to_windows()), and the rest is computed again.
#include "engine/session_keys.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace qinfer::engine {

Status SessionKeys::open(KvCache& cache, const SessionLayout& layout, std::byte* memory) {
  cache_ = &cache;
  layout_ = &layout;
  if (layout.n_groups == 0) return Status();
  names_ = reinterpret_cast<kv::PrefixName*>(memory + layout.names);
  tables_ = std::make_unique<BlockTable[]>(layout.n_groups);
  auto* entries = reinterpret_cast<std::uint32_t*>(memory + layout.table);
  for (std::size_t g = 0; g < layout.n_groups; ++g)
    QINFER_TRY(tables_[g].open(cache.pool(g), cache.model().spec().kv_groups[g].window,
                               {entries + g * layout.max_blocks, layout.max_blocks}));
  return Status();
}

Status SessionKeys::share(const SessionKeys& original) {
  n_evaluated_ = original.n_evaluated_;
  n_named_ = original.n_named_;
  start_ = original.start_;
  untrusted_ = original.untrusted_;
  origin_ = original.origin_;
  same_origin_ = original.same_origin_;
  std::copy_n(original.names_, n_named_, names_);
  if (n_evaluated_ == 0) return Status();  // nor has a table anything but place for what will come back
  for (std::size_t g = 0; g < n_groups(); ++g)
    if (!tables_[g].share(original.tables_[g]))
      return error(Code::no_memory, "the system maps no more memory: {} KV blocks of a fork cannot be shared",
                   tables_[g].held().size());
  return Status();
}

Code SessionKeys::extend(std::size_t n) {
  for (BlockTable& table : tables()) {
    const Code code = table.extend(n_evaluated_, n);
    if (code != Code::ok) return code;
  }
  return Code::ok;
}

Code SessionKeys::reserve(std::size_t n) {
  const std::size_t chunk = cache_->model().scratch_layout().batch_capacity;
  Code code = Code::ok;
  for (BlockTable& table : tables())
    if (code == Code::ok && !table.obtain_promise(table.blocks_to_promise(n_evaluated_, n, chunk, 0), n_evaluated_, n))
      code = Code::kv_full;
  if (code == Code::ok) code = extend(std::min(n, chunk));
  if (code != Code::ok) give_back_unused();
  return code;
}

void SessionKeys::give_back_unused() {
  for (BlockTable& table : tables()) table.give_back_unused(n_evaluated_);
}

void SessionKeys::finish_evaluation(std::size_t shown) {
  give_back_unused();
  for (BlockTable& table : tables()) table.give_back_unseen(std::min(n_evaluated_, shown));
}

const char* SessionKeys::find_inconsistency() const {
  for (const BlockTable& table : tables()) {
    const char* wrong = table.find_inconsistency(n_evaluated_);
    if (wrong == nullptr) wrong = table.pool().find_inconsistency({});
    if (wrong != nullptr) return wrong;
  }
  return nullptr;
}

void SessionKeys::go_back(std::size_t n) {
  n_evaluated_ = n;
  give_back_unused();
  forget_names();
  if (n == 0) untrusted_ = false;
}

bool SessionKeys::reach_back_from(std::size_t position) const {
  return std::all_of(tables().begin(), tables().end(),
                     [&](const BlockTable& table) { return table.reaches_back_from(position); });
}

void SessionKeys::forget_names() { n_named_ = std::min(n_named_, n_evaluated_ / block_tokens()); }

std::size_t SessionKeys::adopt_prefix(Tokens tokens, std::size_t keep) {
  give_back_unused();
  const std::size_t first = n_evaluated_ / block_tokens();
  std::size_t n = shorten_to_windows(first, find_blocks(tokens, keep));
  if (n != 0 && !adopt_blocks(first, n)) n = 0;  // evicted just now, or no more mappings: computed instead
  if (n != 0) n_named_ = first + n;
  n_evaluated_ += n * block_tokens();
  return n;
}

std::size_t SessionKeys::count_adoptable(Tokens tokens, std::size_t keep) {
  return find_blocks(tokens, keep) * block_tokens();
}

/// How many published blocks follow the evaluated tokens, but for the last `keep` pending ones; their names are put
/// after those of the session's own.
std::size_t SessionKeys::find_blocks(Tokens tokens, std::size_t keep) {
  const std::size_t size = block_tokens(), first = n_evaluated_ / size;
  const std::size_t pending = tokens.size() - n_evaluated_;
  if (!cache_->keeps_prefixes() || layout_->embeddings || n_evaluated_ % size != 0 || n_named_ != first ||
      pending < size + keep)
    return 0;
  // With a window, blocks of tokens evaluated before would be given back, and drop_adopted() could not undo that.
  for (const BlockTable& table : tables())
    if (table.window() != 0 && n_evaluated_ != 0) return 0;
  const std::size_t most = (pending - keep) / size;
  const kv::PrefixName parent = first == 0 ? start_ : names_[first - 1];
  return cache_->pool().find(parent, tokens_of_blocks(tokens, first, most), {names_ + first, most});
}

/// Of n known blocks the longest beginning at whose end the windows of all groups find every block that they see.
std::size_t SessionKeys::shorten_to_windows(std::size_t first, std::size_t n) const {
  for (bool shorter = true; shorter && n != 0;) {
    shorter = false;
    for (const BlockTable& table : tables().subspan(1)) {
      const std::size_t begin = std::max(first, table.first_seen((first + n) * block_tokens()));
      const std::size_t missing = table.pool().count_to_last_missing({names_ + begin, first + n - begin});
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
bool SessionKeys::adopt_blocks(std::size_t first, std::size_t n) {
  const std::size_t end = first + n;
  std::size_t g = 0;
  for (; g < n_groups(); ++g) {
    BlockTable& table = tables_[g];
    const std::size_t begin = std::max(first, table.first_seen(end * block_tokens()));
    const std::span<const kv::PrefixName> names(names_ + begin, end - begin);
    const std::span<std::uint32_t> blocks = table.entries(begin, end);
    if (!(g == 0 ? table.pool().adopt(names, blocks) : table.pool().adopt_beside(names, blocks))) break;
    if (!table.accept(begin, end)) break;
  }
  if (g == n_groups()) return true;
  give_back_unused();
  return false;
}

void SessionKeys::drop_adopted(std::size_t n_blocks) {
  n_evaluated_ -= n_blocks * block_tokens();
  give_back_unused();
  forget_names();
}

void SessionKeys::advance(std::size_t n, Tokens tokens) {
  n_evaluated_ += n;
  if (untrusted_ && !same_origin_) origin_ = kMixedOrigin;
  if (cache_->keeps_prefixes() && !untrusted_) publish_full_blocks(tokens);
}

void SessionKeys::publish_full_blocks(Tokens tokens) {
  const std::size_t full = std::min(n_evaluated_, tokens.size()) / block_tokens();
  if (n_named_ == full) return;
  kv::BlockPool& pool = cache_->pool();
  // A name may stand for the block of another session with the same tokens, which may have been evicted since; then
  // this session's block is published in its place.
  n_named_ = pool.count_current({names_, n_named_});
  for (; n_named_ < full; ++n_named_) {
    if (!tables_[0].holds(n_named_)) return;  // the window has moved on
    const kv::PrefixName parent = n_named_ == 0 ? start_ : names_[n_named_ - 1];
    const kv::PrefixName name = pool.publish(parent, tokens_of_blocks(tokens, n_named_, 1), tables_[0][n_named_]);
    if (name.generation == 0) return;  // evicted just now: next time
    names_[n_named_] = name;
    for (BlockTable& table : tables().subspan(1))
      if (table.holds(n_named_)) table.pool().publish_beside(name, table[n_named_]);
  }
}

std::size_t SessionKeys::n_held() const {
  std::size_t n = 0;
  for (const BlockTable& table : tables()) n += table.held().size();
  return n;
}

std::span<std::byte> SessionKeys::held_block(std::size_t i) {
  std::size_t g = 0;
  for (; i >= tables_[g].held().size(); ++g) i -= tables_[g].held().size();
  const KvLayout& layout = tables_[g].layout();
  const auto at = static_cast<std::uint32_t>(tables_[g].first() + i);
  return {view(g).k_tile(layout, 0, 0, at * layout.tiles_per_block()), layout.block_bytes()};
}

void SessionKeys::leave() {
  away_evaluated_ = std::exchange(n_evaluated_, 0);
  away_named_ = std::exchange(n_named_, 0);
  for (BlockTable& table : tables()) table.leave();
}

Code SessionKeys::make_place() {
  for (BlockTable& table : tables()) table.begin_where_left();
  const Code code = extend(away_evaluated_);
  if (code != Code::ok) give_back_unused();
  return code;
}

void SessionKeys::come_back() {
  n_evaluated_ = away_evaluated_;
  n_named_ = away_named_;
}

SessionKeys::Bytes SessionKeys::bytes() const {
  Bytes bytes{};
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

Status SessionKeys::explained(Status status) const {
  if (status.code() != Code::numeric) return status;
  for (std::size_t g = 0; g < n_groups(); ++g) {
    bool is_key = false;
    const std::int64_t found =
        layer_beyond(cache_->layout(g), view(g), tables()[g].first_position(), n_evaluated_, is_key);
    const std::vector<model::LayerSpec>& layers = cache_->model().spec().layers;
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
