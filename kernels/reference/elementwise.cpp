// Embedding lookup and norms: one unit per row.
#include <algorithm>
#include <cmath>

#include "common/table_rows.h"
#include "reference.h"

namespace qinfer::kernels::reference {

std::int64_t embed_units(const EmbedArgs& args, std::int32_t) { return args.n; }

void embed(const EmbedArgs& args, std::int32_t, Slice slice) {
  const std::int64_t width = args.table.cols;
  const auto row_bytes =
      static_cast<std::int64_t>(encoded_bytes(args.table.format.encoding, static_cast<std::uint64_t>(width)));
  for (std::int64_t m = slice.begin; m < slice.end; ++m) {
    float* out = args.out.row(m);
    encoding_traits(args.table.format.encoding).to_f32(args.table.data + args.tokens[m] * row_bytes, width, out);
    if (args.scale != 1.0f)
      for (std::int64_t i = 0; i < width; ++i) out[i] *= args.scale;
    for_added_values(args, m, [&](std::int64_t k, float value) { out[k] += value; });
  }
}

namespace {

/// The mean of term(k) for k in [0, width): sixteen sums of every sixteenth, added pairwise.
template <typename Term>
float mean_of(std::int64_t width, Term term) {
  constexpr int kLanes = 16;
  float lanes[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= width; k += kLanes)
    for (int j = 0; j < kLanes; ++j) lanes[j] += term(k + j);
  for (int j = 0; k + j < width; ++j) lanes[j] += term(k + j);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0] / static_cast<float>(width);
}

float inverse_rms(const float* x, std::int64_t width, float eps) {
  return 1.0f / std::sqrt(mean_of(width, [x](std::int64_t k) { return x[k] * x[k]; }) + eps);
}

/// LayerNorm.
void centred_row(const NormArgs& args, const float* x, float* out) {
  const float mean = mean_of(args.width, [x](std::int64_t k) { return x[k]; });
  const float variance = mean_of(args.width, [&](std::int64_t k) { return (x[k] - mean) * (x[k] - mean); });
  const float scale = 1.0f / std::sqrt(variance + args.eps);
  for (std::int64_t i = 0; i < args.width; ++i) {
    float value = (x[i] - mean) * scale * args.weight[i];
    if (args.bias != nullptr) value += args.bias[i];
    out[i] = args.accumulate ? out[i] + value : value;
  }
}

}  // namespace

void rms_norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out) {
  const float scale = inverse_rms(x, width, eps);
  for (std::int64_t i = 0; i < width; ++i) out[i] = x[i] * scale * weight[i];
}

std::int64_t norm_units(const NormArgs& args, std::int32_t) { return args.n; }

void norm(const NormArgs& args, std::int32_t, Slice slice) {
  for (std::int64_t m = slice.begin; m < slice.end; ++m) {
    const std::int64_t source = args.gather != nullptr ? args.gather[m] : m;
    const float* x = args.x.row(source);
    float* out = args.out.row(m);
    if (args.weight == nullptr) {
      std::copy_n(x, args.width, out);
      continue;
    }
    if (args.centred) {
      centred_row(args, x, out);
    } else if (!args.accumulate) {
      rms_norm_row(x, args.weight, args.width, args.eps, out);
    } else {
      const float scale = inverse_rms(x, args.width, args.eps);
      for (std::int64_t i = 0; i < args.width; ++i) out[i] += x[i] * scale * args.weight[i];
    }
    if (args.replaces) std::copy_n(out, args.width, args.x.row(source));
  }
}

}  // namespace qinfer::kernels::reference
