// See evex_emulator.h.
#include "support/evex_emulator.h"

#ifdef QINFER_HAVE_AMX

#include <cpuid.h>
#include <immintrin.h>
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <initializer_list>

#include "support/amx_emulator.h"
#include "support/half_arithmetic.h"

namespace qinfer::test::emulator {
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

/// The parts of the XSAVE area in a signal frame (SDM volume 1, 13.4) that hold vector registers: SSE, AVX, the masks,
/// the upper halves of zmm0 to zmm15, and zmm16 to zmm31.
class VectorRegisters {
 public:
  explicit VectorRegisters(void* ucontext)
      : area_(reinterpret_cast<std::uint8_t*>(static_cast<ucontext_t*>(ucontext)->uc_mcontext.fpregs)) {}

  void load(unsigned zmm, void* out) {
    for_parts(zmm, [&](std::uint8_t* part, std::size_t at, std::size_t bytes) {
      std::memcpy(static_cast<std::uint8_t*>(out) + at, part, bytes);
    });
  }
  void store(unsigned zmm, const void* value) {
    for_parts(zmm, [&](std::uint8_t* part, std::size_t at, std::size_t bytes) {
      std::memcpy(part, static_cast<const std::uint8_t*>(value) + at, bytes);
    });
  }
  std::uint64_t mask(unsigned k) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, present(kMasks) + 8 * k, 8);
    return bits;
  }

 private:
  static constexpr unsigned kSse = 1, kAvx = 2, kMasks = 5, kZmmHigh = 6, kZmm16 = 7;
  struct Component {
    std::size_t offset = 160, bytes = 256;
  };

  static const Component& component(unsigned index) {
    static Component all[8];
    Component& found = all[index];
    if (index == kSse || found.offset != Component().offset) return found;
    unsigned bytes = 0, offset = 0, c = 0, d = 0;
    __cpuid_count(0xd, index, bytes, offset, c, d);
    found = {offset, bytes};
    return found;
  }

  /// Where a component is. One that is in its initial state need not be in memory: zeros.
  std::uint8_t* present(unsigned index) {
    const Component& found = component(index);
    std::uint64_t there = 0;
    std::memcpy(&there, area_ + 512, 8);
    if ((there >> index & 1) == 0) {
      std::memset(area_ + found.offset, 0, found.bytes);
      there |= std::uint64_t{1} << index;
      std::memcpy(area_ + 512, &there, 8);
    }
    return area_ + found.offset;
  }

  /// Calls f(part, offset in the register, bytes).
  template <typename F>
  void for_parts(unsigned zmm, F f) {
    if (zmm >= 16) return f(present(kZmm16) + (zmm - 16) * std::size_t{64}, 0, 64);
    f(present(kSse) + zmm * std::size_t{16}, 0, 16);
    f(present(kAvx) + zmm * std::size_t{16}, 16, 16);
    f(present(kZmmHigh) + zmm * std::size_t{32}, 32, 32);
  }

  std::uint8_t* area_;
};

enum class Operation : std::uint8_t {
  none,
  convert_bf16,
  dot_bf16,
  fma132_f16,
  fma213_f16,
  fma231_f16,
  add_f16,
  i16_to_f16
};

/// By opcode map, prefix and opcode of EVEX.512.W0, neither zeroed nor broadcast (SDM volume 2, 2.7.1).
Operation operation_of(const std::uint8_t* code) {
  if (code[0] != 0x62 || (code[1] & 8) != 0 || (code[2] & 0x84) != 4 || (code[3] & 0xf0) != 0x40)
    return Operation::none;
  const unsigned map = code[1] & 7, prefix = code[2] & 3, mask = code[3] & 7, opcode = code[4];
  const bool registers = code[5] >> 6 == 3 && mask == 0;
  if (map == 2 && prefix == 3 && opcode == 0x72 && registers) return Operation::convert_bf16;
  if (map == 2 && prefix == 2 && opcode == 0x52 && registers) return Operation::dot_bf16;
  if (map == 6 && prefix == 1 && opcode == 0x98) return Operation::fma132_f16;
  if (map == 6 && prefix == 1 && opcode == 0xa8) return Operation::fma213_f16;
  if (map == 6 && prefix == 1 && opcode == 0xb8) return Operation::fma231_f16;
  if (map == 5 && prefix == 0 && opcode == 0x58) return Operation::add_f16;
  if (map == 5 && prefix == 2 && opcode == 0x7d) return Operation::i16_to_f16;
  return Operation::none;
}

/// The operands of an instruction: register numbers, or an address in place of the last one.
struct Operands {
  unsigned destination = 0, second = 0, third = 0, mask = 0;
  const void* memory = nullptr;
  std::size_t length = 6;
};

std::int64_t displacement_at(const std::uint8_t* at, unsigned mod, std::size_t& length) {
  if (mod == 1) return length += 1, static_cast<std::int8_t>(*at) * std::int64_t{64};  // of whole vectors
  if (mod != 2) return 0;
  std::int32_t value = 0;
  std::memcpy(&value, at, 4);
  length += 4;
  return value;
}

/// ModRM, SIB and displacement (SDM volume 2, 2.1.5 and 2.7.5); relative to the instruction only with mod 0 and rm 5.
void decode_memory(Operands& operands, const std::uint8_t* code, unsigned x, unsigned b, const Registers& registers) {
  const unsigned mod = code[5] >> 6, rm = code[5] & 7u;
  std::uint64_t address = 0;
  if (rm == 4) {
    const std::uint8_t sib = code[6];
    operands.length = 7;
    const unsigned index = (sib >> 3 & 7u) | x << 3, base = (sib & 7u) | b << 3;
    if ((sib & 7) == 5 && mod == 0) {
      address = static_cast<std::uint64_t>(displacement_at(code + 7, 2, operands.length));
    } else {
      address = registers.general[base];
    }
    if (index != 4) address += registers.general[index] << (sib >> 6);
    if (mod != 0) address += static_cast<std::uint64_t>(displacement_at(code + 7, mod, operands.length));
  } else if (rm == 5 && mod == 0) {
    address = static_cast<std::uint64_t>(displacement_at(code + 6, 2, operands.length));
    address += registers.instruction + operands.length;
  } else {
    address = registers.general[rm | b << 3];
    address += static_cast<std::uint64_t>(displacement_at(code + 6, mod, operands.length));
  }
  operands.memory = reinterpret_cast<const void*>(address);
}

Operands decode(const std::uint8_t* code, const Registers& registers) {
  const unsigned inverted = ~unsigned{code[1]}, r = inverted >> 7 & 1, x = inverted >> 6 & 1, b = inverted >> 5 & 1;
  Operands operands;
  operands.destination = (code[5] >> 3 & 7u) | r << 3 | (inverted >> 4 & 1) << 4;
  operands.second = (~(unsigned{code[2]} >> 3) & 15) | (~(unsigned{code[3]} >> 3) & 1) << 4;
  operands.mask = code[3] & 7u;
  if (code[5] >> 6 == 3) {
    operands.third = (code[5] & 7u) | b << 3 | x << 4;
  } else {
    decode_memory(operands, code, x, b, registers);
  }
  return operands;
}

}  // namespace

void to_bf16(const float* low, const float* high, std::uint16_t* out) {
  for (int i = 0; i < 16; ++i) out[i] = to_bf16(low[i]), out[16 + i] = to_bf16(high[i]);
}

void dot_bf16(const std::uint16_t* a, const std::uint16_t* b, float* sums) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // denormals are zero, in and out; to nearest even; nothing traps
  const auto value = [](std::uint16_t half) {
    const std::uint32_t bits = std::uint32_t{half} << 16;
    float out = 0;
    std::memcpy(&out, &bits, 4);
    return out;
  };
  for (int i = 0; i < 16; ++i)
    for (const int k : {2 * i + 1, 2 * i}) {
      volatile float sum = sums[i], x = value(a[k]), y = value(b[k]);
      sums[i] = std::fma(x, y, sum);
    }
  _mm_setcsr(before);
}

namespace {

/// A lane of an operation with results of f16. `before`: what the destination had.
std::uint16_t lane_of(Operation operation, std::uint16_t before, std::uint16_t second, std::uint16_t third) {
  switch (operation) {
    case Operation::fma132_f16: return fma_f16(before, third, second);
    case Operation::fma213_f16: return fma_f16(second, before, third);
    case Operation::fma231_f16: return fma_f16(second, third, before);
    case Operation::add_f16: return add_f16(second, third);
    case Operation::i16_to_f16: return i16_to_f16(static_cast<std::int16_t>(third));
    case Operation::none:
    case Operation::convert_bf16:
    case Operation::dot_bf16: break;
  }
  return before;
}

}  // namespace

bool is_emulated_evex(const std::uint8_t* code) { return operation_of(code) != Operation::none; }

std::size_t execute_evex(const std::uint8_t* code, const Registers& registers, void* ucontext) {
  const Operation operation = operation_of(code);
  if (operation == Operation::none) return 0;
  const Operands operands = decode(code, registers);
  VectorRegisters vectors(ucontext);
  alignas(64) std::uint8_t second[64], third[64], result[64];
  vectors.load(operands.second, second);
  if (operands.memory != nullptr) {
    std::memcpy(third, operands.memory, 64);
  } else {
    vectors.load(operands.third, third);
  }
  vectors.load(operands.destination, result);
  const auto halves = [](std::uint8_t* bytes) { return reinterpret_cast<std::uint16_t*>(bytes); };
  const auto floats = [](std::uint8_t* bytes) { return reinterpret_cast<float*>(bytes); };
  if (operation == Operation::convert_bf16) {
    to_bf16(floats(third), floats(second), halves(result));
  } else if (operation == Operation::dot_bf16) {
    dot_bf16(halves(second), halves(third), floats(result));
  } else {
    const std::uint64_t mask = operands.mask == 0 ? ~std::uint64_t{0} : vectors.mask(operands.mask);
    for (int i = 0; i < 32; ++i)
      if ((mask >> i & 1) != 0)
        halves(result)[i] = lane_of(operation, halves(result)[i], halves(second)[i], halves(third)[i]);
  }
  vectors.store(operands.destination, result);
  return operands.length;
}

}  // namespace qinfer::test::emulator
#endif
