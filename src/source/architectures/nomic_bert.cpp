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
using model::TensorId;

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

std::string released_name(const ModelSpec& spec, const TensorId& id, std::string_view) {
  const std::string_view end = name_end(id.role);
  const std::string layer = format_text("encoder.layers.{}.", id.layer);
  switch (id.role) {
    case Role::embedding: return "embeddings.word_embeddings.weight";
    case Role::types: return "embeddings.token_type_embeddings.weight";
    case Role::ffn_norm:
    case Role::ffn_norm_bias: return format_text("{}norm1{}", layer, end);
    case Role::attn_norm:
    case Role::attn_norm_bias:
    case Role::final_norm:
    case Role::final_norm_bias: {
      const auto sum = layer_of_sum(spec, id);
      return sum ? format_text("encoder.layers.{}.norm2{}", *sum, end) : format_text("emb_ln{}", end);
    }
    case Role::q: return layer + "attn.q.weight";
    case Role::k: return layer + "attn.k.weight";
    case Role::v: return layer + "attn.v.weight";
    case Role::o: return layer + "attn.out_proj.weight";
    case Role::gate: return layer + "mlp.fc12.weight";
    case Role::up: return layer + "mlp.fc11.weight";
    case Role::down: return layer + "mlp.fc2.weight";
    case Role::lm_head:
    case Role::positions:
    case Role::classifier_dense:
    case Role::classifier_dense_bias:
    case Role::classifier_norm:
    case Role::classifier_norm_bias:
    case Role::classifier_out:
    case Role::classifier_out_bias:
    case Role::attn_post_norm:
    case Role::ffn_post_norm:
    case Role::q_norm:
    case Role::k_norm:
    case Role::q_bias:
    case Role::k_bias:
    case Role::v_bias:
    case Role::o_bias:
    case Role::gate_bias:
    case Role::up_bias:
    case Role::down_bias:
    case Role::router:
    case Role::shared_router:
    case Role::shared_gate:
    case Role::shared_up:
    case Role::shared_down:
    case Role::dense_first:
    case Role::dense_first_bias:
    case Role::dense_second:
    case Role::dense_second_bias: break;
  }
  return {};
}

std::string new_name(const ModelSpec& spec, const TensorId& id, std::string_view) {
  const std::string_view end = name_end(id.role);
  const std::string layer = format_text("layers.{}.", id.layer);
  switch (id.role) {
    case Role::embedding: return "embeddings.word_embeddings.weight";
    case Role::types: return "embeddings.token_type_embeddings.weight";
    case Role::ffn_norm:
    case Role::ffn_norm_bias: return format_text("{}post_attention_layernorm{}", layer, end);
    case Role::attn_norm:
    case Role::attn_norm_bias:
    case Role::final_norm:
    case Role::final_norm_bias: {
      const auto sum = layer_of_sum(spec, id);
      return sum ? format_text("layers.{}.post_mlp_layernorm{}", *sum, end)
                 : format_text("embeddings.LayerNorm{}", end);
    }
    case Role::q: return layer + "self_attn.q_proj.weight";
    case Role::k: return layer + "self_attn.k_proj.weight";
    case Role::v: return layer + "self_attn.v_proj.weight";
    case Role::o: return layer + "self_attn.o_proj.weight";
    case Role::gate: return layer + "mlp.gate_proj.weight";
    case Role::up: return layer + "mlp.up_proj.weight";
    case Role::down: return layer + "mlp.down_proj.weight";
    case Role::lm_head:
    case Role::positions:
    case Role::classifier_dense:
    case Role::classifier_dense_bias:
    case Role::classifier_norm:
    case Role::classifier_norm_bias:
    case Role::classifier_out:
    case Role::classifier_out_bias:
    case Role::attn_post_norm:
    case Role::ffn_post_norm:
    case Role::q_norm:
    case Role::k_norm:
    case Role::q_bias:
    case Role::k_bias:
    case Role::v_bias:
    case Role::o_bias:
    case Role::gate_bias:
    case Role::up_bias:
    case Role::down_bias:
    case Role::router:
    case Role::shared_router:
    case Role::shared_gate:
    case Role::shared_up:
    case Role::shared_down:
    case Role::dense_first:
    case Role::dense_first_bias:
    case Role::dense_second:
    case Role::dense_second_bias: break;
  }
  return {};
}

std::optional<HfPart> released_part(const ModelSpec& spec, const TensorId& id, const std::string& layer) {
  return qkv_part(spec, id, format_text("encoder.{}attn.Wqkv.weight", layer));
}

constexpr Architecture nomic() {
  Architecture row;
  row.name = "NomicBertModel";
  row.causal = false;
  row.rope.default_theta = 1000;
  row.norms = kNormsOfSums;
  row.norm_kind = model::NormKind::centred_with_bias;
  row.eps_field = "layer_norm_eps";
  row.field_names = kFieldNames;
  row.read_own = read_nomic;
  row.read_ropes = read_nomic_rope;
  row.prefix = "";
  return row;
}

constexpr Architecture new_form() {
  Architecture row = nomic();
  row.whole_name = new_name;
  return row;
}
constexpr Architecture kNewForm = new_form();

constexpr Architecture released_form() {
  Architecture row = nomic();
  row.whole_name = released_name;
  row.part = released_part;
  row.other_form = &kNewForm;
  return row;
}

constexpr std::string_view kNomicKeys[] = {"attention.causal"};

Status read_nomic_keys(GgufFields& fields) { return add_encoder_fields(fields); }

GgufPlace nomic_place(const ModelSpec& spec, const TensorId& id) { return gguf_encoder_place(spec, id); }

}  // namespace

constexpr Architecture kNomicBert = released_form();

constexpr GgufArchitecture kGgufNomicBert{.name = "nomic-bert",
                                          .hugging_face = "NomicBertModel",
                                          .needs_rope_base = true,
                                          .eps_key = "attention.layer_norm_epsilon",
                                          .own_keys = kNomicKeys,
                                          .read_own = read_nomic_keys,
                                          .place = nomic_place};

}  // namespace qinfer::source
