// See dense.h. A vector is one row, which every kernel set takes row-major, and computes in one way.
#include "engine/dense.h"

#include <algorithm>

#include "base/math.h"
#include "engine/phases.h"

namespace qinfer::engine {

void apply_dense(const Model& model, std::span<const float> pooled, std::span<float> out) {
  Runtime& runtime = model.runtime();
  const Lock lock(runtime.eval_mutex());
  const ScratchLayout& layout = model.scratch_layout();
  const kernels::KernelSet& kernels = model.kernels();
  float *from = reinterpret_cast<float*>(model.scratch() + layout.dense), *to = from + layout.dense_width;
  std::copy(pooled.begin(), pooled.end(), from);
  const std::span<const model::DenseSpec> layers = model.spec().embedding.dense;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const kernels::LinearArgs args{
        1,
        {from, kernels::ActivationLayout::row_major, layers[i].inputs},
        model.weights().linear(model::kDenseRoles[i].matrix),
        false,
        {to, kernels::ActivationLayout::row_major, layers[i].outputs},
        {model.scratch() + layout.shared, model.scratch() + layout.per_worker, layout.per_worker_bytes}};
    runtime.team().run(
        [&](std::int32_t worker) { run_phases(runtime.team(), kernels.linear, args, worker, [](std::int32_t) {}); });
    if (layers[i].tanh) std::transform(to, to + layers[i].outputs, to, tanh_f32);
    std::swap(from, to);
  }
  std::copy_n(from, out.size(), out.begin());
}

}  // namespace qinfer::engine
