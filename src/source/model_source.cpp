// See model_source.h: which kind of source a path is.
#include "source/model_source.h"

#include "platform/file.h"
#include "source/hf_source.h"

namespace qinfer::source {

Result<std::unique_ptr<ModelSource>> ModelSource::open(const std::string& path, const SourceOptions& options) {
  if (!options.packed_path.empty()) return open_packed_model(options.packed_path, path, options);
  QINFER_ASSIGN(const bool one_file, platform::is_one_file(path, options.files.get()));
  if (!one_file) return open_hf_directory(path, options);
  if (path.ends_with(".json")) return open_lone_config(path, options);
  if (path.ends_with(".gguf"))
    return error(Code::unsupported, "{}: not a model directory or packed model; GGUF files are not read", path);
  return open_packed_model(path, {}, options);
}

}  // namespace qinfer::source
