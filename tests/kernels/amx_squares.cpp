// Weights in squares of 32 by 32 (WeightLayout::squares32), which `amx` multiplies fastest: every operation equals its
// definition with them, reads nothing but its operands, and has the bits that rows give.
#ifdef QINFER_HAVE_AMX
#include "kernels/amx_kernels.h"

namespace qinfer::test {
namespace {

/// `amx`, with matrices in squares wherever it takes them.
KernelSet set_of_squares() {
  KernelSet set = *emulated_set();
  set.weight_format = [](WeightRole role, Encoding stored, const Encoding* wanted, bool exact, WeightFormat& out) {
    const KernelSet& amx = *emulated_set();
    if (!amx.weight_format(role, stored, wanted, exact, out)) return false;
    amx.pack_format(role, out);
    return true;
  };
  return set;
}

}  // namespace
}  // namespace qinfer::test

using namespace qinfer;
using namespace qinfer::test;

TEST_CASE("every AMX operation equals its definition with weights in squares", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  const KernelSet set = set_of_squares();
  WeightFormat format;
  REQUIRE(set.weight_format(WeightRole::q, Encoding::bf16, nullptr, false, format));
  REQUIRE(format == WeightFormat{Encoding::bf16, WeightLayout::squares32});
  test_linear(set, DType::bf16);
  test_ffn(set, DType::bf16);
  test_moe_ffn(set, DType::bf16);
  test_lm_head(set, DType::bf16);
  test_qkv(set, DType::bf16);
  test_linear_invariance(set);
  test_moe_invariance(set);
}

TEST_CASE("AMX linear layers read each square once and nothing else, and have the bits of rows", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const bool counted = !emulator::is_native();
  struct Case {
    std::int64_t n, cols, outputs;
  };
  const Case cases[] = {{1, 64, 128},  {5, 96, 64},  {16, 64, 96}, {17, 256, 64},   {33, 100, 50},   {40, 33, 33},
                        {7, 31, 17},   {1, 1, 1},    {32, 32, 16}, {2, 65, 31},     {64, 64, 64},    {9, 2, 97},
                        {40, 64, 640}, {48, 31, 15}, {3, 160, 32}, {530, 2100, 40}, {33, 2100, 700}, {31, 128, 160}};
  for (const Case& c : cases)
    for (const bool at_end : {true, false}) {
      INFO("n " << c.n << " cols " << c.cols << " outputs " << c.outputs << (at_end ? " at the end" : " at the begin"));
      const LinearRun rows = guarded_linear(*set, c.n, c.cols, c.outputs, at_end),
                      squares = guarded_linear(*set, c.n, c.cols, c.outputs, at_end, WeightLayout::squares32);
      CHECK((squares.out == rows.out));
      if (!counted) continue;
      CHECK(squares.counts.multiplications == rows.counts.multiplications);
      const bool whole = c.outputs % 16 == 0, few = c.n <= 32;
      const std::int64_t lines = c.outputs * ((c.cols + 31) / 32), pairs_of_panels = (c.n + 31) / 32;
      if (whole) CHECK(squares.counts.watched_lines == static_cast<std::uint64_t>(lines * (few ? 1 : pairs_of_panels)));
    }
}

TEST_CASE("packing into squares keeps every bit of bf16, in any parts", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const WeightFormat rows{Encoding::bf16, WeightLayout::row_major}, squares{Encoding::bf16, WeightLayout::squares32};
  for (const std::int64_t n : {1, 31, 32, 33, 80})
    for (const std::int64_t cols : {1, 31, 32, 33, 100}) {
      std::vector<std::uint16_t> source(static_cast<std::size_t>(n * cols));
      for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint16_t>(i * 40503 + 0x7f80);
      const Matrix matrix{reinterpret_cast<const std::byte*>(source.data()), rows, n, cols};
      std::vector<std::uint16_t> packed(weight_bytes(squares, n, cols) / 2, 0xffff);
      for (std::int64_t first = 0; first < n; first += 32)
        set->pack(matrix, squares, {}, reinterpret_cast<std::byte*>(packed.data()), first, std::min(first + 32, n));
      std::vector<std::uint16_t> want(packed.size());
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < cols; ++k)
          want[static_cast<std::size_t>((i / 32 * ((cols + 31) / 32) + k / 32) * 1024 + i % 32 * 32 + k % 32)] =
              source[static_cast<std::size_t>(i * cols + k)];
      INFO(n << " x " << cols);
      CHECK((packed == want));
    }
}
#endif
