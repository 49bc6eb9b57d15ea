// See structs.h.
#include "structs.h"

namespace qinfer_node {
namespace {

const char* c_text(const std::optional<std::string>& value) { return value ? value->c_str() : nullptr; }

}  // namespace

RuntimeArguments::RuntimeArguments(const Options& options)
    : native(sized<qinfer_runtime_options>()), cpu_target_(options.c_text("cpuTarget")) {
  native.cpu_target = c_text(cpu_target_);
  options.read("threads", native.n_threads);
  options.read("spinUs", native.spin_us);
  options.flag("exact", native.flags, QINFER_RUNTIME_EXACT);
  options.flag("tiles", native.flags, QINFER_RUNTIME_NO_TILES, false);
}

LoadArguments::LoadArguments(const Options& options)
    : native(sized<qinfer_load_options>()),
      weight_format_(options.c_text("weightFormat")),
      packed_path_(options.c_text("packedPath")) {
  native.weight_format = c_text(weight_format_);
  native.packed_path = c_text(packed_path_);
  options.read("maxBatchTokens", native.max_batch_tokens);
  options.read("memoryBudget", native.memory_budget_bytes);
  options.read("maxContext", native.max_context);
  options.flag("weights", native.flags, QINFER_LOAD_NO_WEIGHTS, false);
  options.flag("mmap", native.flags, QINFER_LOAD_NO_MMAP, false);
  options.flag("lock", native.flags, QINFER_LOAD_LOCK);
  options.flag("verify", native.flags, QINFER_LOAD_VERIFY);
  options.flag("embedRows", native.flags, QINFER_LOAD_EMBED_ROWS);
  options.flag("budgetPrivate", native.flags, QINFER_LOAD_BUDGET_PRIVATE);
  options.flag("pack", native.flags, QINFER_LOAD_PACK);
}

ChatArguments::ChatArguments(napi_env env, napi_value json, napi_value object)
    : conversation(text_of(env, json, "the conversation")), native(sized<qinfer_chat_options>()) {
  const Options options(env, object);
  template_ = options.c_text("template");
  template_name_ = options.c_text("templateName");
  now_ = options.c_text("now");
  native.template_text = c_text(template_);
  native.template_name = c_text(template_name_);
  native.now = c_text(now_);
  native.flags = QINFER_CHAT_GENERATION_PROMPT;
  if (options.has("generationPrompt") && !options.truthy("generationPrompt")) native.flags = 0;
  options.flag("plainContent", native.flags, QINFER_CHAT_PLAIN_CONTENT);
}

qinfer_kv_cache_options cache_options(napi_env env, const Options& options) {
  qinfer_kv_cache_options native = sized<qinfer_kv_cache_options>();
  if (options.has("kvType")) {
    const std::string name = text_of(env, options.get("kvType"), "kvType");
    std::string known;
    for (const char* each; (each = qinfer_kv_type_name(native.kv_type)) != nullptr && name != each; ++native.kv_type)
      known += (known.empty() ? "" : ", ") + std::string(each);
    if (qinfer_kv_type_name(native.kv_type) == nullptr)
      throw_error(env, QINFER_E_INVALID_ARGUMENT, "kvType is \"" + name + "\", which is none of " + known, 0);
  }
  options.read("blockTokens", native.block_tokens);
  options.read("budgetBytes", native.budget_bytes);
  options.read("budgetBlocks", native.budget_blocks);
  options.flag("prefix", native.flags, QINFER_CACHE_PREFIX);
  options.flag("commit", native.flags, QINFER_CACHE_COMMIT);
  options.flag("contiguous", native.flags, QINFER_CACHE_CONTIGUOUS);
  return native;
}

qinfer_session_options session_options(const Options& options) {
  qinfer_session_options native = sized<qinfer_session_options>();
  options.read("maxTokens", native.max_tokens);
  options.read("maxLogits", native.max_logits);
  options.read("maxDraft", native.max_draft);
  options.flag("embeddings", native.flags, QINFER_SESSION_EMBEDDINGS);
  return native;
}

/// Numbers by their place.
static napi_value counts(napi_env env, const std::uint64_t (&values)[16]) {
  napi_value list = nullptr;
  check(env, napi_create_array(env, &list));
  for (std::uint32_t i = 0; i < 16; ++i)
    check(env, napi_set_element(env, list, i, number(env, static_cast<double>(values[i]))));
  return list;
}

napi_value metrics_object(napi_env env, const qinfer_metrics& metrics) {
  return Record(env)
      .set("prefillTokens", metrics.prefill_tokens)
      .set("decodeTokens", metrics.decode_tokens)
      .set("evals", metrics.evals)
      .set("cachedTokens", metrics.cached_tokens)
      .set("prefillNs", metrics.prefill_ns)
      .set("decodeNs", metrics.decode_ns)
      .set("sampleNs", metrics.sample_ns)
      .set("waitNs", metrics.wait_ns)
      .set("drafted", counts(env, metrics.drafted))
      .set("accepted", counts(env, metrics.accepted))
      .object();
}

napi_value memory_object(napi_env env, const qinfer_memory& memory) {
  return Record(env)
      .set("weightsMapped", memory.weights_mapped)
      .set("weightsPrivate", memory.weights_private)
      .set("tables", memory.tables)
      .set("scratch", memory.scratch)
      .set("kvPerBlock", memory.kv_per_block)
      .set("kvCacheBytes", memory.kv_cache_bytes)
      .set("perSession", memory.per_session)
      .set("loadPeak", memory.load_peak)
      .set("total", memory.total)
      .set("kvLists", memory.kv_lists)
      .set("kvPerToken", memory.kv_per_token)
      .set("kvPerSession", memory.kv_per_session)
      .set("systemLimit", memory.system_limit)
      .set("systemAvailable", memory.system_available)
      .set("activeWeightBytes", memory.active_weight_bytes)
      .set("expertWeightBytes", memory.expert_weight_bytes)
      .object();
}

}  // namespace qinfer_node
