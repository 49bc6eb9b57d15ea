// Weights into tiles of 32 rows, [N/32][K][32]: blocks of 16 rows by 16 dwords are transposed in registers, which keeps
// both sides in whole cache lines. Types that do not change are moved bit for bit.
#include "avx512/avx512.h"
#include "avx512/vec.h"

namespace qinfer::kernels::avx512 {
namespace {

/// Sixteen values of one column, as stored.
template <DType type>
struct Raw {
  __m256i bits;
  static __m512 widen(Raw r) {
    if constexpr (type == DType::f16) return _mm512_cvtph_ps(r.bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(r.bits), 16));
  }
};
template <>
struct Raw<DType::f32> {
  __m512i bits;
  static __m512 widen(Raw r) { return _mm512_castsi512_ps(r.bits); }
};

/// Calls emit(k, raw) for the columns [k, k + count) of 16 rows, of which `rows` exist; the others are zero.
template <DType type, typename Emit>
inline void transpose_columns(const std::byte* at, std::int64_t row_bytes, std::int64_t rows, std::int64_t count,
                              Emit emit) {
  __m512i block[16];
  for (std::int64_t r = 0; r < 16; ++r) {
    if (r >= rows) {
      block[r] = _mm512_setzero_si512();
    } else if constexpr (type == DType::f32) {
      block[r] = _mm512_maskz_loadu_epi32(first_lanes(count), at + r * row_bytes);
    } else {
      const auto lanes = count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
      block[r] = _mm512_maskz_loadu_epi16(lanes, at + r * row_bytes);
    }
  }
  transpose16(block);
  if constexpr (type == DType::f32) {
    for (std::int64_t k = 0; k < count; ++k) emit(k, Raw<type>{block[k]});
  } else {
    for (std::int64_t k = 0; k < count; k += 2) {  // a dword holds columns k and k + 1
      emit(k, Raw<type>{_mm512_cvtepi32_epi16(block[k / 2])});
      if (k + 1 < count) emit(k + 1, Raw<type>{_mm512_cvtepi32_epi16(_mm512_srli_epi32(block[k / 2], 16))});
    }
  }
}

/// The largest finite magnitude seen so far.
struct Largest {
  __m512i bits = _mm512_setzero_si512();
  void add(__m512 value) {
    const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(0x7fffffff));
    const __mmask16 finite = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    bits = _mm512_mask_max_epi32(bits, finite, bits, magnitude);
  }
  float value() const { return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(bits)))); }
};

/// Rows [first, last) of the source into their tiles.
template <DType from, DType to>
float pack_tiles(const Matrix& source, float scale, std::byte* destination, std::int64_t first, std::int64_t last) {
  constexpr auto kFromBytes = static_cast<std::int64_t>(dtype_bytes(from));
  constexpr auto kToBytes = static_cast<std::int64_t>(dtype_bytes(to));
  constexpr std::int64_t kStep = from == DType::f32 ? 16 : 32;
  const std::int64_t cols = source.cols;
  const __m512 inverse = _mm512_set1_ps(1 / scale);
  Largest largest;
  for (std::int64_t row = first; row < last; row += 16) {
    std::byte* lanes = destination + (row / kTileRows * cols * kTileRows + row % kTileRows) * kToBytes;
    const std::byte* at = source.data + row * cols * kFromBytes;
    for (std::int64_t k = 0; k < cols; k += kStep) {
      const std::int64_t count = cols - k < kStep ? cols - k : kStep;
      transpose_columns<from>(at + k * kFromBytes, cols * kFromBytes, source.rows - row, count,
                              [&](std::int64_t i, Raw<from> raw) {
                                std::byte* out = lanes + (k + i) * kTileRows * kToBytes;
                                const __m512 value = Raw<from>::widen(raw);
                                largest.add(value);
                                if constexpr (from == to && from == DType::f32) {
                                  _mm512_storeu_si512(out, raw.bits);
                                } else if constexpr (from == to) {
                                  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), raw.bits);
                                } else {
                                  store16<to>(out, 0xffff, _mm512_mul_ps(value, inverse));
                                }
                              });
    }
  }
  return largest.value();
}

/// One conversion of consecutive values.
template <DType from, DType to>
float pack_values(const std::byte* source, std::byte* destination, std::int64_t n) {
  Largest largest;
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = first_lanes(n - i);
    __m512 value;
    if constexpr (from == DType::f32) {
      value = _mm512_maskz_loadu_ps(lanes, source + 4 * i);
    } else {
      value = Raw<from>::widen({_mm256_maskz_loadu_epi16(lanes, source + 2 * i)});
    }
    largest.add(value);
    std::byte* out = destination + i * static_cast<std::int64_t>(dtype_bytes(to));
    if constexpr (from == to && from != DType::f32) {  // every bit, also of a NaN
      _mm256_mask_storeu_epi16(out, lanes, _mm256_maskz_loadu_epi16(lanes, source + 2 * i));
    } else {
      store16<to>(out, lanes, value);
    }
  }
  return largest.value();
}

}  // namespace

/// f16 ends at 65504: a matrix with larger values is packed again, divided by the smallest power of two that will do.
/// Nearly always the values fit as they are.
PackEnd pack_end(const WeightFormat& format, float largest, PackInfo& info) {
  float scale = 1;
  if (format.encoding == Encoding::f16)
    while (largest / scale > 65504.0f) scale *= 2;  // division by a power of two is exact here
  const bool again = scale != info.scale;
  info = {scale, largest / scale};
  return again ? PackEnd::again : PackEnd::done;
}

float pack(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
           std::int64_t first, std::int64_t last) {
  const bool tiles = format.layout == WeightLayout::tile32;
  const std::int64_t begin = first * source.cols, count = (last - first) * source.cols;
  float largest = 0;
  with_dtype(element_type(source.format.encoding), [&]<DType from>() {
    with_dtype(element_type(format.encoding), [&]<DType to>() {
      if (tiles) {
        largest = pack_tiles<from, to>(source, info.scale, destination, first,
                                       (last + kTileRows - 1) / kTileRows * kTileRows);
      } else {
        largest = pack_values<from, to>(source.data + begin * static_cast<std::int64_t>(dtype_bytes(from)),
                                        destination + begin * static_cast<std::int64_t>(dtype_bytes(to)), count);
      }
    });
  });
  return largest;
}

}  // namespace qinfer::kernels::avx512
