// The memory plan: every byte that loading a model and creating caches and sessions will take, from headers alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/layout.h"
#include "engine/runtime.h"
#include "formats/checkpoint.h"
#include "kv/block_pool.h"
#include "model/hf_config.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace qinfer::engine {

inline constexpr std::uint32_t kDefaultBatch = 512;
inline constexpr std::uint32_t kMaxBatch = 1 << 16;

struct LoadOptions {
  bool no_weights = false, no_mmap = false, lock = false, verify = false, embedding_rows = false;
  std::uint32_t max_batch_tokens = 0;
  std::uint64_t memory_budget_bytes = 0;
  std::string weight_format;
  std::string packed_path;  ///< a packed file made from the model directory, to be used in its place
  CancelFlag cancel;
  std::shared_ptr<const platform::Files> files;  ///< of the host; null: the operating system's
};

struct KvCacheOptions {
  bool commit = false, prefix = false;
  kv::Storage storage = kv::Storage::paged;
  std::optional<DType> type;
  std::uint32_t block_tokens = 0;
  std::uint64_t budget_bytes = 0, budget_blocks = 0;
};

struct SessionOptions {
  std::uint32_t max_tokens = 0, max_logits = 0;
  bool embeddings = false;
};

/// How large a cache is. Groups share the bytes, and each may have as many blocks as fit into all of them; where memory
/// is taken at once, each has its own part.
struct CacheSize {
  std::uint64_t bytes = 0;
  std::uint64_t list_bytes = 0;       ///< beside the blocks
  bool shared = false;                ///< groups share the bytes
  std::uint64_t blocks_total = 0;     ///< the most that can be held of all groups together
  std::vector<std::uint64_t> blocks;  ///< at most, of each group
};

/// Bytes; the members mean what those of qinfer_memory mean.
struct MemoryTotals {
  std::uint64_t weights_mapped = 0, weights_private = 0, tables = 0, scratch = 0;
  std::uint64_t kv_per_block = 0, kv_cache_bytes = 0, per_session = 0, load_peak = 0, total = 0;
  std::uint64_t kv_lists = 0, kv_per_token = 0, kv_per_session = 0;
};

/// What a model directory holds, read but not loaded: config, tokenizer, tensor headers.
struct ModelFiles {
  model::ModelSpec spec;
  Encoding assumed_encoding = Encoding::bf16;  ///< of a lone config.json
  std::optional<formats::Checkpoint> checkpoint;
  std::optional<model::PackedFile> packed;     ///< then the tensors are here
  std::unique_ptr<text::Tokenizer> tokenizer;  ///< null if there is no tokenizer.json
  formats::JsonDocument config;
  std::uint64_t file_bytes = 0;

  formats::Checkpoint* tensors() { return packed ? &packed->checkpoint : checkpoint ? &*checkpoint : nullptr; }
  const formats::Checkpoint* tensors() const { return const_cast<ModelFiles*>(this)->tensors(); }
};

/// `path`: a model directory, or a packed model. Without weights the tensor files need not be there.
Result<ModelFiles> read_model_files(const std::string& path, const LoadOptions& load);
/// The same for the path of a config.json.
Result<ModelFiles> read_lone_config(const std::string& path, const LoadOptions& load);

/// Options with their defaults filled in, and checked.
Result<model::WeightsOptions> weights_options(const LoadOptions& load, bool exact);
Result<std::uint32_t> batch_tokens(const LoadOptions& load);
std::uint32_t cache_block_tokens(const KvCacheOptions& options);
bool takes_all_at_once(const KvCacheOptions& options, const platform::Allocator& allocator);
/// The layout of each group of layers.
Result<std::vector<KvLayout>> resolve_kv(const model::ModelSpec& spec, const kernels::KernelSet& kernels, bool exact,
                                         const KvCacheOptions& options);
/// `batch`: tokens evaluated at once at most. QINFER_E_NO_MEMORY if the budget is too small for a block of each group.
Result<CacheSize> resolve_cache(const model::ModelSpec& spec, std::span<const KvLayout> layouts, std::uint32_t batch,
                                const KvCacheOptions& options, bool all_at_once);
Result<SessionOptions> resolve_session(const model::ModelSpec& spec, const SessionOptions& options);

/// What is loaded of the tensors, and where.
Result<model::WeightsPlan> plan_model_weights(const ModelFiles& files, const kernels::KernelSet& kernels,
                                              const model::WeightsOptions& options);
/// The RoPE table that a packed model brings, or null: then it is computed.
const formats::Tensor* packed_rope(const ModelFiles& files, const LoadOptions& load);
/// How many positions of the RoPE table are in memory of the process when the longest session has so many tokens.
std::uint32_t rope_tokens(const ModelFiles& files, const LoadOptions& load, const platform::Allocator& allocator,
                          std::uint32_t session_tokens);

/// Weights, tables and scratch of a model whose longest session has so many tokens; no cache and no sessions.
/// QINFER_E_NO_MEMORY if the RoPE table for them is too large.
Result<MemoryTotals> model_totals(const ModelFiles& files, const model::WeightsPlan& weights,
                                  const ScratchLayout& scratch, const LoadOptions& load,
                                  const platform::Allocator& allocator, std::uint32_t session_tokens);

/// What the pool of a group of layers is made with.
kv::PoolOptions pool_options(const CacheSize& size, const KvCacheOptions& options, std::size_t group);

/// Everything. `map`: where every buffer is written down, if anywhere. `cache` and `session` may be null
/// (kv_cache_bytes is then 0; block and session sizes are of defaults).
Result<MemoryTotals> plan_memory(const ModelFiles& files, const RuntimeOptions& runtime, const LoadOptions& load,
                                 const KvCacheOptions* cache, const SessionOptions* session, BufferMap* map = nullptr);

/// Adds what the model and the cache are made of to a map; scratch and sessions write themselves down.
MappedRegion map_weights(const model::WeightsPlan& weights, bool mapped);
MappedRegion map_tables(const ModelFiles& files, std::uint64_t rope_tokens);
MappedRegion map_cache(const CacheSize& size, std::span<const KvLayout> layouts);
MappedRegion map_lists(const CacheSize& size, std::span<const KvLayout> layouts, const KvCacheOptions& options);

}  // namespace qinfer::engine
