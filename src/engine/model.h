// Model: what is loaded once and never changes: spec, weights, tokenizer, RoPE table, metadata; and the scratch arena,
// which only the evaluation that holds the runtime's lock may touch.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/blueprint.h"
#include "engine/breaker_cache.h"
#include "engine/rope_table.h"
#include "engine/runtime.h"
#include "engine/scratch_poison.h"
#include "engine/template_cache.h"
#include "model/spec.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace qinfer::engine {

/// Bytes of a model's memory budget that an object (a cache, a session) takes as long as it lives. The model outlives
/// it.
class Charge {
 public:
  Charge() = default;
  Charge(std::atomic<std::uint64_t>& charged, std::uint64_t bytes) : charged_(&charged), bytes_(bytes) {}
  Charge(Charge&& other) noexcept { *this = std::move(other); }
  Charge& operator=(Charge&& other) noexcept {
    std::swap(charged_, other.charged_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (charged_ != nullptr) *charged_ -= bytes_;
  }
  /// Stays taken until the model is gone.
  void keep() { charged_ = nullptr; }

 private:
  std::atomic<std::uint64_t>* charged_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// What a model has of one encoding.
struct StoredEncoding {
  Encoding encoding = Encoding::f32;
  std::uint32_t n_tensors = 0;
  std::uint64_t n_params = 0, file_bytes = 0, memory_bytes = 0;
};

class Model {
 public:
  /// Plans, checks the budget, then loads. `progress` false, or options.cancel, stops with QINFER_E_CANCELLED.
  static Result<std::shared_ptr<const Model>> load(std::shared_ptr<Runtime> runtime, const std::string& path,
                                                   const LoadOptions& options, const model::LoadProgress& progress);
  /// The same of a source that is open; `path` is what messages call it.
  static Result<std::shared_ptr<const Model>> load(std::shared_ptr<Runtime> runtime, source::ModelSource& source,
                                                   const std::string& path, const LoadOptions& options,
                                                   const model::LoadProgress& progress);

  Runtime& runtime() const { return *runtime_; }
  const kernels::KernelSet& kernels() const { return *kernels_; }
  const model::ModelSpec& spec() const { return spec_; }
  const model::Weights& weights() const { return weights_; }
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  /// The RoPE table of one of the spec's ropes, as far as prepare_rope() has been called for.
  const float* rope(std::uint32_t i) const {
    return packed_rope_ != nullptr ? packed_rope_ + spec_.rope_values(i) * spec_.context_tokens : rope_.data(i);
  }
  /// Computes the rows that a session of `tokens` tokens needs, if they are not there yet.
  Status prepare_rope(std::uint32_t tokens) const;
  const ScratchLayout& scratch_layout() const { return blueprint_.scratch; }
  std::byte* scratch() const { return scratch_.data(); }
  const ScratchPoison& scratch_poison() const { return scratch_poison_; }
  bool has_weights() const { return !weights_.empty(); }
  /// What is taken now; the RoPE table grows with the longest session.
  MemoryTotals memory() const;
  std::uint64_t n_params() const { return blueprint_.weights.n_params; }
  std::uint64_t n_active_params() const { return blueprint_.weights.n_active_params; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  /// "f32", "f16", "bf16" or "mixed"; empty without weights.
  const std::string& weight_format() const { return weight_format_; }
  /// The encodings of its files, the one with the most bytes first; empty without weights.
  std::span<const StoredEncoding> stored_encodings() const { return stored_encodings_; }
  /// Of the checkpoint, also where it was loaded from a packed file; empty without weights.
  const source::Fingerprints& fingerprints() const { return fingerprints_; }
  /// Takes bytes for `what` out of memory_budget_bytes. QINFER_E_NO_MEMORY (detail: the budget that would do) ends with
  /// what_fits(bytes left).
  Result<Charge> charge(std::uint64_t bytes, std::string_view what,
                        const std::function<std::string(std::uint64_t left)>& what_fits) const;
  /// What the bits of its keys and values depend on: kernel set, formats of the weights, precision.
  std::string describe_origin() const;
  /// The same as snapshots name it, in at most kv::kMaxSnapshotName bytes: of a longer one a hash.
  std::string origin() const;
  /// Whether a snapshot's is the same.
  bool has_origin(std::string_view saved) const;
  /// Tells how long an evaluation took in which each row gave logits (schedule::RowCosts), and by that which drafts are
  /// worth rows of their own (schedule::share_drafts).
  void learn_row_costs(std::uint32_t rows, std::uint64_t context, double seconds) const {
    const Lock lock(row_costs_mutex_);
    row_costs_.learn(rows, context, seconds);
  }
  void share_drafts(std::span<schedule::DraftClaim> claims, std::uint32_t rows, std::uint64_t context) const {
    const Lock lock(row_costs_mutex_);
    schedule::share_drafts(claims, rows, context, scratch_layout().batch_capacity, row_costs_);
  }
  /// The blueprint that it was loaded by.
  const ModelBlueprint& blueprint() const { return blueprint_; }
  /// What blueprints of caches and sessions are made for.
  Target target() const;
  /// config.json flattened ("config.rope_scaling.factor" -> "8.0"), and the metadata of safetensors files.
  const formats::TextTable& metadata() const { return metadata_; }
  bool is_end_token(std::int32_t token) const;
  /// How many rows each expert of a layer was chosen for since the model was loaded; null where a layer has none, and
  /// without weights. Evaluations add to them with atomic operations, and readers must use such, too.
  std::uint64_t* expert_usage(std::uint32_t layer) const {
    return has_weights() && spec_.layers[layer].ffn.has_experts() ? expert_usage_.data() + usage_begin_[layer]
                                                                  : nullptr;
  }
  /// Sorted by name; empty if the model brings none.
  std::span<const source::ChatTemplate> chat_templates() const { return chat_templates_.list; }
  TemplateCache& compiled_templates() const { return compiled_templates_; }
  /// For sequence breakers in this vocabulary; needs a tokenizer.
  std::shared_ptr<const sampling::DryBreakers> dry_breakers(std::vector<std::string> texts) const {
    return breakers_.get(*tokenizer_, spec_.n_vocab, std::move(texts));
  }
  /// What chat templates know of the tokens that begin and end texts.
  const source::ChatTemplates& named_tokens() const { return chat_templates_; }
  const source::Prompts& prompts() const { return prompts_; }
  /// Not OK if the file that should have some is damaged.
  const Status& chat_template_status() const { return chat_templates_.status; }
  std::uint32_t max_token_bytes() const { return blueprint_.max_token_bytes; }

 private:
  Model() = default;
  Status load_weights(source::ModelSource& source, const model::LoadProgress& progress);
  Status map_rope_table(source::ModelSource& source);
  std::string describe_formats() const;
  void count_encodings();
  std::string describe_mix() const;

  std::shared_ptr<Runtime> runtime_;
  const kernels::KernelSet* kernels_ = nullptr;
  model::ModelSpec spec_;
  model::Weights weights_;
  ModelBlueprint blueprint_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  platform::Buffer scratch_;
  mutable RopeTable rope_;
  const float* packed_rope_ = nullptr;               ///< the whole table in a packed file, instead
  std::shared_ptr<platform::MappedFile> rope_file_;  ///< the packed file
  ScratchPoison scratch_poison_;
  mutable std::vector<std::uint64_t> expert_usage_;  ///< of all layers, one after the other
  std::vector<std::size_t> usage_begin_;             ///< of each layer
  MemoryTotals memory_;
  std::uint64_t budget_ = UINT64_MAX;
  mutable std::atomic<std::uint64_t> charged_{0};  ///< of it, by the model itself, caches and sessions
  std::uint64_t file_bytes_ = 0;
  std::string weight_format_;
  std::vector<StoredEncoding> stored_encodings_;
  source::Fingerprints fingerprints_;
  formats::TextTable metadata_;
  source::ChatTemplates chat_templates_;
  source::Prompts prompts_;
  mutable TemplateCache compiled_templates_;
  mutable BreakerCache breakers_;
  mutable Mutex row_costs_mutex_;
  mutable schedule::RowCosts row_costs_ ABSL_GUARDED_BY(row_costs_mutex_);
};

}  // namespace qinfer::engine
