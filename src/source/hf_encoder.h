// What the encoders of BERT's kind have in common: fields of config.json, keys of GGUF files, and places of norms.
#pragma once

#include <string>

#include "source/architecture.h"
#include "source/gguf_fields.h"
#include "source/gguf_keys.h"
#include "source/hf_modules.h"
#include "source/tensor_table.h"

namespace qinfer::source {

/// Norms of the embedding and of each sum, which go on as the residual stream.
inline constexpr model::NormPlaces kNormsOfSums = {.attention_replaces = true, .ffn_replaces = true};

/// Activations that an encoder may have in the place of the exact GELU.
inline constexpr ActivationName kEncoderActivations[] = {{"gelu_new", Activation::gelu_tanh},
                                                         {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                         {"silu", Activation::silu},
                                                         {"swish", Activation::silu}};

/// No rotary embedding.
Status read_no_rope(const formats::FieldReader& fields, const Architecture& architecture, model::ModelSpec& spec);

/// The fields of decoders, which must not be set; type_vocab_size, 2 where it is absent; and biases of all matrices or
/// of none.
Status read_encoder(const formats::FieldReader& fields, bool biases, model::ModelSpec& spec);

/// Learned positions, of which the first `unused` rows are of no token; a text has so many positions less.
void add_positions(std::uint32_t unused, model::ModelSpec& spec);

/// Architecture::other_prefixes of each: one may be within a class of another.
inline constexpr std::string_view kEncoderPrefixes[] = {"bert.", "roberta.", "model.", "mpnet.", "nomic_bert."};

/// Keys of GGUF files of encoders: the direction, and the sizes that only tensors tell.
Status add_encoder_fields(GgufFields& fields);
/// The same written: the direction, and the labels of a classifier, whose names no spec has.
void write_encoder_keys(const model::ModelSpec& spec, GgufKeys& keys);

}  // namespace qinfer::source
