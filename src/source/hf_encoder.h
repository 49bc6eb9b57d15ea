// What the encoders of BERT's kind have in common: fields of config.json, places of norms, and names of tensors in GGUF
// files.
#pragma once

#include <string>

#include "source/architecture.h"
#include "source/gguf_fields.h"
#include "source/gguf_tensors.h"

namespace qinfer::source {

/// Norms of the embedding and of each sum, which go on as the residual stream.
inline constexpr model::NormPlaces kNormsOfSums = {.attention_replaces = true, .ffn_replaces = true};

/// No rotary embedding.
Status read_no_rope(const formats::FieldReader& fields, const Architecture& architecture, model::ModelSpec& spec);

/// The fields of decoders, which must not be set; type_vocab_size, 2 where it is absent; and biases of all matrices or
/// of none.
Status read_encoder(const formats::FieldReader& fields, bool biases, model::ModelSpec& spec);

/// Learned positions, of which the first `unused` rows are of no token; a text has so many positions less.
void add_positions(std::uint32_t unused, model::ModelSpec& spec);

/// The labels of a classifier: num_labels or the length of id2label, 2 where both are absent.
Result<std::uint32_t> read_labels(const formats::FieldReader& fields);

/// ".weight" or ".bias" after the name of what has both, by the role.
std::string_view name_end(model::Role role);
/// Of a model with norms of sums, what the norm before an operation is the norm of: null is the embedding, otherwise
/// the layer whose sum it is. Roles: attn_norm, ffn_norm, final_norm and their biases.
std::optional<std::uint32_t> layer_of_sum(const model::ModelSpec& spec, const model::TensorId& id);

/// Keys of GGUF files of encoders: the direction, and the sizes that only tensors tell.
Status add_encoder_fields(GgufFields& fields);
/// Names that llama.cpp gives to the tensors of encoders with norms of sums.
std::string gguf_encoder_name(const model::ModelSpec& spec, const model::TensorId& id);
/// The same where one tensor holds queries, keys and values.
GgufPlace gguf_encoder_place(const model::ModelSpec& spec, const model::TensorId& id);
/// Queries, keys or values as rows of the tensor `name`; none for other roles.
std::optional<HfPart> qkv_part(const model::ModelSpec& spec, const model::TensorId& id, std::string name);

}  // namespace qinfer::source
