// The header of one GGUF file: key-values, and where its tensors are.
#pragma once

#include "base/checked.h"
#include "formats/gguf.h"

namespace qinfer::formats {

struct GgufHeader {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  ///< in the order of their data; offsets count from the begin of the file
};

/// Reads the header of a file, in steps, for its length is not known before.
Result<GgufHeader> read_gguf_header(const platform::OpenFile& file, CancelFlag cancel);

/// The same of bytes in memory, which are the begin of a file of `file_bytes`; std::nullopt: the header is longer. What
/// the header names stays in `bytes`.
Result<std::optional<GgufHeader>> parse_gguf_header(std::unique_ptr<char[]>& bytes, std::uint64_t n,
                                                    std::uint64_t file_bytes, const std::string& name,
                                                    CancelFlag cancel);

}  // namespace qinfer::formats
