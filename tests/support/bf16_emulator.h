// Executes VCVTNE2PS2BF16, the one instruction of AVX512-BF16 that the AMX backend uses, on CPUs without it, so that
// its kernels are tested there too: Intel SDM volume 2, VCVTNE2PS2BF16. The handler of the AMX emulator calls this for
// what ends in SIGILL.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qinfer::test::amx {

/// Two vectors of 16 f32 as 32 bf16, those of `low` first.
void to_bf16(const float* low, const float* high, std::uint16_t* out);

/// Whether this is VCVTNE2PS2BF16 zmm, zmm, zmm without a mask.
bool is_bf16(const std::uint8_t* code);

/// Executes VCVTNE2PS2BF16 zmm, zmm, zmm without a mask on the registers of an interrupted thread. Returns its length,
/// or 0: this is another instruction.
std::size_t execute_bf16(const std::uint8_t* code, void* ucontext);

}  // namespace qinfer::test::amx
