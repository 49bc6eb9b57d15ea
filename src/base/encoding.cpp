// See encoding.h.
#include "base/encoding.h"

#include <cstring>

namespace qinfer {
namespace {

void copy_f32(const std::byte* source, std::int64_t n, float* out) {
  std::memcpy(out, source, static_cast<std::size_t>(n) * sizeof(float));
}

template <float (*widen)(std::uint16_t bits)>
void widen_16bit(const std::byte* source, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, source + 2 * i, 2);
    out[i] = widen(bits);
  }
}

/// In the order of the enumeration.
constexpr EncodingTraits kEncodings[] = {
    {Encoding::f32, "f32", 1, 4, DType::f32, copy_f32},
    {Encoding::f16, "f16", 1, 2, DType::f16, widen_16bit<f16_to_f32>},
    {Encoding::bf16, "bf16", 1, 2, DType::bf16, widen_16bit<bf16_to_f32>},
};

}  // namespace

std::span<const EncodingTraits> encodings() { return kEncodings; }

const EncodingTraits& encoding_traits(Encoding encoding) { return kEncodings[static_cast<std::size_t>(encoding)]; }

std::optional<Encoding> find_encoding(std::string_view name) {
  for (const EncodingTraits& traits : kEncodings)
    if (traits.name == name) return traits.encoding;
  return std::nullopt;
}

std::string_view encoding_names() { return "f32, f16 or bf16"; }

bool holds_exactly(Encoding from, Encoding to) { return from == to || to == Encoding::f32; }

}  // namespace qinfer
