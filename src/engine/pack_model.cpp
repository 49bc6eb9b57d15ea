// See pack_model.h.
#include "engine/pack_model.h"

#include <algorithm>

#include "platform/thread.h"

namespace qinfer::engine {
namespace {

constexpr std::uint64_t kMaxTextBytes = 256 << 20;

/// The order in the file: whatever needs the largest alignment first, so that everything is aligned without padding.
int rank(const model::WeightItem& item) {
  if (item.is_vector) return 1;
  if (item.format.layout == kernels::WeightLayout::tile32) return 0;
  return item.format.encoding == Encoding::f32 ? 2 : 3;
}

const kernels::Matrix& matrix_of(const model::Weights& weights, const model::WeightItem& item) {
  if (!item.is_global) return weights.layers[item.layer].*item.matrix;
  return item.role == kernels::WeightRole::embedding ? weights.embedding : weights.lm_head;
}

model::PackedWriter::Item packed_item(const model::Weights& weights, const model::WeightItem& item) {
  const auto cols = static_cast<std::uint64_t>(item.cols);
  model::PackedWriter::Item out;
  out.name = item.name;
  out.info.rows = item.rows;
  out.info.cols = item.cols;
  out.info.source = item.stored;
  if (item.is_vector) {
    const float* data = item.is_global ? weights.final_norm : weights.layers[item.layer].*item.vector;
    out.dtype = "F32";
    out.shape = {cols};
    out.data = std::as_bytes(std::span(data, cols));
    return out;
  }
  const kernels::Matrix& matrix = matrix_of(weights, item);
  out.dtype = formats::stored_encoding_name(item.format.encoding);
  const kernels::StoredShape shape = kernels::weight_shape(item.format, item.rows, item.cols);
  out.shape.assign(shape.lengths, shape.lengths + shape.n);
  out.data = {matrix.data, item.bytes};
  out.info.layout = item.format.layout;
  out.info.pack = matrix.pack;
  return out;
}

void add_bytes(model::PackedWriter& writer, std::string name, std::string dtype, std::vector<std::uint64_t> shape,
               std::span<const std::byte> data) {
  model::PackedWriter::Item item;
  item.name = std::move(name);
  item.dtype = std::move(dtype);
  item.info.rows = 1;
  item.info.cols = static_cast<std::int64_t>(data.size());
  item.shape = std::move(shape);
  item.data = data;
  writer.add(std::move(item));
}

constexpr std::string_view kTexts[] = {"config.json", "generation_config.json", "tokenizer.json"};

/// The fingerprint of a checkpoint; refuses to let `out` take the place of one of its files.
Result<std::string> fingerprint(const platform::Directory& directory, const std::string& out, CancelFlag cancel) {
  QINFER_ASSIGN(const formats::Checkpoint checkpoint, formats::Checkpoint::open(directory, cancel));
  const auto own_file = [&out] { return error(Code::invalid_argument, "{} is a file of the checkpoint itself", out); };
  for (std::size_t i = 0; i < checkpoint.n_files(); ++i)
    if (platform::is_same_file(checkpoint.file(i), out)) return own_file();
  // Also where they are not there yet: they would be read as what they are called.
  for (const std::string_view name : {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors",
                                      "model.safetensors.index.json"}) {
    if (platform::is_file_in(directory, name, out)) return own_file();
    auto file = directory.open_file(name);
    if (file.ok() && platform::is_same_file(file.value(), out)) return own_file();
  }
  return model::source_fingerprint(directory, checkpoint, cancel);
}

bool holds_exactly(const model::WeightItem& item) {
  return item.is_vector || qinfer::holds_exactly(item.stored, item.format.encoding);
}

}  // namespace

Status pack_model(std::shared_ptr<Runtime> runtime, const std::string& path, const LoadOptions& options,
                  const std::string& out, const model::LoadProgress& progress) {
  const platform::ScopedFloatEnvironment environment;
  if (options.no_weights || options.embedding_rows || !options.packed_path.empty())
    return error(Code::invalid_argument,
                 "QINFER_LOAD_NO_WEIGHTS, QINFER_LOAD_EMBED_ROWS and packed_path do not go with packing");
  if (platform::is_regular_file(path)) return error(Code::invalid_argument, "{} is not a model directory", path);
  const std::string_view kernel_set = runtime->kernels().name;
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(path));
  QINFER_ASSIGN(const std::string source, fingerprint(directory, out, options.cancel));
  QINFER_TRY(platform::AtomicFile::check_replaceable(out, model::is_packed_file));
  QINFER_ASSIGN(const auto model, Model::load(std::move(runtime), path, options, progress));
  QINFER_TRY(model->prepare_rope(model->spec().context_tokens));

  std::vector<model::WeightItem> items = model->weights_plan().items;
  std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  model::PackedWriter writer;
  const std::uint64_t rows = std::uint64_t{model->spec().n_ropes()} * model->spec().context_tokens;
  const std::uint64_t half = model->spec().head_dim / 2;
  bool rope_added = false, exact = true;
  for (const model::WeightItem& item : items) {
    if (rank(item) > 0 && !rope_added) {
      add_bytes(writer, std::string(model::kRopeTensor), "F32", {rows, half, 2},
                std::as_bytes(std::span(model->rope(0), rows * half * 2)));
      rope_added = true;
    }
    exact = exact && holds_exactly(item);
    writer.add(packed_item(model->weights(), item));
  }
  std::vector<std::string> texts;
  texts.reserve(3);
  for (const std::string_view name : kTexts) {
    auto text = directory.read_text(name, kMaxTextBytes);
    Status status = text.take_status();
    if (status.code() == Code::not_found) continue;
    QINFER_TRY(std::move(status));
    texts.push_back(std::move(text.value()));
    add_bytes(writer, std::string(model::kTextPrefix) + std::string(name), "U8", {texts.back().size()},
              std::as_bytes(std::span(texts.back())));
  }
  QINFER_ASSIGN(const std::string source_now, fingerprint(directory, out, options.cancel));
  if (source_now != source) return error(Code::format, "{} changed while it was packed", path);
  const model::LoadProgress stop_or_report = [&](std::uint64_t done, std::uint64_t total) {
    return (!progress || progress(done, total)) && !options.cancel.requested();
  };
  return writer.write(out, kernel_set, source, exact, stop_or_report);
}

}  // namespace qinfer::engine
