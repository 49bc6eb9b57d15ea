// See gguf_export.h.
#include "source/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "formats/gguf.h"
#include "source/gguf_config.h"
#include "source/gguf_keys.h"
#include "source/gguf_source.h"
#include "source/gguf_tensors.h"
#include "source/gguf_tokenizer_export.h"
#include "source/hf_texts.h"

namespace qinfer::source {
namespace {

using model::Role;
using model::RowOrder;
using model::TensorNeed;

constexpr std::uint64_t kStep = 16 << 20;
/// The key of how many types tokens have, which llama.cpp wants of encoders.
constexpr std::string_view kTypeCount = "tokenizer.ggml.token_type_count";

/// Row i of the model is row to[i] of the file: which row of the model each row of the file is.
RowOrder inverse(const RowOrder& to) {
  RowOrder order(to.size());
  for (std::size_t i = 0; i < to.size(); ++i) order[to[i]] = static_cast<std::uint16_t>(i);
  return order;
}

/// Kept in f32: what is not multiplied in blocks, and the rows that choose experts.
bool is_small(const TensorNeed& need) {
  return need.is_vector || model::is_row_table(need.id.role) || need.id.role == Role::router ||
         need.id.role == Role::shared_router;
}

/// `all_rows`: of the file's tensor; of a vector its values.
std::vector<std::uint64_t> dims_of(const model::ModelSpec& spec, const TensorNeed& need, std::uint64_t all_rows) {
  const auto cols = static_cast<std::uint64_t>(need.cols);
  if (need.is_vector) return {all_rows};
  if (need.id.expert == model::kNoExpert) return {cols, all_rows};
  const std::uint64_t experts = spec.layers[need.id.layer].ffn.experts;
  return {cols, all_rows / experts, experts};
}

class Planner {
 public:
  Planner(ModelSource& source, const GgufArchitecture& architecture)
      : source_(source), spec_(source.spec()), architecture_(architecture) {}

  Result<std::vector<GgufExportTensor>> run() {
    add_divisors(kRopeDivisors, gguf_rope_divisors(spec_));
    if (spec_.n_ropes() == 1 && spec_.ropes.front().scaling == model::RopeScaling::longrope) {
      add_divisors(kLongDivisors, spec_.ropes.front().long_divisors);
      add_divisors(kShortDivisors, spec_.ropes.front().divisors);
    }
    for (const TensorNeed& need : model::tensors_of(spec_)) QINFER_TRY(add(need));
    return std::move(tensors_);
  }

 private:
  void add_divisors(std::string_view name, std::vector<float> divisors) {
    const std::uint64_t n = divisors.size();
    if (n != 0) tensors_.push_back({std::string(name), {n}, Encoding::f32, {}, std::move(divisors)});
  }

  Status add(const TensorNeed& need) {
    const GgufPlace place = gguf_place(spec_, architecture_, need.id);
    GgufExportPart part;
    part.need = need;
    QINFER_ASSIGN(part.stored, source_.find(need.id));
    QINFER_TRY(model::check_stored(source_, need, part.stored));
    if (need.id.role == Role::positions) leave_out_unused(part);
    part.encoding = is_small(need) ? Encoding::f32 : part.stored.encoding;
    part.order = inverse(gguf_row_order(spec_, architecture_, need.id));
    const auto [known, is_new] = by_name_.try_emplace(place.stored_name(), tensors_.size());
    if (is_new) {
      const std::int64_t own = need.is_vector ? need.cols : part.need.rows;
      const std::uint64_t rows = place.part_of.empty() ? static_cast<std::uint64_t>(own) : place.all_rows;
      tensors_.push_back({place.stored_name(), dims_of(spec_, need, rows), part.encoding, {}, {}});
    }
    GgufExportTensor& tensor = tensors_[known->second];
    if (tensor.encoding != part.encoding)
      return error(Code::unsupported, "tensor {} is {}, and others that are one tensor with it, \"{}\", are {}",
                   part.stored.quoted(), encoding_name(part.encoding), tensor.name, encoding_name(tensor.encoding));
    tensor.parts.push_back(std::move(part));
    return Status();
  }

  /// Files have no rows for positions that no token has.
  void leave_out_unused(GgufExportPart& part) const {
    part.need.rows -= spec_.first_position;
    part.stored.keep_rows(spec_.first_position, static_cast<std::uint64_t>(part.need.rows),
                          static_cast<std::uint64_t>(part.need.cols));
  }

  ModelSource& source_;
  const model::ModelSpec& spec_;
  const GgufArchitecture& architecture_;
  std::vector<GgufExportTensor> tensors_;
  std::map<std::string, std::size_t> by_name_;
};

/// The header of a file, and zeros for the rest of it but what `data` has: enough to be read as a model.
class HeaderFile final : public platform::File {
 public:
  explicit HeaderFile(std::string text) : text_(std::move(text)) {}
  Status read_at(const std::string&, std::uint64_t offset, std::span<std::byte> out) const override {
    std::memset(out.data(), 0, out.size());
    if (offset >= text_.size()) return Status();
    std::memcpy(out.data(), text_.data() + offset, std::min<std::uint64_t>(out.size(), text_.size() - offset));
    return Status();
  }
  Result<std::shared_ptr<platform::MappedFile>> map(const platform::OpenFile& self) const override {
    return error(Code::internal, "{}: only a header", self.name);
  }

 private:
  std::string text_;
};

class HeaderFiles final : public platform::Files {
 public:
  HeaderFiles(std::string text, std::uint64_t size)
      : file_(std::make_shared<HeaderFile>(std::move(text))), size_(size) {}
  Result<platform::OpenFile> open(const std::string& name) const override {
    return platform::OpenFile{file_, size_, name};
  }
  Result<std::shared_ptr<platform::WritableFile>> open_to_write(const std::string& name) const override {
    return error(Code::internal, "{}: only a header", name);
  }

 private:
  std::shared_ptr<HeaderFile> file_;
  std::uint64_t size_;
};

/// The first words of two texts that differ; empty where a text has ended.
std::pair<std::string_view, std::string_view> first_difference(std::string_view a, std::string_view b) {
  const auto next = [](std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    return word;
  };
  for (;;) {
    const std::string_view from_a = next(a), from_b = next(b);
    if (from_a != from_b || from_a.empty()) return {from_a, from_b};
  }
}

/// Reads the header as a model, which must be the one that was written.
Status check_header(const GgufExport& plan, const model::ModelSpec& spec, CancelFlag cancel) {
  std::string text = plan.header;
  for (const GgufExportTensor& tensor : plan.tensors)  // divisors come first
    if (!tensor.values.empty()) {
      text.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
      text.append(round_up(tensor.bytes(), formats::kGgufAlignment) - tensor.bytes(), '\0');
    }
  SourceOptions options;
  options.cancel = cancel;
  options.files = std::make_shared<HeaderFiles>(std::move(text), plan.header.size() + plan.data_bytes);
  auto read = open_gguf("the GGUF file", options);
  if (!read.ok()) return read.take_status().with_prefix("written as GGUF it could not be read");
  const std::string want = model::canonical_text(as_gguf_says(spec));
  const std::string found = model::canonical_text(as_gguf_says(read.value()->spec()));
  if (want == found) return Status();
  const auto [wanted, got] = first_difference(want, found);
  return error(Code::unsupported,
               "GGUF files of {} cannot say all of what this model is: {} (\"{}\" would be read as \"{}\")",
               spec.architecture, wanted.substr(0, wanted.find('=')), wanted, got);
}

/// `text`: key-values of a GGUF file, as a file without tensors: those of its tokenizer and of sampling.
Status copy_key_values(const std::string& text, CancelFlag cancel, formats::GgufWriter& writer) {
  const HeaderFiles files(text, text.size());
  QINFER_ASSIGN(const formats::Gguf gguf, formats::Gguf::open("the tokenizer of the GGUF file", &files, cancel));
  for (std::size_t i = 0; i < gguf.metadata().size(); ++i)
    if (const formats::GgufValue& value = gguf.metadata()[i];
        value.key.starts_with(kSamplingKeys) || (value.key.starts_with("tokenizer.") && value.key != kTypeCount))
      writer.add(value);
  return Status();
}

Status add_tokenizer(ModelSource& source, std::span<const PackInput::Text> texts, CancelFlag cancel,
                     formats::GgufWriter& writer, GgufExport& plan) {
  for (const PackInput::Text& text : texts) {
    if (text.name == kGgufTokenizer) return copy_key_values(text.text, cancel, writer);
    if (text.name != "tokenizer.json" || source.tokenizer() == nullptr) continue;
    QINFER_ASSIGN(std::string note, add_gguf_tokenizer(text.text, source.spec(), *source.tokenizer(), cancel, writer));
    if (!note.empty()) plan.notes.push_back(std::move(note));
    add_gguf_chat_templates(source.take_chat_templates(), writer);
    return Status();
  }
  writer.add_text("tokenizer.ggml.model", "none");
  return Status();
}

/// What generation_config.json says of sampling, under llama.cpp's keys. What a file that samples does not say is
/// transformers' default (temperature 1, top-k 50, the rest off): llama.cpp has others, and so it is written.
Status add_sampling(const std::string& text, CancelFlag cancel, formats::GgufWriter& writer) {
  QINFER_ASSIGN(const auto config, formats::parse_python_json(text, "generation_config.json", cancel));
  const auto number = [&](std::string_view key) -> std::optional<double> {
    const formats::Json* value = formats::find_field(config.root(), key);
    if (value == nullptr || !value->is_number() || !std::isfinite(value->number())) return std::nullopt;
    return std::clamp(value->number(), -1e9, 1e9);
  };
  const auto add = [&](std::string_view key, double value) {
    writer.add_f32(std::string(kSamplingKeys).append(key), static_cast<float>(value));
  };
  if (const auto penalty = number("repetition_penalty")) add("penalty_repeat", *penalty);
  const formats::Json* draws = formats::find_field(config.root(), "do_sample");
  const bool is_stated = draws != nullptr && draws->is_boolean(), is_greedy = is_stated && !draws->boolean();
  const auto temperature = number("temperature"), top_k = number("top_k"), top_p = number("top_p"),
             min_p = number("min_p");
  if (!is_stated && !temperature && !top_k && !top_p && !min_p) return Status();
  add("temp", is_greedy ? 0 : temperature.value_or(1));
  writer.add_u32(std::string(kSamplingKeys).append("top_k"),
                 static_cast<std::uint32_t>(std::max(top_k.value_or(50), 0.0)));
  add("top_p", top_p.value_or(1));
  add("min_p", min_p.value_or(0));
  return Status();
}

/// What llama.cpp's reader of an architecture does not do.
void add_notes(const model::ModelSpec& spec, const GgufArchitecture& architecture, std::vector<std::string>& notes) {
  const auto any_layer = [&](auto&& is) { return std::any_of(spec.layers.begin(), spec.layers.end(), is); };
  if (architecture.add_notes != nullptr) architecture.add_notes(spec, notes);
  if (!spec.embedding.dense.empty() && !architecture.dense)
    notes.emplace_back("it refuses this architecture with layers after pooling");
  const bool dense = any_layer([](const model::LayerSpec& layer) { return !layer.ffn.has_experts(); });
  if (dense && spec.largest_mixture().has_experts())
    notes.emplace_back("it refuses this architecture with layers without experts");
  for (const model::RopeSpec& rope : spec.ropes)
    if (rope.scaling == model::RopeScaling::yarn && (rope.beta_fast != 32 || rope.beta_slow != 1))
      notes.emplace_back("it takes beta_fast 32 and beta_slow 1 for yarn scaling: results differ");
}

/// Rows that are read and written at once: some 16 MiB, in whole runs of both orders.
std::uint64_t rows_at_once(const GgufExportPart& part) {
  const std::size_t run =
      std::lcm(std::max<std::size_t>(part.order.size(), 1), std::max<std::size_t>(part.stored.row_order.size(), 1));
  return round_up(std::max<std::uint64_t>(kStep / std::max<std::uint64_t>(part.stored.row_bytes, 1), 1), run);
}

/// Rows of the model as the file has them; `rows`: whole runs of the part's order.
std::vector<std::byte> as_file_has(const GgufExportPart& part, std::uint64_t rows, std::vector<std::byte> stored) {
  if (part.encoding == Encoding::f32 && is_small(part.need)) {
    const auto n = static_cast<std::int64_t>(rows) * (part.need.is_vector ? 1 : part.need.cols);
    std::vector<float> values(static_cast<std::size_t>(n));
    encoding_traits(part.stored.encoding).to_f32(stored.data(), n, values.data());
    if (part.stored.transform == model::Transform::add_one)
      for (float& value : values) value += 1.0f;
    stored.resize(values.size() * sizeof(float));
    std::memcpy(stored.data(), values.data(), stored.size());
  }
  if (part.order.empty()) return stored;
  std::vector<std::byte> ordered(stored.size());
  const std::size_t run = part.order.size(), row_bytes = stored.size() / rows;
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(ordered.data() + row * row_bytes, stored.data() + (row / run * run + part.order[row % run]) * row_bytes,
                row_bytes);
  return ordered;
}

}  // namespace

std::uint64_t GgufExportTensor::bytes() const {
  std::uint64_t n = 1;
  for (const std::uint64_t dim : dims) n *= dim;
  return encoded_bytes(encoding, n);
}

Result<GgufExport> plan_gguf_export(ModelSource& source, std::span<const PackInput::Text> texts, std::uint32_t label,
                                    CancelFlag cancel) {
  const model::ModelSpec& spec = source.spec();
  if (spec.classifier.is_last)
    return error(Code::unsupported, "{}: GGUF files have no classifier of a decoder's last token", spec.architecture);
  const GgufArchitecture* architecture = find_gguf_architecture(spec);
  if (architecture == nullptr)
    return error(Code::unsupported, "{} has no GGUF architecture that this library reads", spec.architecture);
  GgufExport plan;
  formats::GgufWriter writer;
  writer.add_text("general.architecture", architecture->name);
  if (!spec.name.empty()) writer.add_text("general.name", spec.name);
  writer.add_u32("general.file_type", label);
  writer.add_u32("general.quantization_version", 2);
  for (const PackInput::Text& text : texts)
    if (text.name == "generation_config.json") QINFER_TRY(add_sampling(text.text, cancel, writer));
  add_gguf_keys(spec, *architecture, writer);
  if (spec.n_types != 0) writer.add_u32(kTypeCount, spec.n_types);
  QINFER_TRY(add_tokenizer(source, texts, cancel, writer, plan));
  QINFER_ASSIGN(plan.tensors, Planner(source, *architecture).run());
  for (const GgufExportTensor& tensor : plan.tensors) writer.add_tensor(tensor.name, tensor.dims, tensor.encoding);
  plan.header = writer.header();
  plan.data_bytes = writer.data_bytes();
  QINFER_TRY(check_header(plan, spec, cancel));
  add_notes(spec, *architecture, plan.notes);
  return plan;
}

Status write_gguf_export(const GgufExport& plan, const ModelSource& source, const model::ParallelFor& parallel_for,
                         const GgufSink& sink, const GgufProgress& progress) {
  QINFER_TRY(sink(std::as_bytes(std::span(plan.header))));
  std::uint64_t done = 0;
  for (const GgufExportTensor& tensor : plan.tensors) {
    if (!tensor.values.empty()) QINFER_TRY(sink(std::as_bytes(std::span(tensor.values))));
    done += tensor.values.size() * sizeof(float);
    for (const GgufExportPart& part : tensor.parts) {
      const std::uint64_t step = rows_at_once(part);
      for (std::uint64_t row = 0; row < part.stored.rows; row += step) {
        const std::uint64_t n = std::min(step, part.stored.rows - row);
        std::vector<std::byte> stored(n * part.stored.row_bytes);
        QINFER_TRY(source.read_rows(part.stored, row, n, stored.data(), parallel_for));
        const std::vector<std::byte> bytes = as_file_has(part, n, std::move(stored));
        QINFER_TRY(sink(bytes));
        done += bytes.size();
        if (progress && !progress(std::min(done, plan.data_bytes), plan.data_bytes))
          return error(Code::cancelled, "exporting was cancelled");
      }
    }
    const std::uint64_t padding = round_up(tensor.bytes(), formats::kGgufAlignment) - tensor.bytes();
    constexpr std::byte zeros[formats::kGgufAlignment] = {};
    QINFER_TRY(sink(std::span(zeros).first(padding)));
    done += padding;
  }
  return Status();
}

}  // namespace qinfer::source
