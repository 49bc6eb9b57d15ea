// See model_source.h: which kind of source a path is.
#include "source/model_source.h"

#include "platform/file.h"
#include "source/gguf_source.h"
#include "source/hf_source.h"

namespace qinfer::source {

Result<std::unique_ptr<ModelSource>> ModelSource::open(const std::string& path, const SourceOptions& options) {
  if (!options.packed_path.empty()) return open_packed_model(options.packed_path, path, options);
  QINFER_ASSIGN(const bool one_file, platform::is_one_file(path, options.files.get()));
  if (!one_file) return open_hf_directory(path, options);
  if (path.ends_with(".json")) return open_lone_config(path, options);
  QINFER_ASSIGN(const platform::OpenFile file, platform::open_path(path, options.files.get()));
  QINFER_ASSIGN(const bool is_gguf, formats::Gguf::is_gguf(file));
  if (is_gguf || path.ends_with(".gguf")) return open_gguf(path, options);
  return open_packed_model(path, {}, options);
}

}  // namespace qinfer::source
