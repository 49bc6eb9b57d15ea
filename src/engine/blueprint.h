// Blueprints: all that follows from a model's source and a host's options, before anything is loaded or created.
//
// A memory plan (plan.h) adds blueprints up; loading a model, creating a cache and creating a session do exactly what
// theirs say. So a plan and the memory that is taken later cannot disagree: each number is derived once, here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/cache_size.h"
#include "engine/layout.h"
#include "engine/options.h"
#include "engine/rope_table.h"
#include "engine/runtime.h"
#include "model/weights.h"
#include "source/model_source.h"

namespace qinfer::engine {

/// Bytes, member for member as in qinfer_memory.
struct MemoryTotals {
  std::uint64_t weights_mapped = 0, weights_private = 0, tables = 0, scratch = 0;
  std::uint64_t kv_per_block = 0, kv_cache_bytes = 0, per_session = 0, load_peak = 0, total = 0;
  std::uint64_t kv_lists = 0, kv_per_token = 0, kv_per_session = 0;
  std::uint64_t active_weight_bytes = 0, expert_weight_bytes = 0;
};

/// A model: its weights, tables and scratch arena. Where it is loaded without weights, only the tables.
struct ModelBlueprint {
  bool has_weights = false;
  std::uint32_t batch_capacity = 0;  ///< tokens evaluated at once at most
  model::WeightsOptions weights_options;
  model::WeightsPlan weights;
  ScratchLayout scratch;
  PlannedRegion scratch_region;                  ///< the scratch arena, buffer by buffer, where that was asked for
  std::optional<model::TensorInfo> packed_rope;  ///< of the source: a RoPE table that is used where it is
  bool rope_at_once = false;                     ///< the RoPE table is taken whole when the model is loaded
  std::uint64_t tokenizer_bytes = 0;
  std::uint32_t max_token_bytes = 0;

  /// How many positions of the RoPE table are in the process's memory when the longest session has this many tokens.
  std::uint32_t rope_tokens(const model::ModelSpec& spec, std::uint32_t session_tokens) const;
  /// Weights, tables and scratch when the longest session has this many tokens; no cache and no sessions.
  /// QINFER_E_NO_MEMORY if the RoPE table for them is too large.
  Result<MemoryTotals> totals(const model::ModelSpec& spec, std::uint32_t session_tokens) const;
};

/// Where the model of a blueprint will run.
struct Target {
  const kernels::KernelSet& kernels;
  bool exact = false;
  std::uint32_t n_threads = 0;
  const platform::Allocator& allocator;
  bool packs = false;  ///< weights while loading, whether or not the host asks for it
};

/// The kernel set that runs a model, and whether weights are packed for it while loading, unasked.
struct KernelsForModel {
  const kernels::KernelSet* set = nullptr;
  bool packs = false;
};

/// Those of `choice`. `asks`: where the set needs tiles the system is asked for them, and where it refuses them another
/// set runs the model, for the reason in `refusal`; otherwise a permission is assumed.
Result<KernelsForModel> kernels_for(const source::ModelSource& source, const KernelChoice& choice, bool exact,
                                    const LoadOptions& options, bool asks, std::string& refusal);

/// `buffer_by_buffer`: the scratch arena is written down, too.
Result<ModelBlueprint> plan_model(const source::ModelSource& source, const Target& target, const LoadOptions& options,
                                  bool buffer_by_buffer);

/// A KV cache. Without layouts in an encoder, which keeps nothing.
struct CacheBlueprint {
  KvCacheOptions options;
  std::uint32_t block_tokens = 0;
  std::vector<KvLayout> layouts;  ///< of each group of layers
  bool all_at_once = false;       ///< memory is taken when the cache is created
  CacheSize size;                 ///< by cache_size(); empty after plan_blocks()

  kv::PoolOptions pool(std::size_t group) const { return pool_options(size, options, group); }
};

/// What a block is: layouts and block_tokens, without how many blocks there are.
Result<CacheBlueprint> plan_blocks(const model::ModelSpec& spec, const Target& target, const KvCacheOptions& options);
/// All of it. `batch_capacity`: of the model.
Result<CacheBlueprint> plan_cache(const model::ModelSpec& spec, const Target& target, std::uint32_t batch_capacity,
                                  const KvCacheOptions& options);

/// Of SessionOptions.
Status check_max_draft(std::uint32_t max_draft);
/// A session: its memory. `cache`: the one that it is created in.
Result<SessionLayout> plan_session(const model::ModelSpec& spec, std::uint32_t max_token_bytes,
                                   const CacheBlueprint& cache, const SessionOptions& options,
                                   PlannedRegion* region = nullptr);

}  // namespace qinfer::engine
