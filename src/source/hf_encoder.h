// What the encoders of BERT's kind have in common: fields of config.json, places of norms, and the form of the table
// that names a family's tensors.
#pragma once

#include <string>

#include "source/architecture.h"
#include "source/gguf_fields.h"
#include "source/gguf_keys.h"
#include "source/gguf_tensors.h"

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

/// The labels of a classifier: num_labels or the length of id2label, 2 where both are absent.
Result<std::uint32_t> read_labels(const formats::FieldReader& fields);

/// A tensor of a family of encoders: what checkpoints and GGUF files call it, without the end, which is ".weight", or
/// ".bias" of its bias. The name of a layer's tensor follows what those of a layer begin with.
struct EncoderTensor {
  model::Role role;  ///< of the matrix or norm; its bias has the same name
  std::string_view name, gguf;
  /// Where one tensor holds several: its name. Its rows are those of all that name it, in the order of the table.
  std::string_view whole = {}, gguf_whole = {};
  bool outside = false;  ///< of what is around the layers: its name has no prefix
};

/// The names of a family.
struct EncoderNames {
  std::string_view layer;        ///< names of a layer's tensors begin with it, the layer's number and "."
  EncoderTensor embedding_norm;  ///< which is the norm before attention of layer 0
  /// The norm before attention of each other layer, and the last norm, are named as a tensor of the layer before: as
  /// that of the layer's sum, which the table has as attn_norm.
  bool norms_of_sums = true;
  std::span<const EncoderTensor> tensors, classifier = {};
};

/// What names of an encoder's tensors may begin with besides the architecture's own prefix, by the classes around it.
inline constexpr std::string_view kEncoderPrefixes[] = {"bert.", "roberta.", "model.", "mpnet.", "nomic_bert."};

/// What a tensor is called: in a checkpoint, and in a GGUF file. Empty names: the family has no such tensor.
/// `old_norms`: HfNames.
std::string encoder_name(const EncoderNames& names, const model::ModelSpec& spec, const model::TensorId& id,
                         std::string_view prefix, bool old_norms = false);
GgufPlace gguf_encoder_place(const EncoderNames& names, const model::ModelSpec& spec, const model::TensorId& id);
/// The larger tensor of a checkpoint that it is rows of; none where it is a separate one.
std::optional<HfPart> encoder_part(const EncoderNames& names, const model::ModelSpec& spec, const model::TensorId& id,
                                   std::string_view prefix);

/// Keys of GGUF files of encoders: the direction, and the sizes that only tensors tell.
Status add_encoder_fields(GgufFields& fields);
/// The same written: the direction, and the labels of a classifier, whose names no spec has.
void write_encoder_keys(const model::ModelSpec& spec, GgufKeys& keys);

}  // namespace qinfer::source
