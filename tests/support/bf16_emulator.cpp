// See bf16_emulator.h.
#include "support/bf16_emulator.h"

#ifdef QINFER_HAVE_AMX

#include <cpuid.h>
#include <ucontext.h>

#include <cstring>

namespace qinfer::test::amx {
namespace {

/// The SDM's convert_fp32_to_bfloat16: to nearest, ties to even, whatever MXCSR says; denormals become zeros and NaNs
/// quiet ones.
std::uint16_t to_bf16(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, 4);
  const std::uint32_t exponent = bits & 0x7f800000, fraction = bits & 0x007fffff;
  if (exponent == 0) return static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  if (exponent == 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | (fraction != 0 ? 0x40 : 0));
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The parts of the XSAVE area in a signal frame (SDM volume 1, 13.4) that hold vector registers: SSE, AVX, the upper
/// halves of zmm0 to zmm15, and zmm16 to zmm31.
class VectorRegisters {
 public:
  explicit VectorRegisters(void* ucontext)
      : area_(reinterpret_cast<std::uint8_t*>(static_cast<ucontext_t*>(ucontext)->uc_mcontext.fpregs)) {}

  void load(unsigned zmm, std::uint8_t* out) {
    for_parts(zmm, [&](unsigned component, std::size_t offset, std::size_t at, std::size_t bytes) {
      make_present(component);
      std::memcpy(out + at, area_ + offset, bytes);
    });
  }
  void store(unsigned zmm, const std::uint8_t* value) {
    for_parts(zmm, [&](unsigned component, std::size_t offset, std::size_t at, std::size_t bytes) {
      make_present(component);
      std::memcpy(area_ + offset, value + at, bytes);
    });
  }

 private:
  static constexpr unsigned kSse = 1, kAvx = 2, kZmmHigh = 6, kZmm16 = 7;

  static std::size_t offset_of(unsigned component) {
    if (component == kSse) return 160;
    unsigned bytes = 0, offset = 0, c = 0, d = 0;
    __cpuid_count(0xd, component, bytes, offset, c, d);
    return offset;
  }
  static std::size_t bytes_of(unsigned component) {
    return component == kZmm16 ? 1024 : component == kZmmHigh ? 512 : 256;
  }

  /// A component that is in its initial state need not be in memory: zeros.
  void make_present(unsigned component) {
    std::uint64_t present = 0;
    std::memcpy(&present, area_ + 512, 8);
    if ((present >> component & 1) != 0) return;
    std::memset(area_ + offset_of(component), 0, bytes_of(component));
    present |= std::uint64_t{1} << component;
    std::memcpy(area_ + 512, &present, 8);
  }

  /// Calls f(component, offset in the area, offset in the register, bytes).
  template <typename F>
  void for_parts(unsigned zmm, F f) {
    if (zmm >= 16) return f(kZmm16, offset_of(kZmm16) + (zmm - 16) * std::size_t{64}, 0, 64);
    f(kSse, offset_of(kSse) + zmm * std::size_t{16}, 0, 16);
    f(kAvx, offset_of(kAvx) + zmm * std::size_t{16}, 16, 16);
    f(kZmmHigh, offset_of(kZmmHigh) + zmm * std::size_t{32}, 32, 32);
  }

  std::uint8_t* area_;
};

}  // namespace

void to_bf16(const float* low, const float* high, std::uint16_t* out) {
  for (int i = 0; i < 16; ++i) out[i] = to_bf16(low[i]), out[16 + i] = to_bf16(high[i]);
}

bool is_bf16(const std::uint8_t* code) {
  // EVEX.512.F2.0F38.W0 72 /r, registers only, neither masked nor broadcast (SDM volume 2, 2.7.1).
  return code[0] == 0x62 && (code[1] & 0x0f) == 2 && (code[2] & 0x87) == 7 && (code[3] & 0xf7) == 0x40 &&
         code[4] == 0x72 && code[5] >> 6 == 3;
}

std::size_t execute_bf16(const std::uint8_t* code, void* ucontext) {
  if (!is_bf16(code)) return 0;
  const unsigned inverted = ~unsigned{code[1]}, vvvv = ~(unsigned{code[2]} >> 3) & 15,
                 v = ~(unsigned{code[3]} >> 3) & 1;
  const unsigned destination = (code[5] >> 3 & 7u) | (inverted >> 7 & 1) << 3 | (inverted >> 4 & 1) << 4;
  const unsigned low = (code[5] & 7u) | (inverted >> 5 & 1) << 3 | (inverted >> 6 & 1) << 4, high = vvvv | v << 4;
  VectorRegisters registers(ucontext);
  float values[2][16];
  registers.load(low, reinterpret_cast<std::uint8_t*>(values[0]));
  registers.load(high, reinterpret_cast<std::uint8_t*>(values[1]));
  std::uint16_t rounded[32];
  to_bf16(values[0], values[1], rounded);
  registers.store(destination, reinterpret_cast<const std::uint8_t*>(rounded));
  return 6;
}

}  // namespace qinfer::test::amx
#endif
