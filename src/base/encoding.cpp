// See encoding.h.
#include "base/encoding.h"

#include <cstring>

#include "base/block_formats.h"

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

/// Of blocks of `values` values in `bytes` bytes, each widened by `widen`.
template <std::uint16_t values, std::uint16_t bytes, void (*widen)(const std::byte* block, float* out)>
void widen_blocks(const std::byte* source, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += values, source += bytes) widen(source, out + i);
}

template <std::uint16_t values, std::uint16_t bytes, void (*widen)(const std::byte* block, float* out)>
constexpr EncodingTraits quantised(Encoding encoding, std::string_view name) {
  return {encoding, name, values, bytes, std::nullopt, widen_blocks<values, bytes, widen>};
}

/// In the order of the enumeration.
constexpr EncodingTraits kEncodings[] = {
    {Encoding::f32, "f32", 1, 4, DType::f32, copy_f32},
    {Encoding::f16, "f16", 1, 2, DType::f16, widen_16bit<f16_to_f32>},
    {Encoding::bf16, "bf16", 1, 2, DType::bf16, widen_16bit<bf16_to_f32>},
    quantised<32, 34, blocks::widen_q8_0>(Encoding::q8_0, "q8_0"),
    quantised<32, 18, blocks::widen_q4_0>(Encoding::q4_0, "q4_0"),
    quantised<32, 20, blocks::widen_q4_1>(Encoding::q4_1, "q4_1"),
    quantised<32, 22, blocks::widen_q5_0>(Encoding::q5_0, "q5_0"),
    quantised<32, 24, blocks::widen_q5_1>(Encoding::q5_1, "q5_1"),
    quantised<256, 110, blocks::widen_q3_k>(Encoding::q3_k, "q3_k"),
    quantised<256, 144, blocks::widen_q4_k>(Encoding::q4_k, "q4_k"),
    quantised<256, 176, blocks::widen_q5_k>(Encoding::q5_k, "q5_k"),
    quantised<256, 210, blocks::widen_q6_k>(Encoding::q6_k, "q6_k"),
    quantised<32, 18, blocks::widen_iq4_nl>(Encoding::iq4_nl, "iq4_nl"),
    quantised<256, 136, blocks::widen_iq4_xs>(Encoding::iq4_xs, "iq4_xs"),
    quantised<32, 17, blocks::widen_mxfp4>(Encoding::mxfp4, "mxfp4"),
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
