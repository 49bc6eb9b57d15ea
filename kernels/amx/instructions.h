// The instructions of AMX.
//
// They are written as assembly: in g++ 12 the compiler's own functions lose stores that only a tile load or LDTILECFG
// reads. So a file needs no flags for them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qinfer::kernels::amx {
namespace {

/// Operand of LDTILECFG (Intel SDM, volume 1, 18.3.1): palette 1, all registers 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved_0[14] = {};
  std::uint16_t bytes_per_row[8] = {64, 64, 64, 64, 64, 64, 64, 64}, reserved_1[8] = {};
  std::uint8_t rows[8] = {16, 16, 16, 16, 16, 16, 16, 16}, reserved_2[8] = {};
};
static_assert(sizeof(TileConfig) == 64);
inline constexpr TileConfig kTileConfig;

/// Tiles are usable as long as this lives. Nothing is remembered between two regions: other code of the thread may use
/// tiles too, and a thread that waits with live tiles keeps its core awake.
class TileRegion {
 public:
  explicit TileRegion(const TileConfig& config = kTileConfig) { asm volatile("ldtilecfg %0" : : "m"(config)); }
  ~TileRegion() { asm volatile("tilerelease" : : : "memory"); }
  TileRegion(const TileRegion&) = delete;
  TileRegion& operator=(const TileRegion&) = delete;
};

template <int tile>
[[gnu::always_inline]] inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}
template <int tile>
[[gnu::always_inline]] inline void tile_load(const void* at, std::int64_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(tile), "r"(at), "r"(stride) : "memory");
}
/// The same for what the L1 need not keep.
template <int tile>
[[gnu::always_inline]] inline void tile_load_once(const void* at, std::int64_t stride) {
  asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" : : "i"(tile), "r"(at), "r"(stride) : "memory");
}
template <int tile>
[[gnu::always_inline]] inline void tile_store(void* at, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(tile), "r"(at), "r"(stride) : "memory");
}
/// sums += a x b, products of bf16 summed in f32: b has pairs of neighbours in k as its rows.
template <int sums, int a, int b>
[[gnu::always_inline]] inline void tile_multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b));
}

}  // namespace
}  // namespace qinfer::kernels::amx
