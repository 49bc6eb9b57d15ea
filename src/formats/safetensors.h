// The header of a safetensors file (https://github.com/huggingface/safetensors, "Format"): an 8-byte little-endian
// length, a JSON object that names dtype, shape and byte range of each tensor, then the data.
//
// Everything is validated before anything is used: ranges must cover the data without hole or overlap, sizes must
// follow from dtype and shape without overflow, names must be unique.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace qinfer::formats {

/// The largest header that the reference implementation accepts.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

struct TensorEntry {
  std::string name;
  std::string dtype;  ///< as written, e.g. "BF16"
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes, from the beginning of the file
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in ascending order of their data
  std::map<std::string, std::string> metadata;
};

/// `prefix` holds the length and at least the whole header. `name` (the file's) begins every message.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view prefix, std::uint64_t file_bytes,
                                                   std::string_view name);

/// The length of the JSON header, checked against the limits; `first8` are the first bytes of the file.
Result<std::uint64_t> safetensors_header_bytes(std::string_view first8, std::uint64_t file_bytes,
                                               std::string_view name);

}  // namespace qinfer::formats
