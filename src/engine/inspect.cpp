// See inspect.h.
#include "engine/inspect.h"

#include <algorithm>
#include <set>

namespace qinfer::engine {
namespace {

std::string joined(const std::set<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : " ").append(word);
  return text;
}

/// Parameters and types of the weights, by the list of tensors that the spec asks for. A packed file was checked
/// against it when it was written, and only the kernels it was packed for take its formats: there the list comes from
/// the spec.
Status add_weights(const ModelFiles& files, ModelDetails& out) {
  const kernels::KernelSet* any = kernels::find_kernel_set("reference", "");  // every build and CPU has it
  const formats::Checkpoint* checkpoint = files.packed ? nullptr : files.tensors();
  QINFER_ASSIGN(const model::WeightsPlan plan,
                model::plan_weights(files.spec, checkpoint, files.assumed_dtype, *any, model::WeightsOptions()));
  out.n_params = out.n_active_params = plan.n_params;
  std::set<std::string_view> types;
  if (files.packed) {
    for (const auto& [name, tensor] : files.packed->tensors)
      if (tensor.rows > 1) types.insert(dtype_name(tensor.source_dtype));
  } else {
    for (const model::WeightItem& item : plan.items)
      if (!item.is_vector) types.insert(dtype_name(item.file_dtype));
  }
  out.weight_types = joined(types);
  return Status();
}

}  // namespace

Result<ModelDetails> inspect_model(const ModelFiles& files) {
  ModelDetails out;
  out.spec = files.spec;
  out.packed = files.packed.has_value();
  out.has_tokenizer = files.tokenizer != nullptr;
  if (out.has_tokenizer) out.max_token_bytes = files.tokenizer->max_token_bytes();
  out.file_bytes = files.file_bytes;
  for (const model::LayerSpec& layer : files.spec.layers) {
    out.n_window_layers += layer.window != 0 ? 1 : 0;
    out.window_tokens = std::max(out.window_tokens, layer.window);
  }
  QINFER_TRY(add_weights(files, out));
  return out;
}

}  // namespace qinfer::engine
