// What inner loops take, as types that files share: for the loops over quantised weights, which are many, are compiled
// in files of their own and chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/encoding.h"
#include "common/quant_tiles.h"
#include "tiled/isa.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// Tokens of a panel: with two registers of sums for each and one tile, 24 of 32 registers are sums.
inline constexpr int kPanelTokens = 12;
/// Tiles that an inner loop takes at once, where few tokens leave registers for them.
inline constexpr int kMaxTiles = 8;
/// Full panels that some loops over quantised weights take at once, so that a sub-block which was decoded serves them
/// all. (Not measured with AVX-512, but for tiles of AMX, which have a number of their own.)
#if defined(__AVX512F__)
inline constexpr int kMostPanels = 1;
#else
inline constexpr int kMostPanels = 4;
#endif

}  // namespace

/// Tiles, and what will be read after them.
struct TileLines {
  const std::byte* tiles[kMaxTiles];
  const std::byte* next[kMaxTiles];
};

/// c[m * ldc + 32 * t + lane] = sum over k.
using TileKernel = void (*)(const std::uint32_t* panel, std::int64_t cols, const TileLines& lines, float* c,
                            std::int64_t ldc);

/// One tile with `count` panels of `tokens` rows (as many as a mode takes at once, all of them full; or one where
/// panels are in tiles), which follow each other: c[(12 * panel + m) * ldc + lane]. Of one panel in tiles all 12 rows
/// of c may be written.
using PanelsKernel = void (*)(const std::uint32_t* panels, std::int64_t count, std::int64_t tokens, std::int64_t cols,
                              const TileLines& lines, float* c, std::int64_t ldc);

/// The loops of one encoding: for `tokens` (1 to 12) and `tiles` (1 to most_tiles[tokens]), and for several panels,
/// where there are such.
struct TileKernels {
  TileKernel at[kPanelTokens + 1][kMaxTiles + 1] = {};
  int most_tiles[kPanelTokens + 1] = {};
  PanelsKernel several = nullptr;
};

/// Of a quantised encoding (projections_quant.cpp), over panels of f32.
const TileKernels& quant_kernels(Encoding encoding);

// quant_nibbles.cpp, quant_long_nibbles.cpp, quant_planes.cpp: those of blocks of 32 and of 256 with nibbles alone, and
// those of 5, 6 and 8 bits.
const TileKernels& quant_nibble_kernels(Encoding encoding);
const TileKernels& quant_long_nibble_kernels(Encoding encoding);
const TileKernels& quant_plane_kernels(Encoding encoding);

namespace {

/// The loops Sums::run<tokens, tiles>().
template <typename Sums>
struct LoopTable : TileKernels {
  template <int tokens, int tiles>
  constexpr void fill_tiles() {
    at[tokens][tiles] = &Sums::template run<tokens, tiles>;
    if constexpr (tiles > 1) fill_tiles<tokens, tiles - 1>();
  }
  template <int tokens>
  constexpr void fill() {
    most_tiles[tokens] = Sums::tiles_for(tokens);
    fill_tiles<tokens, Sums::tiles_for(tokens)>();
    if constexpr (tokens > 1) fill<tokens - 1>();
  }
  constexpr LoopTable() {
    fill<kPanelTokens>();
    if constexpr (requires { &Sums::run_panels; }) {
      static_assert(Sums::tiles_for(kPanelTokens) == 1, "several panels take tile by tile");
      several = &Sums::run_panels;
    }
  }
};

template <typename Sums>
inline constexpr LoopTable<Sums> kLoopsOf;

/// The loops Sums<encoding> of an encoding of nibbles alone, in blocks of 32 values.
template <template <Encoding> typename Sums>
inline const TileKernels& short_nibble_loops(Encoding encoding) {
  switch (encoding) {
    case Encoding::q4_0: return kLoopsOf<Sums<Encoding::q4_0>>;
    case Encoding::q4_1: return kLoopsOf<Sums<Encoding::q4_1>>;
    case Encoding::iq4_nl: return kLoopsOf<Sums<Encoding::iq4_nl>>;
    case Encoding::mxfp4: return kLoopsOf<Sums<Encoding::mxfp4>>;
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::q8_0:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::q3_k:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::q6_k:
    case Encoding::iq4_xs: break;
  }
  __builtin_unreachable();  // asked for these alone
}

/// The same in blocks of 256 values.
template <template <Encoding> typename Sums>
inline const TileKernels& long_nibble_loops(Encoding encoding) {
  switch (encoding) {
    case Encoding::q3_k: return kLoopsOf<Sums<Encoding::q3_k>>;
    case Encoding::q4_k: return kLoopsOf<Sums<Encoding::q4_k>>;
    case Encoding::iq4_xs: return kLoopsOf<Sums<Encoding::iq4_xs>>;
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::q8_0:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q5_k:
    case Encoding::q6_k:
    case Encoding::iq4_nl:
    case Encoding::mxfp4: break;
  }
  __builtin_unreachable();  // asked for these alone
}

/// The same of either kind.
template <template <Encoding> typename Sums>
inline const TileKernels& nibble_loops(Encoding encoding) {
  return quant_layout(encoding).subs == 1 ? short_nibble_loops<Sums>(encoding) : long_nibble_loops<Sums>(encoding);
}

/// The loops Sums<encoding> of an encoding of five, six or eight bits.
template <template <Encoding> typename Sums>
inline const TileKernels& plane_loops(Encoding encoding) {
  switch (encoding) {
    case Encoding::q5_0: return kLoopsOf<Sums<Encoding::q5_0>>;
    case Encoding::q5_1: return kLoopsOf<Sums<Encoding::q5_1>>;
    case Encoding::q5_k: return kLoopsOf<Sums<Encoding::q5_k>>;
    case Encoding::q6_k: return kLoopsOf<Sums<Encoding::q6_k>>;
    case Encoding::q8_0: return kLoopsOf<Sums<Encoding::q8_0>>;
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q3_k:
    case Encoding::q4_k:
    case Encoding::iq4_nl:
    case Encoding::iq4_xs:
    case Encoding::mxfp4: break;
  }
  __builtin_unreachable();  // asked for these alone
}

}  // namespace

}  // namespace qinfer::kernels::QINFER_ISA
