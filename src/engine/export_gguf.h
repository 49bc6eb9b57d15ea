// Writing a model as a GGUF file (source/gguf_export.h), quantised on the way where weight_format asks for it.
#pragma once

#include <memory>
#include <string>

#include "engine/options.h"
#include "engine/runtime.h"
#include "model/weights.h"

namespace qinfer::engine {

/// Writes the model directory or GGUF file `path` to `out`, of which another file than a GGUF one is not replaced. Some
/// MiB at a time are in memory. Progress counts bytes written.
Status export_gguf(const std::shared_ptr<Runtime>& runtime, const std::string& path, LoadOptions options,
                   const std::string& out, const model::LoadProgress& progress);

}  // namespace qinfer::engine
