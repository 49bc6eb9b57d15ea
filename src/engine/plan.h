// The memory plan: every byte that loading a model and creating caches and sessions will take, from headers alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/layout.h"
#include "engine/runtime.h"
#include "formats/checkpoint.h"
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
};

struct KvCacheOptions {
  bool commit = false;
  std::optional<DType> type;
  std::uint32_t block_tokens = 0;
  std::uint64_t budget_bytes = 0, budget_blocks = 0;
};

struct SessionOptions {
  std::uint32_t max_tokens = 0, max_logits = 0;
};

/// Bytes; the members mean what those of qinfer_memory mean.
struct MemoryTotals {
  std::uint64_t weights_mapped = 0, weights_private = 0, tables = 0, scratch = 0;
  std::uint64_t kv_per_block = 0, kv_cache_bytes = 0, per_session = 0, load_peak = 0, total = 0;
};

/// What a model directory holds, read but not loaded: config, tokenizer, tensor headers.
struct ModelFiles {
  model::ModelSpec spec;
  DType assumed_dtype = DType::bf16;  ///< of a lone config.json
  std::optional<formats::Checkpoint> checkpoint;
  std::unique_ptr<text::Tokenizer> tokenizer;  ///< null if there is no tokenizer.json
  formats::Json config;
  std::uint64_t file_bytes = 0;
};

/// `need_weights` false: the tensor files need not be there.
Result<ModelFiles> read_model_files(const std::string& path, bool need_weights);
/// The same for the path of a config.json.
Result<ModelFiles> read_lone_config(const std::string& path);

/// Options with their defaults filled in, and checked.
Result<model::WeightsOptions> weights_options(const LoadOptions& load, bool exact);
Result<std::uint32_t> batch_tokens(const LoadOptions& load);
Result<KvLayout> resolve_kv(const model::ModelSpec& spec, const kernels::KernelSet& kernels, bool exact,
                            const KvCacheOptions& options);
/// How many blocks a cache with these options has; QINFER_E_NO_MEMORY if the budget is too small for one.
Result<std::uint64_t> resolve_blocks(const model::ModelSpec& spec, const KvLayout& layout,
                                     const KvCacheOptions& options);
Result<SessionOptions> resolve_session(const model::ModelSpec& spec, const SessionOptions& options);

/// Weights, tables and scratch of a model; no cache and no sessions.
MemoryTotals model_totals(const ModelFiles& files, const model::WeightsPlan& weights, const ScratchLayout& scratch);

/// Everything. `cache` and `session` may be null (kv_cache_bytes is then 0; block and session sizes are of defaults).
Result<MemoryTotals> plan_memory(const ModelFiles& files, const RuntimeOptions& runtime, const LoadOptions& load,
                                 const KvCacheOptions* cache, const SessionOptions* session);

}  // namespace qinfer::engine
