// What follows the projection of a head: RMSNorm, rotary embedding in the half-rotation form, and the store of queries
// as rows, of keys and values in the tiles of the cache.
#include "avx512/avx512.h"
#include "avx512/vec.h"

namespace qinfer::kernels::avx512 {
namespace {

/// x' = x cos - y sin, y' = y cos + x sin for the pairs (x, y) = (i, i + d/2); the table holds (cos, sin) pairs.
void rotate(float* head, std::int64_t head_dim, const float* table) {
  const std::int64_t half = head_dim / 2;
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
  for (std::int64_t i = 0; i < half; i += 16) {
    const std::int64_t rest = half - i;
    const __mmask16 lanes = first_lanes(rest);
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(2 * rest), table + 2 * i);
    const __m512 high = _mm512_maskz_loadu_ps(rest > 8 ? first_lanes(2 * rest - 16) : __mmask16{0}, table + 2 * i + 16);
    const __m512 c = _mm512_permutex2var_ps(low, even, high), s = _mm512_permutex2var_ps(low, odd, high);
    const __m512 x = _mm512_maskz_loadu_ps(lanes, head + i), y = _mm512_maskz_loadu_ps(lanes, head + half + i);
    _mm512_mask_storeu_ps(head + i, lanes, _mm512_fmsub_ps(x, c, _mm512_mul_ps(y, s)));
    _mm512_mask_storeu_ps(head + half + i, lanes, _mm512_fmadd_ps(y, c, _mm512_mul_ps(x, s)));
  }
}

/// A run of rows of one sequence whose positions lie in one tile.
struct Run {
  std::int64_t first, count;  ///< rows of the block
  std::uint32_t position;     ///< of the first
  const Sequence* sequence;
};

/// The heads of a run become neighbouring lanes of the lines of a tile [head_dim][32].
template <DType type>
void store_lanes(const float* values, std::int64_t ld, std::int64_t count, std::int64_t lane, std::int64_t width,
                 std::byte* tile) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  if (count == 1) {  // decoding: nothing to transpose
    alignas(64) std::byte narrow[16 * kBytes];
    for (std::int64_t i = 0; i < width; i += 16) {
      store16<type>(narrow, 0xffff, _mm512_maskz_loadu_ps(first_lanes(width - i), values + i));
      for (std::int64_t j = 0; j < 16 && i + j < width; ++j)
        __builtin_memcpy(tile + ((i + j) * kTileRows + lane) * kBytes, narrow + j * kBytes, kBytes);
    }
    return;
  }
  for (std::int64_t first = 0; first < count; first += 16)
    for (std::int64_t i = 0; i < width; i += 16) {
      const std::int64_t rows = count - first < 16 ? count - first : 16, lines = width - i < 16 ? width - i : 16;
      __m512i block[16];
      for (std::int64_t r = 0; r < 16; ++r)
        block[r] = r < rows ? _mm512_maskz_loadu_epi32(first_lanes(width - i), values + (first + r) * ld + i)
                            : _mm512_setzero_si512();
      transpose16(block);
      for (std::int64_t j = 0; j < lines; ++j)
        store16<type>(tile + ((i + j) * kTileRows + lane + first) * kBytes, first_lanes(rows),
                      _mm512_castsi512_ps(block[j]));
    }
}

/// They become rows of a tile [32][padded], with zeros behind them.
template <DType type>
void store_rows(const float* values, std::int64_t ld, std::int64_t count, std::int64_t lane, std::int64_t width,
                std::int64_t padded, std::byte* tile) {
  constexpr auto kBytes = static_cast<std::int64_t>(dtype_bytes(type));
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t i = 0; i < padded; i += 16) {
      const __mmask16 lanes = i < width ? first_lanes(width - i) : __mmask16{0};
      store16<type>(tile + ((lane + r) * padded + i) * kBytes, 0xffff,
                    _mm512_maskz_loadu_ps(lanes, values + r * ld + i));
    }
}

/// Keys become lanes, values rows (KvOrder::key_lanes).
void write_cache(const QkvArgs& args, const HeadBlock& block, const Run& run, std::uint32_t head, const float* values) {
  std::byte* tile = run.sequence->kv.k_tile(args.kv, args.layer, head, run.position / kTileTokens);
  const std::int64_t lane = run.position % kTileTokens, width = args.kv.head_dim;
  with_dtype(args.kv.type, [&]<DType type>() {
    if (block.kind == HeadBlock::key) return store_lanes<type>(values, block.ld, run.count, lane, width, tile);
    store_rows<type>(values, block.ld, run.count, lane, width, args.kv.head_dim_padded, tile + args.kv.tile_bytes());
  });
}

void finish_run(const QkvArgs& args, const HeadBlock& block, const Run& run) {
  const std::int64_t width = args.kv.head_dim;
  const float* norm = block.kind == HeadBlock::query ? args.q_norm
                      : block.kind == HeadBlock::key ? args.k_norm
                                                     : nullptr;
  for (std::uint32_t h = 0; h < block.n_heads; ++h) {
    float* values = block.values + run.first * block.ld + h * width;
    for (std::int64_t r = 0; r < run.count; ++r) {
      float* head = values + r * block.ld;
      if (norm != nullptr) rms_norm_row(head, norm, width, args.norm_eps, head);
      if (block.kind != HeadBlock::value) rotate(head, width, args.rope + (run.position + r) * width);
      if (block.kind != HeadBlock::query) continue;
      float* out = args.q.row(block.first_row + run.first + r) + (block.first_head + h) * width;
      for (std::int64_t i = 0; i < width; i += 16) {
        const __mmask16 lanes = first_lanes(width - i);
        _mm512_mask_storeu_ps(out + i, lanes, _mm512_maskz_loadu_ps(lanes, head + i));
      }
    }
    if (block.kind != HeadBlock::query) write_cache(args, block, run, block.first_head + h, values);
  }
}

}  // namespace

void finish_heads(const QkvArgs& args, const HeadBlock& block) {
  const Sequence* sequence = args.sequences.data();
  for (std::int64_t r = 0; r < block.tokens;) {
    const std::int64_t row = block.first_row + r;
    while (row >= sequence->first_row + sequence->n_rows) ++sequence;
    const auto position = sequence->first_position + static_cast<std::uint32_t>(row - sequence->first_row);
    std::int64_t count = block.tokens - r;
    const std::int64_t in_sequence = sequence->first_row + sequence->n_rows - row;
    const std::int64_t in_tile = kTileTokens - position % kTileTokens;
    if (in_sequence < count) count = in_sequence;
    if (in_tile < count) count = in_tile;
    finish_run(args, block, {r, count, position, sequence});
    r += count;
  }
}

}  // namespace qinfer::kernels::avx512
