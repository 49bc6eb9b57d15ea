// The rows of rows.inc as tables.
#include <algorithm>

#include "source/architectures/rows.h"

namespace qinfer::source {

std::span<const Architecture* const> all_architectures() {
#define QINFER_ARCHITECTURE(row) &row,
#define QINFER_GGUF_ARCHITECTURE(row)
  static constexpr const Architecture* kAll[] = {
#include "source/architectures/rows.inc"
  };
#undef QINFER_ARCHITECTURE
#undef QINFER_GGUF_ARCHITECTURE
  return kAll;
}

std::span<const GgufArchitecture* const> all_gguf_architectures() {
#define QINFER_ARCHITECTURE(row)
#define QINFER_GGUF_ARCHITECTURE(row) &row,
  static constexpr const GgufArchitecture* kAll[] = {
#include "source/architectures/rows.inc"
  };
#undef QINFER_ARCHITECTURE
#undef QINFER_GGUF_ARCHITECTURE
  return kAll;
}

const GgufArchitecture* find_gguf_architecture(const model::ModelSpec& spec) {
  const std::string_view name = spec.architecture;
  for (const GgufArchitecture* row : all_gguf_architectures())
    if (row->hugging_face == name || std::find(row->also.begin(), row->also.end(), name) != row->also.end()) return row;
  return nullptr;
}

}  // namespace qinfer::source
