// See spec.h.
#include "model/spec.h"

#include <algorithm>

#include "base/format.h"

namespace qinfer::model {

void group_layers(ModelSpec& spec) {
  spec.kv_groups.clear();
  if (!spec.causal) return;
  const auto is_kept_in = [](const AttentionSpec& attention, const KvGroup& group) {
    return group.window == attention.window && group.n_kv_heads == attention.n_kv_heads &&
           group.head_dim == attention.head_dim;
  };
  spec.each_attention([&](const AttentionSpec& attention) {
    const auto same = [&](const KvGroup& group) { return is_kept_in(attention, group); };
    if (attention.has_own_kv() && std::none_of(spec.kv_groups.begin(), spec.kv_groups.end(), same))
      spec.kv_groups.push_back({attention.window, 0, attention.n_kv_heads, attention.head_dim});
  });
  std::stable_sort(spec.kv_groups.begin(), spec.kv_groups.end(),
                   [](const KvGroup& a, const KvGroup& b) { return a.window < b.window; });
  spec.each_attention([&](AttentionSpec& attention) {
    if (!attention.has_own_kv()) {
      const AttentionSpec& source = *spec.layers[static_cast<std::size_t>(attention.kv_source)].attention();
      attention.kv_group = source.kv_group;
      attention.kv_index = source.kv_index;
      return;
    }
    for (std::uint32_t i = 0; i < spec.kv_groups.size(); ++i)
      if (is_kept_in(attention, spec.kv_groups[i])) attention.kv_group = i;
    attention.kv_index = spec.kv_groups[attention.kv_group].n_layers++;
  });
}

Status keep_layers(ModelSpec& spec, std::uint32_t first, std::uint32_t n) {
  const std::uint32_t all = spec.n_layers(), most = first < all ? all - first : 0;
  if (most == 0 || n > most)
    return error(Code::invalid_argument, "first_layer is {} and n_layers {}, but the model has {} layers", first, n,
                 all);
  const std::uint32_t kept = n == 0 ? most : n;
  if (kept == all) return Status();
  if (!spec.causal)
    return error(Code::unsupported, "{} is an encoder, which is not cut into stages", spec.architecture);
  const auto begin = spec.layers.begin() + first;
  spec.layers = std::vector<LayerSpec>(begin, begin + kept);
  spec.first_layer = first;
  spec.whole_layers = all;
  if (spec.gives_hidden()) spec.classifier = {}, spec.embedding = {}, spec.score = {};
  Status status;
  std::uint32_t layer = first;
  spec.each_attention([&](AttentionSpec& attention) {
    if (!attention.has_own_kv()) {
      if (attention.kv_source < static_cast<std::int32_t>(first))
        status = error(Code::unsupported, "layer {} reads keys and values of layer {}, which must be in the same stage",
                       layer, attention.kv_source);
      attention.kv_source -= static_cast<std::int32_t>(first);
    }
    ++layer;
  });
  if (status.ok()) group_layers(spec);
  return status;
}

std::uint64_t ModelSpec::rope_values(std::uint32_t n) const {
  std::uint64_t values = 0;
  for (std::uint32_t i = 0; i < n; ++i) values += ropes[i].head_dim;
  return values;
}

AttentionSpec ModelSpec::largest_attention() const {
  AttentionSpec largest;
  each_attention([&](const AttentionSpec& attention) {
    if (largest.n_heads == 0) largest = attention;
    largest.n_heads = std::max(largest.n_heads, attention.n_heads);
    largest.n_kv_heads = std::max(largest.n_kv_heads, attention.n_kv_heads);
    largest.head_dim = std::max(largest.head_dim, attention.head_dim);
    largest.window = std::max(largest.window, attention.window);
    largest.qk_norm = std::max(largest.qk_norm, attention.qk_norm);
  });
  return largest;
}

std::uint32_t ModelSpec::widest_queries() const {
  std::uint32_t widest = 0;
  each_attention([&](const AttentionSpec& attention) { widest = std::max(widest, attention.q_dim()); });
  return widest;
}

Status ModelSpec::check_gives_logits() const {
  if (gives_logits()) return Status();
  if (!causal) return error(Code::unsupported, "{} is an encoder: it gives embeddings, not logits", architecture);
  if (gives_hidden())
    return error(Code::unsupported, "layers {} to {} of {} are a stage that gives hidden states, not logits",
                 first_layer, first_layer + n_layers() - 1, whole_layers);
  return error(Code::unsupported, "the model's files have no lm_head.weight: it gives embeddings, not logits");
}

bool ModelSpec::limit_context(std::uint32_t tokens) {
  bool changed = false;
  for (RopeSpec& rope : ropes) {
    if (!rope.long_context || tokens > rope.original_context) continue;
    rope.long_context = false;
    context_tokens = std::min(context_tokens, rope.original_context);
    changed = true;
  }
  return changed;
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
  for (const float divisor : rope.long_divisors) out.add("long_divisor", divisor, 0.0f);
  out.add("long_context", rope.long_context, false);
}

void add_rules(const kernels::HeadRules& rules, const kernels::HeadRules& off, Text& out) {
  kernels::HeadRules::each([&](std::string_view name, auto rule) { out.add(name, rules.*rule, off.*rule); });
}

void add_norms(const NormPlaces& norms, const NormPlaces& off, Text& out) {
  out.add("no_attention_norm", !norms.before_attention, !off.before_attention);
  out.add("attention_post_norm", norms.after_attention, off.after_attention);
  out.add("no_ffn_norm", !norms.before_ffn, !off.before_ffn);
  out.add("ffn_post_norm", norms.after_ffn, off.after_ffn);
  out.add("attention_norm_replaces", norms.attention_replaces, off.attention_replaces);
  out.add("ffn_norm_replaces", norms.ffn_replaces, off.ffn_replaces);
}

/// Where a layer is not as the first one is, of which all this is told once, before the layers.
void add_differences(const LayerSpec& layer, const LayerSpec& first, Text& out) {
  const AttentionSpec* attention = layer.attention();
  const AttentionSpec usual = first.attention() != nullptr ? *first.attention() : AttentionSpec();
  if (attention != nullptr) {
    out.add("heads", attention->n_heads, usual.n_heads);
    out.add("kv_heads", attention->n_kv_heads, usual.n_kv_heads);
    out.add("head_dim", attention->head_dim, usual.head_dim);
    out.add("qkv_bias", attention->qkv_bias, usual.qkv_bias);
    out.add("o_bias", attention->o_bias, usual.o_bias);
    out.add("qk_norm", static_cast<std::int32_t>(attention->qk_norm), static_cast<std::int32_t>(usual.qk_norm));
    add_rules(attention->rules, usual.rules, out);
    out.add("attention_scale", attention->scale, usual.scale);
    out.add("attention_softcap", attention->softcap, usual.softcap);
  }
  add_norms(layer.norms, first.norms, out);
  out.add("residual_scale", layer.residual_scale, first.residual_scale);
}

void add_layer(const LayerSpec& layer, const LayerSpec& first, Text& out) {
  out.begin("layer");
  out.add("ffn", layer.ffn.width, 0u);
  out.add("activation", static_cast<std::int32_t>(layer.ffn.activation), 0);
  out.add("no_up", !layer.ffn.has_up, false);
  out.add("ffn_bias", layer.ffn.bias, false);
  out.add("experts", layer.ffn.experts, 0u);
  out.add("top_k", layer.ffn.top_k, 0u);
  out.add("normalise", layer.ffn.normalise, false);
  out.add("shared_width", layer.ffn.shared_width, 0u);
  if (const AttentionSpec* attention = layer.attention()) {
    out.add("window", attention->window, 0u);
    out.add("rope", attention->rope, 0u);
    out.add("no_rope", attention->no_rope, false);
    out.add("kv_source", attention->kv_source, -1);
  }
  add_differences(layer, first, out);
}

void add_encoder(const ModelSpec& spec, Text& out) {
  out.add("norm_kind", static_cast<std::int32_t>(spec.norm_kind), 0);
  out.add("positions", spec.n_positions, 0u);
  out.add("first_position", spec.first_position, 0u);
  out.add("types", spec.n_types, 0u);
  out.add("distances", spec.has_distances, false);
  const ClassifierSpec& classifier = spec.classifier;
  if (classifier.n_labels == 0) return;
  out.add("labels", classifier.n_labels, 0u);
  out.add("classifier_last", classifier.is_last, false);
  if (classifier.is_last) return;
  out.add("classifier_tanh", classifier.is_tanh, false);
  out.add("classifier_dense_bias", classifier.dense_bias, false);
  out.add("classifier_norm", classifier.has_norm, false);
  out.add("classifier_mean", classifier.mean, false);
}

/// How long a text may be, and where prompts are, changes no result.
void add_embedding(const ModelSpec& spec, Text& out) {
  const EmbeddingSpec& embedding = spec.embedding;
  out.add("mean_pooling", spec.causal && embedding.pooling == Pooling::mean, false);
  out.add("first_pooling", embedding.pooling == Pooling::first, false);
  out.add("last_pooling", !spec.causal && embedding.pooling == Pooling::last, false);
  for (const DenseSpec& dense : embedding.dense) {
    out.add("dense", dense.outputs, 0u);
    out.add("dense_bias", dense.bias, false);
    out.add("dense_tanh", dense.tanh, false);
  }
  out.add("score", static_cast<std::int32_t>(spec.score.kind), 0);
  out.add("yes", spec.score.yes, -1);
  out.add("no", spec.score.no, -1);
}

}  // namespace

std::string canonical_text(const ModelSpec& spec) {
  Text out;
  const LayerSpec first = spec.layers.empty() ? LayerSpec() : spec.layers.front();
  const AttentionSpec attention = first.attention() != nullptr ? *first.attention() : AttentionSpec();
  out.begin("model");
  out.add("vocab", spec.n_vocab, 0u);
  out.add("embd", spec.n_embd, 0u);
  out.add("heads", attention.n_heads, 0u);
  out.add("kv_heads", attention.n_kv_heads, 0u);
  out.add("head_dim", attention.head_dim, 0u);
  out.add("context", spec.context_tokens, 0u);
  out.add("norm_eps", spec.norm_eps, 0.0f);
  out.add("qkv_bias", attention.qkv_bias, false);
  out.add("o_bias", attention.o_bias, false);
  out.add("qk_norm", attention.qk_norm != QkNorm::none, false);
  out.add("qk_norm_whole", attention.qk_norm == QkNorm::whole, false);
  add_rules(attention.rules, {}, out);
  out.add("tied", spec.tied_embeddings, false);
  out.add("encoder", !spec.causal, false);
  out.add("no_lm_head", spec.no_lm_head, false);
  out.add("first_layer", spec.first_layer, 0u);
  out.add("whole_layers", spec.whole_layers, 0u);
  add_embedding(spec, out);
  add_norms(first.norms, NormPlaces(), out);
  out.add("embedding_scale", spec.embedding_scale, 1.0f);
  out.add("attention_scale", attention.scale, 0.0f);
  out.add("attention_softcap", attention.softcap, 0.0f);
  out.add("logit_softcap", spec.logit_softcap, 0.0f);
  out.add("residual_scale", first.residual_scale, 1.0f);
  out.add("logit_scale", spec.logit_scale, 1.0f);
  add_encoder(spec, out);
  for (const RopeSpec& rope : spec.ropes) add_rope(rope, out);
  for (const LayerSpec& layer : spec.layers) add_layer(layer, first, out);
  out.begin("tokens");
  out.add("bos", spec.bos_token, -1);
  for (std::size_t i = 0; i + spec.n_found_ends < spec.end_tokens.size(); ++i) out.add("end", spec.end_tokens[i], -1);
  return out.take();
}

}  // namespace qinfer::model
