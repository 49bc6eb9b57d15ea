// See plan.h.
#include "engine/plan.h"

#include "base/checked.h"

namespace qinfer::engine {
namespace {

/// Adds the parts of the totals that are about caches. `blocks`: what a block is; `sized`: null where no cache is
/// planned.
Status add_cache(MemoryTotals& totals, const model::ModelSpec& spec, const CacheBlueprint& blocks,
                 const CacheBlueprint* sized, std::uint32_t batch_capacity, std::uint32_t session_tokens) {
  for (const KvLayout& layout : blocks.layouts) {
    totals.kv_per_block += layout.block_bytes();
    totals.kv_per_token += layout.token_bytes();
  }
  totals.kv_per_session = session_block_bytes(spec, blocks.layouts, session_tokens, batch_capacity);
  if (sized == nullptr) return Status();
  const auto bytes = checked_add(sized->size.bytes, sized->size.list_bytes);
  const auto total = bytes ? checked_add(totals.total, *bytes) : std::nullopt;
  if (!total) return error(Code::no_memory, "{} bytes of KV blocks overflow 64 bits", sized->size.bytes);
  totals.kv_cache_bytes = sized->size.bytes;
  totals.kv_lists = sized->size.list_bytes;
  totals.total = *total;
  return Status();
}

}  // namespace

Result<MemoryTotals> plan_memory(const source::ModelSource& source, const RuntimeOptions& runtime,
                                 const LoadOptions& load, const KvCacheOptions* cache, const SessionOptions* session,
                                 PlannedRegions* planned) {
  const model::ModelSpec& spec = source.spec();
  QINFER_ASSIGN(const KernelChoice choice, choose_kernels(runtime, false));
  std::string refusal;
  QINFER_ASSIGN(const KernelsForModel kernels, kernels_for(source, choice, runtime.exact, load, false, refusal));
  QINFER_ASSIGN(const std::uint32_t threads, thread_count(runtime));
  const Target target{*kernels.set, runtime.exact, threads, runtime.allocator, kernels.packs};
  QINFER_ASSIGN(const ModelBlueprint model, plan_model(source, target, load, planned != nullptr));
  QINFER_ASSIGN(CacheBlueprint blocks, plan_blocks(spec, target, cache != nullptr ? *cache : KvCacheOptions()));
  PlannedRegion session_region{"session", "session", 0, {}};
  QINFER_ASSIGN(const SessionLayout session_memory,
                plan_session(spec, model.max_token_bytes, blocks, session != nullptr ? *session : SessionOptions(),
                             planned != nullptr ? &session_region : nullptr));
  if (cache != nullptr) {
    QINFER_ASSIGN(blocks, plan_cache(spec, target, model.batch_capacity, *cache));
  }
  QINFER_ASSIGN(MemoryTotals totals, model.totals(spec, session_memory.max_tokens));
  QINFER_TRY(add_cache(totals, spec, blocks, cache != nullptr ? &blocks : nullptr, model.batch_capacity,
                       session_memory.max_tokens));
  totals.per_session = session_memory.total_bytes();
  if (planned == nullptr) return totals;
  planned->regions = {weights_region(model, true), weights_region(model, false),
                      tables_region(spec, model, session_memory.max_tokens)};
  planned->regions.push_back(model.has_weights ? model.scratch_region : PlannedRegion{"scratch", "model", 0, {}});
  if (cache != nullptr) {
    planned->regions.push_back(cache_region(blocks));
    planned->regions.push_back(lists_region(blocks));
  }
  planned->regions.push_back(std::move(session_region));
  planned->regions.push_back(session_tokens_region(session_memory));
  planned->regions.push_back(session_logits_region(session_memory, spec.n_vocab));
  return totals;
}

}  // namespace qinfer::engine
