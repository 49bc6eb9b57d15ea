// Executes the instructions of AVX512-BF16 and AVX512-FP16 that kernels use on CPUs with AVX-512 alone, so that their
// machine code is tested there too: VCVTNE2PS2BF16, VDPBF16PS, VFMADD132PH, 213 and 231, VADDPH and VCVTW2PH (Intel SDM
// volume 2), with registers of 512 bits. The handler of the AMX emulator calls this for what ends in SIGILL. qemu knows
// none of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qinfer::test::emulator {

struct Registers;

/// Two vectors of 16 f32 as 32 bf16, those of `low` first.
void to_bf16(const float* low, const float* high, std::uint16_t* out);
/// sums[i] += a[2 i + 1] * b[2 i + 1], then += a[2 i] * b[2 i], in f32 to nearest, denormals being zeros.
void dot_bf16(const std::uint16_t* a, const std::uint16_t* b, float* sums);

/// Whether this is one of them, with registers of 512 bits.
bool is_emulated_evex(const std::uint8_t* code);

/// Executes it on the registers of an interrupted thread. Returns its length, or 0: this is another instruction.
std::size_t execute_evex(const std::uint8_t* code, const Registers& registers, void* ucontext);

}  // namespace qinfer::test::emulator
