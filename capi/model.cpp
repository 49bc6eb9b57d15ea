// Models: plan, load, information, metadata.
#include <qinfer/qinfer.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/export_gguf.h"
#include "engine/inspect.h"
#include "engine/pack_model.h"
#include "engine/plan.h"
#include "files.h"
#include "platform/cgroup.h"
#include "platform/file.h"
#include "platform/thread.h"
#include "support.h"

using namespace qinfer;
using capi::guard;

namespace {

/// A host's files are read or mapped as it can, and its memory is its own to lock.
Status set_files(const qinfer_load_options& options, engine::LoadOptions& out) {
  QINFER_ASSIGN(out.files, capi::host_files(options.files, capi::FileUse::read));
  if (out.files == nullptr || out.no_mmap) return Status();
  out.no_mmap = !capi::maps_files(*options.files);
  if (out.no_mmap || !out.lock) return Status();
  return error(Code::unsupported,
               "QINFER_LOAD_LOCK: memory that qinfer_files.map gives is the host's to lock; or ask for "
               "QINFER_LOAD_NO_MMAP");
}

/// Locked pages cannot be dropped.
Status check_flags(const engine::LoadOptions& options) {
  if (!options.budget_private || !options.lock || options.no_mmap) return Status();
  return error(
      Code::invalid_argument,
      "QINFER_LOAD_LOCK keeps mapped weights in memory, so QINFER_LOAD_BUDGET_PRIVATE cannot leave them out of "
      "the budget: give one of the two");
}

struct LoadArguments {
  engine::LoadOptions options;
  qinfer_progress_fn progress = nullptr;
  void* progress_user = nullptr;
};

Result<LoadArguments> load_arguments(const qinfer_load_options* caller) {
  qinfer_load_options options;
  QINFER_TRY(capi::copy_in(caller, options, "qinfer_load_options"));
  QINFER_TRY(capi::unknown_flags(options.flags,
                                 QINFER_LOAD_NO_WEIGHTS | QINFER_LOAD_NO_MMAP | QINFER_LOAD_LOCK | QINFER_LOAD_VERIFY |
                                     QINFER_LOAD_EMBED_ROWS | QINFER_LOAD_BUDGET_PRIVATE | QINFER_LOAD_PACK,
                                 "qinfer_load_options.flags"));
  LoadArguments out;
  out.options.no_weights = (options.flags & QINFER_LOAD_NO_WEIGHTS) != 0;
  out.options.no_mmap = (options.flags & QINFER_LOAD_NO_MMAP) != 0;
  out.options.lock = (options.flags & QINFER_LOAD_LOCK) != 0;
  out.options.verify = (options.flags & QINFER_LOAD_VERIFY) != 0;
  out.options.separate_embedding = (options.flags & QINFER_LOAD_EMBED_ROWS) != 0;
  out.options.budget_private = (options.flags & QINFER_LOAD_BUDGET_PRIVATE) != 0;
  out.options.pack = (options.flags & QINFER_LOAD_PACK) != 0;
  out.options.max_batch_tokens = options.max_batch_tokens;
  out.options.memory_budget_bytes = options.memory_budget_bytes;
  out.options.max_context = options.max_context;
  out.options.first_layer = options.first_layer;
  out.options.n_layers = options.n_layers;
  if (options.weight_format != nullptr) out.options.weight_format = options.weight_format;
  if (options.packed_path != nullptr) out.options.packed_path = options.packed_path;
  out.progress = options.progress;
  out.progress_user = options.progress_user;
  out.options.cancel = capi::flag_of(options.cancel);
  QINFER_TRY(set_files(options, out.options));
  QINFER_TRY(check_flags(out.options));
  return out;
}

qinfer_memory to_c(const engine::MemoryTotals& totals) {
  qinfer_memory memory = {};
  memory.weights_mapped = totals.weights_mapped;
  memory.weights_private = totals.weights_private;
  memory.tables = totals.tables;
  memory.scratch = totals.scratch;
  memory.kv_per_block = totals.kv_per_block;
  memory.kv_cache_bytes = totals.kv_cache_bytes;
  memory.per_session = totals.per_session;
  memory.load_peak = totals.load_peak;
  memory.total = totals.total;
  memory.kv_lists = totals.kv_lists;
  memory.kv_per_token = totals.kv_per_token;
  memory.kv_per_session = totals.kv_per_session;
  const platform::SystemMemory system = platform::system_memory();
  memory.system_limit = system.limit;
  memory.system_available = system.available;
  memory.active_weight_bytes = totals.active_weight_bytes;
  memory.expert_weight_bytes = totals.expert_weight_bytes;
  return memory;
}

std::uint32_t flags_of(const model::ModelSpec& spec, bool has_tokenizer) {
  return (spec.causal ? 0u : std::uint32_t{QINFER_MODEL_ENCODER}) |
         (spec.tied_embeddings && !spec.no_lm_head ? std::uint32_t{QINFER_MODEL_TIED_EMBEDDINGS} : 0u) |
         (spec.no_lm_head ? std::uint32_t{QINFER_MODEL_NO_LM_HEAD} : 0u) |
         (spec.takes_hidden() ? std::uint32_t{QINFER_MODEL_TAKES_HIDDEN} : 0u) |
         (spec.gives_hidden() ? std::uint32_t{QINFER_MODEL_GIVES_HIDDEN} : 0u) |
         (has_tokenizer ? std::uint32_t{QINFER_MODEL_TOKENIZER} : 0u);
}

/// Without the texts.
qinfer_model_details to_c(const engine::ModelDetails& details) {
  const model::ModelSpec& spec = details.spec;
  qinfer_model_details out = {};
  out.flags = flags_of(spec, details.has_tokenizer) | (details.packed ? std::uint32_t{QINFER_MODEL_PACKED} : 0u);
  out.n_params = details.n_params;
  out.n_active_params = details.n_active_params;
  out.file_bytes = details.file_bytes;
  out.n_vocab = spec.n_vocab;
  out.n_layers = spec.n_layers();
  out.n_window_layers = details.n_window_layers;
  out.window_tokens = details.window_tokens;
  out.n_embd = spec.n_embd;
  out.n_ffn = spec.ffn_width();
  const model::AttentionSpec attention = spec.largest_attention();
  out.n_heads = attention.n_heads;
  out.n_kv_heads = attention.n_kv_heads;
  out.head_dim = attention.head_dim;
  out.context_tokens = spec.context_tokens;
  out.max_token_bytes = details.max_token_bytes;
  out.bos_token = spec.bos_token;
  const engine::Mixtures mixtures = engine::mixtures_of(spec);
  out.n_experts = mixtures.n_experts;
  out.n_active_experts = mixtures.n_active;
  out.n_expert_layers = mixtures.n_layers;
  out.expert_ffn = mixtures.width;
  out.shared_ffn = mixtures.shared_width;
  return out;
}

std::int32_t scoring_of(model::ScoreKind kind) {
  if (kind == model::ScoreKind::none) return QINFER_SCORING_NONE;
  return kind == model::ScoreKind::classifier ? QINFER_SCORING_CLASSIFIER : QINFER_SCORING_TOKENS;
}

model::LoadProgress progress_of(const LoadArguments& arguments) {
  if (arguments.progress == nullptr) return nullptr;
  return [&arguments](std::uint64_t done, std::uint64_t total) {
    return arguments.progress(done, total, arguments.progress_user) == 0;
  };
}

Result<std::shared_ptr<engine::Runtime>> runtime_or_private(qinfer_runtime* runtime) {
  if (runtime == nullptr) return engine::Runtime::create(engine::RuntimeOptions());
  QINFER_TRY(runtime->impl->check_process());
  return runtime->impl;
}

struct Plan {
  model::ModelSpec spec;
  engine::MemoryTotals totals;
};

Result<Plan> make_plan(const char* path, const qinfer_runtime_options* runtime, const qinfer_load_options* load,
                       const qinfer_kv_cache_options* cache, const qinfer_session_options* session,
                       engine::PlannedRegions* regions) {
  const platform::ScopedFloatEnvironment environment;
  QINFER_ASSIGN(const engine::RuntimeOptions runtime_options, capi::runtime_options(runtime));
  QINFER_ASSIGN(const LoadArguments arguments, load_arguments(load));
  QINFER_ASSIGN(const engine::KvCacheOptions cache_options, capi::kv_cache_options(cache));
  QINFER_ASSIGN(const engine::SessionOptions session_options, capi::session_options(session));
  const engine::LoadOptions& options = arguments.options;
  QINFER_ASSIGN(const auto source, source::ModelSource::open(path, options.source()));
  QINFER_ASSIGN(const engine::MemoryTotals totals,
                engine::plan_memory(*source, runtime_options, options, cache != nullptr ? &cache_options : nullptr,
                                    &session_options, regions));
  return Plan{source->spec(), totals};
}

/// Reads one model and writes it another way. `doing`: what messages call that.
template <typename Write>
Status write_model(Write write, std::string_view doing, qinfer_runtime* runtime, const char* path,
                   const qinfer_load_options* options, const char* out_path) {
  QINFER_REQUIRE(path);
  QINFER_REQUIRE(out_path);
  QINFER_ASSIGN(const LoadArguments arguments, load_arguments(options));
  if (arguments.options.files != nullptr)
    return error(Code::unsupported, "qinfer_load_options.files: {} reads and writes the operating system's files",
                 doing);
  QINFER_ASSIGN(const auto used_runtime, runtime_or_private(runtime));
  return write(used_runtime, path, arguments.options, out_path, progress_of(arguments));
}

}  // namespace

extern "C" {

qinfer_status qinfer_model_plan(const char* path, const qinfer_runtime_options* runtime,
                                const qinfer_load_options* load, const qinfer_kv_cache_options* cache,
                                const qinfer_session_options* session, qinfer_memory* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(path);
    QINFER_REQUIRE(out);
    QINFER_ASSIGN(const Plan plan, make_plan(path, runtime, load, cache, session, nullptr));
    return capi::copy_out(to_c(plan.totals), out, "qinfer_memory");
  });
}

qinfer_status qinfer_model_plan_map(const char* path, const qinfer_runtime_options* runtime,
                                    const qinfer_load_options* load, const qinfer_kv_cache_options* cache,
                                    const qinfer_session_options* session, char* json, size_t capacity, size_t* out_n,
                                    qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(path);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    engine::PlannedRegions regions;
    QINFER_ASSIGN(const Plan plan, make_plan(path, runtime, load, cache, session, &regions));
    const std::string text = regions.to_json(plan.spec);
    return capi::copy_array<char>({text.data(), text.size()}, json, capacity, out_n);
  });
}

qinfer_status qinfer_model_inspect(const char* path, const qinfer_load_options* options, qinfer_model_details* out,
                                   char* texts, size_t capacity, size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(path);
    QINFER_REQUIRE(out);
    const platform::ScopedFloatEnvironment environment;
    QINFER_ASSIGN(const LoadArguments arguments, load_arguments(options));
    QINFER_ASSIGN(const auto source, source::ModelSource::open(path, arguments.options.source()));
    QINFER_ASSIGN(const engine::ModelDetails details, engine::inspect_model(*source));
    qinfer_model_details filled = to_c(details);
    const std::pair<const std::string&, const char**> places[] = {{details.spec.architecture, &filled.architecture},
                                                                  {details.spec.name, &filled.name},
                                                                  {details.weight_types, &filled.weight_types}};
    std::string all;
    for (const auto& [text, place] : places) all.append(text.c_str()).push_back('\0');
    QINFER_TRY(capi::check_capacity(all.size(), texts, capacity, out_n));
    const char* at = texts;
    for (const auto& [text, place] : places) {
      *place = at;
      at += std::strlen(text.c_str()) + 1;
    }
    QINFER_TRY(capi::copy_out(filled, out, "qinfer_model_details"));
    std::copy(all.begin(), all.end(), texts);
    return Status();
  });
}

qinfer_status qinfer_model_load(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                                qinfer_model** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_REQUIRE(path);
    QINFER_ASSIGN(const LoadArguments arguments, load_arguments(options));
    QINFER_ASSIGN(auto used_runtime, runtime_or_private(runtime));
    const model::LoadProgress progress = progress_of(arguments);
    auto handle = std::make_unique<qinfer_model>();
    QINFER_ASSIGN(handle->impl, engine::Model::load(std::move(used_runtime), path, arguments.options, progress));
    *out = handle.release();
    return Status();
  });
}

qinfer_status qinfer_model_pack(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                                const char* out_path, qinfer_error* err) {
  return guard(err, [&] { return write_model(engine::pack_model, "packing", runtime, path, options, out_path); });
}

qinfer_status qinfer_model_export_gguf(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                                       const char* out_path, qinfer_error* err) {
  return guard(err, [&] { return write_model(engine::export_gguf, "exporting", runtime, path, options, out_path); });
}

void qinfer_model_free(qinfer_model* model) { delete model; }

qinfer_status qinfer_model_get_info(const qinfer_model* model, qinfer_model_info* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out);
    QINFER_TRY(model->impl->runtime().check_process());
    const model::ModelSpec& spec = model->impl->spec();
    qinfer_model_info info = {};
    info.flags = flags_of(spec, model->impl->tokenizer() != nullptr);
    info.architecture = spec.architecture.c_str();
    info.name = spec.name.c_str();
    info.weight_format = model->impl->weight_format().c_str();
    info.kernel_set = model->impl->kernels().name;
    info.n_params = model->impl->n_params();
    info.file_bytes = model->impl->file_bytes();
    info.n_vocab = spec.n_vocab;
    info.n_layers = spec.n_layers();
    info.n_embd = spec.n_embd;
    const model::AttentionSpec attention = spec.largest_attention();
    info.n_heads = attention.n_heads;
    info.n_kv_heads = attention.n_kv_heads;
    info.head_dim = attention.head_dim;
    info.context_tokens = spec.context_tokens;
    info.max_token_bytes = model->impl->max_token_bytes();
    info.bos_token = spec.bos_token;
    info.n_active_params = model->impl->n_active_params();
    const engine::Mixtures mixtures = engine::mixtures_of(spec);
    info.n_experts = mixtures.n_experts;
    info.n_active_experts = mixtures.n_active;
    info.n_expert_layers = mixtures.n_layers;
    info.expert_ffn = mixtures.width;
    info.embedding_dims = spec.embedding_dims();
    info.embedding_tokens = spec.embedding_tokens();
    info.pooling = capi::pooling_number(spec.embedding.pooling);
    info.scoring = scoring_of(spec.score.kind);
    info.first_layer = spec.first_layer;
    info.n_model_layers = spec.is_stage() ? spec.whole_layers : spec.n_layers();
    return capi::copy_out(info, out, "qinfer_model_info");
  });
}

qinfer_status qinfer_model_get_memory(const qinfer_model* model, qinfer_memory* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out);
    QINFER_TRY(model->impl->runtime().check_process());
    return capi::copy_out(to_c(model->impl->memory()), out, "qinfer_memory");
  });
}

size_t qinfer_model_encoding_count(const qinfer_model* model) {
  return model == nullptr ? 0 : model->impl->stored_encodings().size();
}

qinfer_status qinfer_model_encoding_info(const qinfer_model* model, size_t index, qinfer_encoding_info* out,
                                         qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out);
    QINFER_TRY(model->impl->runtime().check_process());
    const auto encodings = model->impl->stored_encodings();
    if (index >= encodings.size())
      return error(Code::invalid_argument, "index is {}, the model has {} encodings", index, encodings.size());
    const engine::StoredEncoding& stored = encodings[index];
    qinfer_encoding_info info = {};
    info.n_tensors = stored.n_tensors;
    info.name = encoding_name(stored.encoding).data();
    info.n_params = stored.n_params;
    info.file_bytes = stored.file_bytes;
    info.memory_bytes = stored.memory_bytes;
    return capi::copy_out(info, out, "qinfer_encoding_info");
  });
}

qinfer_status qinfer_model_expert_counts(const qinfer_model* model, uint32_t layer, uint64_t* counts, size_t capacity,
                                         size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(model);
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_TRY(model->impl->runtime().check_process());
    const model::ModelSpec& spec = model->impl->spec();
    if (layer >= spec.n_layers())
      return error(Code::invalid_argument, "layer is {}, the model has {}", layer, spec.n_layers());
    const std::size_t n = spec.layers[layer].ffn.experts;
    QINFER_TRY(capi::check_capacity(n, counts, capacity, out_n));
    std::uint64_t* usage = model->impl->expert_usage(layer);
    for (std::size_t i = 0; i < n; ++i)
      counts[i] = usage == nullptr ? 0 : std::atomic_ref(usage[i]).load(std::memory_order_relaxed);
    return Status();
  });
}

size_t qinfer_model_meta_count(const qinfer_model* model) {
  return model == nullptr ? 0 : model->impl->metadata().size();
}

const char* qinfer_model_meta_key(const qinfer_model* model, size_t index) {
  return model == nullptr || index >= model->impl->metadata().size() ? nullptr
                                                                     : model->impl->metadata().key(index).data();
}

const char* qinfer_model_meta_value(const qinfer_model* model, const char* key) {
  if (model == nullptr || key == nullptr) return nullptr;
  const auto value = model->impl->metadata().find(key);
  return value ? value->data() : nullptr;
}

}  // extern "C"
