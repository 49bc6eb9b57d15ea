// The regions of a memory plan's map that no layout function writes down itself: weights, tables and KV blocks. See
// buffer_map.h.
#include "engine/plan.h"

namespace qinfer::engine {
namespace {

std::vector<std::uint64_t> shape_of(const model::WeightItem& item) {
  if (item.is_vector) return {static_cast<std::uint64_t>(item.cols)};
  const kernels::StoredShape shape = kernels::weight_shape(item.format, item.rows, item.cols);
  return {shape.lengths, shape.lengths + shape.n};
}

}  // namespace

MappedRegion map_weights(const model::WeightsPlan& weights, bool mapped) {
  MappedRegion region{mapped ? "weights_mapped" : "weights_private", "model", 0, {}};
  for (const model::WeightItem& item : weights.items) {
    if (item.mapped != mapped) continue;
    const std::string dtype(item.is_vector ? "f32" : encoding_name(item.format.encoding));
    // A tensor that two roles share is in the file once. Mapped ones are listed one behind the other.
    const bool again = mapped && !region.buffers.empty() && region.buffers.front().name == item.name;
    if (again) continue;
    const std::uint64_t offset = mapped ? region.bytes : item.offset;
    region.buffers.push_back({item.name, offset, item.bytes, shape_of(item), dtype, {}});
    region.bytes = mapped ? region.bytes + item.bytes : weights.private_bytes;
  }
  return region;
}

MappedRegion map_tables(const ModelFiles& files, std::uint64_t rope_tokens) {
  const std::uint64_t rope_bytes = rope_tokens * files.spec.n_ropes() * files.spec.head_dim * sizeof(float);
  MappedRegion region{"tables", "model", 0, {}};
  if (rope_bytes != 0)
    region.buffers.push_back(
        {"rope", 0, rope_bytes, {files.spec.n_ropes(), rope_tokens, files.spec.head_dim / 2, 2}, "f32", {}});
  region.bytes = rope_bytes;
  if (files.tokenizer == nullptr) return region;
  const std::uint64_t bytes = files.tokenizer->memory_bytes();
  region.buffers.push_back({"tokenizer", region.bytes, bytes, {bytes}, "bytes", {}});
  region.bytes += bytes;
  return region;
}

MappedRegion map_cache(const CacheSize& size, std::span<const KvLayout> layouts) {
  MappedRegion region{"kv_cache", "cache", size.bytes, {}};
  if (size.shared) {
    region.buffers.push_back({"kv_blocks", 0, size.bytes, {size.bytes}, "bytes", {}});
    return region;
  }
  std::uint64_t offset = 0;
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    const KvLayout& layout = layouts[g];
    const std::uint64_t bytes = size.blocks[g] * layout.block_bytes();
    std::vector<std::uint64_t> shape = {
        size.blocks[g], layout.n_layers,       layout.n_kv_heads, layout.tiles_per_block(), 2,
        kTileTokens,    layout.head_dim_padded};
    region.buffers.push_back(
        {fmt::format("kv_blocks_{}", g), offset, bytes, std::move(shape), std::string(dtype_name(layout.type)), {}});
    offset += bytes;
  }
  return region;
}

MappedRegion map_lists(const CacheSize& size, std::span<const KvLayout> layouts, const KvCacheOptions& options) {
  MappedRegion region{"kv_lists", "cache", size.list_bytes, {}};
  std::uint64_t at = 0;
  const auto add = [&](const char* name, std::size_t group, std::uint64_t bytes, std::string_view dtype) {
    const std::uint64_t count = dtype == "u32" ? bytes / 4 : bytes;
    if (bytes != 0)
      region.buffers.push_back({fmt::format("{}_{}", name, group), at, bytes, {count}, std::string(dtype), {}});
    at += bytes;
  };
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    const std::uint64_t list = size.blocks[g] * sizeof(std::uint32_t);
    const std::uint64_t all = kv::BlockPool::list_bytes(layouts[g], pool_options(size, options, g));
    add("holders", g, list, "u32");
    add("free_blocks", g, list, "u32");
    add("prefix_index", g, all - 2 * list, "bytes");
  }
  return region;
}

}  // namespace qinfer::engine
