// Phi-3 and Phi-4: one tensor holds q, k and v, and one gate and up. A part of each head may be turned.
#include "source/architectures/rows.h"
#include "source/gguf_fields.h"
#include "source/gguf_keys.h"
#include "source/hf_windows.h"

namespace qinfer::source {
namespace {

constexpr OwnName kPhi3Fields[] = {"partial_rotary_factor"};
constexpr OwnName kPhi3Keys[] = {"attention.sliding_window"};

std::optional<HfPart> phi3_part(const model::ModelSpec& spec, const model::TensorId& id, const std::string& layer) {
  using model::Role;
  const std::uint64_t hidden = spec.n_embd;
  if (const model::AttentionSpec* attention = spec.layers[id.layer].attention()) {
    const std::uint64_t q = attention->q_dim(), kv = attention->kv_dim();
    const std::string qkv = layer + "self_attn.qkv_proj.weight";
    if (id.role == Role::q) return HfPart{qkv, {q + 2 * kv, hidden}, 0, q};
    if (id.role == Role::k) return HfPart{qkv, {q + 2 * kv, hidden}, q, kv};
    if (id.role == Role::v) return HfPart{qkv, {q + 2 * kv, hidden}, q + kv, kv};
  }
  if (id.role != Role::gate && id.role != Role::up) return std::nullopt;
  const std::uint64_t width = spec.layers[id.layer].ffn.width;
  return HfPart{layer + "mlp.gate_up_proj.weight", {2 * width, hidden}, id.role == Role::up ? width : 0, width};
}

Status read_phi3_keys(GgufFields& fields) { return fields.add_window().take_status(); }

/// Its files state both where there is nothing to state.
void write_phi3_keys(const model::ModelSpec& spec, GgufKeys& keys) {
  if (spec.ropes.front().scaling != model::RopeScaling::longrope)
    keys.u32("rope.scaling.original_context_length", spec.context_tokens);
  if (spec.largest_attention().window == 0) keys.u32("attention.sliding_window", 0);
}

}  // namespace

constexpr Architecture kPhi3{.name = "Phi3ForCausalLM",
                             .rope = {.partial = true, .longrope = true},
                             .own_fields = kPhi3Fields,
                             .read_windows = read_stated_windows,
                             .part = phi3_part};

constexpr GgufArchitecture kGgufPhi3{.name = "phi3",
                                     .hugging_face = "Phi3ForCausalLM",
                                     .fused = true,
                                     .own_keys = kPhi3Keys,
                                     .read_own = read_phi3_keys,
                                     .write_own = write_phi3_keys};

}  // namespace qinfer::source
