// The memory plan: every byte that loading a model and creating caches and sessions will take, from headers alone. It
// makes the blueprints that loading and creating follow (blueprint.h), and adds them up.
#pragma once

#include "engine/blueprint.h"
#include "engine/buffer_map.h"

namespace qinfer::engine {

/// `map`: where every buffer is written down, if anywhere. `cache` and `session` may be null (kv_cache_bytes is then 0;
/// block and session sizes are of defaults).
Result<MemoryTotals> plan_memory(const source::ModelSource& source, const RuntimeOptions& runtime,
                                 const LoadOptions& load, const KvCacheOptions* cache, const SessionOptions* session,
                                 BufferMap* map = nullptr);

/// The regions of a map: what blueprints take, buffer by buffer.
MappedRegion map_weights(const ModelBlueprint& model, bool mapped);
MappedRegion map_tables(const model::ModelSpec& spec, const ModelBlueprint& model, std::uint32_t session_tokens);
MappedRegion map_cache(const CacheBlueprint& cache);
MappedRegion map_lists(const CacheBlueprint& cache);
MappedRegion map_session_tokens(const SessionLayout& session);
MappedRegion map_session_logits(const SessionLayout& session, std::uint32_t n_vocab);

}  // namespace qinfer::engine
