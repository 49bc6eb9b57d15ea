// The regions of a memory plan that no function of layout.h records itself: weights, tables and KV blocks. See
// plan_buffers.h.
#include "engine/plan.h"

namespace qinfer::engine {
namespace {

std::vector<std::uint64_t> shape_of(const model::WeightItem& item) {
  if (item.need.is_vector) return {static_cast<std::uint64_t>(item.need.cols)};
  const kernels::StoredShape shape = kernels::weight_shape(item.format, item.need.rows, item.need.cols);
  return {shape.lengths, shape.lengths + shape.n};
}

}  // namespace

PlannedRegion weights_region(const ModelBlueprint& model, bool mapped) {
  PlannedRegion region{mapped ? "weights_mapped" : "weights_private", "model", 0, {}};
  for (const model::WeightItem& item : model.weights.items) {
    if (item.mapped != mapped) continue;
    const std::string encoding(item.need.is_vector ? "f32" : encoding_name(item.format.encoding));
    // A tensor that two roles share is in the file once. Mapped ones are listed one after the other.
    const bool again = mapped && !region.buffers.empty() && region.buffers.front().name == item.stored.name;
    if (again) continue;
    const std::uint64_t offset = mapped ? region.bytes : item.offset;
    region.buffers.push_back({item.stored.name, offset, item.bytes, shape_of(item), encoding, {}});
    region.bytes = mapped ? region.bytes + item.bytes : model.weights.private_bytes;
  }
  if (!mapped || !model.packed_rope) return region;
  const std::uint64_t bytes = model.packed_rope->bytes();
  region.buffers.push_back({"rope", region.bytes, bytes, {bytes / sizeof(float)}, "f32", {}});
  region.bytes += bytes;
  return region;
}

PlannedRegion tables_region(const model::ModelSpec& spec, const ModelBlueprint& model, std::uint32_t session_tokens) {
  const std::uint64_t tokens = model.rope_tokens(spec, session_tokens);
  const std::uint64_t rope_bytes = tokens * spec.rope_values() * sizeof(float);
  PlannedRegion region{"tables", "model", 0, {}};
  if (rope_bytes != 0)
    region.buffers.push_back(
        {"rope", 0, rope_bytes, {spec.n_ropes(), tokens, spec.rope_values() / spec.n_ropes() / 2, 2}, "f32", {}});
  region.bytes = rope_bytes;
  if (model.tokenizer_bytes == 0) return region;
  region.buffers.push_back({"tokenizer", region.bytes, model.tokenizer_bytes, {model.tokenizer_bytes}, "bytes", {}});
  region.bytes += model.tokenizer_bytes;
  return region;
}

PlannedRegion cache_region(const CacheBlueprint& cache) {
  const CacheSize& size = cache.size;
  PlannedRegion region{"kv_cache", "cache", size.bytes, {}};
  if (size.groups_share_bytes) {
    region.buffers.push_back({"kv_blocks", 0, size.bytes, {size.bytes}, "bytes", {}});
    return region;
  }
  std::uint64_t offset = 0;
  for (std::size_t g = 0; g < cache.layouts.size(); ++g) {
    const KvLayout& layout = cache.layouts[g];
    const std::uint64_t bytes = size.blocks[g] * layout.block_bytes();
    std::vector<std::uint64_t> shape = {
        size.blocks[g], layout.n_layers,       layout.n_kv_heads, layout.tiles_per_block(), 2,
        kTileTokens,    layout.head_dim_padded};
    region.buffers.push_back(
        {format_text("kv_blocks_{}", g), offset, bytes, std::move(shape), std::string(dtype_name(layout.type)), {}});
    offset += bytes;
  }
  return region;
}

PlannedRegion lists_region(const CacheBlueprint& cache) {
  PlannedRegion region{"kv_lists", "cache", cache.size.list_bytes, {}};
  std::uint64_t at = 0;
  const auto add = [&](const char* name, std::size_t group, std::uint64_t bytes, std::string_view type) {
    const std::uint64_t count = type == "u32" ? bytes / 4 : bytes;
    if (bytes != 0)
      region.buffers.push_back({format_text("{}_{}", name, group), at, bytes, {count}, std::string(type), {}});
    at += bytes;
  };
  for (std::size_t g = 0; g < cache.layouts.size(); ++g) {
    const std::uint64_t list = cache.size.blocks[g] * sizeof(std::uint32_t);
    const std::uint64_t all = kv::BlockPool::list_bytes(cache.layouts[g], cache.pool(g));
    add("holders", g, list, "u32");
    add("free_blocks", g, list, "u32");
    add("prefix_index", g, all - 2 * list, "bytes");
  }
  return region;
}

PlannedRegion session_tokens_region(const SessionLayout& session) {
  const std::uint64_t n = session.max_tokens;
  return {"session_tokens", "session", session.tokens_bytes, {{"tokens", 0, n * 4, {n}, "i32", {}}}};
}

PlannedRegion session_logits_region(const SessionLayout& session, std::uint32_t n_vocab) {
  const std::uint64_t rows = std::uint64_t{session.max_logits} + session.max_draft, vocab = n_vocab;
  return {
      "session_logits", "session", session.logits_bytes, {{"logits", 0, rows * vocab * 4, {rows, vocab}, "f32", {}}}};
}

}  // namespace qinfer::engine
