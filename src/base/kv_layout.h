// Where keys and values are in memory: the block image shared by the KV cache, which allocates blocks, and the
// kernels, which read and write tiles. Pure address arithmetic.
//
// Positions are cut into tiles of 32 (what kernels see), tiles into blocks (what is allocated). A block holds its
// positions for every layer and KV head: [layer][kv_head][tile in block][K tile | V tile].
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "base/dtype.h"

namespace qinfer {

inline constexpr std::uint32_t kTileTokens = 32;
/// Attention reduces each run of 512 absolute positions from empty and folds the runs in ascending order, so that the
/// order of additions depends on positions alone.
inline constexpr std::uint32_t kSegmentTokens = 512;

/// The order of the elements in the two matrices of a tile; each kernel set wants one of them for each type.
enum class KvOrder : std::uint8_t {
  key_lanes,  ///< K [head_dim_padded][32 positions], V [32 positions][head_dim_padded]
  key_rows,   ///< K [32 positions][head_dim_padded] with zeros as padding, V [head_dim_padded][32 positions]
  key_pairs   ///< K [head_dim_padded / 2][32 positions][2] with a zero after an odd head_dim,
              ///< V [16 pairs of positions][head_dim_padded][2]; head_dim_padded is even
};

struct KvLayout {
  DType type = DType::f16;
  std::uint32_t n_layers = 0;
  std::uint32_t n_kv_heads = 0;
  std::uint32_t head_dim = 0;         ///< real width of a head
  std::uint32_t head_dim_padded = 0;  ///< width in the cache, as the kernel set wants it
  std::uint32_t block_tokens = kTileTokens;
  KvOrder order = KvOrder::key_lanes;

  /// Elements from the beginning of its tile to a key's or a value's element i.
  std::uint64_t k_index(std::uint32_t position, std::uint32_t i) const {
    if (order == KvOrder::key_pairs) return 2 * lane_index(position, i / 2) + i % 2;
    return order == KvOrder::key_lanes ? lane_index(position, i) : row_index(position, i);
  }
  std::uint64_t v_index(std::uint32_t position, std::uint32_t i) const {
    if (order == KvOrder::key_pairs)
      return 2 * (std::uint64_t{position % kTileTokens / 2} * head_dim_padded + i) + position % 2;
    return order == KvOrder::key_lanes ? row_index(position, i) : lane_index(position, i);
  }
  std::uint64_t tile_bytes() const { return std::uint64_t{kTileTokens} * head_dim_padded * dtype_bytes(type); }
  std::uint32_t tiles_per_block() const { return block_tokens / kTileTokens; }
  /// Bytes that one token's keys and values take, all layers together.
  std::uint64_t token_bytes() const {
    return std::uint64_t{2} * n_layers * n_kv_heads * head_dim_padded * dtype_bytes(type);
  }
  std::uint64_t block_bytes() const {
    return round_up(std::uint64_t{n_layers} * n_kv_heads * tiles_per_block() * 2 * tile_bytes(), 4096);
  }
  std::uint32_t blocks_for(std::uint64_t tokens) const {
    return static_cast<std::uint32_t>(ceil_div(tokens, block_tokens));
  }

  static std::uint64_t lane_index(std::uint32_t position, std::uint32_t i) {
    return std::uint64_t{i} * kTileTokens + position % kTileTokens;
  }
  std::uint64_t row_index(std::uint32_t position, std::uint32_t i) const {
    return std::uint64_t{position % kTileTokens} * head_dim_padded + i;
  }
};

/// One session's keys and values: block i of the session is block table[i] of the arena or, without a table, block i.
struct KvView {
  std::byte* arena = nullptr;
  const std::uint32_t* table = nullptr;

  /// The K tile that holds positions 32*tile .. 32*tile+31; the V tile follows it.
  std::byte* k_tile(const KvLayout& layout, std::uint32_t layer, std::uint32_t kv_head, std::uint32_t tile) const {
    const std::uint32_t t = layout.tiles_per_block();
    const std::uint64_t block = std::uint64_t{table != nullptr ? table[tile / t] : tile / t} * layout.block_bytes();
    const std::uint64_t in_block = (std::uint64_t{layer} * layout.n_kv_heads + kv_head) * t + tile % t;
    return arena + block + in_block * 2 * layout.tile_bytes();
  }
};

}  // namespace qinfer
