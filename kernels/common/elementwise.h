// Elementwise steps as algorithms over a thin set of vector operations, so that each is written once.
//
// A backend brings Ops: a type V (one value, or one register of them) and static functions over it, mul, mul_add and
// mul_sub (a * b + c and a * b - c, rounded once or twice as the backend does), silu, gelu_tanh, gelu_erf and tanh.
// Sums over many values (norms, softmax) are not here: their order of additions follows from how a backend has its
// values in registers.
#pragma once

#include <cstdint>

#include "base/activation.h"

namespace qinfer::kernels {
namespace {  // files with different instruction sets include this header

/// Rotary position embedding in the half-rotation form: x' = x cos - y sin and y' = y cos + x sin for the pairs (x, y)
/// = (i, i + head_dim / 2). Head says how a head is stored: `kStep` features at a time, load(i, n) and store(i, n, v)
/// of the n features that there are from i on (or any step of them), and rope(i, n, cos, sin).
template <typename Ops, typename Head>
inline void rotate(const Head& head, std::int64_t head_dim) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t i = 0; i < half; i += Head::kStep) {
    const std::int64_t n = half - i;
    typename Ops::V cos, sin;
    head.rope(i, n, cos, sin);
    const typename Ops::V x = head.load(i, n), y = head.load(half + i, n);
    head.store(i, n, Ops::mul_sub(x, cos, Ops::mul(y, sin)));
    head.store(half + i, n, Ops::mul_add(y, cos, Ops::mul(x, sin)));
  }
}

template <typename Ops>
inline typename Ops::V activated(Activation activation, typename Ops::V x) {
  switch (activation) {
    case Activation::silu: break;
    case Activation::gelu_tanh: return Ops::gelu_tanh(x);
    case Activation::gelu_erf: return Ops::gelu_erf(x);
  }
  return Ops::silu(x);
}

/// activation(gate) * up.
template <typename Ops>
inline typename Ops::V gated(Activation activation, typename Ops::V gate, typename Ops::V up) {
  return Ops::mul(activated<Ops>(activation, gate), up);
}

/// cap * tanh(x * factor), where `factor` is a scale divided by the cap.
template <typename Ops>
inline typename Ops::V soft_capped(typename Ops::V x, typename Ops::V factor, typename Ops::V cap) {
  return Ops::mul(cap, Ops::tanh(Ops::mul(x, factor)));
}

}  // namespace
}  // namespace qinfer::kernels
