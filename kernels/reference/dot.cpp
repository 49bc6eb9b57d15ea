// Widening of stored weights and the inner product under every projection.
#include <cstring>

#include "reference.h"

namespace qinfer::kernels::reference {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr int kRowsPerStep = 2;  // 2 x 4 sums and 4 weights fill the 16 registers of the x86-64 baseline

template <typename Load>
void widen_16bit(const std::byte* source, std::int64_t n, float* out, Load load) {
  // Rows of a checkpoint may start at any byte: copy a few cache lines at a time into an aligned buffer.
  std::uint16_t chunk[256];
  for (std::int64_t i = 0; i < n; i += 256) {
    const std::int64_t count = n - i < 256 ? n - i : 256;
    std::memcpy(chunk, source + 2 * i, static_cast<std::size_t>(count) * 2);
    for (std::int64_t j = 0; j < count; ++j) out[i + j] = load(chunk[j]);
  }
}

/// Four floats that compilers keep in one register of whatever vector width the baseline has; plain arrays of lanes end
/// up in memory (3 times slower with g++ 12).
using Float4 = float __attribute__((vector_size(16)));
constexpr int kQuads = kLanes / 4;

inline Float4 load4(const float* at) {
  Float4 value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <int kCount>
void dot_step(const Activations& x, std::int64_t first, const float* w, std::int64_t cols, float* out,
              std::int64_t stride) {
  Float4 sums[kCount][kQuads] = {};
  const float* rows[kCount];
  for (int m = 0; m < kCount; ++m) rows[m] = x.row(first + m);
  std::int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) {
#pragma GCC unroll 4
    for (int q = 0; q < kQuads; ++q) {
      const Float4 weights = load4(w + k + 4 * q);
#pragma GCC unroll 2
      for (int m = 0; m < kCount; ++m) sums[m][q] += load4(rows[m] + k + 4 * q) * weights;
    }
  }
  for (int m = 0; m < kCount; ++m) {
    float lanes[kLanes];
    std::memcpy(lanes, sums[m], sizeof lanes);
    for (int j = 0; k + j < cols; ++j) lanes[j] += rows[m][k + j] * w[k + j];
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    }
    out[(first + m) * stride] = lanes[0];
  }
}

}  // namespace

void widen(const std::byte* source, DType dtype, std::int64_t n, float* out) {
  switch (dtype) {
    case DType::f32: std::memcpy(out, source, static_cast<std::size_t>(n) * 4); break;
    case DType::f16: widen_16bit(source, n, out, [](std::uint16_t bits) { return f16_to_f32(bits); }); break;
    case DType::bf16: widen_16bit(source, n, out, [](std::uint16_t bits) { return bf16_to_f32(bits); }); break;
  }
}

void narrow(const float* source, std::int64_t n, DType dtype, std::byte* out) {
  if (dtype == DType::f32) {
    std::memcpy(out, source, static_cast<std::size_t>(n) * 4);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint16_t bits = dtype == DType::f16 ? f32_to_f16(source[i]) : f32_to_bf16(source[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

std::size_t weight_row_bytes(std::int64_t cols) { return round_up(static_cast<std::uint64_t>(cols) * 4, 64); }

const float* widen_row(const Matrix& w, std::int64_t row, float* scratch) {
  const std::byte* source =
      w.data + row * static_cast<std::int64_t>(encoded_bytes(w.format.encoding, static_cast<std::uint64_t>(w.cols)));
  if (w.format.encoding == Encoding::f32 && reinterpret_cast<std::uintptr_t>(source) % alignof(float) == 0)
    return reinterpret_cast<const float*>(source);
  encoding_traits(w.format.encoding).to_f32(source, w.cols, scratch);
  return scratch;
}

void dot_rows(const Activations& x, std::int64_t n, const float* w, std::int64_t cols, float* out,
              std::int64_t out_stride) {
  std::int64_t m = 0;
  for (; m + kRowsPerStep <= n; m += kRowsPerStep) dot_step<kRowsPerStep>(x, m, w, cols, out, out_stride);
  for (; m < n; ++m) dot_step<1>(x, m, w, cols, out, out_stride);
}

}  // namespace qinfer::kernels::reference
