// What sources that are made of another source share: they take over what the other one has read, and pass on every
// question that they do not answer otherwise.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "source/model_source.h"

namespace qinfer::source {

class DerivedSource : public ModelSource {
 public:
  bool has_tensors() const override { return inner_->has_tensors(); }
  std::string_view packed_for() const override { return inner_->packed_for(); }
  const model::TensorInfo* rope_table() const override { return inner_->rope_table(); }
  std::string name(const model::TensorId& id) const override { return inner_->name(id); }
  model::RowOrder row_order(const model::TensorId& id) const override { return inner_->row_order(id); }
  Result<model::TensorInfo> find(const model::TensorId& id) const override { return inner_->find(id); }
  std::string_view file_name(std::uint32_t file) const override { return inner_->file_name(file); }
  Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t file) override { return inner_->map(file); }
  Status read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const override {
    return inner_->read(file, offset, out);
  }
  Status read_rows(const model::TensorInfo& tensor, std::uint64_t first, std::uint64_t n, std::byte* out,
                   const model::ParallelFor& parallel_for) const override {
    return inner_->read_rows(tensor, first, n, out, parallel_for);
  }
  Status verify(const model::TensorInfo& tensor, std::span<const std::byte> data) const override {
    return inner_->verify(tensor, data);
  }
  Result<Fingerprints> fingerprints(CancelFlag cancel) const override { return inner_->fingerprints(cancel); }

 protected:
  explicit DerivedSource(std::unique_ptr<ModelSource> inner) : inner_(std::move(inner)) {
    spec_ = inner_->spec();
    tokenizer_ = inner_->take_tokenizer();
    metadata_ = inner_->take_metadata();
    chat_templates_ = inner_->take_chat_templates();
    prompts_ = inner_->take_prompts();
    note_lines_ = inner_->notes();
    file_bytes_ = inner_->file_bytes();
    assumed_encoding_ = inner_->assumed_encoding();
  }

  const ModelSource& inner() const { return *inner_; }

 private:
  const std::unique_ptr<ModelSource> inner_;
};

}  // namespace qinfer::source
