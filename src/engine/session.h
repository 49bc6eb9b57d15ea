// KvCache and Session. A session is a list of tokens of which a prefix is evaluated: its keys and values lie in the
// blocks of its block table, the rest is pending. All its memory is taken when it is created.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/layout.h"
#include "engine/model.h"
#include "kv/block_pool.h"
#include "sampling/sampler.h"
#include "text/detokenizer.h"

namespace qinfer::engine {

class KvCache {
 public:
  static Result<std::shared_ptr<KvCache>> create(std::shared_ptr<const Model> model, const KvCacheOptions& options);

  const Model& model() const { return *model_; }
  const KvLayout& layout() const { return pool_->layout(); }
  kv::BlockPool& pool() { return *pool_; }
  const kv::BlockPool& pool() const { return *pool_; }

 private:
  KvCache() = default;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<kv::BlockPool> pool_;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<KvCache> cache, const SessionOptions& options);
  ~Session();

  const Model& model() const { return cache_->model(); }
  KvCache& cache() { return *cache_; }

  std::span<const std::int32_t> tokens() const { return {token_data(), n_tokens_}; }
  std::size_t length() const { return n_tokens_; }
  std::size_t pending() const { return n_tokens_ - n_evaluated_; }
  std::uint32_t max_tokens() const { return layout_.max_tokens; }
  std::uint32_t max_logits() const { return layout_.max_logits; }

  /// All or nothing: QINFER_E_INVALID_ARGUMENT for an id out of range (detail: its index), QINFER_E_CONTEXT_FULL.
  Status append(std::span<const std::int32_t> tokens);
  Status truncate(std::size_t n_tokens);

  Status set_sampler(const sampling::SamplerOptions& options);
  Status set_bias(std::span<const std::int32_t> tokens, std::span<const float> values);
  Result<std::int32_t> sample();

  /// The logits of the last evaluated token, or of the one `back` earlier; empty if not kept.
  std::span<const float> logits(std::size_t back) const;

  std::uint64_t kv_bytes() const { return n_blocks_ * cache_->layout().block_bytes(); }
  std::uint64_t other_bytes() const { return memory_.size(); }
  const Metrics& metrics() const { return metrics_; }

  // ---- for eval and generate ----

  /// Room for evaluating `n` more tokens: blocks are taken, or none and false.
  bool reserve_blocks(std::size_t n);
  /// Gives back the blocks that the evaluated tokens do not need.
  void release_spare_blocks();
  KvView kv_view() const { return {cache_->pool().arena(), table_data()}; }
  std::size_t evaluated() const { return n_evaluated_; }
  void advance(std::size_t n) { n_evaluated_ += n; }
  /// Where the logits of row `row` of the `kept` rows of this evaluation go.
  float* logits_row(std::size_t row) const;
  void set_kept_logits(std::size_t kept) { n_logits_ = kept; }
  Metrics& metrics() { return metrics_; }
  std::span<char> text_buffer() const { return {memory_.as<char>() + layout_.text, layout_.text_bytes}; }
  text::Detokenizer* detokenizer() { return detokenizer_ ? &*detokenizer_ : nullptr; }

  /// Links of the evaluation that the session takes part in, so that eval needs no memory of its own.
  struct EvalState {
    Session* next = nullptr;
    std::size_t index = 0;  ///< in the caller's array
    std::size_t count = 0;  ///< tokens to evaluate in this call
    std::size_t done = 0;   ///< of them
    std::size_t kept = 0;   ///< rows of logits wanted
    bool active = false;
  } eval_state;

 private:
  Session() = default;
  std::int32_t* token_data() const { return reinterpret_cast<std::int32_t*>(memory_.data() + layout_.tokens); }
  sampling::Bias* bias_data() const { return reinterpret_cast<sampling::Bias*>(memory_.data() + layout_.bias); }
  std::uint32_t* table_data() const { return reinterpret_cast<std::uint32_t*>(memory_.data() + layout_.table); }

  std::shared_ptr<KvCache> cache_;
  SessionLayout layout_;
  platform::Buffer memory_;
  std::size_t n_tokens_ = 0, n_evaluated_ = 0, n_blocks_ = 0, n_logits_ = 0;
  sampling::SamplerOptions sampler_;
  std::size_t n_bias_ = 0;
  std::optional<text::Detokenizer> detokenizer_;
  Metrics metrics_;
};

}  // namespace qinfer::engine
