// How weights are stored: one row of traits for each encoding, which is all that files, memory plans and messages need
// to know about it. A DType is what activations, keys and values are made of; an encoding may also pack a block of
// values together with what they share, such as a scale, so its sizes are counted in blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace qinfer {

/// After the plain ones those of GGUF files, whose blocks block_formats.h describes.
enum class Encoding : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4
};

struct EncodingTraits {
  Encoding encoding;
  std::string_view name;            ///< in options, messages, memory plans and packed files
  std::uint16_t block_values;       ///< values of one block; a row of a matrix is whole blocks
  std::uint16_t block_bytes;        ///< bytes of one block
  std::optional<DType> plain_type;  ///< of an encoding whose block is one value of that type
  /// Widens n values, whole blocks, to f32. `source` may have any alignment.
  void (*to_f32)(const std::byte* source, std::int64_t n, float* out);
};

/// All encodings there are.
std::span<const EncodingTraits> encodings();
const EncodingTraits& encoding_traits(Encoding encoding);

inline std::string_view encoding_name(Encoding encoding) { return encoding_traits(encoding).name; }
std::optional<Encoding> find_encoding(std::string_view name);
/// "f32, f16 or bf16": the encodings that matrices are converted to, for messages.
std::string_view encoding_names();

/// Whether a block is one value. The others are quantised.
constexpr bool is_plain(Encoding encoding) { return encoding <= Encoding::bf16; }

/// Bytes of n values, which are whole blocks.
inline std::uint64_t encoded_bytes(Encoding encoding, std::uint64_t n) {
  const EncodingTraits& traits = encoding_traits(encoding);
  return n / traits.block_values * traits.block_bytes;
}

/// Whether every value of `from` exists in `to`.
bool holds_exactly(Encoding from, Encoding to);

/// The encoding of plain values of a type.
constexpr Encoding encoding_of(DType type) {
  return type == DType::f32 ? Encoding::f32 : type == DType::f16 ? Encoding::f16 : Encoding::bf16;
}

/// The type of the values of a plain encoding: what kernels that take one value at a time choose their loops by. A
/// quantised encoding has none; for it the answer is f32, what its values are widened to.
constexpr DType element_type(Encoding encoding) {
  return encoding == Encoding::f16 ? DType::f16 : encoding == Encoding::bf16 ? DType::bf16 : DType::f32;
}

}  // namespace qinfer
