// See export_gguf.h.
#include "engine/export_gguf.h"

#include "engine/open_quantised.h"
#include "formats/gguf.h"
#include "platform/thread.h"
#include "source/gguf_export.h"
#include "source/quantisation.h"

namespace qinfer::engine {
namespace {

Status is_gguf_file(const platform::OpenFile& file) {
  QINFER_ASSIGN(const bool is_gguf, formats::Gguf::is_gguf(file));
  if (is_gguf) return Status();
  return error_at(Code::format, 0, "{}: not a GGUF file, and so not overwritten", file.name);
}

/// general.file_type, as llama.cpp numbers mixes.
Result<std::uint32_t> file_type(const std::string& weight_format) {
  if (weight_format.empty()) return 0;
  const auto mix = source::find_quantisation(weight_format);
  if (!mix)
    return error(Code::unsupported, "weight_format \"{}\": a GGUF file has the weights as the model has them, or {}",
                 weight_format, source::quantisation_names());
  return *mix == source::Quantisation::q8_0 ? 7 : *mix == source::Quantisation::q4_0 ? 2 : 15;
}

}  // namespace

Status export_gguf(const std::shared_ptr<Runtime>& runtime, const std::string& path, LoadOptions options,
                   const std::string& out, const model::LoadProgress& progress) {
  const platform::ScopedFloatEnvironment environment;
  if (options.no_weights || options.separate_embedding || !options.packed_path.empty())
    return error(Code::invalid_argument,
                 "QINFER_LOAD_NO_WEIGHTS, QINFER_LOAD_EMBED_ROWS and packed_path do not go with exporting");
  if (options.first_layer != 0 || options.n_layers != 0)
    return error(Code::invalid_argument, "first_layer and n_layers do not go with exporting: it takes the whole model");
  if (options.max_context != 0)
    return error(Code::invalid_argument, "max_context does not go with exporting: give it when the file is loaded");
  QINFER_ASSIGN(const std::uint32_t label, file_type(options.weight_format));
  QINFER_ASSIGN(const source::PackInput input, source::PackInput::open(path));
  QINFER_TRY(input.check_output(out, options.cancel));
  QINFER_TRY(platform::AtomicFile::check_replaceable(out, is_gguf_file));
  QINFER_ASSIGN(const std::string state, input.state(options.cancel));
  QINFER_ASSIGN(const OpenedSource opened, open_quantised(*runtime, path, options));
  QINFER_ASSIGN(const std::vector<source::PackInput::Text> texts, input.texts(options.cancel));
  QINFER_ASSIGN(const source::GgufExport plan, source::plan_gguf_export(*opened.source, texts, label, options.cancel));
  for (const std::string& note : plan.notes) runtime->log(LogLevel::warn, "{} in llama.cpp: {}", out, note);
  QINFER_ASSIGN(platform::AtomicFile file, platform::AtomicFile::create(out, is_gguf_file));
  const source::GgufProgress stop_or_report = [&](std::uint64_t done, std::uint64_t total) {
    return (!progress || progress(done, total)) && !options.cancel.requested();
  };
  const model::ParallelFor parallel_for = [&](std::int64_t n, const auto& body) { runtime->parallel_for(n, body); };
  QINFER_TRY(source::write_gguf_export(
      plan, *opened.source, parallel_for, [&](std::span<const std::byte> bytes) { return file.write(bytes); },
      stop_or_report));
  QINFER_ASSIGN(const std::string state_now, input.state(options.cancel));
  if (state_now != state) return error(Code::format, "{} changed while it was read", path);
  return file.commit();
}

}  // namespace qinfer::engine
