// Quantised weights as pairs of 16-bit numbers: the integers of a run of values that share scales, decoded in registers
// to 16-bit integers or to what bf16 holds exactly, two neighbours in k in each dword, a lane for each of 16 rows. The
// loops of quant_bf16_loops.h and quant_int16_loops.h multiply them.
#pragma once

#include "avx512/quant_fields.h"
#include "tiled/gemm.h"

namespace qinfer::kernels::avx512 {
namespace {

/// 16 rows of a tile: its first half or its second one.
inline constexpr int kStripRows = 16;

/// What an encoding's loops ask of it.
template <Encoding encoding>
struct PairLayout : QuantTraits<encoding> {
  using Traits = QuantTraits<encoding>;
  using Traits::kLayout, Traits::kIntegers, Traits::kRuns;
  static constexpr int kPairs = static_cast<int>(kQuantSub) / 2 / kRuns;  ///< of a run
  /// Of a run's integers, and from one strip to the next.
  static constexpr std::int64_t kRunBytes = (kLayout.sub - kLayout.sub_scales) / kRuns;
  static constexpr std::int64_t kStripBytes = kIntegers == TileIntegers::bytes ? kStripRows : 4 * kStripRows;
};

/// What to fetch of some tiles, from these addresses on; nothing where they are null.
template <int tiles>
struct Ahead {
  const std::byte* at[tiles] = {};
};

/// Fetches as many lines as eight columns take: the L1 can wait for few lines at a time.
template <Encoding encoding, int tiles>
inline void fetch_group(Ahead<tiles>& ahead) {
  constexpr std::int64_t kShare = PairLayout<encoding>::kLayout.sub / 4, kBytes = (kShare + 63) / 64 * 64;
  if (ahead.at[0] == nullptr) return;
#pragma GCC unroll 4
  for (int t = 0; t < tiles; ++t) {
#pragma GCC unroll 5
    for (std::int64_t line = 0; line < kBytes; line += 64) prefetch_line(ahead.at[t] + line);
    ahead.at[t] += kShare;
  }
}

/// Calls use(j, pairs) for the pairs j of a run, in order. `at`: where the integers of each strip begin. Narrow says
/// what the numbers are: of_field(field) of the integers at bits 0 and 16 of every dword, of_bytes(at) of signed bytes.
template <Encoding encoding, typename Narrow, int strips, int tiles, typename Use>
inline void each_pair(const std::byte* const (&at)[strips], Ahead<tiles>& ahead, Use use) {
  using Layout = PairLayout<encoding>;
  constexpr TileIntegers kIntegers = Layout::kIntegers;
  __m512i pairs[strips];
  if constexpr (kIntegers == TileIntegers::bytes) {
#pragma GCC unroll 4
    for (int j = 0; j < Layout::kPairs; ++j) {
      if (j % 4 == 0) fetch_group<encoding, tiles>(ahead);
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s) pairs[s] = Narrow::of_bytes(at[s] + j * 2 * kTileRows);
      use(j, pairs);
    }
  } else {
    __m512i plane[strips] = {};
#pragma GCC unroll 8
    for (int s = 0; s < strips; ++s)
      if constexpr (Layout::kPlane) plane[s] = dwords_at(at[s]);
#pragma GCC unroll 4
    for (int g = 0; g < Layout::kPairs / 4; ++g) {
      fetch_group<encoding, tiles>(ahead);
      Fields fields[strips];
#pragma GCC unroll 8
      for (int s = 0; s < strips; ++s) {
        fields[s] = fields_of<kIntegers>(dwords_at(at[s] + (g + (Layout::kPlane ? 1 : 0)) * 4 * kTileRows), plane[s]);
        if constexpr (Layout::kPlane) plane[s] = _mm512_srli_epi32(plane[s], plane_shift(kIntegers, 1));
      }
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
#pragma GCC unroll 8
        for (int s = 0; s < strips; ++s)
          pairs[s] = Narrow::template of_field<kIntegers, Layout::kMeaning>(fields[s].at(p));
        use(4 * g + p, pairs);
      }
    }
  }
}

}  // namespace
}  // namespace qinfer::kernels::avx512
