// What distinguishes one family of models from others: in config.json, in GGUF files, and in the names and rows of its
// tensors. A family has a file in architectures/, which holds all of that; rows.inc there names its rows. A row says
// what is different from most models: a member that is left out means "as most have it".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "model/spec.h"
#include "model/tensors.h"

namespace qinfer::source {

inline constexpr std::int64_t kMaxDim = 1 << 20;
inline constexpr std::int64_t kMaxVocab = 1 << 24;
inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxContext = 1 << 24;  // the largest contexts published are 10 million tokens

struct Architecture;
struct TensorTable;
/// Reads fields of config.json, whose sizes `spec` has already.
using ReadFields = Status (*)(const formats::FieldReader& fields, const Architecture& architecture,
                              model::ModelSpec& spec);

/// What a row has where it says nothing. No windows (hf_windows.cpp); one rotary embedding for all layers, of
/// rope_theta and rope_scaling (version 4), or rope_parameters (version 5; hf_rope.cpp).
Status refuse_windows(const formats::FieldReader& fields, const Architecture& architecture, model::ModelSpec& spec);
Status read_rope(const formats::FieldReader& fields, const Architecture& architecture, model::ModelSpec& spec);

/// A tensor of a checkpoint that several tensors of the model are rows of, and which rows one of them is.
struct HfPart {
  std::string name;
  std::vector<std::uint64_t> shape;  ///< of the whole one, whose rows are its innermost dimension
  std::uint64_t first_row = 0, rows = 0;
};

/// What architectures differ in where they read the fields of rotary embeddings.
struct RopeRules {
  bool partial = false;   ///< partial_rotary_factor is read
  bool longrope = false;  ///< no rope_type but "default" and "longrope", which first files call "su" or "yarn"
  std::span<const std::string_view> own_fields = {};  ///< of the object, which no other architecture has
  std::string_view default_alias = {};                ///< what rope_type may say for "default"
  /// Reads a kind of scaling otherwise than hf_rope.cpp does. False: it is as there, and `out` is as it was.
  Result<bool> (*read_own)(const formats::FieldReader& rope, std::string_view kind, model::RopeSpec& out) = nullptr;
  double default_theta = 10000;  ///< where no field names one
};

/// Which fields say that layers are mixtures of experts, and what such layers are like (hf_experts.h). The numbers are
/// those of fields that are absent.
struct ExpertRules {
  std::int64_t experts = 0;   ///< num_experts; 0: layers have none
  std::int64_t top_k = 0;     ///< num_experts_per_tok
  std::int64_t width = 0;     ///< moe_intermediate_size; 0: there is no such field, all layers are mixtures of
                              ///< intermediate_size, and weights are divided by their sum
  std::int64_t shared = 0;    ///< shared_expert_intermediate_size; 0: no network is shared
  bool local_experts = true;  ///< num_local_experts is another name of num_experts
  bool normalises = false;    ///< weights are divided by their sum, without a field
};

/// What sizes are where their fields are absent; 0: the field must be there.
struct SizeDefaults {
  std::int64_t vocab = 0, heads = 0, context = 0;
  double norm_eps = 0;
};

/// One of the models that may be the text of a model with parts for images or sound.
struct TextModel {
  std::string_view model_type;  ///< of text_config; empty: the fields are in config.json itself
  const Architecture* architecture = nullptr;
};

/// What an architecture calls a field that most call otherwise.
struct FieldName {
  std::string_view usual, own;
};

/// A field or key that an architecture has besides those of every one.
struct OwnName {
  std::string_view name;
  std::optional<double> off = std::nullopt;  ///< with it others may state it, too, and mean that they do without
  constexpr OwnName(const char* own) : name(own) {}
  constexpr OwnName(const char* own, double off_value) : name(own), off(off_value) {}
};

/// What the fields hidden_act and hidden_activation may say.
struct ActivationName {
  std::string_view name;
  Activation activation;
};

/// A row of config.json's "architectures".
struct Architecture {
  std::string_view name;
  std::span<const std::string_view> also = {};  ///< others that are read as this one
  bool qkv_bias = false;                        ///< always there, without a field
  bool qkv_bias_field = false;                  ///< with qkv_bias: the field qkv_bias may switch them off
  bool attention_bias = false;                  ///< the field attention_bias switches q, k, v and o biases
  bool mlp_bias = false;                        ///< the field mlp_bias is read
  model::QkNorm qk_norm = model::QkNorm::none;
  SizeDefaults sizes = {};
  bool needs_kv_heads = false;        ///< num_key_value_heads must be there
  std::int64_t default_kv_heads = 0;  ///< if the field is absent; 0, or the field is null: num_attention_heads
  std::int64_t default_head_dim = 0;  ///< if the field is absent; 0 = hidden_size / num_attention_heads
  bool causal = true;
  bool states_direction = false;  ///< with causal = false: the field use_bidirectional_attention must say so
  RopeRules rope = {};
  std::string_view activation_name = "silu";
  std::string_view activation_alias = {};  ///< what hidden_act may say for it
  Activation activation = Activation::silu;
  std::span<const ActivationName> activations = {};  ///< others that the fields may name
  model::NormPlaces norms = {};
  model::NormKind norm_kind = model::NormKind::rms;
  std::string_view eps_field = "rms_norm_eps";
  bool norms_add_one = false;     ///< the weights of norms are stored less one
  bool scaled_embedding = false;  ///< by sqrt(hidden_size)
  std::int32_t default_bos = -1, default_end = -1;
  bool tied_by_default = false;
  ExpertRules experts = {};
  std::string_view classifier = {};  ///< the class of it that classifies, where its name does not follow from the row's
  /// Fields that change results. Others may state some of them as "off", as they may those of kForeignFields in
  /// hf_config.cpp.
  std::span<const OwnName> own_fields = {};
  std::span<const FieldName> field_names = {};  ///< of sizes; the usual names are read where the own ones are absent
  ReadFields read_own = nullptr;                ///< what no other architecture has
  ReadFields read_windows = refuse_windows;
  ReadFields read_ropes = read_rope;
  bool interleaved = false;  ///< pairs that are turned are neighbours: of each head rows 0 and 1, 2 and 3, ...
  std::string_view prefix = "model.";  ///< what names of tensors begin with, unless the model is a bare one
  std::span<const std::string_view> other_prefixes = {};  ///< they may begin with one of these, too
  /// Of a model that has parts for images or sound: how its text is read, which alone is run. The first one is that of
  /// a text_config without a model_type. All else of the row is left out.
  std::span<const TextModel> texts = {};
  /// Matrices of all experts of a layer in one tensor may be transposed: [expert][column][row].
  bool experts_transposed = false;
  /// The name of a tensor after "layers.<i>."; empty: as most have it.
  std::string (*tensor_name)(const model::TensorId& id) = nullptr;
  /// The same model with other names of tensors, where a checkpoint has those; null: there are none.
  const Architecture* other_form = nullptr;
  const TensorTable* names = nullptr;  ///< of all tensors; null: as most have them
  /// Where the checkpoint has larger tensors. `layer` begins the names. std::nullopt: it is a separate one.
  std::optional<HfPart> (*part)(const model::ModelSpec& spec, const model::TensorId& id,
                                const std::string& layer) = nullptr;
};

class GgufFields;
class GgufKeys;

/// Experts of a layer's feed-forward network, by the keys that describe them.
enum class GgufExperts : std::uint8_t { none, mixtral, qwen2, qwen3 };

/// A row of GGUF's "general.architecture": what llama.cpp knows of it, and files therefore do not say.
struct GgufArchitecture {
  std::string_view name;
  std::string_view hugging_face;                ///< the Architecture whose fields its keys become
  std::span<const std::string_view> also = {};  ///< others that are written as this one
  /// Rows of queries and keys are in the order of rotation by interleaved pairs: of each head rows 0, h, 1, h + 1, ...
  /// (h: half of its dimensions) of the checkpoint that was converted.
  bool interleaved = false;
  GgufExperts experts = GgufExperts::none;
  bool fused = false;            ///< one tensor holds q, k and v, and one gate and up
  bool qkv_bias = false;         ///< q, k and v have biases without a field that says so
  bool needs_rope_base = false;  ///< the key rope.freq_base must be there
  bool dense = false;            ///< llama.cpp reads layers after pooling
  std::string_view eps_key = "attention.layer_norm_rms_epsilon";
  std::string_view other_eps_key = {};  ///< read where the usual one is absent
  /// Keys that it has beside those of every architecture. Others may state some of them as "off" (kOptionalKeys in
  /// gguf_config.cpp), and are refused with the rest.
  std::span<const OwnName> own_keys = {};
  Status (*read_own)(GgufFields& fields) = nullptr;
  void (*write_own)(const model::ModelSpec& spec, GgufKeys& keys) = nullptr;
  /// Adds what own keys say to the object of yarn scaling, and writes them: true where they say the factor of cosines
  /// and sines, which the usual keys then do not.
  Result<bool> (*read_yarn)(GgufFields& fields) = nullptr;
  bool (*write_yarn)(const model::RopeSpec& rope, GgufKeys& keys) = nullptr;
  /// The name of a tensor after "blk.<i>."; empty: as most have it.
  std::string_view (*tensor_name)(model::Role role) = nullptr;
  const TensorTable* names = nullptr;  ///< of all tensors; null: as most have them
  /// What llama.cpp does otherwise with a model of this kind.
  void (*add_notes)(const model::ModelSpec& spec, std::vector<std::string>& notes) = nullptr;
};

std::span<const Architecture* const> all_architectures();
std::span<const GgufArchitecture* const> all_gguf_architectures();

/// The one that files of a model with this spec have; null if there is none.
const GgufArchitecture* find_gguf_architecture(const model::ModelSpec& spec);

}  // namespace qinfer::source
