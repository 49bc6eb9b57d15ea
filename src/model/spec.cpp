// See spec.h.
#include "model/spec.h"

#include <algorithm>

#include "base/format.h"

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

Status ModelSpec::check_gives_logits() const {
  if (gives_logits()) return Status();
  if (!causal) return error(Code::unsupported, "{} is an encoder: it gives embeddings, not logits", architecture);
  return error(Code::unsupported, "the model's files have no lm_head.weight: it gives embeddings, not logits");
}

std::uint32_t ModelSpec::ffn_width() const {
  std::uint32_t widest = 0;
  for (const LayerSpec& layer : layers)
    if (!layer.ffn.has_experts()) widest = std::max(widest, layer.ffn.width);
  return widest;
}

FfnSpec ModelSpec::largest_mixture() const {
  FfnSpec largest;
  for (const LayerSpec& layer : layers) {
    if (!layer.ffn.has_experts()) continue;
    largest.width = std::max(largest.width, layer.ffn.width);
    largest.experts = std::max(largest.experts, layer.ffn.experts);
    largest.top_k = std::max(largest.top_k, layer.ffn.top_k);
    largest.shared_width = std::max(largest.shared_width, layer.ffn.shared_width);
  }
  return largest;
}

namespace {

class Text {
 public:
  /// Nothing is written where the value is the one that means "off".
  template <typename T>
  void add(std::string_view name, T value, T off) {
    if (value == off) return;
    if constexpr (std::is_floating_point_v<T>) {
      text_ += format_text(" {}={:a}", name, value);
    } else {
      text_ += format_text(" {}={}", name, static_cast<std::int64_t>(value));
    }
  }
  void begin(std::string_view name) { text_ += format_text("\n{}", name); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_rope(const RopeSpec& rope, Text& out) {
  out.begin("rope");
  out.add("theta", rope.theta, 0.0);
  out.add("rotary_dims", rope.rotary_dims, 0u);
  out.add("scaling", static_cast<std::int32_t>(rope.scaling), 0);
  if (rope.scaling == RopeScaling::none) return;
  out.add("factor", rope.factor, 0.0);
  out.add("low_freq_factor", rope.low_freq_factor, 0.0);
  out.add("high_freq_factor", rope.high_freq_factor, 0.0);
  out.add("beta_fast", rope.beta_fast, 0.0);
  out.add("beta_slow", rope.beta_slow, 0.0);
  out.add("attention_factor", rope.attention_factor, 0.0);
  out.add("truncate", rope.truncate, false);
  out.add("original_context", rope.original_context, 0u);
  for (const float divisor : rope.divisors) out.add("divisor", divisor, 0.0f);
}

void add_layer(const LayerSpec& layer, Text& out) {
  out.begin("layer");
  out.add("ffn", layer.ffn.width, 0u);
  out.add("activation", static_cast<std::int32_t>(layer.ffn.activation), 0);
  out.add("ffn_bias", layer.ffn.bias, false);
  out.add("experts", layer.ffn.experts, 0u);
  out.add("top_k", layer.ffn.top_k, 0u);
  out.add("normalise", layer.ffn.normalise, false);
  out.add("shared_width", layer.ffn.shared_width, 0u);
  out.add("window", layer.window, 0u);
  out.add("rope", layer.rope, 0u);
  out.add("no_rope", layer.no_rope, false);
  out.add("kv_source", layer.kv_source, -1);
}

}  // namespace

std::string canonical_text(const ModelSpec& spec) {
  Text out;
  out.begin("model");
  out.add("vocab", spec.n_vocab, 0u);
  out.add("embd", spec.n_embd, 0u);
  out.add("heads", spec.n_heads, 0u);
  out.add("kv_heads", spec.n_kv_heads, 0u);
  out.add("head_dim", spec.head_dim, 0u);
  out.add("context", spec.context_tokens, 0u);
  out.add("norm_eps", spec.norm_eps, 0.0f);
  out.add("qkv_bias", spec.qkv_bias, false);
  out.add("o_bias", spec.o_bias, false);
  out.add("qk_norm", spec.qk_norm, false);
  out.add("qk_norm_whole", spec.qk_norm_whole, false);
  out.add("tied", spec.tied_embeddings, false);
  out.add("encoder", !spec.causal, false);
  out.add("no_lm_head", spec.no_lm_head, false);
  out.add("mean_pooling", spec.mean_pooling, false);
  out.add("no_attention_norm", !spec.norms.before_attention, false);
  out.add("attention_post_norm", spec.norms.after_attention, false);
  out.add("no_ffn_norm", !spec.norms.before_ffn, false);
  out.add("ffn_post_norm", spec.norms.after_ffn, false);
  out.add("embedding_scale", spec.embedding_scale, 1.0f);
  out.add("attention_scale", spec.attention_scale, 0.0f);
  out.add("attention_softcap", spec.attention_softcap, 0.0f);
  out.add("logit_softcap", spec.logit_softcap, 0.0f);
  out.add("residual_scale", spec.residual_scale, 1.0f);
  out.add("logit_scale", spec.logit_scale, 1.0f);
  for (const RopeSpec& rope : spec.ropes) add_rope(rope, out);
  for (const LayerSpec& layer : spec.layers) add_layer(layer, out);
  out.begin("tokens");
  out.add("bos", spec.bos_token, -1);
  for (std::size_t i = 0; i + spec.n_found_ends < spec.end_tokens.size(); ++i) out.add("end", spec.end_tokens[i], -1);
  return out.take();
}

}  // namespace qinfer::model
