// The memory plan: every byte that loading a model and creating caches and sessions will take, from headers alone. It
// makes the blueprints that loading and creating follow (blueprint.h), and adds them up.
#pragma once

#include "engine/blueprint.h"
#include "engine/plan_buffers.h"

namespace qinfer::engine {

/// `planned`: where every buffer is recorded; null: nowhere. `cache` and `session` may be null (kv_cache_bytes is then
/// 0; block and session sizes are of defaults).
Result<MemoryTotals> plan_memory(const source::ModelSource& source, const RuntimeOptions& runtime,
                                 const LoadOptions& load, const KvCacheOptions* cache, const SessionOptions* session,
                                 PlannedRegions* planned = nullptr);

/// The regions of a plan: the memory that blueprints take, buffer by buffer. `mapped`: weights that are used in the
/// mapped file; otherwise those in private memory.
PlannedRegion weights_region(const ModelBlueprint& model, bool mapped);
PlannedRegion tables_region(const model::ModelSpec& spec, const ModelBlueprint& model, std::uint32_t session_tokens);
PlannedRegion cache_region(const CacheBlueprint& cache);
PlannedRegion lists_region(const CacheBlueprint& cache);
PlannedRegion session_tokens_region(const SessionLayout& session);
PlannedRegion session_logits_region(const SessionLayout& session, std::uint32_t n_vocab);

}  // namespace qinfer::engine
