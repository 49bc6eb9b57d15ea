// See open_quantised.h.
#include "engine/open_quantised.h"

#include "source/quantised_source.h"

namespace qinfer::engine {
namespace {

void log_matrix(const Runtime& runtime, const source::QuantisedMatrix& matrix) {
  runtime.log(LogLevel::info, "quantised {}: {} values, {} to {}, {:.5g} bits each, relative RMS error {:.3e}",
              matrix.name, matrix.values, encoding_name(matrix.from), encoding_name(matrix.to), matrix.bits(),
              matrix.relative_error());
}

}  // namespace

Result<OpenedSource> open_quantised(Runtime& runtime, const std::string& path, LoadOptions& options) {
  QINFER_ASSIGN(auto source, source::ModelSource::open(path, options.source()));
  const auto mix = source::find_quantisation(options.weight_format);
  if (!mix) return OpenedSource{std::move(source), false};
  if (!source->has_tensors())
    return error_at(Code::format, -1, "{}: a config.json alone has no weights to quantise", path);
  source::QuantiseOptions quantise;
  quantise.mix = *mix;
  quantise.cancel = options.cancel;
  quantise.report = [&runtime](const source::QuantisedMatrix& matrix) { log_matrix(runtime, matrix); };
  options.weight_format.clear();
  auto quantised = source::quantise_source(std::move(source), std::move(quantise));
  if (!quantised.ok()) return quantised.take_status().with_prefix(path);
  return OpenedSource{std::move(quantised.value()), true};
}

}  // namespace qinfer::engine
