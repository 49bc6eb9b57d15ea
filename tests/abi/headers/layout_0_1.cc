// The structs, constants and functions of version 0.1 as programs that were built with it have them: a member that
// moves, or changes its size, breaks these programs. Members may be added at the end only, and none to qinfer_error,
// whose layout is frozen.
#include <qinfer/qinfer.h>

#include <cstddef>

#define MEMBER(type, member, at, bytes)                                                                   \
  static_assert(offsetof(type, member) == (at) && sizeof(static_cast<type*>(nullptr)->member) == (bytes), \
                #type "." #member " is not where it was")
#define AT_LEAST(type, bytes) static_assert(sizeof(type) >= (bytes), #type " is shorter than it was")

AT_LEAST(qinfer_allocator, 32);
MEMBER(qinfer_allocator, struct_size, 0, 4);
MEMBER(qinfer_allocator, reserved, 4, 4);
MEMBER(qinfer_allocator, alloc, 8, 8);
MEMBER(qinfer_allocator, release, 16, 8);
MEMBER(qinfer_allocator, user, 24, 8);

AT_LEAST(qinfer_cpu_info, 392);
MEMBER(qinfer_cpu_info, struct_size, 0, 4);
MEMBER(qinfer_cpu_info, n_physical_cores, 4, 4);
MEMBER(qinfer_cpu_info, n_logical_cores, 8, 4);
MEMBER(qinfer_cpu_info, n_numa_nodes, 12, 4);
MEMBER(qinfer_cpu_info, l1d_bytes, 16, 8);
MEMBER(qinfer_cpu_info, l2_bytes, 24, 8);
MEMBER(qinfer_cpu_info, l3_bytes, 32, 8);
MEMBER(qinfer_cpu_info, model_name, 40, 64);
MEMBER(qinfer_cpu_info, features, 104, 256);
MEMBER(qinfer_cpu_info, target, 360, 32);

AT_LEAST(qinfer_error, 256);
MEMBER(qinfer_error, code, 0, 4);
MEMBER(qinfer_error, reserved, 4, 4);
MEMBER(qinfer_error, detail, 8, 8);
MEMBER(qinfer_error, message, 16, 240);

AT_LEAST(qinfer_eval_options, 24);
MEMBER(qinfer_eval_options, struct_size, 0, 4);
MEMBER(qinfer_eval_options, max_tokens, 4, 4);
MEMBER(qinfer_eval_options, keep_logits, 8, 4);
MEMBER(qinfer_eval_options, flags, 12, 4);
MEMBER(qinfer_eval_options, cancel, 16, 8);

AT_LEAST(qinfer_generate_options, 56);
MEMBER(qinfer_generate_options, struct_size, 0, 4);
MEMBER(qinfer_generate_options, max_tokens, 4, 4);
MEMBER(qinfer_generate_options, stop, 8, 8);
MEMBER(qinfer_generate_options, stop_lens, 16, 8);
MEMBER(qinfer_generate_options, n_stop, 24, 4);
MEMBER(qinfer_generate_options, flags, 28, 4);
MEMBER(qinfer_generate_options, on_token, 32, 8);
MEMBER(qinfer_generate_options, user, 40, 8);
MEMBER(qinfer_generate_options, cancel, 48, 8);

AT_LEAST(qinfer_generate_result, 40);
MEMBER(qinfer_generate_result, struct_size, 0, 4);
MEMBER(qinfer_generate_result, finish, 4, 4);
MEMBER(qinfer_generate_result, prompt_tokens, 8, 4);
MEMBER(qinfer_generate_result, cached_tokens, 12, 4);
MEMBER(qinfer_generate_result, new_tokens, 16, 4);
MEMBER(qinfer_generate_result, reserved, 20, 4);
MEMBER(qinfer_generate_result, prefill_ns, 24, 8);
MEMBER(qinfer_generate_result, decode_ns, 32, 8);

AT_LEAST(qinfer_kv_cache_options, 32);
MEMBER(qinfer_kv_cache_options, struct_size, 0, 4);
MEMBER(qinfer_kv_cache_options, flags, 4, 4);
MEMBER(qinfer_kv_cache_options, kv_type, 8, 4);
MEMBER(qinfer_kv_cache_options, block_tokens, 12, 4);
MEMBER(qinfer_kv_cache_options, budget_bytes, 16, 8);
MEMBER(qinfer_kv_cache_options, budget_blocks, 24, 8);

AT_LEAST(qinfer_kv_cache_stats, 72);
MEMBER(qinfer_kv_cache_stats, struct_size, 0, 4);
MEMBER(qinfer_kv_cache_stats, block_tokens, 4, 4);
MEMBER(qinfer_kv_cache_stats, blocks_total, 8, 8);
MEMBER(qinfer_kv_cache_stats, blocks_used, 16, 8);
MEMBER(qinfer_kv_cache_stats, blocks_shared, 24, 8);
MEMBER(qinfer_kv_cache_stats, blocks_cached, 32, 8);
MEMBER(qinfer_kv_cache_stats, bytes_reserved, 40, 8);
MEMBER(qinfer_kv_cache_stats, bytes_committed, 48, 8);
MEMBER(qinfer_kv_cache_stats, bytes_resident, 56, 8);
MEMBER(qinfer_kv_cache_stats, reserved, 64, 8);

AT_LEAST(qinfer_load_options, 64);
MEMBER(qinfer_load_options, struct_size, 0, 4);
MEMBER(qinfer_load_options, flags, 4, 4);
MEMBER(qinfer_load_options, max_batch_tokens, 8, 4);
MEMBER(qinfer_load_options, reserved, 12, 4);
MEMBER(qinfer_load_options, memory_budget_bytes, 16, 8);
MEMBER(qinfer_load_options, weight_format, 24, 8);
MEMBER(qinfer_load_options, progress, 32, 8);
MEMBER(qinfer_load_options, progress_user, 40, 8);
MEMBER(qinfer_load_options, cancel, 48, 8);
MEMBER(qinfer_load_options, packed_path, 56, 8);

AT_LEAST(qinfer_memory, 120);
MEMBER(qinfer_memory, struct_size, 0, 4);
MEMBER(qinfer_memory, reserved, 4, 4);
MEMBER(qinfer_memory, weights_mapped, 8, 8);
MEMBER(qinfer_memory, weights_private, 16, 8);
MEMBER(qinfer_memory, tables, 24, 8);
MEMBER(qinfer_memory, scratch, 32, 8);
MEMBER(qinfer_memory, kv_per_block, 40, 8);
MEMBER(qinfer_memory, kv_cache_bytes, 48, 8);
MEMBER(qinfer_memory, per_session, 56, 8);
MEMBER(qinfer_memory, load_peak, 64, 8);
MEMBER(qinfer_memory, total, 72, 8);
MEMBER(qinfer_memory, kv_lists, 80, 8);
MEMBER(qinfer_memory, kv_per_token, 88, 8);
MEMBER(qinfer_memory, kv_per_session, 96, 8);
MEMBER(qinfer_memory, system_limit, 104, 8);
MEMBER(qinfer_memory, system_available, 112, 8);

AT_LEAST(qinfer_metrics, 72);
MEMBER(qinfer_metrics, struct_size, 0, 4);
MEMBER(qinfer_metrics, reserved, 4, 4);
MEMBER(qinfer_metrics, prefill_tokens, 8, 8);
MEMBER(qinfer_metrics, decode_tokens, 16, 8);
MEMBER(qinfer_metrics, evals, 24, 8);
MEMBER(qinfer_metrics, cached_tokens, 32, 8);
MEMBER(qinfer_metrics, prefill_ns, 40, 8);
MEMBER(qinfer_metrics, decode_ns, 48, 8);
MEMBER(qinfer_metrics, sample_ns, 56, 8);
MEMBER(qinfer_metrics, wait_ns, 64, 8);

AT_LEAST(qinfer_model_info, 88);
MEMBER(qinfer_model_info, struct_size, 0, 4);
MEMBER(qinfer_model_info, flags, 4, 4);
MEMBER(qinfer_model_info, architecture, 8, 8);
MEMBER(qinfer_model_info, name, 16, 8);
MEMBER(qinfer_model_info, weight_format, 24, 8);
MEMBER(qinfer_model_info, n_params, 32, 8);
MEMBER(qinfer_model_info, file_bytes, 40, 8);
MEMBER(qinfer_model_info, n_vocab, 48, 4);
MEMBER(qinfer_model_info, n_layers, 52, 4);
MEMBER(qinfer_model_info, n_embd, 56, 4);
MEMBER(qinfer_model_info, n_heads, 60, 4);
MEMBER(qinfer_model_info, n_kv_heads, 64, 4);
MEMBER(qinfer_model_info, head_dim, 68, 4);
MEMBER(qinfer_model_info, context_tokens, 72, 4);
MEMBER(qinfer_model_info, max_token_bytes, 76, 4);
MEMBER(qinfer_model_info, bos_token, 80, 4);

AT_LEAST(qinfer_runtime_info, 40);
MEMBER(qinfer_runtime_info, struct_size, 0, 4);
MEMBER(qinfer_runtime_info, n_threads, 4, 4);
MEMBER(qinfer_runtime_info, target, 8, 32);

AT_LEAST(qinfer_runtime_options, 64);
MEMBER(qinfer_runtime_options, struct_size, 0, 4);
MEMBER(qinfer_runtime_options, n_threads, 4, 4);
MEMBER(qinfer_runtime_options, spin_us, 8, 4);
MEMBER(qinfer_runtime_options, log_level, 12, 4);
MEMBER(qinfer_runtime_options, log, 16, 8);
MEMBER(qinfer_runtime_options, log_user, 24, 8);
MEMBER(qinfer_runtime_options, cpu_ids, 32, 8);
MEMBER(qinfer_runtime_options, n_cpu_ids, 40, 4);
MEMBER(qinfer_runtime_options, flags, 44, 4);
MEMBER(qinfer_runtime_options, cpu_target, 48, 8);
MEMBER(qinfer_runtime_options, allocator, 56, 8);

AT_LEAST(qinfer_sampler_options, 48);
MEMBER(qinfer_sampler_options, struct_size, 0, 4);
MEMBER(qinfer_sampler_options, temperature, 4, 4);
MEMBER(qinfer_sampler_options, top_k, 8, 4);
MEMBER(qinfer_sampler_options, top_p, 12, 4);
MEMBER(qinfer_sampler_options, min_p, 16, 4);
MEMBER(qinfer_sampler_options, repeat_penalty, 20, 4);
MEMBER(qinfer_sampler_options, frequency_penalty, 24, 4);
MEMBER(qinfer_sampler_options, presence_penalty, 28, 4);
MEMBER(qinfer_sampler_options, penalty_tokens, 32, 4);
MEMBER(qinfer_sampler_options, reserved, 36, 4);
MEMBER(qinfer_sampler_options, seed, 40, 8);

AT_LEAST(qinfer_session_load_options, 8);
MEMBER(qinfer_session_load_options, struct_size, 0, 4);
MEMBER(qinfer_session_load_options, flags, 4, 4);

AT_LEAST(qinfer_session_load_result, 24);
MEMBER(qinfer_session_load_result, struct_size, 0, 4);
MEMBER(qinfer_session_load_result, flags, 4, 4);
MEMBER(qinfer_session_load_result, tokens, 8, 8);
MEMBER(qinfer_session_load_result, evaluated_tokens, 16, 8);

AT_LEAST(qinfer_session_memory, 40);
MEMBER(qinfer_session_memory, struct_size, 0, 4);
MEMBER(qinfer_session_memory, reserved, 4, 4);
MEMBER(qinfer_session_memory, kv_private, 8, 8);
MEMBER(qinfer_session_memory, kv_shared, 16, 8);
MEMBER(qinfer_session_memory, kv_reserved, 24, 8);
MEMBER(qinfer_session_memory, other, 32, 8);

AT_LEAST(qinfer_session_options, 16);
MEMBER(qinfer_session_options, struct_size, 0, 4);
MEMBER(qinfer_session_options, flags, 4, 4);
MEMBER(qinfer_session_options, max_tokens, 8, 4);
MEMBER(qinfer_session_options, max_logits, 12, 4);

AT_LEAST(qinfer_tokenize_options, 24);
MEMBER(qinfer_tokenize_options, struct_size, 0, 4);
MEMBER(qinfer_tokenize_options, flags, 4, 4);
MEMBER(qinfer_tokenize_options, max_work, 8, 8);
MEMBER(qinfer_tokenize_options, cancel, 16, 8);

static_assert(sizeof(qinfer_error) == 256, "the layout of qinfer_error is frozen");

#define VALUE(name, value) static_assert((name) == (value), #name " has another value than it had")
VALUE(QINFER_OK, 0);
VALUE(QINFER_E_INTERNAL, -1);
VALUE(QINFER_E_INVALID_ARGUMENT, -2);
VALUE(QINFER_E_STATE, -3);
VALUE(QINFER_E_UNSUPPORTED, -4);
VALUE(QINFER_E_NO_MEMORY, -5);
VALUE(QINFER_E_IO, -6);
VALUE(QINFER_E_NOT_FOUND, -7);
VALUE(QINFER_E_FORMAT, -8);
VALUE(QINFER_E_BUFFER_TOO_SMALL, -9);
VALUE(QINFER_E_KV_FULL, -10);
VALUE(QINFER_E_CONTEXT_FULL, -11);
VALUE(QINFER_E_CANCELLED, -12);
VALUE(QINFER_E_NUMERIC, -13);
VALUE(QINFER_LOG_ERROR, 1);
VALUE(QINFER_LOG_WARN, 2);
VALUE(QINFER_LOG_INFO, 3);
VALUE(QINFER_LOG_DEBUG, 4);
VALUE(QINFER_RUNTIME_NORMAL_PAGES, 2);
VALUE(QINFER_RUNTIME_EXACT, 1);
VALUE(QINFER_LOAD_NO_WEIGHTS, 1);
VALUE(QINFER_LOAD_NO_MMAP, 2);
VALUE(QINFER_LOAD_LOCK, 4);
VALUE(QINFER_LOAD_VERIFY, 8);
VALUE(QINFER_LOAD_EMBED_ROWS, 16);
VALUE(QINFER_KV_DEFAULT, 0);
VALUE(QINFER_KV_F32, 1);
VALUE(QINFER_KV_F16, 2);
VALUE(QINFER_KV_BF16, 3);
VALUE(QINFER_CACHE_PREFIX, 1);
VALUE(QINFER_CACHE_COMMIT, 2);
VALUE(QINFER_CACHE_CONTIGUOUS, 4);
VALUE(QINFER_SESSION_EMBEDDINGS, 1);
VALUE(QINFER_MODEL_ENCODER, 1);
VALUE(QINFER_TEXT_ADD_SPECIAL, 1);
VALUE(QINFER_TEXT_PARSE_SPECIAL, 2);
VALUE(QINFER_TOKEN_CONTROL, 1);
VALUE(QINFER_TOKEN_END, 2);
VALUE(QINFER_TOKEN_BYTE, 4);
VALUE(QINFER_SNAPSHOT_ANY_BITS, 1);
VALUE(QINFER_SNAPSHOT_NO_RECOVERY, 2);
VALUE(QINFER_SNAPSHOT_RECOVERED, 1);
VALUE(QINFER_SNAPSHOT_OTHER_BITS, 2);
VALUE(QINFER_POOL_DEFAULT, 0);
VALUE(QINFER_POOL_LAST, 1);
VALUE(QINFER_POOL_MEAN, 2);
VALUE(QINFER_POOL_FIRST, 3);
VALUE(QINFER_FINISH_END, 1);
VALUE(QINFER_FINISH_STOP, 2);
VALUE(QINFER_FINISH_LENGTH, 3);
VALUE(QINFER_FINISH_CALLBACK, 4);

// Its functions: a declaration that differs from the header's does not compile.
extern "C" {
uint32_t qinfer_version(void);
const char* qinfer_version_string(void);
const char* qinfer_build_info(void);
const char* qinfer_status_name(qinfer_status status);
qinfer_status qinfer_get_cpu_info(qinfer_cpu_info* out, qinfer_error* err);
qinfer_status qinfer_cancel_create(qinfer_cancel** out, qinfer_error* err);
void qinfer_cancel_request(qinfer_cancel* cancel);
void qinfer_cancel_reset(qinfer_cancel* cancel);
void qinfer_cancel_free(qinfer_cancel* cancel);
qinfer_status qinfer_runtime_create(const qinfer_runtime_options* options, qinfer_runtime** out, qinfer_error* err);
void qinfer_runtime_free(qinfer_runtime* runtime);
qinfer_status qinfer_runtime_get_info(const qinfer_runtime* runtime, qinfer_runtime_info* out, qinfer_error* err);
qinfer_status qinfer_model_plan(const char* path, const qinfer_runtime_options* runtime,
                                const qinfer_load_options* load, const qinfer_kv_cache_options* cache,
                                const qinfer_session_options* session, qinfer_memory* out, qinfer_error* err);
qinfer_status qinfer_model_plan_map(const char* path, const qinfer_runtime_options* runtime,
                                    const qinfer_load_options* load, const qinfer_kv_cache_options* cache,
                                    const qinfer_session_options* session, char* json, size_t capacity, size_t* out_n,
                                    qinfer_error* err);
qinfer_status qinfer_model_load(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                                qinfer_model** out, qinfer_error* err);
void qinfer_model_free(qinfer_model* model);
qinfer_status qinfer_model_pack(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                                const char* out_path, qinfer_error* err);
qinfer_status qinfer_model_get_info(const qinfer_model* model, qinfer_model_info* out, qinfer_error* err);
qinfer_status qinfer_model_get_memory(const qinfer_model* model, qinfer_memory* out, qinfer_error* err);
size_t qinfer_model_meta_count(const qinfer_model* model);
const char* qinfer_model_meta_key(const qinfer_model* model, size_t index);
const char* qinfer_model_meta_value(const qinfer_model* model, const char* key);
qinfer_status qinfer_tokenize(const qinfer_model* model, const char* text, size_t len, uint32_t flags,
                              qinfer_token* tokens, size_t capacity, size_t* out_n, qinfer_error* err);
qinfer_status qinfer_tokenize_with(const qinfer_model* model, const char* text, size_t len,
                                   const qinfer_tokenize_options* options, qinfer_token* tokens, size_t capacity,
                                   size_t* out_n, qinfer_error* err);
const char* qinfer_token_text(const qinfer_model* model, qinfer_token token, size_t* out_n);
uint32_t qinfer_token_flags(const qinfer_model* model, qinfer_token token);
qinfer_status qinfer_detok_create(const qinfer_model* model, qinfer_detok** out, qinfer_error* err);
qinfer_status qinfer_detok_push(qinfer_detok* detok, qinfer_token token, char* text, size_t capacity, size_t* out_n,
                                qinfer_error* err);
qinfer_status qinfer_detok_finish(qinfer_detok* detok, char* text, size_t capacity, size_t* out_n, qinfer_error* err);
void qinfer_detok_free(qinfer_detok* detok);
qinfer_status qinfer_kv_cache_create(const qinfer_model* model, const qinfer_kv_cache_options* options,
                                     qinfer_kv_cache** out, qinfer_error* err);
void qinfer_kv_cache_free(qinfer_kv_cache* cache);
qinfer_status qinfer_kv_cache_get_stats(const qinfer_kv_cache* cache, qinfer_kv_cache_stats* out, qinfer_error* err);
qinfer_status qinfer_session_create(qinfer_kv_cache* cache, const qinfer_session_options* options, qinfer_session** out,
                                    qinfer_error* err);
qinfer_status qinfer_session_fork(const qinfer_session* session, qinfer_session** out, qinfer_error* err);
qinfer_status qinfer_session_truncate(qinfer_session* session, size_t n_tokens, qinfer_error* err);
qinfer_status qinfer_session_save(const qinfer_session* session, const char* path, qinfer_error* err);
qinfer_status qinfer_session_load(qinfer_kv_cache* cache, const char* path, qinfer_session** out, qinfer_error* err);
qinfer_status qinfer_session_load_with(qinfer_kv_cache* cache, const char* path,
                                       const qinfer_session_load_options* options, qinfer_session** out,
                                       qinfer_session_load_result* result, qinfer_error* err);
void qinfer_session_free(qinfer_session* session);
qinfer_status qinfer_session_append(qinfer_session* session, const qinfer_token* tokens, size_t n, qinfer_error* err);
qinfer_status qinfer_session_get_tokens(const qinfer_session* session, qinfer_token* tokens, size_t capacity,
                                        size_t* out_n, qinfer_error* err);
size_t qinfer_session_length(const qinfer_session* session);
size_t qinfer_session_pending(const qinfer_session* session);
qinfer_status qinfer_session_set_sampler(qinfer_session* session, const qinfer_sampler_options* options,
                                         qinfer_error* err);
qinfer_status qinfer_eval(qinfer_session* const* sessions, size_t n_sessions, const qinfer_eval_options* options,
                          qinfer_error* err);
qinfer_status qinfer_session_set_bias(qinfer_session* session, const qinfer_token* tokens, const float* values,
                                      size_t n, qinfer_error* err);
qinfer_status qinfer_session_sample(qinfer_session* session, qinfer_token* out, qinfer_error* err);
const float* qinfer_session_logits(const qinfer_session* session, size_t back);
qinfer_status qinfer_session_copy_logits(const qinfer_session* session, size_t back, float* values, size_t capacity,
                                         size_t* out_n, qinfer_error* err);
qinfer_status qinfer_session_embedding(const qinfer_session* session, int32_t pooling, float* values, size_t capacity,
                                       size_t* out_n, qinfer_error* err);
qinfer_status qinfer_generate(qinfer_session* session, const qinfer_generate_options* options,
                              qinfer_generate_result* out, qinfer_error* err);
qinfer_status qinfer_session_get_memory(const qinfer_session* session, qinfer_session_memory* out, qinfer_error* err);
qinfer_status qinfer_session_get_metrics(const qinfer_session* session, qinfer_metrics* out, qinfer_error* err);
qinfer_status qinfer_runtime_get_metrics(const qinfer_runtime* runtime, qinfer_metrics* out, qinfer_error* err);
}
