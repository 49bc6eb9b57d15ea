// See rope.h. Formulas as in transformers' modeling_rope_utils: linear (kaiokendev 2023), llama3 (Llama 3.1), yarn
// (Peng et al. 2023, sections 3.1 to 3.4) and longrope (Ding et al. 2024).
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace qinfer::model {
namespace {

double llama3_frequency(const RopeSpec& rope, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double original = rope.original_context;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

/// The dimension whose wave turns `rotations` times within the original context.
double yarn_dimension(const RopeSpec& rope, double head_dim, double rotations) {
  return head_dim * std::log(rope.original_context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
}

struct Ramp {
  double low, high;
  double at(double i) const { return std::clamp((i - low) / (high - low), 0.0, 1.0); }
};

Ramp yarn_ramp(const RopeSpec& rope, double head_dim) {
  double low = yarn_dimension(rope, head_dim, rope.beta_fast), high = yarn_dimension(rope, head_dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1);
  if (low == high) high += 0.001;
  return {low, high};
}

}  // namespace

std::vector<std::uint16_t> partial_rotary_order(std::uint32_t head_dim, std::uint32_t rotary_dims) {
  std::vector<std::uint16_t> order;
  order.reserve(head_dim);
  const auto add = [&order](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) order.push_back(static_cast<std::uint16_t>(i));
  };
  const std::uint32_t middle = rotary_dims + (head_dim - rotary_dims) / 2;  // of those that are not turned
  add(0, rotary_dims / 2);
  add(rotary_dims, middle);
  add(rotary_dims / 2, rotary_dims);
  add(middle, head_dim);
  return order;
}

std::vector<float> rope_frequencies(const RopeSpec& rope, std::uint32_t head_dim) {
  std::vector<float> frequencies(head_dim / 2);
  const std::uint32_t dims = rope.rotary_dims != 0 ? rope.rotary_dims : head_dim;
  const Ramp ramp = rope.scaling == RopeScaling::yarn ? yarn_ramp(rope, dims) : Ramp{0, 1};
  for (std::uint32_t i = 0; i < dims / 2; ++i) {
    double frequency = 1.0 / std::pow(rope.theta, 2.0 * i / dims);
    switch (rope.scaling) {
      case RopeScaling::none: break;
      case RopeScaling::linear: frequency /= rope.factor; break;
      case RopeScaling::divisors: frequency /= static_cast<double>(rope.divisors[i]); break;
      case RopeScaling::longrope:
        frequency /= static_cast<double>(rope.long_context ? rope.long_divisors[i] : rope.divisors[i]);
        break;
      case RopeScaling::llama3: frequency = llama3_frequency(rope, frequency); break;
      case RopeScaling::yarn: {
        const double t = ramp.at(i);
        frequency = frequency / rope.factor * t + frequency * (1 - t);
        break;
      }
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

std::vector<float> llama3_divisors(const RopeSpec& rope, std::uint32_t head_dim) {
  const std::uint32_t dims = rope.rotary_dims != 0 ? rope.rotary_dims : head_dim;
  std::vector<float> divisors(dims / 2);
  for (std::uint32_t i = 0; i < dims / 2; ++i) {
    const double frequency = 1.0 / std::pow(rope.theta, 2.0 * i / dims);
    divisors[i] = static_cast<float>(frequency / llama3_frequency(rope, frequency));
  }
  return divisors;
}

void fill_rope_table(const RopeSpec& rope, std::span<const float> frequencies, std::uint32_t first, std::uint32_t last,
                     float* table) {
  const std::size_t half = frequencies.size(), turned = rope.rotary_dims != 0 ? rope.rotary_dims / 2 : half;
  for (std::uint32_t position = first; position < last; ++position) {
    float* row = table + std::size_t{position} * half * 2;
    for (std::size_t i = turned; i < half; ++i) {
      row[2 * i] = 1;
      row[2 * i + 1] = 0;
    }
    for (std::size_t i = 0; i < turned; ++i) {
      const double angle = static_cast<float>(position) * frequencies[i];
      row[2 * i] = static_cast<float>(std::cos(angle) * rope.attention_factor);
      row[2 * i + 1] = static_cast<float>(std::sin(angle) * rope.attention_factor);
    }
  }
}

}  // namespace qinfer::model
