// The header of a safetensors file (https://github.com/huggingface/safetensors, "Format"): an 8-byte little-endian
// length, a JSON object that names dtype, shape and byte range of each tensor, then the data.
//
// Everything is validated before anything is used: ranges must cover the data without hole or overlap, sizes must
// follow from dtype and shape without overflow, names must be unique.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "formats/text_table.h"

namespace qinfer::formats {

/// The largest header that the reference implementation accepts.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// One tensor of one file.
struct Tensor {
  std::string name;
  std::string_view dtype;  ///< as written, e.g. "BF16"; one of those that the format knows, static
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes in its file
  std::size_t shard = 0;             ///< which file of a checkpoint; 0 in a header

  std::uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<Tensor> tensors;  ///< in ascending order of their data
  TextTable metadata;
};

/// `prefix` holds the length and at least the whole header. `name` (the file's) begins every message.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view prefix, std::uint64_t file_bytes,
                                                   std::string_view name, CancelFlag cancel = {});

/// The length of the JSON header, checked against the limits; `first8` are the first bytes of the file.
Result<std::uint64_t> safetensors_header_bytes(std::string_view first8, std::uint64_t file_bytes,
                                               std::string_view name);

}  // namespace qinfer::formats
