// KvCache and Session. A session is a list of tokens of which a prefix is evaluated: its keys and values lie in the
// blocks of its block table, the rest is pending. All its memory is taken when it is created. Blocks may be shared with
// forks and with sessions that begin alike; one that is about to be written to is copied first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/layout.h"
#include "engine/model.h"
#include "engine/shared_buffer.h"
#include "kv/block_pool.h"
#include "sampling/sampler.h"
#include "text/detokenizer.h"

namespace qinfer::kv {
class Snapshot;
}

namespace qinfer::engine {

class KvCache {
 public:
  static Result<std::shared_ptr<KvCache>> create(std::shared_ptr<const Model> model, const KvCacheOptions& options);

  const Model& model() const { return *model_; }
  const KvLayout& layout() const { return pool_->layout(); }
  bool keeps_prefixes() const { return pool_->keeps_prefixes(); }
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

  /// The same tokens, blocks, logits and sampler; metrics begin at zero.
  Result<std::unique_ptr<Session>> fork() const;

  /// Writes tokens, keys, values and sampler to a file, or what is new to one that holds the beginning already.
  Status save(const std::string& path) const;
  /// A session as it was saved, with its limits; the last token is pending, for the file holds no logits.
  static Result<std::unique_ptr<Session>> load(std::shared_ptr<KvCache> cache, const std::string& path);

  const Model& model() const { return cache_->model(); }
  KvCache& cache() { return *cache_; }
  const KvCache& cache() const { return *cache_; }

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

  struct KvBytes {
    std::uint64_t own, shared;
    std::uint64_t reserved;  ///< address space of contiguous storage
  };
  KvBytes kv_bytes() const;
  std::uint64_t other_bytes() const { return memory_.size() + tokens_.size() + logits_.size(); }
  const Metrics& metrics() const { return metrics_; }

  // ---- for eval and generate ----

  /// Takes over blocks of the cache that hold what is pending, all but the last `keep` tokens at most.
  void adopt_prefix(std::size_t keep);
  /// Undoes adopt_prefix(): the tokens are pending again.
  void drop_adopted();
  static constexpr std::uint32_t kNoBlock = UINT32_MAX;
  /// The block that the next token goes to, if it holds tokens already, or kNoBlock.
  std::uint32_t partial_block() const;
  /// What reserve_blocks(n) will take when `earlier` of the partial block's holders have gone.
  std::size_t blocks_needed(std::size_t n, std::size_t earlier) const;
  /// Room for evaluating `n` more tokens: blocks are taken, and one that others hold is copied. Code::kv_full or
  /// Code::no_memory (contiguous: nothing can be mapped) if that cannot be, and nothing is taken.
  Code reserve_blocks(std::size_t n);
  /// Gives back the blocks that the evaluated tokens do not need.
  void release_spare_blocks();
  KvView kv_view() const {
    if (flat_.data() != nullptr) return {flat_.data(), nullptr};
    return {cache_->pool().arena(), table_data()};
  }
  std::span<const std::uint32_t> blocks() const { return {table_data(), n_blocks_}; }
  std::size_t evaluated() const { return n_evaluated_; }
  void advance(std::size_t n);
  /// Where the logits of row `row` of the `kept` rows of this evaluation go.
  float* logits_row(std::size_t row) const;
  void set_kept_logits(std::size_t kept) { n_logits_ = kept; }
  /// Before an evaluation: old logits are gone, and new ones will not be written where a fork still reads.
  void drop_logits();
  Metrics& metrics() { return metrics_; }
  std::span<char> text_buffer() const { return {memory_.as<char>() + layout_.text, layout_.text_bytes}; }
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
  sampling::Bias* bias_data() const { return reinterpret_cast<sampling::Bias*>(memory_.data() + layout_.bias); }
  std::uint32_t* table_data() const { return reinterpret_cast<std::uint32_t*>(memory_.data() + layout_.table); }
  kv::PrefixName* name_data() const { return reinterpret_cast<kv::PrefixName*>(memory_.data() + layout_.names); }
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<KvCache> cache, const SessionLayout& layout);
  /// Makes blocks [first, first + n) of the table visible; nothing to do for paged storage.
  bool map_blocks(std::size_t first, std::size_t n, bool merged);
  /// Gives back the blocks behind the first `n`.
  void keep_blocks(std::size_t n);
  std::span<const std::int32_t> tokens_of_block(std::size_t block, std::size_t n_blocks) const;
  void publish_full_blocks();
  void forget_names();
  Status read_blocks(const kv::Snapshot& snapshot);
  Status restore_sampler(std::span<const std::byte> saved, const std::string& path);

  std::shared_ptr<KvCache> cache_;
  SessionLayout layout_;
  platform::Buffer memory_;
  SharedBuffer tokens_, logits_;
  platform::AddressRange flat_;  ///< contiguous storage: where the blocks lie side by side
  std::size_t n_tokens_ = 0, n_evaluated_ = 0, n_blocks_ = 0, n_logits_ = 0;
  std::size_t n_named_ = 0;  ///< full blocks whose names in the prefix index are known
  std::string origin_;       ///< of keys and values out of a snapshot: they are not published; empty: computed here
  sampling::SamplerOptions sampler_;
  std::size_t n_bias_ = 0;
  std::optional<text::Detokenizer> detokenizer_;
  Metrics metrics_;
};

}  // namespace qinfer::engine
