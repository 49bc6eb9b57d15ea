// Projections (tiled/projections.h) by products of f16, of 16-bit integers and of bf16: what they multiply, and by
// which inner loops.
#pragma once

#include "avx512/int16_tile_values.h"
#include "avx512/products.h"
#include "avx512/values.h"
#include "tiled/moe.h"
#ifdef __AVX512FP16__
#include "avx512/gemm_fp16.h"
#endif
#ifdef __AVX512BF16__
#include "avx512/gemm_bf16.h"
#endif

namespace qinfer::kernels::avx512 {
namespace {

#ifdef __AVX512FP16__
struct F16Mode {
  using Values = F16Values;
  using Loops = FixedLoops<F16Sums>;
};
#endif

#ifdef __AVX512BF16__
struct Bf16Mode {
  using Values = Bf16Values;
  using Loops = FixedLoops<Bf16Sums>;
};
#endif

/// Quantised matrices.
struct QuantInt16Mode {
  using Values = Int16Values;
  using Loops = QuantLoops<quant_int16_kernels>;
};

/// The same with panels of many rows on tiles of AMX, of so many full ones at a time: a sub-block is decoded in about
/// the time in which tiles multiply it with one panel.
inline constexpr int kTilePanels = 4;
struct QuantInt16TileMode {
  using Values = Int16TileValues;
  using Loops = QuantLoops<quant_int16_kernels, kTilePanels>;
};

/// Quantised matrices, and plain ones in pairs together with them.
struct QuantBf16Loops {
  static constexpr int kPanels = 1;  ///< full ones that they take at once, at most
  const TileKernels* kernels;
  std::int64_t bytes;
  explicit QuantBf16Loops(const Matrix& w)
      : kernels(&quant_bf16_kernels(w.format.encoding)),
        bytes(is_plain(w.format.encoding) ? (w.cols + 1) / 2 * kTileRows * 4
                                          : bytes_of_quant_tile(w.format.encoding, w.cols)) {}
  std::int64_t tiles_for(std::int64_t tokens) const { return kernels->most_tiles[tokens]; }
  TileKernel kernel(std::int64_t tokens, std::int64_t tiles) const { return kernels->at[tokens][tiles]; }
};

struct QuantBf16Mode {
  using Values = Bf16SummedValues;
  using Loops = QuantBf16Loops;
};

}  // namespace
}  // namespace qinfer::kernels::avx512
