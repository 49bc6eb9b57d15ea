// The inverse of the decoders in block_formats.h: writes the parts of a quantised block where its format has them. What
// unpack_* gives, pack_* writes back; the values of Parts must be in the ranges that block_formats.h states.
#pragma once

#include <cstddef>

#include "base/block_formats.h"

namespace qinfer::blocks {

void pack_q8_0(const Parts& parts, std::byte* block);
void pack_q4_0(const Parts& parts, std::byte* block);  ///< and iq4_nl
void pack_q4_1(const Parts& parts, std::byte* block);
void pack_q5_0(const Parts& parts, std::byte* block);
void pack_q5_1(const Parts& parts, std::byte* block);
void pack_q3_k(const Parts& parts, std::byte* block);
void pack_q4_k(const Parts& parts, std::byte* block);
void pack_q5_k(const Parts& parts, std::byte* block);
void pack_q6_k(const Parts& parts, std::byte* block);

}  // namespace qinfer::blocks
