// The largest finite magnitude among values that are packed.
#pragma once

#include <bit>

#include "tiled/vec.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

/// The largest finite magnitude seen so far.
struct Largest {
  I32x16 bits = no_bits();
  void add(F32x16 value) {
    const I32x16 magnitude = and_bits(bits_of(value), splat_bits(0x7fffffff));
    const I32x16 finite = select(is_less(magnitude, splat_bits(0x7f800000)), magnitude, no_bits());
    bits = select(is_less(bits, finite), finite, bits);
  }
  float value() const { return std::bit_cast<float>(largest_lane(bits)); }
};

}  // namespace
}  // namespace qinfer::kernels::QINFER_ISA
