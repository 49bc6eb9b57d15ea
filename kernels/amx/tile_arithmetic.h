// Floating point as TDPBF16PS has it.
#pragma once

#include <cstdint>

namespace qinfer::kernels::amx {
namespace {

/// While this lives, floating point of the thread is what it is in TDPBF16PS, whatever the host has set: rounded to
/// nearest, without subnormal numbers and without traps. The assembly keeps loads and stores on their side of it, and
/// with them what is computed between.
class TileArithmetic {
 public:
  TileArithmetic() {
    constexpr std::uint32_t kMasked = 0x1f80, kInputsToZero = 0x40, kResultsToZero = 0x8000;
    constexpr std::uint32_t kOwn = kMasked | kInputsToZero | kResultsToZero;
    asm volatile("stmxcsr %0" : "=m"(before_) : : "memory");
    asm volatile("ldmxcsr %0" : : "m"(kOwn) : "memory");
  }
  ~TileArithmetic() { asm volatile("ldmxcsr %0" : : "m"(before_) : "memory"); }
  TileArithmetic(const TileArithmetic&) = delete;
  TileArithmetic& operator=(const TileArithmetic&) = delete;

 private:
  std::uint32_t before_;
};

}  // namespace
}  // namespace qinfer::kernels::amx
