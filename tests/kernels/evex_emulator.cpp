// The instructions of AVX512-BF16 and AVX512-FP16 as tests execute them where the CPU does not: what they round to, and
// the registers, masks and memory that they read and write. On a CPU that has them the same code compares the
// emulator's values with its own.
#ifdef QINFER_HAVE_AMX
#include "support/evex_emulator.h"

#include "kernels/amx_kernels.h"
#include "support/half_arithmetic.h"

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

/// Any 16 bits, and often those of values near each other.
std::vector<std::uint16_t> random_halves(Random& random) {
  std::vector<std::uint16_t> out(32);
  for (std::uint16_t& half : out) {
    half = static_cast<std::uint16_t>(random.integer(1 << 16));
    if (random.integer(2) == 0)
      half = static_cast<std::uint16_t>((half & 0x87ff) | 0x3800);  // magnitudes from 1/2 to 2
    if (random.integer(12) == 0) half &= 0x83ff;                    // denormal or zero
  }
  return out;
}

bool is_nan_f16(std::uint16_t half) { return (half & 0x7fff) > 0x7c00; }

/// c += a * b in five forms: of registers, masked, and of memory in three addressing modes; and what else is executed.
__attribute__((target("avx512f,avx512bw"))) void calculate_f16(const std::uint16_t* a, const std::uint16_t* b,
                                                               std::uint16_t* c, std::uint32_t mask, int form) {
  const long index = 8;
  asm volatile("vmovups (%0), %%zmm19\n vmovups (%1), %%zmm4\n vmovups (%2), %%zmm25\n kmovd %3, %%k3"
               :
               : "r"(a), "r"(b), "r"(c), "r"(mask)
               : "xmm19", "xmm4", "xmm25", "k3");
  switch (form) {
    case 0: asm volatile("vfmadd231ph %%zmm4, %%zmm19, %%zmm25" : : : "xmm25"); break;
    case 1: asm volatile("vfmadd231ph %%zmm4, %%zmm19, %%zmm25 %{%%k3%}" : : : "xmm25"); break;
    case 2: asm volatile("vfmadd231ph 64(%0), %%zmm19, %%zmm25" : : "r"(b - 32) : "xmm25", "memory"); break;
    case 3:
      asm volatile("vfmadd231ph (%0,%1,8), %%zmm19, %%zmm25" : : "r"(b - 32), "r"(index) : "xmm25", "memory");
      break;
    case 4:
      asm volatile("vfmadd231ph 4096(%0,%1,4), %%zmm19, %%zmm25"
                   :
                   : "r"(b - 2048 - 16), "r"(index)
                   : "xmm25", "memory");
      break;
    case 5: asm volatile("vfmadd132ph %%zmm4, %%zmm19, %%zmm25" : : : "xmm25"); break;
    case 6: asm volatile("vfmadd213ph %%zmm4, %%zmm19, %%zmm25" : : : "xmm25"); break;
    case 7: asm volatile("vaddph %%zmm4, %%zmm19, %%zmm25 %{%%k3%}" : : : "xmm25"); break;
    case 8: asm volatile("vaddph 64(%0), %%zmm19, %%zmm25" : : "r"(b - 32) : "xmm25", "memory"); break;
    default: asm volatile("vcvtw2ph %%zmm4, %%zmm25" : : : "xmm25");
  }
  asm volatile("vmovups %%zmm25, (%0)" : : "r"(c) : "memory");
}

constexpr int kForms = 10;

/// What a form of calculate_f16() gives in a lane.
std::uint16_t wanted_f16(int form, std::uint16_t a, std::uint16_t b, std::uint16_t c, bool taken) {
  switch (form) {
    case 1: return taken ? emulator::fma_f16(a, b, c) : c;
    case 5: return emulator::fma_f16(c, b, a);
    case 6: return emulator::fma_f16(a, c, b);
    case 7: return taken ? emulator::add_f16(a, b) : c;
    case 8: return emulator::add_f16(a, b);
    case 9: return emulator::i16_to_f16(static_cast<std::int16_t>(b));
    default: return emulator::fma_f16(a, b, c);
  }
}

__attribute__((target("avx512f"))) void multiply_bf16(const std::uint16_t* a, const std::uint16_t* b, float* sums) {
  asm volatile("vmovups (%0), %%zmm30\n vmovups (%1), %%zmm2\n vmovups (%2), %%zmm13"
               :
               : "r"(a), "r"(b), "r"(sums)
               : "xmm30", "xmm2", "xmm13");
  asm volatile("vdpbf16ps %%zmm2, %%zmm30, %%zmm13" : : : "xmm13");
  asm volatile("vmovups %%zmm13, (%0)" : : "r"(sums) : "memory");
}

}  // namespace
}  // namespace qinfer::test

TEST_CASE("VCVTNE2PS2BF16 is rounded as the manual says, in any registers", "[amx]") {
  using namespace qinfer::test;
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");  // and from here on the emulator executes it
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Vectors vectors = random_vectors(seed);
    Result want;
    emulator::to_bf16(vectors.low, vectors.high, want.values);
    const std::vector<Result> got = convert(vectors);
    for (std::size_t form = 0; form < got.size(); ++form)
      for (int i = 0; i < 32; ++i) {
        INFO("seed " << seed << ", registers " << form << ", value " << i);
        REQUIRE(got[form].values[i] == want.values[i]);
      }
  }
  float low[16] = {1, -0.0f, 1e-40f, INFINITY, 3.3961775e38f, 1.00390625f, 1.01171875f}, high[16] = {NAN};
  std::uint16_t rounded[32];
  emulator::to_bf16(low, high, rounded);
  const std::uint16_t expected[7] = {0x3f80, 0x8000, 0, 0x7f80, 0x7f80, 0x3f80, 0x3f82};  // the last two are ties
  for (int i = 0; i < 7; ++i) CHECK(rounded[i] == expected[i]);
  CHECK((rounded[16] & 0x7fff) == 0x7fc0);
}

TEST_CASE("integers become f16 to nearest", "[amx]") {
  using namespace qinfer::test;
  for (int i = -32768; i < 32768; ++i)
    REQUIRE(emulator::i16_to_f16(static_cast<std::int16_t>(i)) == qinfer::f32_to_f16(static_cast<float>(i)));
}

TEST_CASE("a product and sum of f16 is rounded once", "[amx]") {
  using namespace qinfer::test;
  const auto half = [](double x) { return qinfer::f32_to_f16(static_cast<float>(x)); };
  CHECK(emulator::fma_f16(half(1), half(1), half(1)) == half(2));
  CHECK(emulator::fma_f16(half(-1), half(1), half(1)) == 0);  // +0
  CHECK(emulator::fma_f16(0x8000, half(1), 0x8000) == 0x8000);
  CHECK(emulator::fma_f16(half(300), half(300), half(0)) == 0x7c00);
  CHECK(emulator::fma_f16(half(255.875), half(256), half(0)) == 0x7bff);  // 65504
  CHECK(emulator::fma_f16(1, 1, 0) == 0);                                 // 2^-48
  // 1 + 2^-11 is a tie, which the smallest product breaks.
  CHECK(emulator::fma_f16(half(0x1p-5), half(0x1p-6), half(1)) == half(1));
  CHECK(emulator::fma_f16(half(0x1.004p-5), half(0x1p-6), half(1)) == half(1 + 0x1p-10));
  CHECK(emulator::fma_f16(half(0x1.ffcp-6), half(0x1p-6), half(1)) == half(1));
  // 2048 + 1 +- 2^-48: further apart than f64 has bits.
  CHECK(emulator::fma_f16(1, 1, half(2048)) == half(2048));
  CHECK(emulator::fma_f16(0x7c00, 0, half(1)) == 0x7e00);
  CHECK(emulator::fma_f16(0x7c00, half(1), 0xfc00) == 0x7e00);
  CHECK(emulator::fma_f16(0xfc00, half(1), half(1)) == 0xfc00);
  for (unsigned i = 0; i < 0x10000; ++i) {  // times 1, plus 0: the same
    const auto value = static_cast<std::uint16_t>(i);
    if (is_nan_f16(value)) continue;
    REQUIRE(emulator::fma_f16(value, half(1), static_cast<std::uint16_t>(value & 0x8000)) == value);
  }
}

TEST_CASE("instructions of AVX512-FP16 and VDPBF16PS take registers, masks and memory as they are encoded", "[amx]") {
  using namespace qinfer::test;
  SKIP_UNLESS_CPU_HAS(emulable_set("avx512_fp16") != nullptr && emulable_set("avx512_bf16") != nullptr, "AVX-512");
  Random random(9);
  for (int round = 0; round < 500; ++round) {
    const std::vector<std::uint16_t> a = random_halves(random), b = random_halves(random), c = random_halves(random);
    const std::uint32_t mask = static_cast<std::uint32_t>(random.integer(1 << 16)) * 65537u;
    for (int form = 0; form < kForms; ++form) {
      std::vector<std::uint16_t> got = c;
      calculate_f16(a.data(), b.data(), got.data(), mask, form);
      for (std::size_t i = 0; i < 32; ++i) {
        const std::uint16_t want = wanted_f16(form, a[i], b[i], c[i], (mask >> i & 1) != 0);
        INFO("round " << round << ", form " << form << ", lane " << i << ": " << a[i] << ", " << b[i] << ", " << c[i]);
        REQUIRE((got[i] == want || (is_nan_f16(got[i]) && is_nan_f16(want))));
      }
    }
    std::vector<float> sums = random.values(16), want = sums;
    multiply_bf16(a.data(), b.data(), sums.data());
    emulator::dot_bf16(a.data(), b.data(), want.data());
    for (std::size_t i = 0; i < 16; ++i)
      REQUIRE((std::memcmp(&sums[i], &want[i], 4) == 0 || (std::isnan(sums[i]) && std::isnan(want[i]))));
  }
}
#endif
