// See quantisation.h.
#include "source/quantisation.h"

#include "source/architecture.h"

namespace qinfer::source {
namespace {

using model::Role;

constexpr struct {
  std::string_view name;
  Quantisation mix;
} kMixes[] = {{"q8_0", Quantisation::q8_0}, {"q4_0", Quantisation::q4_0}, {"q4_k_m", Quantisation::q4_k_m}};

/// Layers whose values and down projections cost more when they are coarse.
bool has_more_bits(std::uint32_t layer, std::uint32_t n_layers) {
  const std::uint32_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

Encoding q4_k_m_encoding(const model::ModelSpec& spec, const model::TensorId& id) {
  const GgufArchitecture* architecture = find_gguf_architecture(spec);
  const bool fused = architecture != nullptr && architecture->fused;
  const bool eight_experts = spec.layers[id.layer].ffn.experts == 8;
  const bool more_bits = has_more_bits(id.layer, spec.n_layers());
  if (id.role == Role::o) return eight_experts ? Encoding::q5_k : Encoding::q4_k;
  if (id.role == Role::q || id.role == Role::k || id.role == Role::v) {
    if (fused) return Encoding::q5_k;
    if (eight_experts && id.role != Role::q) return Encoding::q8_0;
  }
  const bool is_costly = id.role == Role::v || id.role == Role::down || id.role == Role::shared_down;
  return is_costly && more_bits ? Encoding::q6_k : Encoding::q4_k;
}

Encoding wanted_encoding(Quantisation mix, const model::ModelSpec& spec, const model::TensorId& id) {
  if (mix == Quantisation::q8_0) return Encoding::q8_0;
  const bool is_tied_head = id.role == Role::embedding && spec.tied_embeddings && spec.gives_logits();
  if (id.role == Role::lm_head || is_tied_head) return Encoding::q6_k;
  if (mix == Quantisation::q4_0) return Encoding::q4_0;
  return id.role == Role::embedding ? Encoding::q4_k : q4_k_m_encoding(spec, id);
}

/// Of blocks of 32 values, what is used for one of 256.
Encoding short_block(Encoding encoding) {
  if (encoding == Encoding::q4_k) return Encoding::q5_0;
  if (encoding == Encoding::q5_k) return Encoding::q5_1;
  return encoding == Encoding::q6_k ? Encoding::q8_0 : encoding;
}

}  // namespace

std::optional<Quantisation> find_quantisation(std::string_view name) {
  for (const auto& entry : kMixes)
    if (entry.name == name) return entry.mix;
  return std::nullopt;
}

std::string_view quantisation_names() { return "q8_0, q4_0 or q4_k_m"; }

std::optional<Encoding> quantised_encoding(Quantisation mix, const model::ModelSpec& spec, const model::TensorId& id,
                                           std::int64_t cols) {
  if (id.role == Role::router || id.role == Role::shared_router || model::is_row_table(id.role)) return std::nullopt;
  if (id.role == Role::dense_first || id.role == Role::dense_second) return std::nullopt;  // read once for a text
  Encoding encoding = wanted_encoding(mix, spec, id);
  if (cols % encoding_traits(encoding).block_values != 0) encoding = short_block(encoding);
  if (cols % encoding_traits(encoding).block_values != 0) return std::nullopt;
  return encoding;
}

}  // namespace qinfer::source
