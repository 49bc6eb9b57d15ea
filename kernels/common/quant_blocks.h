// Blocks of GGUF tensors to the parts that they consist of and back, and how large their values are: what packing tiles
// of them needs (src/base/block_formats.h describes the blocks).
#pragma once

#include <cstddef>

#include "base/block_formats.h"
#include "base/encoding.h"

namespace qinfer::kernels {

using ReadBlock = void (*)(const std::byte* block, blocks::Parts& parts);
using WriteBlock = void (*)(const blocks::Parts& parts, std::byte* block);

/// Of a quantised encoding. What one reads the other writes again, bit for bit.
ReadBlock block_reader(Encoding encoding);
WriteBlock block_writer(Encoding encoding);

/// The largest magnitude among the values of a block, or infinity where a scale is no finite number.
float block_largest(Encoding encoding, const blocks::Parts& parts);

}  // namespace qinfer::kernels
