// VCVTNE2PS2BF16 as tests execute it where the CPU does not: what it rounds to, and the registers that it reads and
// writes. On a CPU that has the instruction the same code compares the emulator's values with it.
#ifdef QINFER_HAVE_AMX
#include "support/bf16_emulator.h"

#include "kernels/amx_kernels.h"

namespace qinfer::test {
namespace {

struct Vectors {
  float low[16], high[16];
};

/// Values of all kinds: of any exponent, ties, denormals, infinities, NaN.
Vectors random_vectors(unsigned seed) {
  Random random(seed);
  Vectors out;
  for (float* values : {out.low, out.high})
    for (int i = 0; i < 16; ++i) {
      std::uint32_t bits = static_cast<std::uint32_t>(random.integer(1 << 16)) << 16 |
                           static_cast<std::uint32_t>(random.integer(1 << 16));
      switch (random.integer(6)) {
        case 0: bits = (bits & 0xffff0000) | 0x8000; break;  // a tie
        case 1: bits &= 0x807fffff; break;                   // denormal or zero
        case 2: bits |= 0x7f800000; break;                   // NaN
        case 3: bits = (bits & 0x80000000) | 0x7f800000; break;
        default: break;
      }
      std::memcpy(values + i, &bits, 4);
    }
  return out;
}

/// The instruction on the registers that it is written with.
#define QINFER_CONVERT(to, first, second)                                                                  \
  asm volatile("vmovups %1, %%zmm" #second "\n vmovups %2, %%zmm" #first "\n vcvtne2ps2bf16 %%zmm" #second \
               ", %%zmm" #first ", %%zmm" #to "\n vmovups %%zmm" #to ", %0"                                \
               : "=m"(result)                                                                              \
               : "m"(vectors.low), "m"(vectors.high)                                                       \
               : "xmm" #to, "xmm" #first, "xmm" #second)

struct Result {
  std::uint16_t values[32];
};

__attribute__((target("avx512f"))) std::vector<Result> convert(const Vectors& vectors) {
  Result result;
  std::vector<Result> all;
  QINFER_CONVERT(0, 1, 2);
  all.push_back(result);
  QINFER_CONVERT(7, 7, 8);
  all.push_back(result);
  QINFER_CONVERT(9, 15, 9);
  all.push_back(result);
  QINFER_CONVERT(16, 3, 31);
  all.push_back(result);
  QINFER_CONVERT(12, 24, 5);
  all.push_back(result);
  QINFER_CONVERT(31, 17, 23);
  all.push_back(result);
  return all;
}

#undef QINFER_CONVERT

}  // namespace
}  // namespace qinfer::test

TEST_CASE("VCVTNE2PS2BF16 is rounded as the manual says, in any registers", "[amx]") {
  using namespace qinfer::test;
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");  // and from here on the emulator executes it
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Vectors vectors = random_vectors(seed);
    Result want;
    amx::to_bf16(vectors.low, vectors.high, want.values);
    const std::vector<Result> got = convert(vectors);
    for (std::size_t form = 0; form < got.size(); ++form)
      for (int i = 0; i < 32; ++i) {
        INFO("seed " << seed << ", registers " << form << ", value " << i);
        REQUIRE(got[form].values[i] == want.values[i]);
      }
  }
  float low[16] = {1, -0.0f, 1e-40f, INFINITY, 3.3961775e38f, 1.00390625f, 1.01171875f}, high[16] = {NAN};
  std::uint16_t rounded[32];
  amx::to_bf16(low, high, rounded);
  const std::uint16_t expected[7] = {0x3f80, 0x8000, 0, 0x7f80, 0x7f80, 0x3f80, 0x3f82};  // the last two are ties
  for (int i = 0; i < 7; ++i) CHECK(rounded[i] == expected[i]);
  CHECK((rounded[16] & 0x7fff) == 0x7fc0);
}
#endif
