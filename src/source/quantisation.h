// Which encoding each matrix gets when a checkpoint is quantised: mixes of encodings, by role and layer. They are those
// that llama-quantize calls by the same names, so that files and their errors can be compared.
#pragma once

#include <optional>
#include <string_view>

#include "base/encoding.h"
#include "model/tensors.h"

namespace qinfer::source {

/// q8_0: all matrices. q4_0: the LM head, or the embedding that is one, is q6_k. q4_k_m: q4_k, but q6_k for the LM head
/// and, in half of the layers (the first and last eighth, and each third between), for values and down projections;
/// mixtures of eight experts have keys and values in q8_0, and what is one matrix in GGUF files (Phi 3's queries, keys
/// and values) is q5_k.
enum class Quantisation : std::uint8_t { q8_0, q4_0, q4_k_m };

std::optional<Quantisation> find_quantisation(std::string_view name);
/// "q8_0, q4_0 or q4_k_m", for messages.
std::string_view quantisation_names();

/// The encoding of a matrix with rows of `cols` values; nullopt: it stays as it is, as routers do, and rows that are no
/// whole blocks of 32. Rows that are no whole blocks of 256 have q5_0 for q4_k, q5_1 for q5_k and q8_0 for q6_k.
std::optional<Encoding> quantised_encoding(Quantisation mix, const model::ModelSpec& spec, const model::TensorId& id,
                                           std::int64_t cols);

}  // namespace qinfer::source
