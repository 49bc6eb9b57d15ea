// Session::save and Session::load: between a session and the file of kv/snapshot.h.
//
// Where the file's blocks look like the cache's they are read straight into place; else (another padding of heads or
// size of blocks) they go through their tiles, whose rows are the same everywhere: K [head_dim][32], V [32][padded].
#include <algorithm>
#include <cstring>

#include "engine/session.h"
#include "kv/snapshot.h"

namespace qinfer::engine {
namespace {

bool same_blocks(const KvLayout& a, const KvLayout& b) {
  return a.head_dim_padded == b.head_dim_padded && a.block_tokens == b.block_tokens;
}

/// Copies the tiles of a file's block, of which `n_tiles` are in use, to where the session has them.
void place_tiles(const KvLayout& from, const std::byte* block, std::uint32_t first_tile, std::uint32_t n_tiles,
                 const KvLayout& to, const KvView& view) {
  const std::size_t size = dtype_bytes(from.type), lanes = kTileTokens * size;
  const std::size_t row = std::size_t{from.head_dim} * size;
  const std::uint32_t zero = 0;
  const KvView source{const_cast<std::byte*>(block), &zero};
  for (std::uint32_t layer = 0; layer < from.n_layers; ++layer)
    for (std::uint32_t head = 0; head < from.n_kv_heads; ++head)
      for (std::uint32_t tile = 0; tile < n_tiles; ++tile) {
        const std::byte* k = source.k_tile(from, layer, head, tile);
        std::byte* out = view.k_tile(to, layer, head, first_tile + tile);
        std::memcpy(out, k, from.head_dim * lanes);
        const std::byte* v = k + from.tile_bytes();
        std::byte* v_out = out + to.tile_bytes();
        for (std::uint32_t lane = 0; lane < kTileTokens; ++lane) {
          std::memcpy(v_out + lane * to.head_dim_padded * size, v + lane * from.head_dim_padded * size, row);
          std::memset(v_out + lane * to.head_dim_padded * size + row, 0, (to.head_dim_padded - to.head_dim) * size);
        }
      }
}

/// The first `n` positions of a block, and zeros.
void copy_lanes(const KvLayout& layout, const KvView& view, std::uint32_t block, std::uint32_t n, std::byte* out) {
  const std::size_t size = dtype_bytes(layout.type), width = std::size_t{layout.head_dim} * size;
  const std::uint32_t zero = 0;
  const KvView to{out, &zero};
  for (std::uint32_t layer = 0; layer < layout.n_layers; ++layer)
    for (std::uint32_t head = 0; head < layout.n_kv_heads; ++head)
      for (std::uint32_t first = 0; first < n; first += kTileTokens) {
        const std::uint32_t tile = first / kTileTokens, lanes = std::min(n - first, kTileTokens);
        const std::byte* k = view.k_tile(layout, layer, head, block * layout.tiles_per_block() + tile);
        std::byte* k_out = to.k_tile(layout, layer, head, tile);
        for (std::uint32_t d = 0; d < layout.head_dim; ++d)
          std::memcpy(k_out + d * kTileTokens * size, k + d * kTileTokens * size, lanes * size);
        for (std::uint32_t lane = 0; lane < lanes; ++lane) {
          const std::size_t at = layout.tile_bytes() + lane * layout.head_dim_padded * size;
          std::memcpy(k_out + at, k + at, width);
        }
      }
}

Status check_fit(const kv::SnapshotModel& saved, const Model& model, const KvLayout& layout, const std::string& path) {
  const KvLayout& stored = saved.layout;
  if (saved.fingerprint != model.fingerprint())
    return error(Code::unsupported, "{}: saved with other weights (fingerprint {}, the model's is {})", path,
                 saved.fingerprint, model.fingerprint());
  if (stored.type != layout.type)
    return error(Code::unsupported, "{}: keys and values are {}, the cache holds {}", path, dtype_name(stored.type),
                 dtype_name(layout.type));
  if (stored.n_layers != layout.n_layers || stored.n_kv_heads != layout.n_kv_heads ||
      stored.head_dim != layout.head_dim)
    return error_at(Code::format, 0, "{}: {} layers of {} heads of {}, the model has {} of {} of {}", path,
                    stored.n_layers, stored.n_kv_heads, stored.head_dim, layout.n_layers, layout.n_kv_heads,
                    layout.head_dim);
  return Status();
}

Status check_tokens(const kv::Snapshot& snapshot, const Model& model, const std::string& path) {
  for (const std::int32_t token : snapshot.tokens())
    if (token < 0 || static_cast<std::uint32_t>(token) >= model.spec().n_vocab)
      return error_at(Code::format, -1, "{}: token {} is not in the vocabulary of {}", path, token,
                      model.spec().n_vocab);
  return Status();
}

}  // namespace

Status Session::save(const std::string& path) const {
  kv::SnapshotState state;
  state.tokens = tokens();
  state.n_evaluated = n_evaluated_;
  state.max_tokens = layout_.max_tokens;
  state.max_logits = layout_.max_logits;
  std::vector<std::byte> sampler(sizeof sampler_ + n_bias_ * sizeof(sampling::Bias));
  std::memcpy(sampler.data(), &sampler_, sizeof sampler_);
  std::copy_n(reinterpret_cast<const std::byte*>(bias_data()), n_bias_ * sizeof(sampling::Bias),
              sampler.data() + sizeof sampler_);
  state.extra = sampler;
  state.extra_capacity = sizeof sampler_ + std::uint64_t{model().spec().n_vocab} * sizeof(sampling::Bias);
  const KvLayout& layout = cache_->layout();
  // Behind the last token a block may still hold what it held before, and that is not this session's to give away.
  const std::size_t n_full = n_evaluated_ / layout.block_tokens, rest = n_evaluated_ % layout.block_tokens;
  std::vector<std::byte> partial(rest != 0 ? layout.block_bytes() : 0);
  if (rest != 0)
    copy_lanes(layout, kv_view(), static_cast<std::uint32_t>(n_full), static_cast<std::uint32_t>(rest), partial.data());
  state.block = [&](std::size_t i) -> const std::byte* {
    if (i == n_full) return partial.data();
    return kv_view().k_tile(layout, 0, 0, static_cast<std::uint32_t>(i) * layout.tiles_per_block());
  };
  return kv::save_snapshot(path, {model().fingerprint(), origin_.empty() ? model().origin() : origin_, layout}, state);
}

Status Session::read_blocks(const kv::Snapshot& snapshot) {
  const KvLayout &from = snapshot.model().layout, &to = cache_->layout();
  const std::uint32_t n = from.blocks_for(snapshot.n_evaluated());
  const bool direct = same_blocks(from, to);
  std::vector<std::byte> buffer(direct ? 0 : from.block_bytes());
  const std::uint32_t tiles = from.tiles_per_block();
  for (std::uint32_t i = 0; i < n; ++i) {
    if (direct) {
      QINFER_TRY(snapshot.read_block(i, {kv_view().k_tile(to, 0, 0, i * tiles), to.block_bytes()}));
      continue;
    }
    QINFER_TRY(snapshot.read_block(i, buffer));
    const auto all = static_cast<std::uint32_t>(ceil_div(snapshot.n_evaluated(), kTileTokens));
    place_tiles(from, buffer.data(), i * tiles, std::min(tiles, all - i * tiles), to, kv_view());
  }
  return Status();
}

Status Session::restore_sampler(std::span<const std::byte> saved, const std::string& path) {
  sampling::SamplerOptions options;
  if (saved.size() < sizeof options || (saved.size() - sizeof options) % sizeof(sampling::Bias) != 0)
    return error_at(Code::format, -1, "{}: {} bytes of sampler options, expected {} and {} for each bias", path,
                    saved.size(), sizeof options, sizeof(sampling::Bias));
  std::memcpy(&options, saved.data(), sizeof options);
  QINFER_TRY(set_sampler(options));
  std::vector<sampling::Bias> list((saved.size() - sizeof options) / sizeof(sampling::Bias));
  std::copy(saved.begin() + sizeof options, saved.end(), reinterpret_cast<std::byte*>(list.data()));
  std::vector<std::int32_t> ids;
  std::vector<float> values;
  for (const sampling::Bias& bias : list) {
    ids.push_back(bias.token);
    values.push_back(bias.value);
  }
  return set_bias(ids, values);
}

Result<std::unique_ptr<Session>> Session::load(std::shared_ptr<KvCache> cache, const std::string& path) {
  const Model& model = cache->model();
  QINFER_ASSIGN(const kv::Snapshot snapshot, kv::Snapshot::open(path, [&](const kv::SnapshotModel& saved) {
                  return check_fit(saved, model, cache->layout(), path);
                }));
  QINFER_TRY(check_tokens(snapshot, model, path));
  auto created = create(std::move(cache), SessionOptions{snapshot.max_tokens(), snapshot.max_logits()});
  Status status = created.take_status();
  if (status.ok()) status = created.value()->restore_sampler(snapshot.extra(), path);
  if (status.code() == Code::invalid_argument)  // not this call's arguments, but what the file says
    return error_at(Code::format, -1, "{}: {}", path, status.message());
  QINFER_TRY(std::move(status));
  std::unique_ptr<Session> session = std::move(created.value());
  // Others must not be given what a file says: it may come from other kernels, or from somebody who invented it.
  session->origin_ = snapshot.model().origin;
  QINFER_TRY(session->append(snapshot.tokens()));
  if (const Code code = session->reserve_blocks(snapshot.n_evaluated()); code != Code::ok)
    return error_at(code, 0, "{}: the KV cache has no room for the {} tokens of the session", path,
                    snapshot.n_evaluated());
  QINFER_TRY(session->read_blocks(snapshot));
  session->advance(snapshot.n_evaluated());
  // The logits are not in the file: evaluating the last token again gives them.
  if (session->pending() == 0 && session->n_tokens_ != 0) {
    --session->n_evaluated_;
    session->release_spare_blocks();
    session->forget_names();
  }
  return session;
}

}  // namespace qinfer::engine
