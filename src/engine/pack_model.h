// Writing a packed model: a checkpoint in the form in which a kernel set wants it, so that it can be loaded by mapping
// the file (source/packed.h).
#pragma once

#include "engine/model.h"

namespace qinfer::engine {

/// Loads the model directory `path` for the runtime's kernel set and writes it to `out` (source/packed.h). Needs the
/// memory of a loaded model, and some MiB to read. weight_format may also be a mix of quantised encodings
/// (source/quantisation.h). A file at `out` is replaced only if it is a packed model that does not belong to the
/// directory. Progress counts bytes loaded, then bytes written, each from the beginning.
Status pack_model(const std::shared_ptr<Runtime>& runtime, const std::string& path, LoadOptions options,
                  const std::string& out, const model::LoadProgress& progress);

}  // namespace qinfer::engine
