"""The C ABI, made out of qinfer.h and qinfer_grammar.h by make_abi.py. Do not edit.

Handles that functions take have their name in C; pointers to what a host passes through are c_void_p; text that comes in
is c_char_p.
"""
# fmt: off
# mypy: ignore-errors
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t,
                    c_uint32, c_uint64, c_void_p)

QINFER_OK = 0
QINFER_E_INTERNAL = -1
QINFER_E_INVALID_ARGUMENT = -2
QINFER_E_STATE = -3
QINFER_E_UNSUPPORTED = -4
QINFER_E_NO_MEMORY = -5
QINFER_E_IO = -6
QINFER_E_NOT_FOUND = -7
QINFER_E_FORMAT = -8
QINFER_E_BUFFER_TOO_SMALL = -9
QINFER_E_KV_FULL = -10
QINFER_E_CONTEXT_FULL = -11
QINFER_E_CANCELLED = -12
QINFER_E_NUMERIC = -13
QINFER_LOG_ERROR = 1
QINFER_LOG_WARN = 2
QINFER_LOG_INFO = 3
QINFER_LOG_DEBUG = 4
QINFER_FILE_READ = 1
QINFER_FILE_WRITE = 2
QINFER_KERNELS_USABLE = 1
QINFER_KERNELS_DEFAULT = 2
QINFER_KERNELS_EXACT = 4
QINFER_KERNELS_INVARIANT = 16
QINFER_KERNELS_HELD_EXACTLY = 32
QINFER_KERNELS_HELD_PLAIN = 64
QINFER_KERNELS_QUANTISED = 128
QINFER_RUNTIME_EXACT = 1
QINFER_RUNTIME_NORMAL_PAGES = 2
QINFER_RUNTIME_NO_TILES = 4
QINFER_LOAD_NO_WEIGHTS = 1
QINFER_LOAD_NO_MMAP = 2
QINFER_LOAD_LOCK = 4
QINFER_LOAD_VERIFY = 8
QINFER_LOAD_EMBED_ROWS = 16
QINFER_LOAD_BUDGET_PRIVATE = 32
QINFER_LOAD_PACK = 64
QINFER_KV_DEFAULT = 0
QINFER_KV_F32 = 1
QINFER_KV_F16 = 2
QINFER_KV_BF16 = 3
QINFER_CACHE_PREFIX = 1
QINFER_CACHE_COMMIT = 2
QINFER_CACHE_CONTIGUOUS = 4
QINFER_SESSION_EMBEDDINGS = 1
QINFER_MODEL_ENCODER = 1
QINFER_MODEL_TIED_EMBEDDINGS = 2
QINFER_MODEL_TOKENIZER = 4
QINFER_MODEL_PACKED = 8
QINFER_MODEL_NO_LM_HEAD = 16
QINFER_MODEL_TAKES_HIDDEN = 32
QINFER_MODEL_GIVES_HIDDEN = 64
QINFER_TEXT_ADD_SPECIAL = 1
QINFER_TEXT_PARSE_SPECIAL = 2
QINFER_TEXT_PLAIN_CONTENT = 4
QINFER_TOKEN_CONTROL = 1
QINFER_TOKEN_END = 2
QINFER_TOKEN_BYTE = 4
QINFER_CHAT_GENERATION_PROMPT = 1
QINFER_CHAT_PLAIN_CONTENT = 2
QINFER_CHAT_OPENAI_FORMS = 4
QINFER_REPLY_AUTO = 0
QINFER_REPLY_PLAIN = 1
QINFER_REPLY_HERMES = 2
QINFER_REPLY_LLAMA3 = 3
QINFER_REPLY_MISTRAL = 4
QINFER_REPLY_DEEPSEEK = 5
QINFER_REPLY_FUNCTIONARY = 6
QINFER_REPLY_FIREFUNCTION = 7
QINFER_PART_NONE = 0
QINFER_PART_CONTENT = 1
QINFER_PART_REASONING = 2
QINFER_PART_CALL = 3
QINFER_REPLY_NO_REASONING = 1
QINFER_SNAPSHOT_ANY_BITS = 1
QINFER_SNAPSHOT_NO_RECOVERY = 2
QINFER_SNAPSHOT_RECOVERED = 1
QINFER_SNAPSHOT_OTHER_BITS = 2
QINFER_EVAL_NO_LOGITS = 1
QINFER_POOL_DEFAULT = 0
QINFER_POOL_LAST = 1
QINFER_POOL_MEAN = 2
QINFER_POOL_FIRST = 3
QINFER_EMBEDDING_UNSCALED = 1
QINFER_EMBED_TRUNCATE = 1
QINFER_EMBED_PARSE_SPECIAL = 2
QINFER_SCORING_NONE = 0
QINFER_SCORING_TOKENS = 1
QINFER_SCORING_CLASSIFIER = 2
QINFER_SCORE_TRUNCATE = 1
QINFER_SCORE_RAW = 2
QINFER_GENERATE_LOGPROBS = 1
QINFER_FINISH_END = 1
QINFER_FINISH_STOP = 2
QINFER_FINISH_LENGTH = 3
QINFER_FINISH_CALLBACK = 4
QINFER_RESULT_IN_REASONING = 1
QINFER_EVENT_NONE = 0
QINFER_EVENT_PROMPT = 1
QINFER_EVENT_TOKEN = 2
QINFER_EVENT_END = 3
QINFER_EVENT_RESERVED = 4
QINFER_OPENAI_CHAT = 1
QINFER_OPENAI_COMPLETION = 2
QINFER_OPENAI_EMBEDDINGS = 3
QINFER_OPENAI_STREAM = 1
QINFER_OPENAI_PROMPT_LOGPROBS = 2
QINFER_OPENAI_NO_NEW_TOKENS = 4
QINFER_GRAMMAR_JSON_SCHEMA = 1
QINFER_GRAMMAR_REGEX = 2
QINFER_GRAMMAR_LARK = 3
QINFER_GRAMMAR_ANY_SPACE = 1
QINFER_GRAMMAR_ACCEPTING = 1
QINFER_GRAMMAR_ENDED = 2
QINFER_GRAMMAR_FAILED = 4


class qinfer_error(Structure):
    _fields_ = [
        ("code", c_int32),
        ("reserved", c_int32),
        ("detail", c_int64),
        ("message", c_char * 240),
    ]

class qinfer_full_error(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("error", qinfer_error),
        ("text", c_void_p),
        ("capacity", c_size_t),
        ("text_len", c_size_t),
    ]

qinfer_log_fn = CFUNCTYPE(None, c_int32, c_void_p, c_size_t, c_void_p)

qinfer_progress_fn = CFUNCTYPE(c_int32, c_uint64, c_uint64, c_void_p)

qinfer_token_fn = CFUNCTYPE(c_int32, c_void_p, c_size_t, c_int32, c_void_p)

class qinfer_files(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("user", c_void_p),
        ("open", CFUNCTYPE(c_int32, c_void_p, c_int32, POINTER(c_void_p), c_void_p)),
        ("size", CFUNCTYPE(c_int32, c_void_p, POINTER(c_uint64), c_void_p)),
        ("read_at", CFUNCTYPE(c_int32, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p)),
        ("close", CFUNCTYPE(c_int32, c_void_p, c_void_p)),
        ("map", CFUNCTYPE(c_int32, c_void_p, c_uint64, POINTER(c_void_p), c_void_p)),
        ("unmap", CFUNCTYPE(None, c_void_p, c_void_p, c_uint64, c_void_p)),
        ("write_at", CFUNCTYPE(c_int32, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p)),
        ("sync", CFUNCTYPE(c_int32, c_void_p, c_void_p)),
        ("truncate", CFUNCTYPE(c_int32, c_void_p, c_uint64, c_void_p)),
    ]

class qinfer_cpu_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("n_physical_cores", c_uint32),
        ("n_logical_cores", c_uint32),
        ("n_numa_nodes", c_uint32),
        ("l1d_bytes", c_uint64),
        ("l2_bytes", c_uint64),
        ("l3_bytes", c_uint64),
        ("target", c_char_p),
    ]

class qinfer_kernel_set_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("name", c_char_p),
        ("cpu_features", c_char_p),
        ("weight_formats", c_char_p),
        ("kv_types", c_char_p),
    ]

class qinfer_allocator(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("alloc", CFUNCTYPE(c_void_p, c_size_t, c_size_t, c_void_p)),
        ("release", CFUNCTYPE(None, c_void_p, c_size_t, c_size_t, c_void_p)),
        ("user", c_void_p),
    ]

qinfer_task_fn = CFUNCTYPE(None, c_uint32, c_void_p)

class qinfer_executor(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("n_tasks", c_uint32),
        ("run", CFUNCTYPE(None, c_uint32, qinfer_task_fn, c_void_p, c_void_p)),
        ("user", c_void_p),
    ]

class qinfer_runtime_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("n_threads", c_uint32),
        ("spin_us", c_uint32),
        ("log_level", c_int32),
        ("log", qinfer_log_fn),
        ("log_user", c_void_p),
        ("cpu_ids", POINTER(c_uint32)),
        ("n_cpu_ids", c_uint32),
        ("flags", c_uint32),
        ("cpu_target", c_char_p),
        ("allocator", POINTER(qinfer_allocator)),
        ("executor", POINTER(qinfer_executor)),
    ]

class qinfer_runtime_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("n_threads", c_uint32),
        ("target", c_char_p),
    ]

class qinfer_load_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("max_batch_tokens", c_uint32),
        ("reserved", c_uint32),
        ("memory_budget_bytes", c_uint64),
        ("weight_format", c_char_p),
        ("progress", qinfer_progress_fn),
        ("progress_user", c_void_p),
        ("cancel", c_void_p),
        ("packed_path", c_char_p),
        ("files", POINTER(qinfer_files)),
        ("max_context", c_uint32),
        ("reserved2", c_uint32),
        ("first_layer", c_uint32),
        ("n_layers", c_uint32),
    ]

class qinfer_kv_cache_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("kv_type", c_int32),
        ("block_tokens", c_uint32),
        ("budget_bytes", c_uint64),
        ("budget_blocks", c_uint64),
    ]

class qinfer_session_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("max_tokens", c_uint32),
        ("max_logits", c_uint32),
        ("max_draft", c_uint32),
        ("prefix_space", c_uint32),
    ]

class qinfer_memory(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("weights_mapped", c_uint64),
        ("weights_private", c_uint64),
        ("tables", c_uint64),
        ("scratch", c_uint64),
        ("kv_per_block", c_uint64),
        ("kv_cache_bytes", c_uint64),
        ("per_session", c_uint64),
        ("load_peak", c_uint64),
        ("total", c_uint64),
        ("kv_lists", c_uint64),
        ("kv_per_token", c_uint64),
        ("kv_per_session", c_uint64),
        ("system_limit", c_uint64),
        ("system_available", c_uint64),
        ("active_weight_bytes", c_uint64),
        ("expert_weight_bytes", c_uint64),
    ]

class qinfer_model_details(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("architecture", c_char_p),
        ("name", c_char_p),
        ("weight_types", c_char_p),
        ("n_params", c_uint64),
        ("n_active_params", c_uint64),
        ("file_bytes", c_uint64),
        ("n_vocab", c_uint32),
        ("n_layers", c_uint32),
        ("n_window_layers", c_uint32),
        ("window_tokens", c_uint32),
        ("n_embd", c_uint32),
        ("n_ffn", c_uint32),
        ("n_heads", c_uint32),
        ("n_kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("context_tokens", c_uint32),
        ("max_token_bytes", c_uint32),
        ("bos_token", c_int32),
        ("n_experts", c_uint32),
        ("n_active_experts", c_uint32),
        ("n_expert_layers", c_uint32),
        ("expert_ffn", c_uint32),
        ("shared_ffn", c_uint32),
        ("reserved", c_uint32),
    ]

class qinfer_model_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("architecture", c_char_p),
        ("name", c_char_p),
        ("weight_format", c_char_p),
        ("n_params", c_uint64),
        ("file_bytes", c_uint64),
        ("n_vocab", c_uint32),
        ("n_layers", c_uint32),
        ("n_embd", c_uint32),
        ("n_heads", c_uint32),
        ("n_kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("context_tokens", c_uint32),
        ("max_token_bytes", c_uint32),
        ("bos_token", c_int32),
        ("reserved", c_uint32),
        ("n_active_params", c_uint64),
        ("n_experts", c_uint32),
        ("n_active_experts", c_uint32),
        ("n_expert_layers", c_uint32),
        ("expert_ffn", c_uint32),
        ("kernel_set", c_char_p),
        ("embedding_dims", c_uint32),
        ("embedding_tokens", c_uint32),
        ("pooling", c_int32),
        ("scoring", c_int32),
        ("first_layer", c_uint32),
        ("n_model_layers", c_uint32),
    ]

class qinfer_encoding_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("n_tensors", c_uint32),
        ("name", c_char_p),
        ("n_params", c_uint64),
        ("file_bytes", c_uint64),
        ("memory_bytes", c_uint64),
    ]

class qinfer_text_part(Structure):
    _fields_ = [
        ("begin", c_uint64),
        ("end", c_uint64),
    ]

class qinfer_tokenize_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("max_work", c_uint64),
        ("cancel", c_void_p),
        ("content", POINTER(qinfer_text_part)),
        ("n_content", c_uint64),
    ]

class qinfer_chat_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("template_name", c_char_p),
        ("template_text", c_char_p),
        ("now", c_char_p),
        ("cancel", c_void_p),
    ]

class qinfer_reply_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("format", c_int32),
        ("reserved", c_uint32),
        ("chat", POINTER(qinfer_chat_options)),
    ]

class qinfer_reply_part(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("text", c_void_p),
        ("text_len", c_size_t),
        ("name", c_void_p),
        ("id", c_char_p),
        ("call", c_uint32),
        ("reserved", c_uint32),
        ("name_len", c_size_t),
    ]

class qinfer_kv_cache_stats(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("block_tokens", c_uint32),
        ("blocks_total", c_uint64),
        ("blocks_used", c_uint64),
        ("blocks_shared", c_uint64),
        ("blocks_cached", c_uint64),
        ("bytes_reserved", c_uint64),
        ("bytes_committed", c_uint64),
        ("bytes_resident", c_uint64),
        ("reserved", c_uint64),
    ]

class qinfer_kv_store_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("path", c_char_p),
        ("max_bytes", c_uint64),
    ]

class qinfer_kv_store_stats(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("n_files", c_uint64),
        ("bytes", c_uint64),
        ("written", c_uint64),
        ("read", c_uint64),
        ("removed", c_uint64),
        ("damaged", c_uint64),
    ]

class qinfer_sampler_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("repeat_penalty", c_float),
        ("frequency_penalty", c_float),
        ("presence_penalty", c_float),
        ("penalty_tokens", c_uint32),
        ("reserved", c_uint32),
        ("seed", c_uint64),
        ("typical_p", c_float),
        ("top_n_sigma", c_float),
        ("dynatemp_range", c_float),
        ("dynatemp_exponent", c_float),
        ("xtc_probability", c_float),
        ("xtc_threshold", c_float),
        ("dry_multiplier", c_float),
        ("dry_base", c_float),
        ("dry_allowed_length", c_uint32),
        ("dry_penalty_tokens", c_uint32),
        ("mirostat", c_uint32),
        ("mirostat_tau", c_float),
        ("mirostat_eta", c_float),
        ("steps", c_char * 20),
    ]

class qinfer_session_save_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("files", POINTER(qinfer_files)),
    ]

class qinfer_session_load_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("files", POINTER(qinfer_files)),
        ("max_draft", c_uint32),
        ("reserved", c_uint32),
    ]

class qinfer_session_load_result(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("tokens", c_uint64),
        ("evaluated_tokens", c_uint64),
    ]

class qinfer_eval_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_tokens", c_uint32),
        ("keep_logits", c_uint32),
        ("flags", c_uint32),
        ("cancel", c_void_p),
        ("session_cancels", POINTER(c_void_p)),
        ("hidden_in", POINTER(POINTER(c_float))),
        ("hidden_out", POINTER(POINTER(c_float))),
    ]

class qinfer_logits_hook(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("apply", CFUNCTYPE(c_int32, c_void_p, POINTER(c_float), c_uint32, c_void_p)),
        ("accept", CFUNCTYPE(c_int32, c_int32, c_void_p)),
        ("rewind", CFUNCTYPE(c_int32, c_size_t, c_void_p)),
        ("clone", CFUNCTYPE(c_int32, c_void_p, POINTER(c_void_p))),
        ("release", CFUNCTYPE(None, c_void_p)),
        ("user", c_void_p),
    ]

class qinfer_embedding_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("pooling", c_int32),
        ("dims", c_uint32),
    ]

class qinfer_embedding_text_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("prompt_name", c_char_p),
        ("prompt", c_char_p),
        ("max_tokens", c_uint32),
        ("reserved", c_uint32),
        ("cancel", c_void_p),
    ]

class qinfer_score_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("template_name", c_char_p),
        ("template_text", c_char_p),
        ("instruction", c_char_p),
        ("yes", c_char_p),
        ("no", c_char_p),
        ("max_tokens", c_uint32),
        ("reserved", c_uint32),
        ("cancel", c_void_p),
    ]

class qinfer_token_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("token", c_int32),
        ("text", c_void_p),
        ("text_len", c_size_t),
        ("logprob", c_double),
        ("n_top", c_uint32),
        ("finish", c_int32),
        ("top_tokens", POINTER(c_int32)),
        ("top_logprobs", POINTER(c_double)),
    ]

qinfer_token_info_fn = CFUNCTYPE(c_int32, POINTER(qinfer_token_info), c_void_p)

class qinfer_generate_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_tokens", c_uint32),
        ("stop", POINTER(c_char_p)),
        ("stop_lens", POINTER(c_size_t)),
        ("n_stop", c_uint32),
        ("flags", c_uint32),
        ("on_token", qinfer_token_fn),
        ("user", c_void_p),
        ("cancel", c_void_p),
        ("on_token_info", qinfer_token_info_fn),
        ("n_top", c_uint32),
        ("max_reasoning_tokens", c_uint32),
        ("reply", c_void_p),
    ]

class qinfer_generate_result(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("finish", c_int32),
        ("prompt_tokens", c_uint32),
        ("cached_tokens", c_uint32),
        ("new_tokens", c_uint32),
        ("reserved", c_uint32),
        ("prefill_ns", c_uint64),
        ("decode_ns", c_uint64),
        ("flags", c_uint32),
        ("reasoning_tokens", c_uint32),
    ]

qinfer_clock_fn = CFUNCTYPE(c_uint64, c_void_p)

class qinfer_scheduler_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("max_running", c_uint32),
        ("max_waiting", c_uint32),
        ("step_ns", c_uint64),
        ("clock", qinfer_clock_fn),
        ("clock_user", c_void_p),
        ("park_path", c_char_p),
        ("park_files", POINTER(qinfer_files)),
        ("park_bytes", c_uint64),
    ]

class qinfer_request_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("priority", c_int32),
        ("key", c_uint64),
        ("deadline_ns", c_uint64),
        ("user", c_void_p),
    ]

class qinfer_event(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("request", c_void_p),
        ("user", c_void_p),
        ("n_evaluated", c_uint32),
        ("n_tokens", c_uint32),
        ("status", c_int32),
        ("reserved", c_uint32),
        ("message", c_char_p),
        ("token", qinfer_token_info),
    ]

class qinfer_scheduler_stats(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("parked", c_uint32),
        ("waiting", c_uint32),
        ("running", c_uint32),
        ("promised_bytes", c_uint64),
        ("submitted", c_uint64),
        ("ended", c_uint64),
        ("steps", c_uint64),
        ("decode_rows", c_uint64),
        ("prompt_rows", c_uint64),
        ("last_step_ns", c_uint64),
        ("parked_bytes", c_uint64),
        ("times_parked", c_uint64),
    ]

class qinfer_openai_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("chat", POINTER(qinfer_chat_options)),
        ("seed", c_uint64),
    ]

class qinfer_openai_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("flags", c_uint32),
        ("n_prompts", c_uint32),
        ("n_choices", c_uint32),
        ("longest_prompt", c_uint32),
        ("max_new_tokens", c_uint32),
        ("reserved", c_uint32),
        ("model", c_void_p),
        ("model_len", c_size_t),
        ("schema", c_void_p),
        ("schema_len", c_size_t),
        ("unused", c_void_p),
        ("unused_len", c_size_t),
    ]

class qinfer_openai_answer_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("id", c_char_p),
        ("model", c_char_p),
        ("created", c_int64),
    ]

class qinfer_metrics(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("prefill_tokens", c_uint64),
        ("decode_tokens", c_uint64),
        ("evals", c_uint64),
        ("cached_tokens", c_uint64),
        ("prefill_ns", c_uint64),
        ("decode_ns", c_uint64),
        ("sample_ns", c_uint64),
        ("wait_ns", c_uint64),
        ("drafted", c_uint64 * 16),
        ("accepted", c_uint64 * 16),
    ]

class qinfer_session_memory(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("kv_private", c_uint64),
        ("kv_shared", c_uint64),
        ("kv_reserved", c_uint64),
        ("other", c_uint64),
    ]

class qinfer_session_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("max_tokens", c_uint32),
        ("max_logits", c_uint32),
        ("n_tokens", c_uint64),
        ("n_evaluated", c_uint64),
        ("n_logits", c_uint32),
        ("n_bias", c_uint32),
        ("has_logits_hook", c_uint32),
        ("max_draft", c_uint32),
    ]

class qinfer_grammar_vocab_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("n_tokens", c_uint32),
        ("model", c_void_p),
        ("token_text", CFUNCTYPE(c_char_p, c_void_p, c_int32, POINTER(c_size_t))),
        ("token_flags", CFUNCTYPE(c_uint32, c_void_p, c_int32)),
        ("texts", POINTER(c_char_p)),
        ("text_lens", POINTER(c_size_t)),
        ("flags", POINTER(c_uint32)),
    ]

class qinfer_grammar_options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("max_source_bytes", c_uint64),
        ("max_depth", c_uint32),
        ("max_states", c_uint32),
        ("max_symbols", c_uint32),
        ("max_row_items", c_uint32),
        ("compile_work", c_uint64),
        ("mask_work", c_uint64),
    ]

class qinfer_grammar_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("n_tokens", c_uint32),
        ("n_warnings", c_uint32),
    ]

class qinfer_grammar_matcher_info(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("n_tokens", c_uint64),
    ]


FUNCTIONS = {
    "qinfer_full_error_arg": (c_void_p, [POINTER(qinfer_full_error)]),
    "qinfer_version": (c_uint32, []),
    "qinfer_version_string": (c_char_p, []),
    "qinfer_build_info": (c_char_p, []),
    "qinfer_status_name": (c_char_p, [c_int32]),
    "qinfer_get_cpu_info": (c_int32, [POINTER(qinfer_cpu_info), c_void_p]),
    "qinfer_cpu_name": (c_int32, [c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_cpu_features": (c_int32, [c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_kernel_set_count": (c_size_t, []),
    "qinfer_kernel_set_get_info": (c_int32, [c_size_t, POINTER(qinfer_kernel_set_info), c_void_p]),
    "qinfer_kv_type_name": (c_char_p, [c_int32]),
    "qinfer_cancel_create": (c_int32, [POINTER(c_void_p), c_void_p]),
    "qinfer_cancel_request": (None, ["qinfer_cancel"]),
    "qinfer_cancel_reset": (None, ["qinfer_cancel"]),
    "qinfer_cancel_free": (None, ["qinfer_cancel"]),
    "qinfer_runtime_create": (c_int32, [POINTER(qinfer_runtime_options), POINTER(c_void_p), c_void_p]),
    "qinfer_runtime_free": (None, ["qinfer_runtime"]),
    "qinfer_runtime_get_info": (c_int32, ["qinfer_runtime", POINTER(qinfer_runtime_info), c_void_p]),
    "qinfer_model_plan": (c_int32, [c_char_p, POINTER(qinfer_runtime_options), POINTER(qinfer_load_options), POINTER(qinfer_kv_cache_options), POINTER(qinfer_session_options), POINTER(qinfer_memory), c_void_p]),
    "qinfer_model_plan_map": (c_int32, [c_char_p, POINTER(qinfer_runtime_options), POINTER(qinfer_load_options), POINTER(qinfer_kv_cache_options), POINTER(qinfer_session_options), c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_model_inspect": (c_int32, [c_char_p, POINTER(qinfer_load_options), POINTER(qinfer_model_details), c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_model_load": (c_int32, ["qinfer_runtime", c_char_p, POINTER(qinfer_load_options), POINTER(c_void_p), c_void_p]),
    "qinfer_model_free": (None, ["qinfer_model"]),
    "qinfer_model_pack": (c_int32, ["qinfer_runtime", c_char_p, POINTER(qinfer_load_options), c_char_p, c_void_p]),
    "qinfer_model_export_gguf": (c_int32, ["qinfer_runtime", c_char_p, POINTER(qinfer_load_options), c_char_p, c_void_p]),
    "qinfer_model_get_info": (c_int32, ["qinfer_model", POINTER(qinfer_model_info), c_void_p]),
    "qinfer_model_get_memory": (c_int32, ["qinfer_model", POINTER(qinfer_memory), c_void_p]),
    "qinfer_model_encoding_count": (c_size_t, ["qinfer_model"]),
    "qinfer_model_encoding_info": (c_int32, ["qinfer_model", c_size_t, POINTER(qinfer_encoding_info), c_void_p]),
    "qinfer_model_expert_counts": (c_int32, ["qinfer_model", c_uint32, POINTER(c_uint64), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_model_meta_count": (c_size_t, ["qinfer_model"]),
    "qinfer_model_meta_key": (c_char_p, ["qinfer_model", c_size_t]),
    "qinfer_model_meta_value": (c_char_p, ["qinfer_model", c_char_p]),
    "qinfer_tokenize": (c_int32, ["qinfer_model", c_char_p, c_size_t, c_uint32, POINTER(c_int32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_tokenize_with": (c_int32, ["qinfer_model", c_char_p, c_size_t, POINTER(qinfer_tokenize_options), POINTER(c_int32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_token_text": (c_void_p, ["qinfer_model", c_int32, POINTER(c_size_t)]),
    "qinfer_token_flags": (c_uint32, ["qinfer_model", c_int32]),
    "qinfer_token_find": (c_int32, ["qinfer_model", c_char_p, c_size_t, POINTER(c_int32), c_void_p]),
    "qinfer_model_end_tokens": (c_int32, ["qinfer_model", POINTER(c_int32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_model_chat_template": (c_int32, ["qinfer_model", c_char_p, c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_model_chat_template_name": (c_char_p, ["qinfer_model", c_size_t]),
    "qinfer_chat_render": (c_int32, ["qinfer_model", c_char_p, c_size_t, POINTER(qinfer_chat_options), c_void_p, c_size_t, POINTER(c_size_t), POINTER(qinfer_text_part), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_chat_tokenize": (c_int32, ["qinfer_model", c_char_p, c_size_t, POINTER(qinfer_chat_options), POINTER(c_int32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_reply_create": (c_int32, ["qinfer_model", c_char_p, c_size_t, POINTER(qinfer_reply_options), POINTER(c_void_p), c_void_p]),
    "qinfer_reply_push": (c_int32, ["qinfer_reply", c_int32, c_void_p]),
    "qinfer_reply_finish": (c_int32, ["qinfer_reply", c_void_p]),
    "qinfer_reply_next": (c_int32, ["qinfer_reply", POINTER(qinfer_reply_part), c_void_p]),
    "qinfer_reply_message": (c_int32, ["qinfer_reply", c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_reply_in_reasoning": (c_int32, ["qinfer_reply", POINTER(c_int32), c_void_p]),
    "qinfer_reply_reasoning_end": (c_int32, ["qinfer_reply", POINTER(c_int32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_reply_free": (None, ["qinfer_reply"]),
    "qinfer_detok_create": (c_int32, ["qinfer_model", POINTER(c_void_p), c_void_p]),
    "qinfer_detok_push": (c_int32, ["qinfer_detok", c_int32, c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_detok_finish": (c_int32, ["qinfer_detok", c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_detok_free": (None, ["qinfer_detok"]),
    "qinfer_kv_cache_create": (c_int32, ["qinfer_model", POINTER(qinfer_kv_cache_options), POINTER(c_void_p), c_void_p]),
    "qinfer_kv_cache_free": (None, ["qinfer_kv_cache"]),
    "qinfer_kv_cache_get_stats": (c_int32, ["qinfer_kv_cache", POINTER(qinfer_kv_cache_stats), c_void_p]),
    "qinfer_kv_cache_find": (c_int32, ["qinfer_kv_cache", POINTER(c_int32), c_size_t, c_uint32, POINTER(c_size_t), c_void_p]),
    "qinfer_kv_store_open": (c_int32, ["qinfer_kv_cache", POINTER(qinfer_kv_store_options), POINTER(c_void_p), c_void_p]),
    "qinfer_kv_store_keep": (c_int32, ["qinfer_kv_store", "qinfer_session", c_char_p, "qinfer_cancel", POINTER(c_size_t), c_void_p]),
    "qinfer_kv_store_fetch": (c_int32, ["qinfer_kv_store", POINTER(c_int32), c_size_t, c_char_p, "qinfer_cancel", POINTER(c_size_t), c_void_p]),
    "qinfer_kv_store_fetch_into": (c_int32, ["qinfer_kv_store", POINTER(c_int32), c_size_t, c_char_p, c_uint32, "qinfer_cancel", POINTER(c_size_t), c_void_p]),
    "qinfer_kv_store_get_stats": (c_int32, ["qinfer_kv_store", POINTER(qinfer_kv_store_stats), c_void_p]),
    "qinfer_kv_store_free": (None, ["qinfer_kv_store"]),
    "qinfer_session_create": (c_int32, ["qinfer_kv_cache", POINTER(qinfer_session_options), POINTER(c_void_p), c_void_p]),
    "qinfer_session_fork": (c_int32, ["qinfer_session", POINTER(c_void_p), c_void_p]),
    "qinfer_session_truncate": (c_int32, ["qinfer_session", c_size_t, c_void_p]),
    "qinfer_session_save": (c_int32, ["qinfer_session", c_char_p, c_void_p]),
    "qinfer_session_save_with": (c_int32, ["qinfer_session", c_char_p, POINTER(qinfer_session_save_options), c_void_p]),
    "qinfer_session_load": (c_int32, ["qinfer_kv_cache", c_char_p, POINTER(c_void_p), c_void_p]),
    "qinfer_session_load_with": (c_int32, ["qinfer_kv_cache", c_char_p, POINTER(qinfer_session_load_options), POINTER(c_void_p), POINTER(qinfer_session_load_result), c_void_p]),
    "qinfer_session_free": (None, ["qinfer_session"]),
    "qinfer_session_append": (c_int32, ["qinfer_session", POINTER(c_int32), c_size_t, c_void_p]),
    "qinfer_session_set_tokens": (c_int32, ["qinfer_session", POINTER(c_int32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_session_get_tokens": (c_int32, ["qinfer_session", POINTER(c_int32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_session_length": (c_size_t, ["qinfer_session"]),
    "qinfer_session_pending": (c_size_t, ["qinfer_session"]),
    "qinfer_session_set_sampler": (c_int32, ["qinfer_session", POINTER(qinfer_sampler_options), c_void_p]),
    "qinfer_session_set_dry_breakers": (c_int32, ["qinfer_session", POINTER(c_char_p), POINTER(c_size_t), c_size_t, c_void_p]),
    "qinfer_session_set_bias": (c_int32, ["qinfer_session", POINTER(c_int32), POINTER(c_float), c_size_t, c_void_p]),
    "qinfer_eval": (c_int32, [POINTER(c_void_p), c_size_t, POINTER(qinfer_eval_options), c_void_p]),
    "qinfer_session_set_logits_hook": (c_int32, ["qinfer_session", POINTER(qinfer_logits_hook), c_void_p]),
    "qinfer_session_sample": (c_int32, ["qinfer_session", POINTER(c_int32), c_void_p]),
    "qinfer_session_logits": (POINTER(c_float), ["qinfer_session", c_size_t]),
    "qinfer_session_copy_logits": (c_int32, ["qinfer_session", c_size_t, POINTER(c_float), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_session_logprobs": (c_int32, ["qinfer_session", c_size_t, POINTER(c_int32), c_size_t, POINTER(c_double), c_void_p]),
    "qinfer_session_top_logprobs": (c_int32, ["qinfer_session", c_size_t, POINTER(c_int32), POINTER(c_double), c_size_t, c_void_p]),
    "qinfer_session_embedding": (c_int32, ["qinfer_session", c_int32, POINTER(c_float), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_session_embedding_with": (c_int32, ["qinfer_session", POINTER(qinfer_embedding_options), POINTER(c_float), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_model_prompt_name": (c_char_p, ["qinfer_model", c_size_t]),
    "qinfer_model_default_prompt": (c_char_p, ["qinfer_model"]),
    "qinfer_model_prompt": (c_int32, ["qinfer_model", c_char_p, c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_embedding_tokenize": (c_int32, ["qinfer_model", c_char_p, c_size_t, POINTER(qinfer_embedding_text_options), POINTER(c_int32), c_size_t, POINTER(c_size_t), POINTER(c_uint64), c_void_p]),
    "qinfer_session_set_pair": (c_int32, ["qinfer_session", c_char_p, c_size_t, c_char_p, c_size_t, POINTER(qinfer_score_options), POINTER(c_uint64), c_void_p]),
    "qinfer_session_score": (c_int32, ["qinfer_session", POINTER(qinfer_score_options), POINTER(c_float), c_void_p]),
    "qinfer_generate": (c_int32, ["qinfer_session", POINTER(qinfer_generate_options), POINTER(qinfer_generate_result), c_void_p]),
    "qinfer_generation_create": (c_int32, ["qinfer_session", POINTER(qinfer_generate_options), POINTER(c_void_p), c_void_p]),
    "qinfer_generation_next": (c_int32, ["qinfer_generation", POINTER(qinfer_token_info), c_void_p]),
    "qinfer_generation_finish": (c_int32, ["qinfer_generation", POINTER(qinfer_token_info), c_void_p]),
    "qinfer_generation_take_back": (c_int32, ["qinfer_generation", c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_generation_get_result": (c_int32, ["qinfer_generation", POINTER(qinfer_generate_result), c_void_p]),
    "qinfer_generation_free": (None, ["qinfer_generation"]),
    "qinfer_scheduler_plan": (c_int32, [POINTER(qinfer_scheduler_options), POINTER(c_uint64), c_void_p]),
    "qinfer_scheduler_create": (c_int32, ["qinfer_kv_cache", POINTER(qinfer_scheduler_options), POINTER(c_void_p), c_void_p]),
    "qinfer_scheduler_submit": (c_int32, ["qinfer_scheduler", "qinfer_generation", POINTER(qinfer_request_options), POINTER(c_void_p), c_void_p]),
    "qinfer_scheduler_reserve": (c_int32, ["qinfer_scheduler", "qinfer_session", c_uint64, POINTER(qinfer_request_options), POINTER(c_void_p), c_void_p]),
    "qinfer_request_cancel": (None, ["qinfer_request"]),
    "qinfer_request_pause": (None, ["qinfer_request", c_int32]),
    "qinfer_request_free": (None, ["qinfer_request"]),
    "qinfer_scheduler_step": (c_int32, ["qinfer_scheduler", c_void_p]),
    "qinfer_scheduler_wait": (c_int32, ["qinfer_scheduler", c_uint64, POINTER(c_int32), c_void_p]),
    "qinfer_scheduler_next": (c_int32, ["qinfer_scheduler", POINTER(qinfer_event), c_void_p]),
    "qinfer_scheduler_get_stats": (c_int32, ["qinfer_scheduler", POINTER(qinfer_scheduler_stats), c_void_p]),
    "qinfer_scheduler_free": (None, ["qinfer_scheduler"]),
    "qinfer_openai_request_create": (c_int32, ["qinfer_model", c_int32, c_char_p, c_size_t, POINTER(qinfer_openai_options), POINTER(c_void_p), c_void_p]),
    "qinfer_openai_request_get_info": (c_int32, ["qinfer_openai_request", POINTER(qinfer_openai_info), c_void_p]),
    "qinfer_openai_request_tokens": (c_int32, ["qinfer_openai_request", c_size_t, POINTER(c_int32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_openai_request_free": (None, ["qinfer_openai_request"]),
    "qinfer_openai_generation_create": (c_int32, ["qinfer_openai_request", c_size_t, "qinfer_session", "qinfer_cancel", POINTER(c_void_p), c_void_p]),
    "qinfer_openai_generation_resume": (c_int32, ["qinfer_openai_request", c_size_t, "qinfer_session", "qinfer_cancel", POINTER(c_void_p), c_void_p]),
    "qinfer_openai_answer_create": (c_int32, ["qinfer_openai_request", POINTER(qinfer_openai_answer_options), POINTER(c_void_p), c_void_p]),
    "qinfer_openai_answer_begin": (c_int32, ["qinfer_openai_answer", c_size_t, "qinfer_generation", POINTER(c_int32), c_void_p]),
    "qinfer_openai_answer_add": (c_int32, ["qinfer_openai_answer", c_size_t, "qinfer_generation", POINTER(c_int32), c_void_p]),
    "qinfer_openai_answer_embed": (c_int32, ["qinfer_openai_answer", c_size_t, "qinfer_session", c_int32, "qinfer_cancel", c_void_p]),
    "qinfer_openai_answer_fail": (c_int32, ["qinfer_openai_answer", POINTER(qinfer_error), c_void_p]),
    "qinfer_openai_answer_bytes": (c_int32, ["qinfer_openai_answer", c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_int32), c_void_p]),
    "qinfer_openai_answer_free": (None, ["qinfer_openai_answer"]),
    "qinfer_openai_error_json": (c_int32, [POINTER(qinfer_error), c_void_p, c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_session_get_memory": (c_int32, ["qinfer_session", POINTER(qinfer_session_memory), c_void_p]),
    "qinfer_session_get_info": (c_int32, ["qinfer_session", POINTER(qinfer_session_info), c_void_p]),
    "qinfer_session_get_metrics": (c_int32, ["qinfer_session", POINTER(qinfer_metrics), c_void_p]),
    "qinfer_runtime_get_metrics": (c_int32, ["qinfer_runtime", POINTER(qinfer_metrics), c_void_p]),
    "qinfer_grammar_version": (c_uint32, []),
    "qinfer_grammar_vocab_create": (c_int32, [POINTER(qinfer_grammar_vocab_options), POINTER(c_void_p), c_void_p]),
    "qinfer_grammar_vocab_free": (None, ["qinfer_grammar_vocab"]),
    "qinfer_grammar_compile": (c_int32, ["qinfer_grammar_vocab", c_int32, c_char_p, c_size_t, POINTER(qinfer_grammar_options), POINTER(c_void_p), c_void_p]),
    "qinfer_grammar_get_info": (c_int32, ["qinfer_grammar", POINTER(qinfer_grammar_info), c_void_p]),
    "qinfer_grammar_free": (None, ["qinfer_grammar"]),
    "qinfer_grammar_matcher_create": (c_int32, ["qinfer_grammar", POINTER(c_void_p), c_void_p]),
    "qinfer_grammar_matcher_clone": (c_int32, ["qinfer_grammar_matcher", POINTER(c_void_p), c_void_p]),
    "qinfer_grammar_matcher_free": (None, ["qinfer_grammar_matcher"]),
    "qinfer_grammar_matcher_hook": (c_int32, ["qinfer_grammar_matcher", POINTER(qinfer_logits_hook), c_void_p]),
    "qinfer_grammar_matcher_mask": (c_int32, ["qinfer_grammar_matcher", POINTER(c_uint32), c_size_t, POINTER(c_size_t), c_void_p]),
    "qinfer_grammar_matcher_accept": (c_int32, ["qinfer_grammar_matcher", POINTER(c_int32), c_size_t, c_void_p]),
    "qinfer_grammar_matcher_rewind": (c_int32, ["qinfer_grammar_matcher", c_size_t, c_void_p]),
    "qinfer_grammar_matcher_get_info": (c_int32, ["qinfer_grammar_matcher", POINTER(qinfer_grammar_matcher_info), c_void_p]),
    "qinfer_grammar_matcher_error": (c_int32, ["qinfer_grammar_matcher", c_void_p]),
}
