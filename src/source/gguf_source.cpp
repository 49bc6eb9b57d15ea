// See gguf_source.h.
#include "source/gguf_source.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "source/gguf_config.h"
#include "source/gguf_tensors.h"
#include "source/gguf_tokenizer.h"
#include "source/hf_tensors.h"
#include "text/utf8.h"

namespace qinfer::source {
namespace {

using formats::Gguf;
using formats::GgufMetadata;
using formats::GgufTensor;
using formats::GgufType;
using formats::GgufValue;
using model::Role;
using model::TensorId;
using model::TensorInfo;

/// Texts beyond this are not given as metadata; templates have a separate call.
constexpr std::size_t kMaxMetadataText = 64 << 10;

Result<std::vector<float>> read_divisors(const Gguf& gguf, std::string_view name) {
  std::vector<float> divisors;
  const GgufTensor* tensor = gguf.find(name);
  if (tensor == nullptr) return divisors;
  if (tensor->encoding != Encoding::f32 || tensor->n_dims != 1 || tensor->dims[0] > 512)
    return error_at(Code::format, static_cast<std::int64_t>(tensor->offset),
                    "{}: tensor \"{}\" is {} {}, expected f32 and one number for each frequency",
                    gguf.file(tensor->file).name, name, encoding_name(tensor->encoding),
                    formats::shape_text(tensor->shape()));
  divisors.resize(tensor->dims[0]);
  QINFER_TRY(gguf.read(*tensor, 0, std::as_writable_bytes(std::span(divisors))));
  for (const float divisor : divisors)
    if (!(divisor > 0) || !std::isfinite(divisor))
      return error_at(Code::format, static_cast<std::int64_t>(tensor->offset),
                      "{}: tensor \"{}\" holds {}, expected positive numbers", gguf.file(tensor->file).name, name,
                      divisor);
  return divisors;
}

Result<GgufDivisors> read_divisors(const Gguf& gguf) {
  GgufDivisors out;
  QINFER_ASSIGN(out.all, read_divisors(gguf, kRopeDivisors));
  QINFER_ASSIGN(out.short_context, read_divisors(gguf, kShortDivisors));
  QINFER_ASSIGN(out.long_context, read_divisors(gguf, kLongDivisors));
  return out;
}

class GgufSource final : public ModelSource {
 public:
  GgufSource(Gguf gguf, const GgufArchitecture& architecture) : gguf_(std::move(gguf)), architecture_(architecture) {
    file_bytes_ = gguf_.file_bytes();
    assumed_encoding_ = Encoding::f32;
  }

  Status read(const SourceOptions& options) {
    QINFER_ASSIGN(const GgufDivisors divisors, read_divisors(gguf_));
    QINFER_ASSIGN(const formats::JsonDocument config, gguf_config(gguf_, architecture_, divisors));
    QINFER_ASSIGN(HfTexts texts, read_hf_config(config.root(), gguf_.metadata().file()));
    spec_ = std::move(texts.config.spec);
    hugging_face_ = texts.config.architecture;
    metadata_ = std::move(texts.metadata);
    notes_ = std::move(texts.notes);
    QINFER_TRY(add_gguf_metadata(gguf_.metadata(), {}, metadata_));
    QINFER_ASSIGN(const auto name, gguf_.metadata().string("general.name"));
    if (name && text::find_invalid_utf8(*name) == name->size()) spec_.name = *name;
    chat_templates_ = read_gguf_chat_templates(gguf_.metadata());
    if (has_gguf_tokenizer(gguf_.metadata())) {
      QINFER_ASSIGN(GgufTokenizer tokenizer,
                    read_gguf_tokenizer(gguf_.metadata(), {spec_.n_vocab, &notes_}, options.cancel));
      take_end_tokens(tokenizer, spec_);
      tokenizer_ = std::move(tokenizer.tokenizer);
      tokenizer_hash_ = tokenizer_->fingerprint();
    }
    return check_all_known();
  }

  bool has_tensors() const override { return true; }
  std::string name(const TensorId& id) const override { return gguf_place(spec_, architecture_, id).name; }
  model::RowOrder row_order(const TensorId& id) const override { return gguf_row_order(spec_, architecture_, id); }

  Result<TensorInfo> find(const TensorId& id) const override {
    const GgufPlace place = gguf_place(spec_, architecture_, id);
    const GgufTensor* tensor = gguf_.find(place.stored_name());
    if (tensor == nullptr)
      return error(Code::not_found, "{}: there is no tensor \"{}\"", gguf_.file(0).name, place.stored_name());
    TensorInfo info;
    info.name = place.name;
    info.shape = tensor->shape();
    info.encoding = tensor->encoding;
    info.row_order = row_order(id);
    info.packed_as = hf_tensor_name(spec_, id, {hugging_face_->prefix, hugging_face_, {}});
    // One row is stored as a vector.
    const bool may_be_one = id.role == Role::shared_router || id.role == Role::types || id.role == Role::classifier_out;
    if (may_be_one && info.shape.size() == 1) info.shape.insert(info.shape.begin(), 1);
    info.set_bytes(tensor->file, tensor->offset, tensor->bytes);
    if (!place.part_of.empty()) QINFER_TRY(take_part(place, *tensor, info));
    return info;
  }

  std::string_view file_name(std::uint32_t file) const override { return gguf_.file(file).name; }
  Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t file) override { return gguf_.map(file); }
  Status read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const override {
    return platform::read_at(gguf_.file(file), offset, out);
  }
  Status verify(const TensorInfo&, std::span<const std::byte>) const override { return Status(); }

  Result<Fingerprints> fingerprints(CancelFlag cancel) const override {
    const std::vector<model::TensorNeed> needs = model::tensors_of(spec_);
    return make_gguf_fingerprints(
        spec_, tokenizer_hash_, gguf_, needs, [this](const TensorId& id) { return find(id); }, cancel);
  }

 private:
  /// Narrows the place of a tensor of the file to its rows that are one of the model.
  Status take_part(const GgufPlace& place, const GgufTensor& tensor, TensorInfo& info) const {
    const bool is_vector = tensor.n_dims == 1;
    std::uint64_t rows = is_vector ? tensor.dims[0] : 1;
    for (std::uint32_t i = 1; i < tensor.n_dims; ++i) rows *= tensor.dims[i];
    if (rows != place.all_rows)
      return error_at(Code::format, static_cast<std::int64_t>(tensor.offset),
                      "{}: tensor \"{}\" has the shape {}, expected {} rows in all", gguf_.file(tensor.file).name,
                      tensor.name, formats::shape_text(info.shape), place.all_rows);
    info.part_of = place.part_of;
    info.keep_rows(place.first_row, place.rows, is_vector ? 1 : tensor.dims[0]);
    return Status();
  }

  /// A tensor that the architecture does not have would change what the model computes.
  Status check_all_known() const {
    std::vector<std::string> known = {std::string(kRopeDivisors), std::string(kShortDivisors),
                                      std::string(kLongDivisors)};
    for (const model::TensorNeed& need : model::tensors_of(spec_))
      if (need.id.expert == model::kNoExpert || need.id.expert == 0)
        known.push_back(gguf_place(spec_, architecture_, need.id).stored_name());
    std::sort(known.begin(), known.end());
    for (const GgufTensor& tensor : gguf_.tensors())
      if (!std::binary_search(known.begin(), known.end(), tensor.name))
        return error(Code::unsupported, "{}: the tensor \"{}\" is not known to the architecture {}",
                     gguf_.file(tensor.file).name, tensor.name, architecture_.name);
    return Status();
  }

  Gguf gguf_;
  const GgufArchitecture& architecture_;
  const Architecture* hugging_face_ = nullptr;
};

void append_u32(std::uint32_t value, std::string& out) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> 8 * i & 0xff);
}
void append_u64(std::uint64_t value, std::string& out) {
  append_u32(static_cast<std::uint32_t>(value), out);
  append_u32(static_cast<std::uint32_t>(value >> 32), out);
}

/// The key-values of the tokenizer and of sampling, and those that tell which model it is of, as a GGUF file of version
/// 3 without tensors.
std::string tokenizer_text(const GgufMetadata& metadata) {
  std::string body;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const GgufValue& value = metadata[i];
    if (!value.key.starts_with("tokenizer.") && !value.key.starts_with(kSamplingKeys) &&
        value.key != "general.architecture" && value.key != "general.name")
      continue;
    ++count;
    append_u64(value.key.size(), body);
    body += value.key;
    if (value.is_array) append_u32(static_cast<std::uint32_t>(GgufType::array), body);
    append_u32(static_cast<std::uint32_t>(value.type), body);
    if (value.is_array) append_u64(value.count, body);
    body += value.bytes;
  }
  std::string out = "GGUF";
  append_u32(3, out);
  append_u64(0, out);
  append_u64(count, out);
  return out + body;
}

}  // namespace

Result<std::unique_ptr<ModelSource>> open_gguf(const std::string& path, const SourceOptions& options) {
  QINFER_ASSIGN(Gguf gguf, Gguf::open(path, options.files.get(), options.cancel));
  QINFER_ASSIGN(const GgufArchitecture* architecture, find_gguf_architecture(gguf.metadata()));
  auto source = std::make_unique<GgufSource>(std::move(gguf), *architecture);
  QINFER_TRY(source->read(options));
  return std::unique_ptr<ModelSource>(std::move(source));
}

Status add_gguf_metadata(const GgufMetadata& all, std::string_view begin, formats::TextTable& out) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const GgufValue& value = all[i];
    if (!value.key.starts_with(begin)) continue;
    const std::string key = "gguf." + std::string(value.key);
    if (value.is_array) {
      out.add(key, format_text("[{} of {}]", value.count, formats::gguf_type_name(value.type)));
    } else if (value.is_text()) {
      const std::string_view text = value.text();
      if (text.size() <= kMaxMetadataText && text::find_invalid_utf8(text) == text.size()) out.add(key, text);
    } else if (value.type == GgufType::boolean) {
      out.add(key, value.bytes[0] != 0 ? "true" : "false");
    } else if (value.type == GgufType::f32 || value.type == GgufType::f64) {
      QINFER_ASSIGN(const auto number, all.number(value.key));
      out.add(key, value.type == GgufType::f32 ? format_text("{}", static_cast<float>(*number))
                                               : format_text("{}", *number));
    } else {
      QINFER_ASSIGN(const auto number, all.integer(value.key, INT64_MIN, INT64_MAX));
      out.add(key, format_text("{}", *number));
    }
  }
  return Status();
}

Result<GgufTexts> read_gguf_texts(const Gguf& gguf) {
  QINFER_ASSIGN(const GgufArchitecture* architecture, find_gguf_architecture(gguf.metadata()));
  QINFER_ASSIGN(const GgufDivisors divisors, read_divisors(gguf));
  GgufTexts texts;
  QINFER_ASSIGN(const formats::JsonDocument config, gguf_config(gguf, *architecture, divisors));
  texts.config = formats::json_text(config.root());
  texts.tokenizer = tokenizer_text(gguf.metadata());
  return texts;
}

Result<std::string> gguf_state(const Gguf& gguf, CancelFlag cancel) {
  std::string all;
  for (std::size_t i = 0; i < gguf.metadata().size(); ++i) {
    const GgufValue& value = gguf.metadata()[i];
    all += format_text("{} {} {:016x}\n", value.key, value.describe(), hash_text(value.bytes));
  }
  QINFER_ASSIGN(const std::string samples, sample_gguf(gguf, cancel));
  return format_text("{:016x} {:016x}", hash_text(all), hash_text(samples));
}

}  // namespace qinfer::source
