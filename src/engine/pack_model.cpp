// See pack_model.h.
#include "engine/pack_model.h"

#include <algorithm>

#include "engine/open_quantised.h"
#include "platform/thread.h"
#include "source/pack_input.h"
#include "source/packed.h"

namespace qinfer::engine {
namespace {

/// The order in the file: tensors that need the largest alignment first, so that all are aligned without padding.
int rank(const model::WeightItem& item) {
  if (item.need.is_vector) return 2;
  if (item.format.layout != kernels::WeightLayout::row_major) return item.bytes % 64 == 0 ? 0 : 1;
  if (!is_plain(item.format.encoding)) return 5;
  return item.format.encoding == Encoding::f32 ? 3 : 4;
}

source::PackedWriter::Item packed_item(const model::Weights& weights, const model::WeightItem& item) {
  const model::TensorId& id = item.need.id;
  source::PackedWriter::Item out;
  out.name = item.stored.packed_as.empty() ? item.stored.name : item.stored.packed_as;
  out.info.rows = item.need.rows;
  out.info.cols = item.need.cols;
  out.info.source = item.stored.encoding;
  if (item.need.is_vector) {
    const auto n = static_cast<std::size_t>(item.need.cols);
    out.dtype = formats::stored_encoding_name(Encoding::f32);
    out.shape = {n};
    out.data = std::as_bytes(std::span(weights.vector(id.role, id.layer), n));
    return out;
  }
  const kernels::Matrix& matrix = weights.matrix(id);
  const kernels::StoredShape shape = kernels::weight_shape(item.format, item.need.rows, item.need.cols);
  const bool plain = is_plain(item.format.encoding);
  out.dtype = plain ? formats::stored_encoding_name(item.format.encoding) : "U8";
  if (!plain) out.info.quantised = item.format.encoding;
  out.shape.assign(shape.lengths, shape.lengths + shape.n);
  out.data = {matrix.data, item.bytes};
  out.info.layout = item.format.layout;
  out.info.pack = matrix.pack;
  return out;
}

void add_bytes(source::PackedWriter& writer, std::string name, std::string dtype, std::vector<std::uint64_t> shape,
               std::span<const std::byte> data) {
  source::PackedWriter::Item item;
  item.name = std::move(name);
  item.dtype = std::move(dtype);
  item.info.rows = 1;
  item.info.cols = static_cast<std::int64_t>(data.size());
  item.shape = std::move(shape);
  item.data = data;
  writer.add(std::move(item));
}

bool holds_exactly(const model::WeightItem& item) {
  return item.need.is_vector || qinfer::holds_exactly(item.stored.encoding, item.format.encoding);
}

}  // namespace

Status pack_model(const std::shared_ptr<Runtime>& runtime, const std::string& path, LoadOptions options,
                  const std::string& out, const model::LoadProgress& progress) {
  const platform::ScopedFloatEnvironment environment;
  if (options.no_weights || options.separate_embedding || !options.packed_path.empty())
    return error(Code::invalid_argument,
                 "QINFER_LOAD_NO_WEIGHTS, QINFER_LOAD_EMBED_ROWS and packed_path do not go with packing");
  if (options.first_layer != 0 || options.n_layers != 0)
    return error(Code::invalid_argument, "first_layer and n_layers do not go with packing: it takes the whole model");
  if (options.max_context != 0)
    return error(Code::invalid_argument,
                 "max_context does not go with packing: give it when the packed model is loaded");
  QINFER_ASSIGN(const source::PackInput input, source::PackInput::open(path));
  QINFER_TRY(input.check_output(out, options.cancel));
  QINFER_TRY(platform::AtomicFile::check_replaceable(out, source::is_packed_file));
  QINFER_ASSIGN(const std::string state, input.state(options.cancel));
  QINFER_ASSIGN(const OpenedSource opened, open_quantised(*runtime, path, options));
  options.pack = true;
  QINFER_ASSIGN(const auto model, Model::load(runtime, *opened.source, path, options, progress));
  QINFER_TRY(model->prepare_rope(model->spec().context_tokens));

  std::vector<model::WeightItem> items = model->blueprint().weights.items;
  std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  source::PackedWriter writer;
  const std::uint64_t positions = model->spec().context_tokens, values = positions * model->spec().rope_values();
  const std::uint64_t rows = positions * model->spec().n_ropes();
  bool rope_added = values == 0, exact = !opened.quantises;
  for (const model::WeightItem& item : items) {
    if (rank(item) > 1 && !rope_added) {
      add_bytes(writer, std::string(source::kRopeTensor), "F32", {rows, values / rows / 2, 2},
                std::as_bytes(std::span(model->rope(0), values)));
      rope_added = true;
    }
    exact = exact && holds_exactly(item);
    writer.add(packed_item(model->weights(), item));
  }
  QINFER_ASSIGN(const std::vector<source::PackInput::Text> texts, input.texts(options.cancel));
  for (const source::PackInput::Text& text : texts)
    add_bytes(writer, std::string(source::kTextPrefix) + std::string(text.name), "U8", {text.text.size()},
              std::as_bytes(std::span(text.text)));
  QINFER_ASSIGN(const std::string state_now, input.state(options.cancel));
  if (state_now != state) return error(Code::format, "{} changed while it was packed", path);
  const model::LoadProgress stop_or_report = [&](std::uint64_t done, std::uint64_t total) {
    return (!progress || progress(done, total)) && !options.cancel.requested();
  };
  return writer.write(out, model->kernels().name, model->fingerprints(), exact, stop_or_report);
}

}  // namespace qinfer::engine
