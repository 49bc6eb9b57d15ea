// KvCache and Session. A session is a list of tokens of which a prefix is evaluated: its keys and values lie in the
// blocks of its block tables, one for each group of layers that keep theirs alike; the rest is pending. All its memory
// is taken when it is created. Blocks may be shared with forks and with sessions that begin alike; one that is about to
// be written to is copied first. Tokens are session.cpp's, keys and values session_kv.cpp's, files
// session_snapshot.cpp's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/block_table.h"
#include "engine/layout.h"
#include "engine/logits_hook.h"
#include "engine/model.h"
#include "engine/shared_buffer.h"
#include "kv/block_pool.h"
#include "sampling/sampler.h"
#include "sampling/stored_options.h"
#include "text/detokenizer.h"

namespace qinfer::kv {
class Snapshot;
}

namespace qinfer::engine {

class KvCache {
 public:
  static Result<std::shared_ptr<KvCache>> create(std::shared_ptr<const Model> model, const KvCacheOptions& options);

  const Model& model() const { return *model_; }
  /// An encoder has no groups: it keeps nothing.
  std::size_t n_groups() const { return pools_.size(); }
  kv::BlockPool& pool(std::size_t group = 0) { return *pools_[group]; }
  const kv::BlockPool& pool(std::size_t group = 0) const { return *pools_[group]; }
  const KvLayout& layout(std::size_t group = 0) const { return pools_[group]->layout(); }
  std::span<const KvLayout> layouts() const { return blueprint_.layouts; }
  std::uint32_t block_tokens() const { return blueprint_.block_tokens; }
  const CacheBlueprint& blueprint() const { return blueprint_; }
  bool keeps_prefixes() const { return !pools_.empty() && pools_[0]->keeps_prefixes(); }

  /// Of all groups together.
  kv::PoolStats stats() const;
  std::uint64_t resident_bytes() const;
  /// "3 of 8 blocks free", or where blocks differ in size, the same in bytes.
  std::string describe_room() const;

 private:
  KvCache() = default;
  std::shared_ptr<const Model> model_;
  Charge charge_;  // given back when the memory is
  CacheBlueprint blueprint_;
  std::vector<std::unique_ptr<kv::BlockPool>> pools_;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<KvCache> cache, const SessionOptions& options);
  ~Session();

  /// The same tokens, blocks, logits and sampler; metrics begin at zero.
  Result<std::unique_ptr<Session>> fork() const;

  /// Writes tokens, keys, values and sampler to a file, or what is new to one that holds the beginning already.
  /// `files` null: the operating system's.
  Status save(const std::string& path, const platform::Files* files = nullptr) const;
  struct LoadSessionOptions {
    bool any_bits = false;     ///< keys and values that the same kernel set computed with other options are taken too
    bool no_recovery = false;  ///< the state before the last one is refused
    std::shared_ptr<const platform::Files> files;  ///< of the host; null: the operating system's
  };
  struct LoadSessionResult {
    std::size_t n_tokens = 0, n_evaluated = 0;  ///< as they were saved
    bool recovered = false;                     ///< what was saved last was damaged: this is the state before
    bool other_bits = false;  ///< keys and values were computed by another kernel set or with other options
  };
  /// A session as it was saved, with its limits; the last token is pending, for the file holds no logits.
  static Result<std::unique_ptr<Session>> load(std::shared_ptr<KvCache> cache, const std::string& path,
                                               const LoadSessionOptions& options, LoadSessionResult& result);

  const Model& model() const { return cache_->model(); }
  KvCache& cache() { return *cache_; }
  const KvCache& cache() const { return *cache_; }

  std::span<const std::int32_t> tokens() const { return {token_data(), n_tokens_}; }
  std::size_t length() const { return n_tokens_; }
  std::size_t pending() const { return n_tokens_ - n_evaluated_; }
  std::uint32_t max_tokens() const { return memory_layout_.max_tokens; }
  std::uint32_t max_logits() const { return memory_layout_.max_logits; }

  /// All or nothing: QINFER_E_INVALID_ARGUMENT for an id out of range (detail: its index), QINFER_E_CONTEXT_FULL.
  Status append(std::span<const std::int32_t> tokens);
  Status truncate(std::size_t n_tokens);

  Status set_sampler(const sampling::SamplerOptions& options);
  Status set_bias(std::span<const std::int32_t> tokens, std::span<const float> values);
  Result<std::int32_t> sample();
  /// QINFER_E_UNSUPPORTED for an encoder, which has no logits.
  Status check_samples() const;
  /// Replaces the hook; null: none. Tokens that are there already do not count as accepted. Snapshots hold no hook.
  void set_logits_hook(std::unique_ptr<LogitsHook> hook);
  LogitsHook* logits_hook() const { return hook_.get(); }

  /// The logits of the last evaluated token, or of the one `back` earlier; empty if not kept.
  std::span<const float> logits(std::size_t back) const;

  /// Every token is evaluated, the last one with QINFER_EVAL_NO_LOGITS; and what a call that needs its logits says
  /// then.
  bool has_skipped_logits() const {
    return model().spec().causal && n_logits_ == 0 && n_tokens_ != 0 && pending() == 0;
  }
  static Status skipped_logits();

  /// The log probabilities of tokens in row logits(back), in double. QINFER_E_STATE if the row is not kept,
  /// QINFER_E_INVALID_ARGUMENT (detail: its index) for a token that is not in the vocabulary.
  Status logprobs(std::size_t back, std::span<const std::int32_t> tokens, std::span<double> out) const;
  /// The most likely tokens of that row, in descending order, and their log probabilities.
  Status top_logprobs(std::size_t back, std::span<std::int32_t> tokens, std::span<double> out) const;
  /// Why logits(back) is empty.
  Status no_logits(std::size_t back) const;
  /// How many rows logits() has.
  std::size_t n_logits() const { return n_logits_; }
  std::size_t n_bias() const { return n_bias_; }

  /// Which hidden states an embedding is made of.
  enum class Pooling : std::uint8_t { last, mean, first };
  bool has_embeddings() const { return memory_layout_.embeddings; }
  /// The final hidden states of all tokens, pooled and of length 1, in n_embd floats. QINFER_E_STATE unless the session
  /// was made for embeddings and all its tokens are evaluated.
  Status embedding(Pooling pooling, std::span<float> out) const;
  /// Whether there is one.
  Status check_embedding() const;

  struct KvBytes {
    std::uint64_t own, shared;
    std::uint64_t reserved;  ///< address space of contiguous storage
  };
  KvBytes kv_bytes() const;
  std::uint64_t other_bytes() const { return memory_.size() + tokens_.size() + memory_layout_.logits_bytes; }
  const Metrics& metrics() const { return metrics_; }

  // ---- for eval and generate ----

  /// Takes over blocks of the cache that hold what is pending, all but the last `keep` tokens at most.
  void adopt_prefix(std::size_t keep);
  /// Undoes adopt_prefix(): the tokens are pending again.
  void drop_adopted();
  std::span<BlockTable> tables() { return {tables_.get(), memory_layout_.n_groups}; }
  std::span<const BlockTable> tables() const { return {tables_.get(), memory_layout_.n_groups}; }
  /// Room for the next n of the tokens that were promised room for. Code::kv_full or Code::no_memory if there is none
  /// after all.
  Code extend_tables(std::size_t n);
  /// Has room promised and takes it. Code::kv_full or Code::no_memory, and nothing is taken.
  Code reserve_blocks(std::size_t n);
  /// Gives back promises and the blocks that the evaluated tokens do not need.
  void give_back_unused();
  /// After an evaluation: also the blocks that windows have left behind.
  void finish_evaluation();
  /// What is wrong with tables and pools, or null. For debug builds.
  const char* find_inconsistency() const;
  KvView kv_view(std::size_t group = 0) const { return tables_[group].view(); }
  std::size_t evaluated() const { return n_evaluated_; }
  void advance(std::size_t n);
  /// Where the hidden states of rows that are evaluated next are gathered.
  HiddenStateRows hidden_state_rows(std::int32_t first_row, std::int32_t n_rows) const;
  /// Where the logits of row `row` of the `kept` rows of this evaluation go.
  float* logits_row(std::size_t row) const;
  void set_kept_logits(std::size_t kept) { n_logits_ = kept; }
  /// Before an evaluation: old logits are gone, and new ones will not be written where a fork still reads.
  void drop_logits();
  Metrics& metrics() { return metrics_; }
  std::span<char> text_buffer() const { return {memory_.as<char>() + memory_layout_.text, memory_layout_.text_bytes}; }
  text::Detokenizer* detokenizer() { return detokenizer_ ? &*detokenizer_ : nullptr; }

  /// Links of the evaluation that the session takes part in, so that eval needs no memory of its own.
  struct EvalState {
    Session* next = nullptr;
    std::size_t index = 0;    ///< in the caller's array
    std::size_t count = 0;    ///< tokens to evaluate in this call
    std::size_t done = 0;     ///< of them
    std::size_t kept = 0;     ///< rows of logits wanted
    std::size_t adopted = 0;  ///< blocks, by adopt_prefix()
    bool active = false;
  } eval_state;

 private:
  Session() = default;
  std::int32_t* token_data() const { return tokens_.as<std::int32_t>(); }
  float* embedding_data() const { return reinterpret_cast<float*>(memory_.data() + memory_layout_.embedding); }
  sampling::Bias* bias_data() const { return reinterpret_cast<sampling::Bias*>(memory_.data() + memory_layout_.bias); }
  kv::PrefixName* name_data() const { return reinterpret_cast<kv::PrefixName*>(memory_.data() + memory_layout_.names); }
  std::span<std::uint64_t> accepted() const {
    return {reinterpret_cast<std::uint64_t*>(memory_.data() + memory_layout_.accepted), memory_layout_.accepted_words};
  }
  void mark_accepted(std::size_t token, bool value);
  /// Shows the token that was just added to the hook; takes it off again if the hook refuses it.
  Status accept_last();
  /// Of tokens [n_tokens, length()): tells the hook about those that it accepted.
  Status rewind_hook(std::size_t n_tokens);
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<KvCache> cache, const SessionLayout& layout);
  Status open_tables();
  std::size_t block_tokens() const { return cache_->block_tokens(); }
  /// All tokens are pending again.
  void forget_everything();
  std::size_t shorten_to_windows(std::size_t first, std::size_t n) const;
  bool adopt_blocks(std::size_t first, std::size_t n);
  std::span<const std::int32_t> tokens_of_block(std::size_t block, std::size_t n_blocks) const;
  void publish_full_blocks();
  void forget_names();
  Status read_blocks(const kv::Snapshot& snapshot, std::size_t group);
  Status read_tables(const kv::Snapshot& snapshot, const std::string& path);
  Status restore_sampler(const sampling::StoredOptions& stored);

  std::shared_ptr<KvCache> cache_;
  SessionLayout memory_layout_;
  Charge charge_;
  platform::Buffer memory_;
  SharedBuffer tokens_, logits_;
  std::unique_ptr<BlockTable[]> tables_;  ///< one for each group
  std::size_t n_tokens_ = 0, n_evaluated_ = 0, n_logits_ = 0;
  std::size_t n_named_ = 0;  ///< full blocks whose names in the prefix index are known
  bool untrusted_ = false;   ///< keys and values came out of a snapshot: they are not published
  std::string origin_;       ///< then who computed them; kMixedOrigin once this model has computed more with other bits
  bool same_origin_ = true;  ///< that is this model itself
  static constexpr const char* kMixedOrigin = "mixed";  // short: assigning it allocates nothing
  sampling::SamplerOptions sampler_;
  std::size_t n_bias_ = 0;
  std::unique_ptr<LogitsHook> hook_;
  std::optional<text::Detokenizer> detokenizer_;
  Metrics metrics_;
};

}  // namespace qinfer::engine
