// The rows of the files in this folder, declared.
#pragma once

#include "source/architecture.h"

namespace qinfer::source {

#define QINFER_ARCHITECTURE(row) extern const Architecture row;
#define QINFER_GGUF_ARCHITECTURE(row) extern const GgufArchitecture row;
#include "source/architectures/rows.inc"
#undef QINFER_ARCHITECTURE
#undef QINFER_GGUF_ARCHITECTURE

}  // namespace qinfer::source
