// Embedding lookup and RMSNorm: one unit per row.
#include <algorithm>
#include <cmath>

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
    if (args.scale == 1.0f) continue;
    for (std::int64_t i = 0; i < width; ++i) out[i] *= args.scale;
  }
}

namespace {

float inverse_rms(const float* x, std::int64_t width, float eps) {
  constexpr int kLanes = 16;
  float lanes[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= width; k += kLanes)
    for (int j = 0; j < kLanes; ++j) lanes[j] += x[k + j] * x[k + j];
  for (int j = 0; k + j < width; ++j) lanes[j] += x[k + j] * x[k + j];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return 1.0f / std::sqrt(lanes[0] / static_cast<float>(width) + eps);
}

}  // namespace

void rms_norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out) {
  const float scale = inverse_rms(x, width, eps);
  for (std::int64_t i = 0; i < width; ++i) out[i] = x[i] * scale * weight[i];
}

std::int64_t rms_norm_units(const NormArgs& args, std::int32_t) { return args.n; }

void rms_norm(const NormArgs& args, std::int32_t, Slice slice) {
  for (std::int64_t m = slice.begin; m < slice.end; ++m) {
    const std::int64_t source = args.gather != nullptr ? args.gather[m] : m;
    const float* x = args.x.row(source);
    float* out = args.out.row(m);
    if (args.weight == nullptr) {
      std::copy_n(x, args.width, out);
      continue;
    }
    if (!args.accumulate) {
      rms_norm_row(x, args.weight, args.width, args.eps, out);
      continue;
    }
    const float scale = inverse_rms(x, args.width, args.eps);
    for (std::int64_t i = 0; i < args.width; ++i) out[i] += x[i] * scale * args.weight[i];
  }
}

}  // namespace qinfer::kernels::reference
