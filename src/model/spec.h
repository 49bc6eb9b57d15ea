// An architecture as data: everything that the forward pass needs to know about a model, and nothing about files.
// One interpreter (engine/forward) runs every spec; a new decoder is a new reader of config.json, not a new class.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/activation.h"
#include "base/status.h"
#include "kernel_set.h"

namespace qinfer::model {

/// divisors: each frequency has its own, as llama.cpp stores what llama3 scaling gives. longrope: each has two, one for
/// contexts up to the original one and one for longer ones.
enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn, divisors, longrope };

/// Rotary position embedding; the formulas are in rope.cpp.
struct RopeSpec {
  std::uint32_t head_dim = 0;  ///< of the heads that it turns
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  ///< llama3
  double beta_fast = 32.0, beta_slow = 1.0;              ///< yarn
  double attention_factor = 1.0;                         ///< yarn, longrope: multiplies cos and sin
  bool truncate = true;                                  ///< yarn: round the ends of the ramp
  std::uint32_t original_context = 0;                    ///< llama3, yarn, longrope
  std::vector<float> divisors;                           ///< of each frequency; longrope: up to original_context
  std::vector<float> long_divisors;                      ///< longrope: beyond it
  bool long_context = false;                             ///< longrope: long_divisors are used, at all positions
  std::uint32_t rotary_dims = 0;  ///< of each head that are turned; 0 = all. See partial_rotary_order()
};

/// The feed-forward network of a layer: down(activation(gate(x)) * up(x)), or without up, or a mixture of such
/// networks, which a router chooses for each token (kernels::MoeArgs).
struct FfnSpec {
  std::uint32_t width = 0;  ///< of gate and up; of each expert, where there are some
  Activation activation = Activation::silu;
  bool has_up = true;              ///< false: down(activation(gate(x)))
  bool bias = false;               ///< of gate, up and down
  std::uint32_t experts = 0;       ///< 0: one network for all tokens
  std::uint32_t top_k = 0;         ///< experts that each token goes through
  bool normalise = false;          ///< the weights of a token's experts are divided by their sum
  std::uint32_t shared_width = 0;  ///< of the shared network, which every token goes through; 0: none
  bool has_experts() const { return experts != 0; }
};

/// Where a layer normalises: its residual stream before an operation reads it, or what the operation gives before it is
/// added to the stream. Where the norm before an operation replaces the stream, what is normalised goes on as the
/// stream: of layer 0 it is then the norm of the embedding, and of others, with the last norm, "post-norm", that of the
/// sum which the layer or the operation before has left.
struct NormPlaces {
  bool before_attention = true, after_attention = false;
  bool before_ffn = true, after_ffn = false;
  bool attention_replaces = false, ffn_replaces = false;
};

/// RMSNorm, or LayerNorm with or without a bias: of all norms but those of queries and keys, which are RMSNorms.
enum class NormKind : std::uint8_t { rms, centred, centred_with_bias };

/// Gives a number for each label to a text: out(norm(activation(dense(x)))) of the hidden state of the first token, or
/// of the mean of all; in a decoder out(x) of that of the last token, without biases.
struct ClassifierSpec {
  std::uint32_t n_labels = 0;  ///< 0: there is none
  bool is_tanh = true;         ///< the activation, otherwise the exact GELU
  bool dense_bias = true, has_norm = false;
  bool mean = false;
  bool is_last = false;  ///< of a decoder; all else but the labels plays no part

  bool has_dense() const { return n_labels != 0 && !is_last; }
};

/// The RMSNorm of queries and keys: of each head, or of all query heads of a row together and of all key heads.
enum class QkNorm : std::uint8_t { none, heads, whole };

/// Attention by softmax over keys and values that are kept (kernels::QkvArgs, kernels::AttentionArgs).
struct AttentionSpec {
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
  bool qkv_bias = false, o_bias = false;
  QkNorm qk_norm = QkNorm::none;
  kernels::HeadRules rules;
  float scale = 0;              ///< of scores; 0 = 1 / sqrt(head_dim)
  float softcap = 0;            ///< scores s become cap * tanh(s / cap); 0 = off
  std::uint32_t window = 0;     ///< positions that it sees, the token itself included; 0 = all
  std::uint32_t rope = 0;       ///< which of ModelSpec::ropes turns queries and keys
  bool no_rope = false;         ///< queries and keys are not turned
  std::int32_t kv_source = -1;  ///< the earlier layer whose keys and values it reads; -1: it has its own
  std::uint32_t kv_group = 0;   ///< where they are kept: group of layers with the same policy
  std::uint32_t kv_index = 0;   ///< layer within the group

  std::uint32_t q_dim() const { return n_heads * head_dim; }
  std::uint32_t kv_dim() const { return n_kv_heads * head_dim; }
  bool has_own_kv() const { return kv_source < 0; }
};

/// What lets the tokens of a sequence see each other in a layer: a struct for each kind there is. The engine has a
/// function for each (Pass::mix in engine/forward.cpp), model/tensors.cpp the tensors.
using Mixer = std::variant<AttentionSpec>;

struct LayerSpec {
  Mixer mixer;
  FfnSpec ffn;
  NormPlaces norms;
  float residual_scale = 1;  ///< of what mixer and network give, before it is normalised or added

  /// Null where tokens are mixed in another way.
  const AttentionSpec* attention() const { return std::get_if<AttentionSpec>(&mixer); }
  AttentionSpec* attention() { return std::get_if<AttentionSpec>(&mixer); }
};

/// Layers whose keys and values are kept alike: as many of the same size, of all positions or of the last `window`.
struct KvGroup {
  std::uint32_t window = 0, n_layers = 0;
  std::uint32_t n_kv_heads = 0, head_dim = 0;
};

/// Which final hidden states make the vector of a text.
enum class Pooling : std::uint8_t { last, mean, first };

/// A layer after pooling, which makes x to W x + b, or to tanh(W x + b).
struct DenseSpec {
  std::uint32_t inputs = 0, outputs = 0;
  bool bias = false, tanh = false;
};
/// Layers after pooling that a model may have: there is a role for each (model/tensors.h).
inline constexpr std::size_t kMaxDense = 2;

/// What makes one vector of a text's final hidden states.
struct EmbeddingSpec {
  Pooling pooling = Pooling::last;  ///< where a host does not say
  std::vector<DenseSpec> dense;     ///< at most kMaxDense
  std::uint32_t max_tokens = 0;     ///< of a text, where its files say fewer than the model's positions; 0 = not less
  bool without_prompt = false;      ///< tokens of a prompt are not pooled
};

/// What gives a score to a pair of texts: the logit of one token less that of another, after a template; the same of a
/// layer with a row for each of the two, which is then the one layer of EmbeddingSpec::dense; the one label of a
/// classifier.
enum class ScoreKind : std::uint8_t { none, tokens, dense, classifier };
struct ScoreSpec {
  ScoreKind kind = ScoreKind::none;
  std::int32_t yes = -1, no = -1;  ///< the tokens; no -1: the logit of the first one alone
  bool raw = false;                ///< a score is no probability
  bool says_raw = false;           ///< config.json says whether it is
};

struct ModelSpec {
  std::string architecture;  ///< "Qwen3ForCausalLM"
  std::string name;          ///< as the checkpoint calls itself, or empty
  std::uint32_t n_vocab = 0, n_embd = 0;
  std::uint32_t context_tokens = 0;
  float norm_eps = 0;  ///< of all norms
  NormKind norm_kind = NormKind::rms;
  std::uint32_t n_positions = 0;     ///< rows of a table of positions that are added to embeddings; 0: there is none
  std::uint32_t first_position = 0;  ///< the row of a text's first token
  std::uint32_t n_types = 0;         ///< rows of a table of token types that are added; 0: there is none
  bool has_distances = false;        ///< scores have added what distances.h says
  ClassifierSpec classifier;
  bool tied_embeddings = false;
  bool causal = true;       ///< false: every token sees those after it too, and there is no LM head
  bool no_lm_head = false;  ///< of a causal model: its files have none; tied_embeddings is true
  EmbeddingSpec embedding;
  ScoreSpec score;
  float embedding_scale = 1;
  float logit_scale = 1;        ///< of logits, before the soft cap
  float logit_softcap = 0;      ///< logits s become cap * tanh(s / cap); 0 = off
  std::vector<RopeSpec> ropes;  ///< one, or one for each kind of attention; none where no layer turns anything
  std::vector<LayerSpec> layers;
  std::vector<KvGroup> kv_groups;  ///< by group_layers(); none in an encoder, which keeps nothing
  /// Of a stage, a range of a model's layers (keep_layers()): which layer its first one is, and how many the model has;
  /// 0: the spec is a whole model.
  std::uint32_t first_layer = 0, whole_layers = 0;

  std::int32_t bos_token = -1;
  std::vector<std::int32_t> end_tokens;
  /// How many of them, at the end of the list, were found by their names or by the chat template. Fingerprints leave
  /// them out: a template may be changed without making saved sessions and packed files another model's.
  std::size_t n_found_ends = 0;

  std::uint32_t n_layers() const { return static_cast<std::uint32_t>(layers.size()); }
  std::uint32_t n_ropes() const { return static_cast<std::uint32_t>(ropes.size()); }
  /// Values that the tables of the first `n` ropes have for one position: a cosine and a sine for each pair.
  std::uint64_t rope_values(std::uint32_t n) const;
  std::uint64_t rope_values() const { return rope_values(n_ropes()); }
  /// Calls f(attention) for each layer that has some.
  template <typename F>
  void each_attention(F f) {
    for (LayerSpec& layer : layers)
      if (AttentionSpec* attention = layer.attention()) f(*attention);
  }
  template <typename F>
  void each_attention(F f) const {
    for (const LayerSpec& layer : layers)
      if (const AttentionSpec* attention = layer.attention()) f(*attention);
  }
  /// The largest of each size among the layers with attention, and the widest window; all else of the first of them.
  AttentionSpec largest_attention() const;
  /// Of the queries of the layer that has most.
  std::uint32_t widest_queries() const;
  /// Of the widest feed-forward network; 0 where all layers have experts.
  std::uint32_t ffn_width() const;
  bool is_stage() const { return whole_layers != 0; }
  /// A stage that begins with the hidden states that the one before it gives, and has no use for token ids.
  bool takes_hidden() const { return first_layer != 0; }
  /// A stage that ends with hidden states, without the last norm and the LM head.
  bool gives_hidden() const { return is_stage() && first_layer + n_layers() < whole_layers; }
  /// Whether the model does, of which this may be a stage.
  bool whole_gives_logits() const { return causal && !no_lm_head; }
  /// False: it gives embeddings only, or hidden states.
  bool gives_logits() const { return whole_gives_logits() && !gives_hidden(); }
  bool gives_embeddings_only() const { return !gives_logits() && !gives_hidden(); }
  /// QINFER_E_UNSUPPORTED if it does not.
  Status check_gives_logits() const;
  /// Values of a text's vector.
  std::uint32_t embedding_dims() const { return embedding.dense.empty() ? n_embd : embedding.dense.back().outputs; }
  /// The most tokens of a text that a vector is made of.
  std::uint32_t embedding_tokens() const {
    return embedding.max_tokens == 0 || embedding.max_tokens > context_tokens ? context_tokens : embedding.max_tokens;
  }
  /// The host will use no more than `tokens` tokens: longrope is then chosen for that. True if it has become another
  /// model, whose context is the one before scaling.
  bool limit_context(std::uint32_t tokens);
  /// The largest of each number among the layers that have experts; all 0 without such layers.
  FfnSpec largest_mixture() const;
};

/// Sorts the layers that have keys and values of their own by window, the one that keeps everything first, and tells
/// each layer where its keys and values are kept.
void group_layers(ModelSpec& spec);

/// Makes the spec that of layers [first, first + n) alone; n 0: to the last one. QINFER_E_INVALID_ARGUMENT where there
/// are no such layers, QINFER_E_UNSUPPORTED for an encoder, and where one of them reads keys of a layer before them.
Status keep_layers(ModelSpec& spec, std::uint32_t first, std::uint32_t n);

/// All that a spec says about results, one field to a line, in an order and notation that stay; fields with the value
/// that means "off" are left out, so that a field that is added later changes no text of a model that does without it.
/// What fingerprints are made of.
std::string canonical_text(const ModelSpec& spec);

}  // namespace qinfer::model
