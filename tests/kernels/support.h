// What the kernel tests share: random values, weights in a set's own format with the values they really hold, float64
// sums with their error bounds, and a runner that cuts units as a team would.
//
// Bounds: a sum of K products in f32, in any order, errs by at most depth * 2^-24 * sum|x w| (Higham 2002,
// section 3.1), depth being K / 16 + 4 for sixteen lanes and K for a sequential sum. In f16 every run of 64 products
// errs by at most 64 * 2^-11 of its magnitude, and rounding an activation by 2^-11; that bound is far from what
// happens, so f16 sums are also compared bit for bit with a model of them (kernels_linear.cpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/math.h"
#include "kernel_set.h"
#include "kernels/activations.h"
#include "support/amx_emulator.h"
#include "support/catch.h"
#include "support/targets.h"

namespace qinfer::test {

using namespace qinfer::kernels;

inline constexpr double kEps = 0x1p-24;

/// Whether products are those of activations rounded to bf16, with the weights and values of attention likewise.
inline bool rounds_to_bf16(const KernelSet& set) { return rounds_to_bf16(std::string_view(set.name)); }
/// Whether attention over keys and values of this type rounds queries and weights to bf16.
inline bool attention_rounds_to_bf16(const KernelSet& set, DType type) {
  const Multiplier multiplier = row_of(set.name).numerics.multiplier(encoding_of(type));
  return multiplier == Multiplier::bf16_tiles || multiplier == Multiplier::bf16_dot;
}
/// Half a unit in the last place of bf16, relative.
inline constexpr double kBf16 = 0x1p-8;

inline const KernelSet* usable_set(std::string_view name) {
  const KernelSet* set = find_kernel_set(name, usable_features());
  return set;
}

/// The set; where this CPU has AVX-512 without the BF16 or FP16 that the set needs, with those instructions emulated.
inline const KernelSet* emulable_set(std::string_view name) {
  const KernelSet* set = usable_set(name);
#ifdef QINFER_HAVE_AMX
  if (set == nullptr && (name == "avx512_fp16" || name == "avx512_bf16" || name == "amx_int16")) {
    set = find_kernel_set(name, usable_features() + " avx512_bf16 avx512_fp16 amx_tile amx_bf16");
    if (set != nullptr) emulator::install();
  }
#endif
  return set;
}

/// Every set that this CPU can run.
inline std::vector<const KernelSet*> usable_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSetRow& row : kernel_sets())
    if (const KernelSet* set = usable_set(row.name)) sets.push_back(set);
  return sets;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// A wide spread of magnitudes: uniform sign, normal times a power of two.
  float value() { return static_cast<float>(normal_(engine_) * std::exp2(spread_(engine_))); }
  std::vector<float> values(std::size_t n) {
    std::vector<float> out(n);
    for (float& v : out) v = value();
    return out;
  }
  int integer(int below) { return static_cast<int>(engine_() % static_cast<unsigned>(below)); }

 private:
  std::mt19937 engine_;
  std::normal_distribution<double> normal_;
  std::uniform_int_distribution<int> spread_{-3, 1};
};

/// The types in which a set can hold matrices to multiply with.
inline std::vector<DType> weight_dtypes(const KernelSet& set) {
  std::vector<DType> types;
  WeightFormat format;
  for (const EncodingTraits& row : encodings())
    if (row.plain_type && set.weight_format(WeightRole::q, Encoding::f32, &row.encoding, false, format))
      types.push_back(*row.plain_type);
  return types;
}

/// ActivationBuffer of n rows such that rounding them, where the set does, changes nothing: bounds then are those of
/// sums alone.
inline std::vector<float> as_activations(const KernelSet& set, std::vector<float> values) {
  if (rounds_to_bf16(set))
    for (float& v : values) v = bf16_to_f32(f32_to_bf16(v));
  return values;
}

/// A weight matrix in some dtype at an odd address, with the values it really holds.
struct TestMatrix {
  std::vector<std::byte> bytes;
  std::vector<float> values;
  Matrix view;
};

/// Weights as `values` says, rounded to the type.
inline TestMatrix pack_matrix(const KernelSet& set, std::vector<float> values, DType dtype, std::int64_t rows,
                              std::int64_t cols, WeightRole role = WeightRole::q) {
  TestMatrix m;
  m.values = std::move(values);
  const WeightFormat file{Encoding::f32, WeightLayout::row_major};
  const Matrix source{reinterpret_cast<const std::byte*>(m.values.data()), file, rows, cols};
  WeightFormat format;
  const Encoding encoding = encoding_of(dtype);
  if (role == WeightRole::embedding) {
    format = {encoding, WeightLayout::row_major};
  } else {
    REQUIRE(set.weight_format(role, Encoding::f32, &encoding, false, format));
  }
  REQUIRE(format.encoding == encoding);
  m.bytes.resize(weight_bytes(format, rows, cols) + 2, std::byte{0xff});
  std::byte* at = m.bytes.data() + (dtype == DType::f32 ? 0 : 2);  // 16-bit weights at 2-byte alignment
  float largest = 0;
  for (std::int64_t first = 0; first < rows; first += 32)
    largest = std::max(largest, set.pack(source, format, {}, at, first, std::min(first + 32, rows)));
  m.view = {at, format, rows, cols, {1, largest}};
  for (float& v : m.values) {
    if (dtype == DType::f16) v = f16_to_f32(f32_to_f16(v));
    if (dtype == DType::bf16) v = bf16_to_f32(f32_to_bf16(v));
  }
  return m;
}

inline TestMatrix make_matrix(const KernelSet& set, Random& random, DType dtype, std::int64_t rows, std::int64_t cols,
                              WeightRole role = WeightRole::q) {
  return pack_matrix(set, random.values(static_cast<std::size_t>(rows * cols)), dtype, rows, cols, role);
}

/// Whether projections of this type are summed in f16.
inline bool sums_in_f16(const KernelSet& set, DType dtype) {
  return row_of(set.name).numerics.multiplier(encoding_of(dtype)) == Multiplier::f16_fma;
}

struct Sum {
  double value = 0, magnitude = 0;
};

inline Sum dot(const float* x, const float* w, std::int64_t cols) {
  Sum sum;
  for (std::int64_t k = 0; k < cols; ++k) {
    const double product = static_cast<double>(x[k]) * w[k];
    sum.value += product;
    sum.magnitude += std::fabs(product);
  }
  return sum;
}

inline double sum_bound(const KernelSet& set, DType dtype, const Sum& sum, std::int64_t cols) {
  if (sums_in_f16(set, dtype)) return 66 * 0x1p-11 * sum.magnitude + 1e-30;
  const double depth = static_cast<double>(cols) / static_cast<double>(row_of(set.name).numerics.lanes);
  return (depth + 8) * kEps * sum.magnitude + 1e-30;
}

/// Of a linear layer alone, for its workspace.
inline Shape linear_shape(std::int64_t n, std::int64_t cols) {
  return {.batch = static_cast<std::uint32_t>(n),
          .hidden = static_cast<std::uint32_t>(cols),
          .n_heads = 1,
          .n_kv_heads = 1,
          .head_dim = 2,
          .ffn = 1,
          .vocab = 1,
          .context = 1};
}

/// Runs all phases; the units are cut into uneven slices for several workers, and the last ones one by one, as a team
/// would.
template <typename Args>
void run_all(const Operation<Args>& operation, Args& args, WorkspaceSize size, std::vector<std::byte>& memory,
             int workers) {
  memory.assign(size.shared + size.per_worker * static_cast<std::size_t>(workers) + 128, std::byte{0xff});
  auto base = reinterpret_cast<std::uintptr_t>(memory.data());
  std::byte* aligned = memory.data() + (64 - base % 64) % 64;
  if constexpr (requires { args.workspace; }) args.workspace = {aligned, aligned + size.shared, size.per_worker};
  for (int phase = 0; phase < operation.phases(args); ++phase) {
    const std::int64_t units = operation.units(args, phase), own = workers > 1 ? units - (units + 3) / 4 : units;
    for (int w = workers; w-- > 0;) operation.run(args, phase, {own * w / workers, own * (w + 1) / workers, w});
    for (std::int64_t i = own; i < units; ++i)
      operation.run(args, phase, {i, i + 1, static_cast<std::int32_t>((units - i) % workers)});
  }
}

// One test for each operation of the table.
void test_linear(const KernelSet& set, DType dtype);
void test_qkv(const KernelSet& set, DType dtype);
void test_attention(const KernelSet& set, DType type);
void test_ffn(const KernelSet& set, DType dtype);
void test_moe_ffn(const KernelSet& set, DType dtype);
void test_lm_head(const KernelSet& set, DType dtype);
/// The same bits for any rows beside a row, any slices, and split attention.
void test_linear_invariance(const KernelSet& set);
void test_split_attention(const KernelSet& set);
void test_moe_invariance(const KernelSet& set);
void test_moe_not_finite(const KernelSet& set);

}  // namespace qinfer::test
