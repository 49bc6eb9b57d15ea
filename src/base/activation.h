// The non-linearity of a feed-forward network: what a model's description and the kernels have to agree on.
#pragma once

#include <cstdint>

namespace qinfer {

/// silu(x) = x * sigmoid(x); gelu_tanh(x) = x * sigmoid(2 u) with u = sqrt(2 / pi) * (x + 0.044715 x^3), which is the
/// approximation by tanh of Hendrycks and Gimpel 2016, section 2, written without one; gelu_erf(x) = x * P(X <= x) for
/// X of the normal distribution, which that approximates.
enum class Activation : std::uint8_t { silu, gelu_tanh, gelu_erf };

}  // namespace qinfer
