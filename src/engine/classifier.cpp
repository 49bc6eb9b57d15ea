// See classifier.h. Sums are f64, of every eighth product each.
#include "engine/classifier.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace qinfer::engine {
namespace {

using model::Role;

double dot(const kernels::Matrix& w, std::int64_t row, std::span<const float> x) {
  constexpr std::int64_t kAtOnce = 256;  // whole blocks of every encoding
  const EncodingTraits& traits = encoding_traits(w.format.encoding);
  const auto bytes_of = [&](std::int64_t n) {
    return static_cast<std::int64_t>(encoded_bytes(traits.encoding, static_cast<std::uint64_t>(n)));
  };
  const std::byte* at = w.data + row * bytes_of(w.cols);
  double sums[8] = {};
  for (std::int64_t first = 0; first < w.cols; first += kAtOnce) {
    float values[kAtOnce];
    const std::int64_t n = std::min(kAtOnce, w.cols - first);
    traits.to_f32(at + bytes_of(first), n, values);
    for (std::int64_t i = 0; i < n; ++i)
      sums[i % 8] += static_cast<double>(values[i]) * x[static_cast<std::size_t>(first + i)];
  }
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// out = w(x).
void project(const kernels::Linear& w, std::span<const float> x, float* out) {
  for (std::int64_t j = 0; j < w.rows; ++j)
    out[j] = static_cast<float>(dot(w, j, x) + (w.bias != nullptr ? w.bias[j] : 0.0f));
}

void normalise(const float* weight, const float* bias, float eps, std::span<float> x) {
  const auto n = static_cast<double>(x.size());
  double sum = 0, squares = 0;
  for (const float value : x) sum += value;
  const double mean = sum / n;
  for (const float value : x) squares += (value - mean) * (value - mean);
  const double scale = 1 / std::sqrt(squares / n + static_cast<double>(eps));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((x[i] - mean) * scale * weight[i] + (bias != nullptr ? bias[i] : 0.0f));
}

}  // namespace

bool classify(const Model& model, std::span<const float> state, std::span<float> inner, std::span<float> out) {
  const model::ModelSpec& spec = model.spec();
  const model::Weights& w = model.weights();
  if (spec.classifier.has_dense()) {
    project(w.linear(Role::classifier_dense), state, inner.data());
    for (float& value : inner) value = spec.classifier.is_tanh ? tanh_f32(value) : gelu_erf_f32(value);
    if (spec.classifier.has_norm)
      normalise(w.vector(Role::classifier_norm), w.vector(Role::classifier_norm_bias), spec.norm_eps, inner);
    state = inner;
  }
  project(w.linear(Role::classifier_out), state, out.data());
  return std::all_of(out.begin(), out.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace qinfer::engine
