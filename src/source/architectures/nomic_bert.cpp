// Nomic's BERT: rotary embeddings in the place of learned positions, gated networks, and no biases but those of norms.
// Released files have GPT-2's names of fields, and names of tensors that transformers 5 gives up where it has not
// loaded such a file.
#include <algorithm>

#include "base/format.h"
#include "source/architectures/rows.h"
#include "source/hf_encoder.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::ModelSpec;
using model::Role;

constexpr FieldName kFieldNames[] = {{"hidden_size", "n_embd"},
                                     {"intermediate_size", "n_inner"},
                                     {"num_hidden_layers", "n_layer"},
                                     {"num_attention_heads", "n_head"},
                                     {"max_position_embeddings", "n_positions"},
                                     {"layer_norm_eps", "layer_norm_epsilon"}};

/// Switches of the released files, and what the model has.
constexpr struct {
  std::string_view name;
  bool value;
} kSwitches[] = {{"prenorm", false},       {"use_rms_norm", false},          {"parallel_block", false},
                 {"qkv_proj_bias", false}, {"mlp_fc1_bias", false},          {"mlp_fc2_bias", false},
                 {"causal", false},        {"rotary_emb_interleaved", false}};

Status read_nomic(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  for (const auto& known : kSwitches) {
    QINFER_ASSIGN(const auto value, fields.boolean(known.name));
    if (value.value_or(known.value) != known.value)
      return error(Code::unsupported, "{}: \"{}\" is {}, only {} is supported", fields.where(), known.name, *value,
                   known.value);
  }
  QINFER_ASSIGN(const auto activation, fields.string("activation_function"));
  if (activation && *activation != "swiglu")
    return error(Code::unsupported, "{}: \"activation_function\" is \"{}\", only \"swiglu\" is supported",
                 fields.where(), *activation);
  QINFER_ASSIGN(const auto fraction, fields.number("rotary_emb_fraction"));
  if (fraction.value_or(1) != 1)
    return error(Code::unsupported, "{}: \"rotary_emb_fraction\" is {}, only 1 is supported", fields.where(),
                 *fraction);
  if (fields.has("rotary_emb_scale_base"))
    return error(Code::unsupported, "{}: \"rotary_emb_scale_base\" is there, which is not supported", fields.where());
  // Beyond the trained positions frequencies would depend on the length of each text.
  QINFER_ASSIGN(const auto factor, fields.number("rotary_scaling_factor"));
  QINFER_ASSIGN(const auto trained, fields.integer("max_trained_positions", 1, kMaxContext));
  if (factor) spec.context_tokens = std::min(spec.context_tokens, static_cast<std::uint32_t>(trained.value_or(2048)));
  return read_encoder(fields, false, spec);
}

Status read_nomic_rope(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_TRY(read_rope(fields, architecture, spec));
  QINFER_ASSIGN(const auto base, fields.number("rotary_emb_base"));
  if (!base) return Status();
  if (!(*base >= 1e-3 && *base <= 1e15))
    return error_at(Code::format, -1, "{}: \"rotary_emb_base\" is {}, expected 0.001 to 1e15", fields.where(), *base);
  spec.ropes.front().theta = *base;
  return Status();
}

constexpr NamedTensor kNomicReleased[] = {
    {Role::embedding, "embeddings.word_embeddings", "token_embd"},
    {Role::types, "embeddings.token_type_embeddings", "token_types"},
    {Role::attn_norm, "norm2", "layer_output_norm"},
    {Role::ffn_norm, "norm1", "attn_output_norm"},
    {Role::q, "attn.q", "attn_q", "attn.Wqkv", "attn_qkv"},
    {Role::k, "attn.k", "attn_k", "attn.Wqkv", "attn_qkv"},
    {Role::v, "attn.v", "attn_v", "attn.Wqkv", "attn_qkv"},
    {Role::o, "attn.out_proj", "attn_output"},
    {Role::gate, "mlp.fc12", "ffn_gate"},
    {Role::up, "mlp.fc11", "ffn_up"},
    {Role::down, "mlp.fc2", "ffn_down"},
};
constexpr TensorTable kNomicReleasedNames = {
    "encoder.layers.", {Role::attn_norm, "emb_ln", "token_embd_norm"}, true, kNomicReleased};

constexpr NamedTensor kNomicNew[] = {
    {Role::embedding, "embeddings.word_embeddings", {}},
    {Role::types, "embeddings.token_type_embeddings", {}},
    {Role::attn_norm, "post_mlp_layernorm", {}},
    {Role::ffn_norm, "post_attention_layernorm", {}},
    {Role::q, "self_attn.q_proj", {}},
    {Role::k, "self_attn.k_proj", {}},
    {Role::v, "self_attn.v_proj", {}},
    {Role::o, "self_attn.o_proj", {}},
    {Role::gate, "mlp.gate_proj", {}},
    {Role::up, "mlp.up_proj", {}},
    {Role::down, "mlp.down_proj", {}},
};
constexpr TensorTable kNomicNewNames = {"layers.", {Role::attn_norm, "embeddings.LayerNorm", {}}, true, kNomicNew};

constexpr std::string_view kAlsoNomic[] = {"NomicBertForMaskedLM", "NomicBertForPreTraining"};

constexpr Architecture nomic() {
  Architecture row;
  row.name = "NomicBertModel";
  row.also = kAlsoNomic;
  row.causal = false;
  row.rope.default_theta = 1000;
  row.norms = kNormsOfSums;
  row.norm_kind = model::NormKind::centred_with_bias;
  row.eps_field = "layer_norm_eps";
  row.field_names = kFieldNames;
  row.read_own = read_nomic;
  row.read_ropes = read_nomic_rope;
  row.prefix = "";
  row.other_prefixes = kEncoderPrefixes;
  return row;
}

constexpr Architecture new_form() {
  Architecture row = nomic();
  row.names = &kNomicNewNames;
  return row;
}
constexpr Architecture kNewForm = new_form();

constexpr Architecture released_form() {
  Architecture row = nomic();
  row.names = &kNomicReleasedNames;
  row.other_form = &kNewForm;
  return row;
}

constexpr OwnName kNomicKeys[] = {"attention.causal"};

}  // namespace

constexpr Architecture kNomicBert = released_form();

constexpr GgufArchitecture kGgufNomicBert{.name = "nomic-bert",
                                          .hugging_face = "NomicBertModel",
                                          .needs_rope_base = true,
                                          .eps_key = "attention.layer_norm_epsilon",
                                          .own_keys = kNomicKeys,
                                          .read_own = add_encoder_fields,
                                          .write_own = write_encoder_keys,
                                          .names = &kNomicReleasedNames};

}  // namespace qinfer::source
