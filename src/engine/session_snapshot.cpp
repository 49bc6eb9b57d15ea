// Session::save, Session::load and SessionKeys::read: between a session and the file of kv/snapshot.h.
//
// A session's blocks are read straight into place where the file's blocks have the layout of the cache's; otherwise
// (another padding of heads, size of blocks or order in tiles) they are copied tile by tile. A block that is not full
// is saved with zeros after its last token, because the memory there may hold tokens of another session.
//
// Logits are not saved: the last token of a loaded session is pending and evaluated again. The bits of keys and values
// depend on the kernel set and the options that computed them, their *origin*, which the file names (check_origin()).
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "engine/session.h"
#include "kv/snapshot.h"

namespace qinfer::engine {
namespace {

bool same_blocks(const KvLayout& a, const KvLayout& b) {
  return a.head_dim_padded == b.head_dim_padded && a.block_tokens == b.block_tokens && a.order == b.order;
}

/// A block by itself.
KvView view_of(std::byte* block) {
  static constexpr std::uint32_t kFirst = 0;
  return {block, &kFirst};
}

/// Copies positions [0, n) of a tile, element by element where the orders differ; what pads keys and values is zero.
void copy_tile(const KvLayout& from, const std::byte* source, std::uint32_t n, const KvLayout& to, std::byte* out) {
  const std::size_t size = dtype_bytes(from.type);
  const auto put = [&](std::uint64_t at, const std::byte* value) {
    value != nullptr ? std::memcpy(out + at * size, value, size) : std::memset(out + at * size, 0, size);
  };
  const std::uint64_t from_values = from.tile_bytes() / size, to_values = to.tile_bytes() / size;
  for (std::uint32_t position = 0; position < n; ++position)
    for (std::uint32_t i = 0; i < to.head_dim_padded; ++i) {
      const bool there = i < from.head_dim;
      put(to.k_index(position, i), there ? source + from.k_index(position, i) * size : nullptr);
      put(to_values + to.v_index(position, i),
          there ? source + (from_values + from.v_index(position, i)) * size : nullptr);
    }
}

/// Copies tiles [begin, end) of a file's block, the first tile of which is `first_tile` of the session, to where the
/// session has them.
void place_tiles(const KvLayout& from, std::byte* block, std::uint32_t first_tile, std::uint32_t begin,
                 std::uint32_t end, const KvLayout& to, const KvView& view) {
  for (std::uint32_t layer = 0; layer < from.n_layers; ++layer)
    for (std::uint32_t head = 0; head < from.n_kv_heads; ++head)
      for (std::uint32_t tile = begin; tile < end; ++tile)
        copy_tile(from, view_of(block).k_tile(from, layer, head, tile), kTileTokens, to,
                  view.k_tile(to, layer, head, first_tile + tile));
}

/// The first `n` positions of a block, and zeros.
void copy_positions(const KvLayout& layout, const KvView& view, std::uint32_t block, std::uint32_t n, std::byte* out) {
  for (std::uint32_t layer = 0; layer < layout.n_layers; ++layer)
    for (std::uint32_t head = 0; head < layout.n_kv_heads; ++head)
      for (std::uint32_t first = 0; first < n; first += kTileTokens) {
        const std::uint32_t tile = first / kTileTokens;
        copy_tile(layout, view.k_tile(layout, layer, head, block * layout.tiles_per_block() + tile),
                  std::min(n - first, kTileTokens), layout, view_of(out).k_tile(layout, layer, head, tile));
      }
}

Status check_fit(const kv::SnapshotModel& saved, const Model& model, std::span<const KvLayout> layouts,
                 const std::string& path) {
  if (saved.fingerprint != model.fingerprints().model)
    return error(Code::unsupported, "{}: saved with other weights (fingerprint {}, the model's is {})", path,
                 saved.fingerprint, model.fingerprints().model);
  if (saved.layouts.size() != layouts.size())
    return error_at(Code::format, 0, "{}: {} groups of layers, the model has {}", path, saved.layouts.size(),
                    layouts.size());
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    const KvLayout &stored = saved.layouts[g], &layout = layouts[g];
    const std::uint32_t window = model.spec().kv_groups[g].window;
    if (stored.type != layout.type)
      return error(Code::unsupported, "{}: keys and values are {}, the cache holds {}", path, dtype_name(stored.type),
                   dtype_name(layout.type));
    if (stored.n_layers != layout.n_layers || stored.n_kv_heads != layout.n_kv_heads ||
        stored.head_dim != layout.head_dim || saved.windows[g] != window)
      return error_at(Code::format, 0,
                      "{}: {} layers of {} heads of {} with window {}, the model has {} of {} of {} with window {}",
                      path, stored.n_layers, stored.n_kv_heads, stored.head_dim, saved.windows[g], layout.n_layers,
                      layout.n_kv_heads, layout.head_dim, window);
  }
  return Status();
}

/// Refuses keys and values of the same kernel set with other options: the session would go on with bits that neither
/// setting gives. (Another kernel set is accepted: a host that moves a file between CPUs knows that it does.)
Status check_origin(std::string_view saved, const Model& model, const std::string& path) {
  const auto family = [](std::string_view name) {
    return std::string_view(name.begin(), std::find(name.begin(), name.end(), '/'));
  };
  const std::string own = model.describe_origin();
  if (model.has_origin(saved) || family(saved) != family(own)) return Status();
  return error(Code::unsupported,
               "{}: saved with {} (kernel set, type of the weights, QINFER_LOAD_EMBED_ROWS, QINFER_RUNTIME_EXACT), the "
               "model has {}: the bits would be those of neither",
               path, saved, own);
}

Status check_tokens(const kv::Snapshot& snapshot, const Model& model, const std::string& path) {
  for (const std::int32_t token : snapshot.tokens())
    if (token < 0 || static_cast<std::uint32_t>(token) >= model.spec().n_vocab)
      return error_at(Code::format, -1, "{}: token {} is not in the vocabulary of {}", path, token,
                      model.spec().n_vocab);
  return Status();
}

sampling::StoredOptions stored_sampler(const SessionSampling& sampling) {
  sampling::StoredOptions stored;
  stored.options = sampling.options();
  stored.bias.assign(sampling.bias().begin(), sampling.bias().end());
  if (sampling.has_own_breakers())
    stored.breakers = sampling.breakers() != nullptr ? sampling.breakers()->texts() : std::vector<std::string>();
  stored.bounds.assign(sampling.bounds().begin(), sampling.bounds().end());
  return stored;
}

}  // namespace

Status Session::save(const std::string& path, const platform::Files* files) const {
  const std::size_t n_groups = keys_.n_groups();
  if (n_groups == 0)
    return error(Code::unsupported, "{} is an encoder: its sessions have nothing to save", model().spec().architecture);
  kv::SnapshotState state;
  state.tokens = tokens();
  state.n_evaluated = evaluated();
  state.max_tokens = max_tokens();
  state.max_logits = max_logits();
  const std::vector<std::byte> sampler = sampling::store_options(stored_sampler(sampling_));
  state.extra = sampler;
  state.extra_capacity = sampling::most_stored_options_bytes(model().spec().n_vocab, max_tokens());
  kv::SnapshotModel about{model().fingerprints().model, keys_.origin(), {}, {}};
  // After the last token a block may still hold tokens of another session, which are not this one's to give away.
  const std::size_t n_full = evaluated() / cache_->block_tokens(), rest = evaluated() % cache_->block_tokens();
  std::vector<std::vector<std::byte>> partial(n_groups);
  for (std::size_t g = 0; g < n_groups; ++g) {
    const KvLayout& layout = cache_->layout(g);
    about.layouts.push_back(layout);
    about.windows.push_back(model().spec().kv_groups[g].window);
    state.first.push_back(evaluated() == 0 ? 0 : keys_.tables()[g].first_position());
    if (rest == 0) continue;
    partial[g].resize(layout.block_bytes());
    copy_positions(layout, keys_.view(g), static_cast<std::uint32_t>(n_full), static_cast<std::uint32_t>(rest),
                   partial[g].data());
  }
  state.block = [&](std::size_t g, std::size_t i) -> const std::byte* {
    if (i == n_full) return partial[g].data();
    const KvLayout& layout = cache_->layout(g);
    return keys_.view(g).k_tile(layout, 0, 0, static_cast<std::uint32_t>(i) * layout.tiles_per_block());
  };
  return kv::save_snapshot(path, about, state, files);
}

Status SessionKeys::read_blocks(const kv::Snapshot& snapshot, std::size_t group) {
  const KvLayout &from = snapshot.model().layouts[group], &to = cache_->layout(group);
  const KvView view = this->view(group);
  const std::uint32_t n = from.blocks_for(snapshot.n_evaluated()), tiles = from.tiles_per_block();
  const bool direct = same_blocks(from, to);
  // The session's blocks may be smaller than the file's; then the first one may begin after the first tile of the
  // file's first block.
  const auto first_tile = static_cast<std::uint32_t>(snapshot.first(group) / kTileTokens);
  std::vector<std::byte> buffer(direct ? 0 : from.block_bytes());
  for (auto i = static_cast<std::uint32_t>(snapshot.first(group) / from.block_tokens); i < n; ++i) {
    if (direct) {
      QINFER_TRY(snapshot.read_block(group, i, {view.k_tile(to, 0, 0, i * tiles), to.block_bytes()}));
      continue;
    }
    QINFER_TRY(snapshot.read_block(group, i, buffer));
    const auto all = static_cast<std::uint32_t>(ceil_div(snapshot.n_evaluated(), kTileTokens));
    const std::uint32_t begin = first_tile > i * tiles ? first_tile - i * tiles : 0;
    place_tiles(from, buffer.data(), i * tiles, begin, std::min(tiles, all - i * tiles), to, view);
  }
  return Status();
}

/// Takes the blocks of each group that the file has, and fills them.
Status SessionKeys::read_tables(const kv::Snapshot& snapshot, const std::string& path) {
  const std::size_t n = snapshot.n_evaluated();
  // Where nothing is pending the last token is evaluated again, for its logits.
  const std::size_t next = n == snapshot.tokens().size() && n != 0 ? n - 1 : n;
  for (std::size_t g = 0; g < n_groups(); ++g) {
    const std::uint64_t first = snapshot.first(g);
    tables_[g].begin_at(first);
    if (!tables_[g].reaches_back_from(next))
      return error_at(Code::format, -1,
                      "{}: group {} begins at position {}, after the first one that the next token sees", path, g,
                      first);
  }
  if (const Code code = extend(n); code != Code::ok)
    return error_at(code, code == Code::io ? EFBIG : 0, "{}: the KV cache has no room for the {} tokens of the session",
                    path, n);
  for (std::size_t g = 0; g < n_groups() && n != 0; ++g) QINFER_TRY(read_blocks(snapshot, g));
  return Status();
}

Status SessionKeys::read(const kv::Snapshot& snapshot, const std::string& path) {
  QINFER_TRY(read_tables(snapshot, path));
  // Never published to the prefix cache: other kernels may have computed them, or they may be forged.
  untrusted_ = true;
  n_evaluated_ = snapshot.n_evaluated();
  const Model& model = cache_->model();
  same_origin_ = model.has_origin(snapshot.model().origin);
  origin_ = same_origin_ ? model.origin() : snapshot.model().origin;
  return Status();
}

namespace {

Status restore_sampler(const sampling::StoredOptions& stored, std::size_t n_tokens, Session& session) {
  if (stored.bounds.size() > n_tokens)
    return error(Code::invalid_argument, "bounds of mirostat for {} tokens, the session has {}", stored.bounds.size(),
                 n_tokens);
  for (const float bound : stored.bounds)
    if (!std::isfinite(bound)) return error(Code::invalid_argument, "a bound of mirostat is {}", bound);
  if (stored.breakers) QINFER_TRY(session.set_dry_breakers(stored.breakers));
  QINFER_TRY(session.set_sampler(stored.options));
  SessionSampling& out = session.sampling();
  out.set_bounds(stored.bounds);
  std::vector<std::int32_t> tokens;
  std::vector<float> values;
  for (const sampling::Bias& bias : stored.bias) {
    tokens.push_back(bias.token);
    values.push_back(bias.value);
  }
  return out.set_bias(tokens, values);
}

}  // namespace

Result<std::unique_ptr<Session>> Session::load(std::shared_ptr<KvCache> cache, const std::string& path,
                                               const LoadSessionOptions& options, LoadSessionResult& result) {
  const Model& model = cache->model();
  QINFER_TRY(check_max_draft(options.max_draft));
  if (cache->n_groups() == 0)
    return error(Code::unsupported, "{} is an encoder: its sessions are not saved", model.spec().architecture);
  const auto fits = [&](const kv::SnapshotModel& saved, std::uint32_t max_tokens, std::uint32_t max_logits) {
    QINFER_TRY(check_fit(saved, model, cache->layouts(), path));
    const std::uint32_t context = model.spec().context_tokens, least = model.spec().gives_logits() ? 1 : 0;
    if (max_tokens >= 1 && max_tokens <= context && max_logits >= least && max_logits <= max_tokens) return Status();
    return error_at(Code::format, 0, "{}: a session of {} tokens with {} rows of logits, the model's context has {}",
                    path, max_tokens, max_logits, context);
  };
  QINFER_ASSIGN(const kv::Snapshot snapshot, kv::Snapshot::open(path, fits, options.files.get()));
  if (snapshot.recovered() && options.no_recovery)
    return error_at(Code::format, -1, "{}: what was saved last is damaged; the state before it has {} tokens", path,
                    snapshot.tokens().size());
  if (!options.any_bits) QINFER_TRY(check_origin(snapshot.model().origin, model, path));
  QINFER_TRY(check_tokens(snapshot, model, path));
  auto sampler = sampling::parse_stored_options(snapshot.extra());
  if (!sampler.ok()) return sampler.take_status().with_prefix(path);
  auto created =
      create(std::move(cache), SessionOptions{snapshot.max_tokens(), snapshot.max_logits(), false, options.max_draft});
  Status status = created.take_status();
  if (status.ok()) status = restore_sampler(sampler.value(), snapshot.tokens().size(), *created.value());
  if (status.code() == Code::invalid_argument)  // not this call's arguments, but what the file says
    return error_at(Code::format, -1, "{}: {}", path, status.message());
  QINFER_TRY(std::move(status));
  std::unique_ptr<Session> session = std::move(created.value());
  result = {snapshot.tokens().size(), snapshot.n_evaluated(), snapshot.recovered(),
            !model.has_origin(snapshot.model().origin)};
  QINFER_TRY(session->append(snapshot.tokens()));
  QINFER_TRY(session->keys_.read(snapshot, path));
  session->n_shown_ = session->keys_.evaluated();
  // The logits are not in the file: evaluating the last token again gives them.
  if (session->pending() == 0 && session->length() != 0) session->keys_.go_back(session->length() - 1);
  return session;
}

}  // namespace qinfer::engine
