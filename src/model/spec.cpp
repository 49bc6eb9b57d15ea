// See spec.h.
#include "model/spec.h"

#include <algorithm>

namespace qinfer::model {

void group_layers(ModelSpec& spec) {
  spec.kv_groups.clear();
  if (!spec.causal) return;
  for (const LayerSpec& layer : spec.layers) {
    const auto same = [&](const KvGroup& group) { return group.window == layer.window; };
    if (layer.has_own_kv() && std::none_of(spec.kv_groups.begin(), spec.kv_groups.end(), same))
      spec.kv_groups.push_back({layer.window, 0});
  }
  std::sort(spec.kv_groups.begin(), spec.kv_groups.end(),
            [](const KvGroup& a, const KvGroup& b) { return a.window < b.window; });
  for (LayerSpec& layer : spec.layers) {
    if (!layer.has_own_kv()) {
      const LayerSpec& source = spec.layers[static_cast<std::size_t>(layer.kv_source)];
      layer.kv_group = source.kv_group;
      layer.kv_index = source.kv_index;
      continue;
    }
    for (std::uint32_t i = 0; i < spec.kv_groups.size(); ++i)
      if (spec.kv_groups[i].window == layer.window) layer.kv_group = i;
    layer.kv_index = spec.kv_groups[layer.kv_group].n_layers++;
  }
}

}  // namespace qinfer::model
