// See gguf_keys.h.
#include "source/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/rope.h"

namespace qinfer::source {
namespace {

using model::RopeScaling;
using model::RopeSpec;

class Writer {
 public:
  Writer(const model::ModelSpec& spec, const GgufArchitecture& architecture, formats::GgufWriter& out)
      : spec_(spec), keys_(architecture, out) {}

  void run() {
    add_sizes();
    add_rope();
    add_experts();
    // A layer that sees to both sides has half of what files state, and the token itself.
    const std::uint32_t window = attention_.window;
    if (window != 0) u32("attention.sliding_window", spec_.causal ? window : 2 * (window - 1));
    if (attention_.softcap != 0) f32("attn_logit_softcapping", attention_.softcap);
    if (spec_.logit_softcap != 0) f32("final_logit_softcapping", spec_.logit_softcap);
    if (keys_.architecture().write_own != nullptr) keys_.architecture().write_own(spec_, keys_);
  }

 private:
  void u32(std::string_view name, std::uint32_t value) { keys_.u32(name, value); }
  void f32(std::string_view name, double value) { keys_.f32(name, value); }
  void text(std::string_view name, std::string_view value) { keys_.text(name, value); }

  void add_sizes() {
    const model::FfnSpec mixture = spec_.largest_mixture();
    u32("block_count", spec_.n_layers());
    u32("context_length", spec_.context_tokens);
    u32("embedding_length", spec_.n_embd);
    u32("feed_forward_length", spec_.ffn_width() != 0 ? spec_.ffn_width() : mixture.width);
    u32("attention.head_count", attention_.n_heads);
    u32("attention.head_count_kv", attention_.n_kv_heads);
    u32("attention.key_length", attention_.head_dim);
    u32("attention.value_length", attention_.head_dim);
    f32(keys_.architecture().eps_key, spec_.norm_eps);
    u32("vocab_size", spec_.n_vocab);
    add_embedding();
  }

  void add_embedding() {
    const model::EmbeddingSpec& embedding = spec_.embedding;
    // Of a classifier ranks, unless its files state a kind of pooling that is not the usual one.
    if (embedding.pooling == model::Pooling::mean) u32("pooling_type", spec_.classifier.n_labels != 0 ? 4 : 1);
    if (embedding.pooling == model::Pooling::first) u32("pooling_type", 2);
    if (embedding.pooling == model::Pooling::last && !spec_.causal) u32("pooling_type", 3);
    for (std::size_t i = 0; i < embedding.dense.size(); ++i) {
      u32(format_text("dense_{}_feat_in", i + 2), embedding.dense[i].inputs);
      u32(format_text("dense_{}_feat_out", i + 2), embedding.dense[i].outputs);
    }
  }

  /// Of the layers with a window where there are two, and of the others.
  const RopeSpec& rope_of(bool windows) const {
    for (const model::LayerSpec& layer : spec_.layers)
      if (layer.attention() != nullptr && (layer.attention()->window != 0) == windows)
        return spec_.ropes[layer.attention()->rope];
    return spec_.ropes.front();
  }

  void add_rope() {
    if (spec_.n_ropes() == 0) return;
    const RopeSpec& rope = rope_of(spec_.n_ropes() == 1 && first_has_window());
    f32("rope.freq_base", rope.theta);
    if (spec_.n_ropes() > 1) f32("rope.freq_base_swa", rope_of(true).theta);
    u32("rope.dimension_count", rope.rotary_dims != 0 ? rope.rotary_dims : rope.head_dim);
    if (rope.scaling == RopeScaling::linear) {
      text("rope.scaling.type", "linear");
      f32("rope.scaling.factor", rope.factor);
    }
    if (rope.scaling == RopeScaling::longrope) {
      text("rope.scaling.type", "longrope");
      f32("rope.scaling.attn_factor", rope.attention_factor);
      u32("rope.scaling.original_context_length", rope.original_context);
    }
    if (rope.scaling != RopeScaling::yarn) return;
    text("rope.scaling.type", "yarn");
    f32("rope.scaling.factor", rope.factor);
    u32("rope.scaling.original_context_length", rope.original_context);
    f32("rope.scaling.yarn_beta_fast", rope.beta_fast);
    f32("rope.scaling.yarn_beta_slow", rope.beta_slow);
    // llama.cpp multiplies what the paper's factor gives.
    const double papers = rope.factor <= 1 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0;
    if (rope.attention_factor == papers) return;
    if (keys_.architecture().write_yarn != nullptr && keys_.architecture().write_yarn(rope, keys_)) return;
    f32("rope.scaling.attn_factor", rope.attention_factor / papers);
    f32("rope.scaling.yarn_attn_factor", rope.attention_factor);
  }

  void add_experts() {
    const model::FfnSpec mixture = spec_.largest_mixture();
    if (!mixture.has_experts()) return;
    u32("expert_count", mixture.experts);
    u32("expert_used_count", mixture.top_k);
    if (keys_.architecture().experts != GgufExperts::mixtral) u32("expert_feed_forward_length", mixture.width);
    if (mixture.shared_width != 0) u32("expert_shared_feed_forward_length", mixture.shared_width);
  }

  bool first_has_window() const {
    const model::AttentionSpec* first = spec_.layers.front().attention();
    return first != nullptr && first->window != 0;
  }

  const model::ModelSpec& spec_;
  const model::AttentionSpec attention_ = spec_.largest_attention();
  GgufKeys keys_;
};

}  // namespace

void GgufKeys::u32(std::string_view name, std::uint32_t value) {
  out_.add_u32(format_text("{}.{}", architecture_.name, name), value);
}

void GgufKeys::f32(std::string_view name, double value) {
  out_.add_f32(format_text("{}.{}", architecture_.name, name), static_cast<float>(value));
}

void GgufKeys::text(std::string_view name, std::string_view value) {
  out_.add_text(format_text("{}.{}", architecture_.name, name), value);
}

void GgufKeys::boolean(std::string_view name, bool value) {
  out_.add_boolean(format_text("{}.{}", architecture_.name, name), value);
}

void GgufKeys::texts(std::string_view name, std::span<const std::string> values) {
  out_.add_texts(format_text("{}.{}", architecture_.name, name), values);
}

void GgufKeys::window_pattern(const model::ModelSpec& spec) {
  std::vector<bool> windows;
  windows.reserve(spec.layers.size());
  for (const model::LayerSpec& layer : spec.layers)
    windows.push_back(layer.attention() != nullptr && layer.attention()->window != 0);
  if (std::find(windows.begin(), windows.end(), true) == windows.end()) return;
  out_.add_booleans(format_text("{}.attention.sliding_window_pattern", architecture_.name), windows);
}

void add_gguf_keys(const model::ModelSpec& spec, const GgufArchitecture& architecture, formats::GgufWriter& out) {
  Writer(spec, architecture, out).run();
}

std::vector<float> gguf_rope_divisors(const model::ModelSpec& spec) {
  if (spec.n_ropes() != 1) return {};
  const RopeSpec& rope = spec.ropes.front();
  if (rope.scaling == RopeScaling::llama3) return model::llama3_divisors(rope, rope.head_dim);
  return rope.scaling == RopeScaling::divisors ? rope.divisors : std::vector<float>();
}

model::ModelSpec as_gguf_says(model::ModelSpec spec) {
  spec.bos_token = -1;
  spec.end_tokens.clear();
  spec.n_positions -= spec.first_position;  // rows of no token are left out
  spec.first_position = 0;
  for (RopeSpec& rope : spec.ropes) {
    rope.theta = static_cast<double>(static_cast<float>(rope.theta));
    rope.attention_factor = std::round(rope.attention_factor * 1e6) / 1e6;  // stated as a quotient in f32
  }
  std::vector<float> divisors = gguf_rope_divisors(spec);
  if (divisors.empty()) return spec;
  RopeSpec& rope = spec.ropes.front();
  RopeSpec plain;
  plain.head_dim = rope.head_dim;
  plain.theta = rope.theta;
  plain.rotary_dims = rope.rotary_dims;
  plain.scaling = RopeScaling::divisors;
  plain.divisors = std::move(divisors);
  rope = std::move(plain);
  return spec;
}

}  // namespace qinfer::source
