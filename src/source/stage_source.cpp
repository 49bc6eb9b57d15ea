// See stage_source.h.
#include "source/stage_source.h"

#include "base/format.h"

namespace qinfer::source {
namespace {

using model::TensorId;
using model::TensorInfo;

class StageSource final : public ModelSource {
 public:
  StageSource(std::unique_ptr<ModelSource> inner, model::ModelSpec spec) : inner_(std::move(inner)) {
    spec_ = std::move(spec);
    tokenizer_ = inner_->take_tokenizer();
    metadata_ = inner_->take_metadata();
    chat_templates_ = inner_->take_chat_templates();
    prompts_ = inner_->take_prompts();
    note_lines_ = inner_->notes();
    file_bytes_ = inner_->file_bytes();
    assumed_encoding_ = inner_->assumed_encoding();
  }

  bool has_tensors() const override { return inner_->has_tensors(); }
  std::string_view packed_for() const override { return inner_->packed_for(); }
  const TensorInfo* rope_table() const override { return inner_->rope_table(); }
  std::string name(const TensorId& id) const override { return inner_->name(whole(id)); }
  model::RowOrder row_order(const TensorId& id) const override { return inner_->row_order(whole(id)); }
  Result<TensorInfo> find(const TensorId& id) const override { return inner_->find(whole(id)); }
  std::string_view file_name(std::uint32_t file) const override { return inner_->file_name(file); }
  Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t file) override { return inner_->map(file); }
  Status read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const override {
    return inner_->read(file, offset, out);
  }
  Status read_rows(const TensorInfo& tensor, std::uint64_t first, std::uint64_t n, std::byte* out,
                   const model::ParallelFor& parallel_for) const override {
    return inner_->read_rows(tensor, first, n, out, parallel_for);
  }
  Status verify(const TensorInfo& tensor, std::span<const std::byte> data) const override {
    return inner_->verify(tensor, data);
  }

  /// What a stage has saved is no other stage's.
  Result<Fingerprints> fingerprints(CancelFlag cancel) const override {
    QINFER_ASSIGN(Fingerprints prints, inner_->fingerprints(cancel));
    prints.model += format_text(":{}-{}", spec_.first_layer, spec_.first_layer + spec_.n_layers());
    return prints;
  }

 private:
  /// The tensor as the whole model counts layers.
  TensorId whole(TensorId id) const {
    if (static_cast<std::size_t>(id.role) >= model::kGlobalRoles)
      id.layer = static_cast<std::uint16_t>(id.layer + spec_.first_layer);
    return id;
  }

  const std::unique_ptr<ModelSource> inner_;
};

}  // namespace

Result<std::unique_ptr<ModelSource>> make_stage_source(std::unique_ptr<ModelSource> source, std::uint32_t first,
                                                       std::uint32_t n) {
  model::ModelSpec spec = source->spec();
  QINFER_TRY(model::keep_layers(spec, first, n));
  if (!spec.is_stage()) return source;
  return std::unique_ptr<ModelSource>(std::make_unique<StageSource>(std::move(source), std::move(spec)));
}

}  // namespace qinfer::source
