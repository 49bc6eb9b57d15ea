// See model_source.h: which kind of source a path is.
#include "source/model_source.h"

#include <span>

#include "platform/file.h"
#include "source/chat_tokens.h"
#include "source/gguf_source.h"
#include "source/hf_source.h"
#include "source/model_folder.h"
#include "source/stage_source.h"

namespace qinfer::source {
namespace {

/// Whether a file that is none of GGUF can be a packed model, which begins as safetensors files do: with the length of
/// a header, an object of JSON.
Status check_packed(const platform::OpenFile& file) {
  char begin[9] = {};
  if (file.size >= sizeof begin) QINFER_TRY(platform::read_at(file, 0, std::as_writable_bytes(std::span(begin))));
  const bool is_pointer = std::string_view(begin, 8) == "version ";  // to a git-LFS object, which is told next
  if (begin[8] == '{' || is_pointer) return Status();
  return error(Code::format, "{}: not a model: neither a GGUF file nor a packed model begins so", file.name);
}

Result<std::unique_ptr<ModelSource>> open_any(const std::string& path, const SourceOptions& options) {
  if (!options.packed_path.empty()) return open_packed_model(options.packed_path, path, options);
  QINFER_ASSIGN(const std::string model, find_model(path, !options.no_weights, options.files));
  QINFER_ASSIGN(const bool one_file, platform::is_one_file(model, options.files.get()));
  if (!one_file) return open_hf_directory(model, options);
  if (model.ends_with(".json")) return open_lone_config(model, options);
  QINFER_ASSIGN(const platform::OpenFile file, platform::open_path(model, options.files.get()));
  QINFER_ASSIGN(const bool is_gguf, formats::Gguf::is_gguf(file));
  if (is_gguf || model.ends_with(".gguf")) return open_gguf(model, options);
  QINFER_TRY(check_packed(file));
  return open_packed_model(model, {}, options);
}

}  // namespace

Result<std::unique_ptr<ModelSource>> ModelSource::open(const std::string& path, const SourceOptions& options) {
  QINFER_ASSIGN(auto source, open_any(path, options));
  QINFER_TRY(source->complete(options));
  if (options.first_layer == 0 && options.n_layers == 0) return source;
  return make_stage_source(std::move(source), options.first_layer, options.n_layers);
}

Status ModelSource::complete(const SourceOptions& options) {
  if (options.max_context != 0) context_is_limited_ = spec_.limit_context(options.max_context);
  if (tokenizer_ != nullptr) QINFER_TRY(find_end_tokens(chat_templates_, *tokenizer_, spec_, notes_, options.cancel));
  note_lines_ = notes_.take();
  for (std::size_t i = 0; i < note_lines_.size(); ++i)
    metadata_.add(format_text("qinfer.note.{}", i + 1), note_lines_[i]);
  static_cast<void>(metadata_.finish());
  return Status();
}

}  // namespace qinfer::source
