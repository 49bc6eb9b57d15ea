// Arithmetic of f16 numbers as AVX512-FP16 has it, on single numbers and on any processor: for the emulator of these
// instructions and for models of sums.
#pragma once

#include <cstdint>

namespace qinfer::test::emulator {

/// a * b + c of f16, rounded once.
std::uint16_t fma_f16(std::uint16_t a, std::uint16_t b, std::uint16_t c);
std::uint16_t add_f16(std::uint16_t a, std::uint16_t b);
std::uint16_t i16_to_f16(std::int16_t x);

}  // namespace qinfer::test::emulator
