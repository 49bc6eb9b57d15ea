// See hf_source.h.
#include "source/hf_source.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/hash.h"
#include "source/gguf_source.h"
#include "source/hf_tensors.h"
#include "source/model_folder.h"

namespace qinfer::source {
namespace {

using formats::Checkpoint;
using formats::Tensor;
using model::TensorId;
using model::TensorInfo;

/// Parts of a checkpoint besides its text that a note lists.
constexpr std::size_t kMostParts = 16;
/// What names of the text begin with in a model that has other parts, in the words of transformers 5 and of 4.
constexpr std::string_view kText5 = "model.language_model.", kText4 = "language_model.model.";

/// What the three have in common: texts, and tensors with Hugging Face's names in a checkpoint, if there is one.
class HfSource : public ModelSource {
 public:
  bool has_tensors() const override { return checkpoint_.has_value(); }

  std::string name(const TensorId& id) const override { return hf_tensor_name(spec_, id, names_); }

  model::RowOrder row_order(const TensorId& id) const override { return hf_row_order(spec_, id, names_); }

  Result<TensorInfo> find(const TensorId& id) const override {
    QINFER_TRY(check_unique(id));
    const std::optional<HfPart> part = part_of(id);
    const std::string name = part ? part->name : stored_name(id);
    const Tensor* tensor = checkpoint_ ? checkpoint_->find(name) : nullptr;
    if (tensor == nullptr) return error(Code::not_found, "the checkpoint has no tensor \"{}\"", name);
    const auto encoding = encoding_of(*tensor);
    if (!encoding)
      return error(Code::unsupported, "{}: tensor \"{}\" is {}, supported are F32, F16 and BF16",
                   checkpoint_->shard_name(tensor->shard), name, tensor->dtype);
    TensorInfo info = info_of(*tensor, *encoding, hf_transform(id, names_.architecture->norms_add_one));
    info.row_order = row_order(id);
    if (part) QINFER_TRY(take_part(id, *part, info));
    return info;
  }

  std::string_view file_name(std::uint32_t file) const override { return checkpoint_->shard_name(file); }

  Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t file) override {
    return checkpoint_->map_shard(file);
  }

  Status read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const override {
    return platform::read_at(checkpoint_->file(file), offset, out);
  }

  Status verify(const TensorInfo&, std::span<const std::byte>) const override { return Status(); }

  Result<Fingerprints> fingerprints(CancelFlag cancel) const override {
    const std::vector<model::TensorNeed> needs = model::tensors_of(spec_);
    return make_fingerprints(
        spec_, texts_, *checkpoint_, needs, [this](const TensorId& id) { return find(id); }, cancel);
  }

  /// Takes over what texts say.
  void take(HfTexts texts) {
    spec_ = std::move(texts.config.spec);
    tied_ = texts.config.tied;
    names_.architecture = texts.config.architecture;
    if (!spec_.causal) names_.prefix = "";
    tokenizer_ = std::move(texts.tokenizer);
    chat_templates_ = std::move(texts.chat_templates);
    prompts_ = std::move(texts.modules.prompts);
    names_.dense = std::move(texts.modules.dense_folders);
    metadata_ = std::move(texts.metadata);
    notes_ = std::move(texts.notes);
    texts_ = std::move(texts.fingerprint);
    assumed_encoding_ = texts.stated_encoding;
  }

  void take(ChatTemplates templates) { chat_templates_ = std::move(templates); }

  /// Takes over the tensors, which decide what config.json left open.
  void take(Checkpoint checkpoint) {
    checkpoint_ = std::move(checkpoint);
    file_bytes_ = checkpoint_->file_bytes();
    find_names();
    const bool has_head = has(std::string(names_.head));
    if (tied_ == Tied::unstated) spec_.tied_embeddings = !has_head;
    if (!spec_.tied_embeddings && !has_head && spec_.causal) {
      spec_.no_lm_head = spec_.tied_embeddings = true;
      notes_.add("there is no tensor lm_head.weight: the model gives embeddings, and no logits");
    }
    note_other_parts();
    const formats::TextTable& metadata = checkpoint_->metadata();
    for (std::size_t i = 0; i < metadata.size(); ++i)
      if (!metadata.key(i).starts_with(kTensorKey))
        metadata_.add("safetensors." + std::string(metadata.key(i)), metadata.value(i));
  }

 protected:
  static TensorInfo info_of(const Tensor& tensor, Encoding encoding, model::Transform transform) {
    TensorInfo info{tensor.name, tensor.shape, encoding, transform};
    info.set_bytes(static_cast<std::uint32_t>(tensor.shard), tensor.begin, tensor.bytes());
    return info;
  }

  /// What a tensor of the file is stored as; nullopt if that is not known.
  virtual std::optional<Encoding> encoding_of(const Tensor& tensor) const {
    return formats::find_stored_encoding(tensor.dtype);
  }

  std::optional<Checkpoint> checkpoint_;
  bool has_parts_ = true;  ///< of what the architecture stores as one

 private:
  bool has(const std::string& name) const { return checkpoint_ && checkpoint_->find(name) != nullptr; }

  std::size_t n_found(const HfNames& names) const {
    const std::vector<model::TensorNeed> needs = model::tensors_of(spec_);
    return static_cast<std::size_t>(std::count_if(needs.begin(), needs.end(), [&](const model::TensorNeed& need) {
      return has(hf_tensor_name(spec_, need.id, names));
    }));
  }

  void find_names() {
    // Embedding models are saved without the class around the layers, and so without its name.
    std::vector<std::string_view> prefixes = {names_.architecture->prefix, "", kText5, kText4};
    const auto others = names_.architecture->other_prefixes;
    prefixes.insert(prefixes.begin() + 2, others.begin(), others.end());
    for (const std::string_view prefix : prefixes)
      if (has(hf_tensor_name(spec_, {model::Role::embedding}, {prefix, names_.architecture}))) {
        names_.prefix = prefix;
        break;
      }
    const Architecture* other = names_.architecture->other_form;
    if (other != nullptr && n_found({names_.prefix, other}) > n_found({names_.prefix, names_.architecture}))
      names_.architecture = other;
    HfNames old = names_;
    old.old_norms = true;
    const model::TensorId norm{model::Role::attn_norm};  // in a table the norm of the embedding
    names_.old_norms = names_.architecture->names != nullptr && !has(hf_tensor_name(spec_, norm, names_)) &&
                       has(hf_tensor_name(spec_, norm, old));
    constexpr std::string_view kInnerHead = "language_model.lm_head.weight";
    if (!has(std::string(names_.head)) && has(std::string(kInnerHead))) names_.head = kInnerHead;
  }

  /// Tensors of parts that are not run, such as those for images, by the first word of their names.
  void note_other_parts() {
    std::set<std::string, std::less<>> own;  // those after the layers begin otherwise
    for (const model::TensorNeed& need : model::tensors_of(spec_))
      if (static_cast<std::size_t>(need.id.role) < model::kGlobalRoles) own.insert(name(need.id));
    std::map<std::string, std::size_t> parts;
    std::size_t n = 0;
    for (const Tensor& tensor : checkpoint_->tensors()) {
      std::string_view name = tensor.name;
      if (name.starts_with(names_.prefix) || name == names_.head || own.count(name) != 0) continue;
      if (name.starts_with("model.")) name.remove_prefix(std::string_view("model.").size());
      ++parts[std::string(name.substr(0, name.find('.')))];
      ++n;
    }
    if (parts.empty() || parts.size() > kMostParts || !has_parts_ || !spec_.causal) return;
    std::vector<std::string> texts;
    texts.reserve(parts.size());
    for (const auto& [part, count] : parts) texts.push_back(format_text("{} ({})", part, count));
    notes_.add("{} tensors of other parts are passed over: {}", n, join_texts(texts, ", "));
  }

  /// The larger tensor that a tensor of the model is rows of, if the file does not have it as a separate tensor. Where
  /// there is neither, messages name the separate one.
  std::optional<HfPart> part_of(const TensorId& id) const {
    const bool fuses = names_.architecture->part != nullptr || names_.architecture->names != nullptr;
    if (has_parts_ && fuses) return hf_part(spec_, id, names_);
    if (id.expert == model::kNoExpert || has(name(id))) return std::nullopt;
    auto part = hf_expert_part(spec_, id, names_);
    return part && has(part->name) ? part : std::nullopt;
  }

  /// A router with a name of its own (Mixtral's) has the usual one where all experts are stored as one tensor.
  std::string stored_name(const TensorId& id) const {
    std::string name = this->name(id);
    if (id.role != model::Role::router || has(name)) return name;
    std::string other = hf_tensor_name(spec_, id, {names_.prefix, nullptr, {}});
    return has(other) ? other : name;
  }

  /// A checkpoint that has a tensor in both of its forms is a mixture of two.
  Status check_unique(const TensorId& id) const {
    const std::string own = name(id);
    std::string other;
    if (id.role == model::Role::router) other = hf_tensor_name(spec_, id, {names_.prefix, nullptr, {}});
    if (const auto part = hf_expert_part(spec_, id, names_)) other = part->name;
    if (other.empty() || other == own || !has(own) || !has(other)) return Status();
    return error_at(Code::format, -1, "the checkpoint has both \"{}\" and \"{}\", expected one of them", own, other);
  }

  /// Whether the matrices of all experts are stored with rows for columns, which their shape tells.
  bool is_transposed(const TensorId& id, const HfPart& part, const TensorInfo& info) const {
    if (!names_.architecture->experts_transposed || id.expert == model::kNoExpert || info.shape == part.shape)
      return false;
    return info.shape == std::vector<std::uint64_t>{part.shape[0], part.shape[2], part.shape[1]};
  }

  /// Narrows the place of a whole matrix to its rows that are one tensor of the model.
  Status take_part(const TensorId& id, const HfPart& part, TensorInfo& info) const {
    if (is_transposed(id, part, info)) {
      const std::uint64_t rows = part.shape[1], cols = part.shape[2];
      info.part_of = std::move(info.name);
      info.name = name(id);
      info.keep_columns(part.first_row / rows, cols, rows, part.first_row % rows, part.rows);
      return Status();
    }
    if (info.shape != part.shape)
      return error_at(Code::format, static_cast<std::int64_t>(info.offset()),
                      "{}: tensor \"{}\" has the shape {}, config.json asks for {}",
                      checkpoint_->shard_name(info.file()), info.name, formats::shape_text(info.shape),
                      formats::shape_text(part.shape));
    info.part_of = std::move(info.name);
    info.name = name(id);
    info.keep_rows(part.first_row, part.rows, part.shape.size() == 1 ? 1 : part.shape.back());
    return Status();
  }

  HfNames names_;
  Tied tied_ = Tied::unstated;
  FingerprintTexts texts_;
};

class PackedModel final : public HfSource {
 public:
  explicit PackedModel(PackedFile packed) : packed_(std::move(packed)) {}

  /// After the texts were taken: the tensors, which the packed file's list belongs to.
  void open_tensors() {
    has_parts_ = false;  // each tensor was written on its own
    take(std::move(packed_.checkpoint));
    const Tensor* tensor = checkpoint_->find(kRopeTensor);
    const std::uint64_t bytes = spec_.rope_values() * spec_.context_tokens * sizeof(float);
    if (tensor != nullptr && tensor->dtype == "F32" && tensor->bytes() == bytes && tensor->begin % sizeof(float) == 0)
      rope_table_ = info_of(*tensor, Encoding::f32, model::Transform::none);
  }

  const PackedFile& packed() const { return packed_; }

  /// Tensors are stored as they are used, each as a separate one: norms, and rows in the model's order.
  model::RowOrder row_order(const TensorId&) const override { return {}; }

  Result<TensorInfo> find(const TensorId& id) const override {
    auto found = HfSource::find(id);
    if (!found.ok()) {
      Status status = found.take_status();
      if (status.code() != Code::not_found) return status;
      return error(Code::not_found, "the packed model: {}", status.message());
    }
    TensorInfo info = std::move(found.value());
    const PackedTensor* packed = packed_.find(info.name);
    if (packed == nullptr)
      return error(Code::not_found, "the packed model does not describe its tensor \"{}\"", info.name);
    info.transform = model::Transform::none;
    info.packed = {packed->layout, packed->pack, packed->source, packed->rows, packed->cols};
    return info;
  }

  std::optional<Encoding> encoding_of(const Tensor& tensor) const override {
    const PackedTensor* packed = packed_.find(tensor.name);
    if (packed != nullptr && packed->quantised && tensor.dtype == "U8") return packed->quantised;
    return HfSource::encoding_of(tensor);
  }

  Status verify(const TensorInfo& tensor, std::span<const std::byte> data) const override {
    return packed_.verify(tensor.name, data, file_name(tensor.file()), tensor.offset());
  }

  std::string_view packed_for() const override { return packed_.kernel_set; }
  const TensorInfo* rope_table() const override {
    return rope_table_ && !context_is_limited_ ? &*rope_table_ : nullptr;
  }
  Result<Fingerprints> fingerprints(CancelFlag) const override {
    Fingerprints all = packed_.fingerprints;
    if (context_is_limited_) all.model = format_text("2:{:016x}", hash_text(all.model + model::canonical_text(spec_)));
    return all;
  }

 private:
  PackedFile packed_;
  std::optional<TensorInfo> rope_table_;
};

/// Whether nothing that the packed file was made of has changed in the directory since. Chat templates are no part of
/// that, and so are the directory's.
Result<ChatTemplates> check_directory(const std::string& given, const PackedFile& packed,
                                      const std::string& packed_path, const SourceOptions& options) {
  QINFER_ASSIGN(const std::string path, find_model(given, true, options.files));
  QINFER_ASSIGN(const bool one_file, platform::is_one_file(path, options.files.get()));
  if (one_file) {
    QINFER_ASSIGN(const auto gguf, open_gguf(path, options));
    QINFER_ASSIGN(const Fingerprints now, gguf->fingerprints(options.cancel));
    if (now.model == packed.fingerprints.model) return gguf->take_chat_templates();
    return error(Code::format, "{} was packed from another state of {} (fingerprint {}, now {}): pack it again",
                 packed_path, path, packed.fingerprints.model, now.model);
  }
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(path, options.files));
  QINFER_ASSIGN(const Checkpoint checkpoint, open_checkpoint(directory, options.cancel));
  QINFER_ASSIGN(const FingerprintTexts texts, hash_fingerprint_texts(TextFiles(directory)));
  QINFER_ASSIGN(const std::string now, make_files_fingerprint(texts, checkpoint, options.cancel));
  if (now == packed.fingerprints.files) return read_chat_templates(TextFiles(directory), options.cancel);
  return error(Code::format, "{} was packed from another state of {} (fingerprint {}, now {}): pack it again",
               packed_path, path, packed.fingerprints.files, now);
}

}  // namespace

Result<std::unique_ptr<ModelSource>> open_hf_directory(const std::string& path, const SourceOptions& options) {
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(path, options.files));
  auto source = std::make_unique<HfSource>();
  QINFER_ASSIGN(HfTexts texts, read_hf_texts(TextFiles(directory), options.cancel));
  source->take(std::move(texts));
  if (!options.no_weights) {
    QINFER_ASSIGN(Checkpoint checkpoint, open_checkpoint(directory, options.cancel));
    source->take(std::move(checkpoint));
  }
  return std::unique_ptr<ModelSource>(std::move(source));
}

Result<std::unique_ptr<ModelSource>> open_packed_model(const std::string& path, const std::string& directory,
                                                       const SourceOptions& options) {
  QINFER_ASSIGN(PackedFile packed, PackedFile::open(path, options.cancel, options.files.get()));
  QINFER_ASSIGN(HfTexts texts, read_hf_texts(TextFiles(packed), options.cancel));
  auto source = std::make_unique<PackedModel>(std::move(packed));
  source->take(std::move(texts));
  source->open_tensors();
  if (!directory.empty()) {
    QINFER_ASSIGN(ChatTemplates templates, check_directory(directory, source->packed(), path, options));
    source->take(std::move(templates));
  }
  return std::unique_ptr<ModelSource>(std::move(source));
}

Result<std::unique_ptr<ModelSource>> open_lone_config(const std::string& path, const SourceOptions& options) {
  QINFER_ASSIGN(const platform::OpenFile file, platform::open_path(path, options.files.get()));
  const std::string name = path.substr(path.rfind('/') + 1);
  if (file.size > kMaxConfigBytes)
    return error_at(Code::format, 0, "{}: {} bytes, at most {} are accepted", name, file.size, kMaxConfigBytes);
  std::string text(file.size, '\0');
  QINFER_TRY(platform::read_at(file, 0, std::as_writable_bytes(std::span(text))));
  QINFER_ASSIGN(HfTexts texts, read_hf_config_text(text, name, options.cancel));
  auto source = std::make_unique<HfSource>();
  source->take(std::move(texts));
  return std::unique_ptr<ModelSource>(std::move(source));
}

}  // namespace qinfer::source
