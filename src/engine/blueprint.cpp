// See blueprint.h.
#include "engine/blueprint.h"

#include <algorithm>
#include <bit>

#include "schedule/drafts.h"
#include "source/quantisation.h"

namespace qinfer::engine {
namespace {

Result<model::WeightsOptions> weights_options(const LoadOptions& load, bool exact) {
  model::WeightsOptions options;
  options.exact = exact;
  options.use_mmap = !load.no_mmap;
  options.verify = load.verify;
  options.lock = load.lock;
  options.separate_embedding = load.separate_embedding;
  options.pack = load.pack;
  options.weight_format = find_encoding(load.weight_format);
  if (source::find_quantisation(load.weight_format))
    return error(Code::unsupported, "weight_format \"{}\": loading does not quantise; pack the checkpoint with it",
                 load.weight_format);
  if (!load.weight_format.empty() && (!options.weight_format || !is_plain(*options.weight_format)))
    return error(Code::unsupported, "weight_format \"{}\" is not known, expected {}", load.weight_format,
                 encoding_names());
  return options;
}

Result<std::uint32_t> batch_tokens(const LoadOptions& load) {
  if (load.max_batch_tokens > kMaxBatch)
    return error(Code::invalid_argument, "max_batch_tokens is {}, at most {} are accepted", load.max_batch_tokens,
                 kMaxBatch);
  return load.max_batch_tokens == 0 ? kDefaultBatch : load.max_batch_tokens;
}

/// What tensors are stored as, where they are not there to tell.
std::optional<Encoding> assumed_encoding(const source::ModelSource& source) {
  return source.has_tensors() ? std::nullopt : std::optional(source.assumed_encoding());
}

}  // namespace

std::uint32_t ModelBlueprint::rope_tokens(const model::ModelSpec& spec, std::uint32_t session_tokens) const {
  if (!has_weights || packed_rope) return 0;
  return rope_at_once ? spec.context_tokens : session_tokens;
}

Result<MemoryTotals> ModelBlueprint::totals(const model::ModelSpec& spec, std::uint32_t session_tokens) const {
  MemoryTotals totals;
  QINFER_ASSIGN(const std::uint64_t rope_bytes, RopeTable::bytes_of(spec, rope_tokens(spec, session_tokens)));
  totals.weights_mapped = weights.mapped_bytes + (packed_rope ? packed_rope->bytes() : 0);
  totals.weights_private = weights.private_bytes;
  totals.tables = tokenizer_bytes + rope_bytes;
  totals.scratch = scratch.bytes;
  totals.active_weight_bytes = weights.active_bytes;
  totals.expert_weight_bytes = weights.expert_bytes;
  totals.total = totals.weights_mapped + totals.weights_private + totals.tables + totals.scratch;
  // The staging buffer is gone before the scratch arena is made; sessions, and their rows of the RoPE table, come
  // later.
  const std::uint64_t loaded = totals.total - (rope_at_once ? 0 : rope_bytes);
  totals.load_peak = loaded - totals.scratch + std::max(totals.scratch, weights.staging_bytes);
  return totals;
}

namespace {

/// Null if there is none.
const kernels::KernelSetRow* row_named(std::string_view name) {
  for (const kernels::KernelSetRow& row : kernels::kernel_sets())
    if (row.name == name) return &row;
  return nullptr;
}

/// Whether the set of a row is chosen for the model.
bool is_chosen(const kernels::KernelSetRow& row, const source::ModelSource& source,
               const model::WeightsOptions& weights) {
  const kernels::KernelSetRow* packed_for = row_named(source.packed_for());
  if (row.chosen_for == kernels::ChosenFor::quantised &&
      (source.packed_for().empty() || (packed_for != nullptr && packed_for->chosen_for == kernels::ChosenFor::all)))
    // It has the forms of weights and the bits of the set for any model.
    return model::multiplies_quantised(source.spec(), source, assumed_encoding(source), row.get(), weights);
  // What was packed for a set runs on it.
  if (!source.packed_for().empty()) return source.packed_for() == row.name;
  const bool quantised = row.chosen_for == kernels::ChosenFor::held_exactly;
  const auto accepts = [&](Encoding encoding) {
    return quantised || is_plain(encoding) || encoding == row.held_besides;
  };
  return (quantised || row.chosen_for == kernels::ChosenFor::held_plain) &&
         model::holds_well(source.spec(), source, assumed_encoding(source), row.get(), weights, accepts);
}

/// Whether the set for any model takes a packed model's weights in the forms that they have.
bool takes_packed(const kernels::KernelSet& any_model, const source::ModelSource& source,
                  const model::WeightsOptions& weights) {
  return model::plan_weights(source.spec(), source, assumed_encoding(source), source.packed_for(), any_model, weights)
      .ok();
}

}  // namespace

Result<KernelsForModel> kernels_for(const source::ModelSource& source, const KernelChoice& choice, bool exact,
                                    const LoadOptions& options, bool asks, std::string& refusal) {
  QINFER_ASSIGN(const model::WeightsOptions weights, weights_options(options, exact));
  for (const kernels::KernelSetRow* row : choice.some_models) {
    if (!is_chosen(*row, source, weights)) continue;
    const Status permitted = asks && kernels::needs_tiles(*row) ? choice.ask_for_tiles() : Status();
    if (permitted.ok()) return KernelsForModel{&row->get(), row->packs_unnamed && source.packed_for().empty()};
    // Quantised weights have the same form for both sets; the one for any model runs them without tiles.
    if (!source.packed_for().empty() && !takes_packed(*choice.any_model, source, weights))
      return error_at(Code::unsupported, permitted.detail(), "this model was packed for kernel set {}: {}", row->name,
                      permitted.message());
    refusal = permitted.message();
  }
  const kernels::KernelSetRow* packed_for = row_named(source.packed_for());
  if (packed_for != nullptr && kernels::needs_tiles(*packed_for) && !choice.no_tiles.empty() &&
      packed_for->name != choice.any_model->name && !takes_packed(*choice.any_model, source, weights))
    return error(Code::unsupported, "this model was packed for kernel set {}{}", packed_for->name, choice.no_tiles);
  return KernelsForModel{choice.any_model, false};
}

Result<ModelBlueprint> plan_model(const source::ModelSource& source, const Target& target, const LoadOptions& options,
                                  bool buffer_by_buffer) {
  const model::ModelSpec& spec = source.spec();
  ModelBlueprint blueprint;
  QINFER_ASSIGN(blueprint.weights_options, weights_options(options, target.exact));
  blueprint.weights_options.pack |= target.packs;
  QINFER_ASSIGN(blueprint.batch_capacity, batch_tokens(options));
  blueprint.has_weights = !options.no_weights;
  blueprint.rope_at_once = RopeTable::takes_all_at_once(target.allocator);
  if (const text::Tokenizer* tokenizer = source.tokenizer()) {
    blueprint.tokenizer_bytes = tokenizer->memory_bytes();
    blueprint.max_token_bytes = tokenizer->max_token_bytes();
  }
  if (!blueprint.has_weights) return blueprint;
  QINFER_ASSIGN(blueprint.weights, model::plan_weights(spec, source, assumed_encoding(source), source.packed_for(),
                                                       target.kernels, blueprint.weights_options));
  if (const model::TensorInfo* table = options.no_mmap ? nullptr : source.rope_table()) blueprint.packed_rope = *table;
  blueprint.scratch_region = {"scratch", "model", 0, {}};
  blueprint.scratch = scratch_layout(spec, target.kernels, blueprint.batch_capacity, target.n_threads,
                                     buffer_by_buffer ? &blueprint.scratch_region : nullptr);
  return blueprint;
}

Result<CacheBlueprint> plan_blocks(const model::ModelSpec& spec, const Target& target, const KvCacheOptions& options) {
  CacheBlueprint cache;
  cache.options = options;
  cache.block_tokens = options.block_tokens == 0 ? kTileTokens : options.block_tokens;
  if (cache.block_tokens < kTileTokens || cache.block_tokens > 256 || !std::has_single_bit(cache.block_tokens))
    return error(Code::invalid_argument, "block_tokens is {}, expected 32, 64, 128 or 256", cache.block_tokens);
  cache.layouts = kv_layouts(spec, target.kernels, options.type.value_or(target.kernels.default_kv_type(target.exact)),
                             cache.block_tokens);
  if (spec.is_stage() && options.prefix)
    return error(
        Code::unsupported,
        "QINFER_CACHE_PREFIX: a stage of a model keeps no prefixes, as the other stages would have to evaluate "
        "the tokens that it finds");
  cache.all_at_once = options.commit || !target.allocator.is_mapping();
  return cache;
}

Result<CacheBlueprint> plan_cache(const model::ModelSpec& spec, const Target& target, std::uint32_t batch_capacity,
                                  const KvCacheOptions& options) {
  QINFER_ASSIGN(CacheBlueprint cache, plan_blocks(spec, target, options));
  QINFER_ASSIGN(cache.size, cache_size(spec, cache.layouts, batch_capacity, options, cache.all_at_once));
  return cache;
}

Status check_max_draft(std::uint32_t max_draft) {
  if (max_draft <= schedule::kMaxDraft) return Status();
  return error(Code::invalid_argument, "max_draft is {}, expected at most {}", max_draft, schedule::kMaxDraft);
}

namespace {

Status check_stage_session(const model::ModelSpec& spec, const SessionShape& shape) {
  if (shape.max_draft != 0)
    return error(Code::unsupported,
                 "max_draft is {}, but a stage of a model guesses no tokens, whose hidden states nobody has",
                 shape.max_draft);
  if (shape.embeddings && spec.gives_hidden())
    return error(Code::unsupported, "a stage that gives hidden states gives no embeddings: the last one does");
  return Status();
}

}  // namespace

Result<SessionLayout> plan_session(const model::ModelSpec& spec, std::uint32_t max_token_bytes,
                                   const CacheBlueprint& cache, const SessionOptions& options, PlannedRegion* region) {
  SessionShape shape{cache.block_tokens, cache.options.prefix, options.embeddings || spec.gives_embeddings_only(),
                     options.max_tokens, options.max_logits,   options.max_draft};
  if (shape.max_tokens == 0) shape.max_tokens = spec.context_tokens;
  if (shape.max_logits == 0) shape.max_logits = 1;
  if (shape.max_tokens > spec.context_tokens)
    return error(Code::invalid_argument, "max_tokens is {}, the model's context has {}", shape.max_tokens,
                 spec.context_tokens);
  if (shape.max_logits > shape.max_tokens)
    return error(Code::invalid_argument, "max_logits is {}, more than the {} tokens of the session", shape.max_logits,
                 shape.max_tokens);
  QINFER_TRY(check_max_draft(shape.max_draft));
  if (spec.is_stage()) QINFER_TRY(check_stage_session(spec, shape));
  if (shape.max_draft != 0 && shape.embeddings)
    return error(Code::invalid_argument,
                 "max_draft is {}, but the session is made for embeddings, which draw no tokens", shape.max_draft);
  return session_layout(spec, max_token_bytes, shape, region);
}

}  // namespace qinfer::engine
