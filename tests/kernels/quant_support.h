// Quantised matrices for the kernel tests: random blocks of any encoding, as the set holds them, and the same values as
// the set holds f32.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/quant_tiles.h"
#include "kernels/cut_weights.h"
#include "kernels/support.h"
#ifdef QINFER_HAVE_AMX
#include "kernels/amx_kernels.h"
#endif

namespace qinfer::test {

inline std::vector<Encoding> quantised_encodings() {
  std::vector<Encoding> out;
  for (const EncodingTraits& row : encodings())
    if (!is_plain(row.encoding)) out.push_back(row.encoding);
  return out;
}

/// Where a block has its f16 scales.
inline std::vector<std::size_t> f16_places(Encoding encoding) {
  switch (encoding) {
    case Encoding::mxfp4: return {};
    case Encoding::q3_k: return {108};
    case Encoding::q6_k: return {208};
    case Encoding::q4_1:
    case Encoding::q5_1:
    case Encoding::q4_k:
    case Encoding::q5_k: return {0, 2};
    default: return {0};
  }
}

/// Blocks of n values: random bytes with scales of all kinds, zero, negative and subnormal ones too, so that values are
/// of the order of one or less.
inline std::vector<std::byte> random_blocks(Random& random, Encoding encoding, std::int64_t n) {
  const EncodingTraits& traits = encoding_traits(encoding);
  std::vector<std::byte> out(encoded_bytes(encoding, static_cast<std::uint64_t>(n)));
  for (std::byte& b : out) b = static_cast<std::byte>(random.integer(256));
  for (std::size_t at = 0; at < out.size(); at += traits.block_bytes) {
    if (encoding == Encoding::mxfp4)
      out[at] = static_cast<std::byte>(random.integer(20) == 0 ? 0 : 116 + random.integer(12));
    for (const std::size_t place : f16_places(encoding)) {
      const bool is_long = traits.block_values == 256;
      float scale = random.value() * (is_long ? 0x1p-11f : encoding == Encoding::q8_0 ? 0x1p-6f : 0x1p-3f);
      if (random.integer(20) == 0) scale = random.integer(2) == 0 ? 0.0f : random.value() * 0x1p-22f;
      const std::uint16_t bits = f32_to_f16(scale);
      std::memcpy(out.data() + at + place, &bits, 2);
    }
  }
  return out;
}

/// A matrix of blocks in a form of the set's, with the values of all rows.
inline TestMatrix pack_blocks(const KernelSet& set, const std::vector<std::byte>& blocks, Encoding encoding,
                              const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  TestMatrix m;
  m.values.resize(static_cast<std::size_t>(rows * cols));
  encoding_traits(encoding).to_f32(blocks.data(), rows * cols, m.values.data());
  const Matrix source{blocks.data(), {encoding, WeightLayout::row_major}, rows, cols};
  const std::size_t bytes = weight_bytes(format, rows, cols), odd = is_plain(format.encoding) ? 0 : 1;
  m.bytes.resize(bytes + odd, std::byte{0xff});
  float largest = 0;
  for (std::int64_t first = 0; first < rows; first += 32)
    largest = std::max(largest, set.pack(source, format, {}, m.bytes.data() + odd, first, std::min(first + 32, rows)));
  PackInfo info;
  REQUIRE(set.pack_end(format, largest, info) == PackEnd::done);
  REQUIRE(info.scale == 1);
  m.view = {m.bytes.data() + odd, format, rows, cols, info};
  return m;
}

/// As what a set multiplies the values of blocks, unless it scales sums of integers.
inline Encoding widened_encoding(const KernelSet& set) {
  const bool rounds = row_of(set.name).numerics.multiplier(Encoding::q4_k) == Multiplier::bf16_tiles;
  return rounds ? Encoding::bf16 : Encoding::f32;
}

/// The same matrix as it is and as what the set multiplies for it: the values of its blocks in f32, or cut to bf16.
struct QuantMatrix {
  TestMatrix own, widened;
  const TestMatrix& as(bool wide) const { return wide ? widened : own; }
};

inline QuantMatrix make_quantised(const KernelSet& set, Random& random, Encoding encoding, std::int64_t rows,
                                  std::int64_t cols, WeightRole role = WeightRole::q) {
  const std::vector<std::byte> blocks = random_blocks(random, encoding, rows * cols);
  WeightFormat own, wide;
  const Encoding values = widened_encoding(set);
  REQUIRE(set.weight_format(role, encoding, nullptr, false, own));
  REQUIRE(own.encoding == encoding);
  if (values == Encoding::bf16)
    return {pack_blocks(set, blocks, encoding, own, rows, cols),
            pack_matrix(set, cut_values(encoding, blocks), DType::bf16, rows, cols)};
  REQUIRE(set.weight_format(role, encoding, &values, false, wide));
  return {pack_blocks(set, blocks, encoding, own, rows, cols), pack_blocks(set, blocks, encoding, wide, rows, cols)};
}

/// A matrix of any encoding; a plain one is the same in both forms.
inline QuantMatrix make_any(const KernelSet& set, Random& random, Encoding encoding, std::int64_t rows,
                            std::int64_t cols) {
  if (!is_plain(encoding)) return make_quantised(set, random, encoding, rows, cols);
  QuantMatrix m;
  const std::vector<float> values = random.values(static_cast<std::size_t>(rows * cols));
  const DType type = widened_encoding(set) == Encoding::bf16 ? DType::bf16 : element_type(encoding);
  m.widened = pack_matrix(set, values, type, rows, cols);
  // Of a set with a faster layout some are packed, others are rows as in the file.
  WeightFormat format = m.widened.view.format;
  if (set.pack_format != nullptr && random.integer(2) == 0) set.pack_format(WeightRole::gate, format);
  if (format == m.widened.view.format) {
    m.own = pack_matrix(set, values, type, rows, cols);
    return m;
  }
  m.own.bytes.resize(weight_bytes(format, rows, cols));
  set.pack(m.widened.view, format, {}, m.own.bytes.data(), 0, rows);
  m.own.view = {m.own.bytes.data(), format, rows, cols, m.widened.view.pack};
  return m;
}

/// Sets that keep quantised matrices in tiles and multiply with their values, unrounded, in f32.
inline std::vector<const KernelSet*> f32_quant_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet* set : usable_sets()) {
    WeightFormat format;
    if (row_of(set->name).numerics.multiplier(Encoding::q4_k) != Multiplier::f32_fma) continue;
    if (!set->weight_format(WeightRole::q, Encoding::q4_k, nullptr, false, format)) continue;
    if (format == WeightFormat{Encoding::q4_k, WeightLayout::tile32}) sets.push_back(set);
  }
  return sets;
}

/// Those, and the ones that multiply with the values cut to bf16, on tiles that may be emulated: sets whose results are
/// those of the widened values, bit for bit.
inline std::vector<const KernelSet*> quant_sets() {
  std::vector<const KernelSet*> sets = f32_quant_sets();
#ifdef QINFER_HAVE_AMX
  if (const KernelSet* set = emulated_set()) sets.push_back(set);
#endif
  return sets;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace qinfer::test
