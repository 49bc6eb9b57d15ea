// ActivationBuffer for the kernel tests: f32 rows brought into the layout that a set wants and back, element by element
// as kernel_set.h defines it.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "kernel_set.h"

namespace qinfer::test {

using namespace qinfer::kernels;

/// As the backend rounds: to nearest even, subnormals to zero.
inline std::uint16_t operand_bits(float value) {
  if (std::fabs(value) < 0x1p-126f) value = std::copysign(0.0f, value);
  return f32_to_bf16(value);
}

/// n rows, everything not a number at first.
class ActivationBuffer {
 public:
  ActivationBuffer(ActivationLayout layout, std::int64_t n, std::int64_t width)
      : layout_(layout), n_(n), width_(width) {
    memory_.assign(bytes() + 64, std::byte{0xff});
    data_ = memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }
  /// In memory of the caller's, of bytes(layout, n, width).
  ActivationBuffer(ActivationLayout layout, std::int64_t n, std::int64_t width, std::byte* data)
      : layout_(layout), n_(n), width_(width), data_(data) {}
  /// Row m is at rows + m * ld; features that fill up a row of operands are zero.
  ActivationBuffer(ActivationLayout layout, const float* rows, std::int64_t n, std::int64_t width, std::int64_t ld)
      : ActivationBuffer(layout, n, width) {
    for (std::int64_t m = 0; m < n; ++m)
      for (std::int64_t k = 0; k < width; ++k) set(m, k, rows[m * ld + k]);
    fill_up();
  }
  ActivationBuffer(ActivationBuffer&&) = default;
  ActivationBuffer(const ActivationBuffer&) = delete;
  ActivationBuffer& operator=(const ActivationBuffer&) = delete;

  static std::size_t bytes(ActivationLayout layout, std::int64_t n, std::int64_t width) {
    return layout_bytes(layout, static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(width));
  }

  Activations view() { return {data_, layout_, width_}; }

  void set(std::int64_t m, std::int64_t k, float value) {
    const std::uint16_t bits = operand_bits(value);
    layout_ == ActivationLayout::bf16_panels ? std::memcpy(at(m, k), &bits, 2) : std::memcpy(at(m, k), &value, 4);
  }
  float get(std::int64_t m, std::int64_t k) const {
    float value = 0;
    std::uint16_t bits = 0;
    layout_ == ActivationLayout::bf16_panels ? std::memcpy(&bits, at(m, k), 2) : std::memcpy(&value, at(m, k), 4);
    return layout_ == ActivationLayout::bf16_panels ? bf16_to_f32(bits) : value;
  }
  std::vector<float> rows() const {
    std::vector<float> out;
    for (std::int64_t m = 0; m < n_; ++m)
      for (std::int64_t k = 0; k < width_; ++k) out.push_back(get(m, k));
    return out;
  }
  /// What fills up a row of operands becomes zero.
  void fill_up() {
    for (std::int64_t k = width_; k < padded(); ++k)
      for (std::int64_t m = 0; m < round_up_to(n_, 16); ++m) std::memset(at(m, k), 0, 2);
  }
  /// Whether it is.
  bool filled_up() const {
    for (std::int64_t k = width_; k < padded(); ++k)
      for (std::int64_t m = 0; m < n_; ++m)
        if (get(m, k) != 0) return false;
    return true;
  }

 private:
  std::size_t bytes() const { return bytes(layout_, n_, width_); }
  std::int64_t padded() const { return layout_ == ActivationLayout::bf16_panels ? round_up_to(width_, 32) : width_; }
  static std::int64_t round_up_to(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }
  std::byte* at(std::int64_t m, std::int64_t k) const {
    const std::int64_t panel = m / 16 * padded() * 16;
    switch (layout_) {
      case ActivationLayout::row_major: return data_ + (m * width_ + k) * 4;
      case ActivationLayout::f32_panels: return data_ + (panel + k * 16 + m % 16) * 4;
      case ActivationLayout::bf16_panels: return data_ + (panel + k / 2 * 32 + m % 16 * 2 + k % 2) * 2;
    }
    return nullptr;
  }

  ActivationLayout layout_;
  std::int64_t n_, width_;
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
};

inline ActivationBuffer operand(const KernelSet& set, const float* rows, std::int64_t n, std::int64_t width,
                                std::int64_t ld = 0) {
  return ActivationBuffer(set.layouts.operand_of(n), rows, n, width, ld == 0 ? width : ld);
}
/// All values the same at first.
inline ActivationBuffer residual(const KernelSet& set, std::int64_t n, std::int64_t width, float value = NAN) {
  ActivationBuffer out(set.layouts.residual_of(n), n, width);
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t k = 0; k < width; ++k) out.set(m, k, value);
  return out;
}
inline ActivationBuffer residual(const KernelSet& set, const std::vector<float>& rows, std::int64_t n,
                                 std::int64_t width) {
  return ActivationBuffer(set.layouts.residual_of(n), rows.data(), n, width, width);
}

/// Queries of n rows, [n_heads][head_dim] each: where an element of a head is.
struct Queries {
  ActivationLayout layout;
  std::int64_t head_dim, stride;
  ActivationBuffer values;

  Queries(const KernelSet& set, std::int64_t n, std::uint64_t n_heads, std::uint64_t head_dim_)
      : layout(set.layouts.query_of(n)),
        head_dim(static_cast<std::int64_t>(head_dim_)),
        stride(static_cast<std::int64_t>(query_width(layout, 1, head_dim_))),
        values(layout, n, stride * static_cast<std::int64_t>(n_heads)) {}
  /// Features that fill up a head are zero.
  Queries(const KernelSet& set, const std::vector<float>& rows, std::int64_t n, std::uint64_t n_heads,
          std::uint64_t head_dim_)
      : Queries(set, n, n_heads, head_dim_) {
    const auto heads = static_cast<std::int64_t>(n_heads);
    for (std::int64_t m = 0; m < n; ++m)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < stride; ++i)
          values.set(m, h * stride + i,
                     i < head_dim ? rows[static_cast<std::size_t>((m * heads + h) * head_dim + i)] : 0.0f);
  }
  float get(std::int64_t m, std::int64_t head, std::int64_t i) const { return values.get(m, head * stride + i); }
  /// Whether what fills up a head is zero.
  bool filled_up(std::int64_t m, std::int64_t head) const {
    for (std::int64_t i = head_dim; i < stride; ++i)
      if (get(m, head, i) != 0) return false;
    return true;
  }
};

}  // namespace qinfer::test
