// See inspect.h.
#include "engine/inspect.h"

#include <algorithm>
#include <set>

#include "model/weights.h"

namespace qinfer::engine {
namespace {

std::string joined(const std::set<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : " ").append(word);
  return text;
}

/// Parameters and types of the weights. A packed file was checked against the list of tensors when it was written, and
/// only the kernels that it was packed for take its formats; others are checked as any kernels would.
Status add_weights(const source::ModelSource& source, ModelDetails& out) {
  if (!out.packed) {
    const kernels::KernelSet* any = kernels::find_kernel_set("reference", "");  // every build and CPU has it
    const auto assumed = source.has_tensors() ? std::nullopt : std::optional(source.assumed_encoding());
    QINFER_TRY(model::plan_weights(out.spec, source, assumed, {}, *any, model::WeightsOptions()).take_status());
  }
  std::set<std::string_view> types;
  model::ActiveSum active(out.spec);
  for (const model::TensorNeed& need : model::tensors_of(out.spec)) {
    const std::uint64_t elements = static_cast<std::uint64_t>(need.rows) * static_cast<std::uint64_t>(need.cols);
    out.n_params += elements;
    active.add(need.id, elements);
    if (need.is_vector) continue;
    Encoding encoding = source.assumed_encoding();
    if (source.has_tensors()) {
      QINFER_ASSIGN(const model::TensorInfo info, source.find(need.id));
      encoding = info.packed ? info.packed->original : info.encoding;
    }
    types.insert(encoding_name(encoding));
  }
  out.n_active_params = active.active();
  out.weight_types = joined(types);
  return Status();
}

}  // namespace

Mixtures mixtures_of(const model::ModelSpec& spec) {
  const model::FfnSpec largest = spec.largest_mixture();
  Mixtures out{largest.experts, largest.top_k, 0, largest.width, largest.shared_width};
  for (const model::LayerSpec& layer : spec.layers) out.n_layers += layer.ffn.has_experts() ? 1 : 0;
  return out;
}

Result<ModelDetails> inspect_model(const source::ModelSource& source) {
  ModelDetails out;
  out.spec = source.spec();
  out.packed = !source.packed_for().empty();
  out.has_tokenizer = source.tokenizer() != nullptr;
  if (out.has_tokenizer) out.max_token_bytes = source.tokenizer()->max_token_bytes();
  out.file_bytes = source.file_bytes();
  out.spec.each_attention([&](const model::AttentionSpec& layer) {
    out.n_window_layers += layer.window != 0 ? 1 : 0;
    out.window_tokens = std::max(out.window_tokens, layer.window);
  });
  QINFER_TRY(add_weights(source, out));
  return out;
}

}  // namespace qinfer::engine
