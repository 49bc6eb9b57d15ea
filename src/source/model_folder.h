// Which file of a folder is the model. Folders come from hubs, from other programs' caches and from training: with a
// checkpoint as Hugging Face lays it out, with GGUF files, or with neither, and then the error says what is there.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "platform/file.h"

namespace qinfer::source {

/// `path` itself, unless it is a folder without a checkpoint that holds one GGUF file, or one split set, of which this
/// is the path (of its first part). QINFER_E_NOT_FOUND for a folder that holds no model or several GGUF files: the
/// message says what it holds, and what to do with it. `needs_weights`
/// false: a config.json is enough. The files of a host cannot be listed, and `path` is taken as it is.
Result<std::string> find_model(const std::string& path, bool needs_weights,
                               const std::shared_ptr<const platform::Files>& files);

}  // namespace qinfer::source
