// The sources that are made of Hugging Face's files: a checkpoint directory, a packed model, a config.json alone.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "source/hf_texts.h"
#include "source/model_source.h"

namespace qinfer::source {

Result<std::unique_ptr<ModelSource>> open_hf_directory(const std::string& path, const SourceOptions& options);
/// `directory`: the one that the file must have been made from as it is now; empty: any.
Result<std::unique_ptr<ModelSource>> open_packed_model(const std::string& path, const std::string& directory,
                                                       const SourceOptions& options);
Result<std::unique_ptr<ModelSource>> open_lone_config(const std::string& path, const SourceOptions& options);

}  // namespace qinfer::source
