// KvCache and Session.
//
// A session is a list of tokens. The first of them are evaluated: their keys and values are in the blocks of its block
// tables, one for each group of layers that keep theirs alike. The others are pending. append() adds pending tokens,
// eval() (eval.h) evaluates them, sample() draws a token from the logits of the last one and appends it, truncate()
// removes tokens from the end. All memory of a session is taken when it is created.
//
// Blocks are shared in two ways. A fork holds all blocks of its original. And where the cache keeps prefixes, each
// block that is full is published in the prefix index under a name; an evaluation first *adopts* the blocks of a known
// beginning of its pending tokens, which then need no computation. A block that others hold is copied before it is
// written to (block_table.h).
//
// What a session computed must be reproducible, so blocks that were loaded from a snapshot are *untrusted*: they may
// have been computed by other kernels, or made up. They are used by this session and its forks, and never published.
//
// session.cpp has tokens, logits and sampling; session_kv.cpp keys and values; session_snapshot.cpp files.
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
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
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
    bool any_bits = false;     ///< keys and values that the same kernel set computed with other options are accepted
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
  /// Another number after each change of its tokens.
  std::uint64_t revision() const { return revision_; }
  std::size_t pending() const { return n_tokens_ - n_evaluated_; }
  std::uint32_t max_tokens() const { return memory_layout_.max_tokens; }
  std::uint32_t max_logits() const { return memory_layout_.max_logits; }

  /// All or nothing: QINFER_E_INVALID_ARGUMENT for an id out of range (detail: its index), QINFER_E_CONTEXT_FULL.
  Status append(std::span<const std::int32_t> tokens);
  Status truncate(std::size_t n_tokens);
  /// Makes these its tokens, and returns how many at the beginning were there already: those are kept as they are, and
  /// evaluated no more, the rest is pending. Errors as append()'s, then nothing has changed.
  Result<std::size_t> set_tokens(std::span<const std::int32_t> tokens);

  Status set_sampler(const sampling::SamplerOptions& options);
  Status set_bias(std::span<const std::int32_t> tokens, std::span<const float> values);
  Result<std::int32_t> sample(bool with_hook);
  /// A failure, with where it comes from if that is a key or value that the cache cannot hold: f16 ends at 65504.
  Status explained(Status status) const;
  /// QINFER_E_UNSUPPORTED for an encoder, which has no logits.
  Status check_samples() const;
  /// Replaces the hook; null: none. Tokens that are there already do not count as accepted. Snapshots hold no hook.
  void set_logits_hook(std::unique_ptr<LogitsHook> hook);
  LogitsHook* logits_hook() const { return hook_.get(); }

  /// The logits of the last evaluated token, or of the one `back` earlier; empty if not kept.
  std::span<const float> logits(std::size_t back) const;

  /// Whether every token is evaluated, the last one with QINFER_EVAL_NO_LOGITS; and the error of a call that needs its
  /// logits then.
  bool has_skipped_logits() const {
    return model().spec().gives_logits() && n_logits_ == 0 && n_tokens_ != 0 && pending() == 0;
  }
  static Status skipped_logits();

  /// The log probabilities of tokens in row logits(back), in double. QINFER_E_STATE if the row is not kept,
  /// QINFER_E_INVALID_ARGUMENT (detail: its index) for a token that is not in the vocabulary.
  Status logprobs(std::size_t back, std::span<const std::int32_t> tokens, std::span<double> out) const;
  /// The most likely tokens of that row, in descending order, and their log probabilities.
  Status top_logprobs(std::size_t back, std::span<std::int32_t> tokens, std::span<double> out) const;
  /// The error that says why logits(back) is empty.
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

  // ---- For eval and generate: the prefix cache ----

  /// Adopts published blocks of the cache that hold pending tokens, but not the last `keep` tokens. Ends all promises.
  void adopt_prefix(std::size_t keep);
  /// Undoes adopt_prefix(): the tokens are pending again.
  void drop_adopted();

  // ---- For eval and generate: room for blocks ----

  std::span<BlockTable> tables() { return {tables_.get(), memory_layout_.n_groups}; }
  std::span<const BlockTable> tables() const { return {tables_.get(), memory_layout_.n_groups}; }
  /// Turns promised blocks into held ones for the next n tokens, in all tables. Code::kv_full where nothing was
  /// promised and no block is free, Code::no_memory or Code::io where the system refuses memory.
  Code extend_tables(std::size_t n);
  /// Has room for n tokens promised and takes that of the first batch. After an error nothing is taken. For tests and
  /// benchmarks, which evaluate nothing.
  Code reserve_blocks(std::size_t n);
  /// Ends promises and gives back the blocks that the evaluated tokens do not need.
  void give_back_unused();
  /// After an evaluation: gives back also the blocks that windows do not see any more.
  void finish_evaluation();
  /// What is wrong with tables and pools, or null. For debug builds.
  const char* find_inconsistency() const;
  KvView kv_view(std::size_t group = 0) const { return tables_[group].view(); }

  // ---- For eval and generate: progress and results ----

  std::size_t evaluated() const { return n_evaluated_; }
  /// The next n tokens are evaluated now; publishes blocks that have become full.
  void advance(std::size_t n);
  /// Where the hidden states of the next rows to be evaluated are gathered; rows [first_row, first_row + n_rows) of the
  /// batch are this session's.
  HiddenStateRows hidden_state_rows(std::int32_t first_row, std::int32_t n_rows) const;
  /// Where the logits of row `row` of the `kept` rows of this evaluation go.
  float* logits_row(std::size_t row) const;
  void set_kept_logits(std::size_t kept) { n_logits_ = kept; }
  /// Before an evaluation: forgets the old logits, and makes sure that new ones are not written where a fork reads.
  void drop_logits();
  Metrics& metrics() { return metrics_; }
  std::span<char> text_buffer() const { return {memory_.as<char>() + memory_layout_.text, memory_layout_.text_bytes}; }
  text::Detokenizer* detokenizer() { return detokenizer_ ? &*detokenizer_ : nullptr; }

  /// The evaluation that the session took part in is over, and what it knew of the session is gone.
  void end_evaluation() { eval_state_ = {}; }

 private:
  friend class Evaluation;  // eval.cpp
  /// What an evaluation knows of a session that takes part in it; here, so that it needs no memory of its own.
  struct EvalState {
    Session* next = nullptr;  ///< in the list of what is left to do
    std::size_t index = 0;    ///< in the caller's array
    std::size_t count = 0;    ///< tokens to evaluate in this call
    std::size_t done = 0;     ///< of them
    std::size_t kept = 0;     ///< rows of logits wanted
    std::size_t adopted = 0;  ///< blocks, by adopt_prefix()
    bool active = false;      ///< in the call
  };

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
  /// Forgets the names of blocks that the evaluated tokens do not fill.
  Status check_room_for(std::span<const std::int32_t> tokens, std::size_t n_before) const;
  /// truncate(), where with `others_follow` tokens are appended at once, so that the last one kept needs no logits.
  Status cut(std::size_t n_tokens, bool others_follow);
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
  std::uint64_t revision_ = 0;
  std::size_t n_named_ = 0;  ///< full blocks whose names in the prefix index are known
  bool untrusted_ = false;   ///< keys and values came out of a snapshot: they are not published
  std::string origin_;       ///< then what computed them; kMixedOrigin once this model has added others with other bits
  bool same_origin_ = true;  ///< origin_ is this model's
  static constexpr const char* kMixedOrigin = "mixed";  // short: assigning it allocates nothing
  sampling::SamplerOptions sampler_;
  std::size_t n_bias_ = 0;
  std::unique_ptr<LogitsHook> hook_;
  std::optional<text::Detokenizer> detokenizer_;
  Metrics metrics_;
  EvalState eval_state_;
};

}  // namespace qinfer::engine
