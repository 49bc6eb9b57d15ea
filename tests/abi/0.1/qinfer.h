/* clang-format off */
/*
 * qinfer.h - C API of qinfer, an embeddable library for running language models on CPUs.
 *
 * These rules hold for every declaration below.
 *
 * Process    The library never throws, aborts, exits, prints, reads the environment, installs signal handlers
 *            or keeps mutable process-wide state. It runs no code at load or at exit, so a process may end with live handles.
 *            Handles do not work in a fork()ed child: calls there fail with QINFER_E_STATE. Free all handles before
 *            dlclose(): a runtime's threads run in the library's code. Writing beyond RLIMIT_FSIZE is QINFER_E_IO
 *            (EFBIG), without a SIGXFSZ.
 * Stack      No call needs more than 64 KiB of the calling thread's stack.
 * Stability  Within one major version nothing here is removed, renumbered or reordered. Functions, constants
 *            and trailing struct members are added, so treat an unknown negative status as an error.
 * Errors     What can fail returns qinfer_status and takes a qinfer_error (or NULL) last. On failure an output
 *            handle is set to NULL and objects keep the state they had before the call, unless noted. A NULL
 *            handle is an error, never a crash; functions that cannot report it return 0 or NULL.
 * Ownership  What *_create, *_load or *_fork returns is released by the matching *_free; freeing NULL does
 *            nothing. Objects keep alive what they depend on: handles may be freed in any order. Arguments are
 *            copied unless marked borrowed. A returned pointer belongs to the handle it came from.
 * Buffers    The library never hands out memory to free. An output array comes with its capacity in elements
 *            and *out_n, always set to the number of elements needed; too small a capacity gives
 *            QINFER_E_BUFFER_TOO_SMALL and has no other effect, so (NULL, 0) asks for the size. Output text is
 *            not NUL-terminated.
 * Structs    struct_size is sizeof the struct as the caller knows it. Zero everything else, which always means
 *            "default", then set what differs. Members beyond a shorter struct read as zero; a longer struct
 *            is accepted while the tail the library does not know is zero, else QINFER_E_UNSUPPORTED. Output
 *            structs are filled up to struct_size, with zeros beyond what the library knows.
 * Threads    Functions taking a handle as const may run concurrently on it; a non-const handle needs exclusive
 *            access during the call; [any thread] lifts that. Handles may move between threads. Callbacks run
 *            on the calling thread, inside the call, may use only const and [any thread] functions, and must
 *            return normally: no exception, longjmp or panic. Creating, loading and freeing are [any thread].
 *            A call that would change a session while another one does (from another thread, or from a callback)
 *            is QINFER_E_STATE; freeing a handle that is in use cannot be noticed.
 * Bits       Kernel set (cpu_target), QINFER_RUNTIME_EXACT, weight_format, QINFER_LOAD_EMBED_ROWS and kv_type change
 *            the bits of logits; no other option does, but for what "amx_mixed" says of batches below.
 * Constants  fit int32_t and uint32_t: flags are held in uint32_t, kinds in int32_t.
 * Text       UTF-8. (text, len) is a byte range; len SIZE_MAX means NUL-terminated.
 */
#ifndef QINFER_H
#define QINFER_H

#include <stddef.h>
#include <stdint.h>

#define QINFER_VERSION_MAJOR 0
#define QINFER_VERSION_MINOR 1
#define QINFER_VERSION_PATCH 0
#define QINFER_VERSION       100 /* major * 10000 + minor * 100 + patch */

#if defined(QINFER_PLAIN_C) || defined(QINFER_STATIC) /* PLAIN_C: for header parsers without attributes */
#define QINFER_API
#elif !defined(_WIN32)
#define QINFER_API __attribute__((visibility("default")))
#elif defined(QINFER_BUILD)
#define QINFER_API __declspec(dllexport)
#else
#define QINFER_API __declspec(dllimport)
#endif
#if defined(__GNUC__) && !defined(QINFER_PLAIN_C)
#define QINFER_STATUS QINFER_API __attribute__((warn_unused_result)) qinfer_status
#else
#define QINFER_STATUS QINFER_API qinfer_status
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Basic types ------------------------------------------------------------------------------------- */
typedef struct qinfer_runtime qinfer_runtime; /* threads, log sink, allocator, kernel choice */
typedef struct qinfer_model   qinfer_model;   /* weights, tokenizer, metadata; immutable */
typedef struct qinfer_detok   qinfer_detok;   /* turns a token stream into text */
typedef struct qinfer_kv_cache qinfer_kv_cache; /* paged key/value memory shared by sessions; locks itself */
typedef struct qinfer_session qinfer_session; /* one token sequence and its sampler */
typedef struct qinfer_cancel  qinfer_cancel;  /* cancellation flag, shareable by many calls */

typedef int32_t qinfer_token;
typedef int32_t qinfer_status; /* constants are plain ints: adding one never changes a type */

enum {
    QINFER_OK                 = 0,
    QINFER_E_INTERNAL         = -1,  /* bug in qinfer: the objects involved can only be freed */
    QINFER_E_INVALID_ARGUMENT = -2,  /* detail: index of the element at fault, where it is one of an array */
    QINFER_E_STATE            = -3,  /* right call, wrong time: e.g. sampling before evaluating */
    QINFER_E_UNSUPPORTED      = -4,  /* architecture, format, CPU, or an option newer than the library */
    QINFER_E_NO_MEMORY        = -5,  /* allocation failed or a budget exceeded; detail: bytes needed, where known */
    QINFER_E_IO               = -6,  /* detail: errno */
    QINFER_E_NOT_FOUND        = -7,  /* detail: errno, where a file is missing */
    QINFER_E_FORMAT           = -8,  /* damaged or malformed input; detail: byte offset or -1 */
    QINFER_E_BUFFER_TOO_SMALL = -9,  /* detail: elements needed */
    QINFER_E_KV_FULL          = -10, /* KV cache exhausted; detail: index of the first session without room */
    QINFER_E_CONTEXT_FULL     = -11, /* session at its token limit (max_tokens) */
    QINFER_E_CANCELLED        = -12, /* by a qinfer_cancel or a callback */
    QINFER_E_NUMERIC          = -13  /* non-finite logits */
};

/** Filled when a call fails, untouched otherwise; needs no initialisation. Layout frozen. Messages do not depend on the
 *  locale. */
typedef struct qinfer_error {
    qinfer_status code;
    int32_t       reserved;
    int64_t       detail;       /* as the status constant says, else 0 */
    char          message[240]; /* English, NUL-terminated; one that is too long has "..." for its middle */
} qinfer_error;

enum { QINFER_LOG_ERROR = 1, QINFER_LOG_WARN = 2, QINFER_LOG_INFO = 3, QINFER_LOG_DEBUG = 4 };
/** One complete line without newline, valid during the call. */
typedef void (*qinfer_log_fn)(int32_t level, const char *line, size_t line_len, void *user);
/** Called about every 16 MiB and once at the end. Return nonzero to cancel. */
typedef int32_t (*qinfer_progress_fn)(uint64_t done_bytes, uint64_t total_bytes, void *user);
/** After each token, with the new whole characters (maybe none). Return nonzero to stop. */
typedef int32_t (*qinfer_token_fn)(const char *text, size_t text_len, qinfer_token token, void *user);

/* ---- Library [any thread] ---------------------------------------------------------------------------- */
QINFER_API uint32_t    qinfer_version(void);        /* QINFER_VERSION of the library that is loaded */
QINFER_API const char *qinfer_version_string(void); /* "0.1.0"; static */
QINFER_API const char *qinfer_build_info(void);     /* commit, compiler, flags, kernel sets; static */
QINFER_API const char *qinfer_status_name(qinfer_status status); /* "QINFER_E_IO"; static */

typedef struct qinfer_cpu_info {
    uint32_t struct_size;
    uint32_t n_physical_cores, n_logical_cores; /* usable by this process: affinity mask and cgroup quota */
    uint32_t n_numa_nodes;
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, per socket; 0 = unknown */
    char     model_name[64];                   /* as the CPU names itself; NUL-terminated */
    char     features[256];                    /* "avx2 fma avx512f": what CPU and operating system offer */
    char     target[32];                       /* kernel set chosen by default */
} qinfer_cpu_info;
QINFER_STATUS qinfer_get_cpu_info(qinfer_cpu_info *out, qinfer_error *err);

QINFER_STATUS qinfer_cancel_create(qinfer_cancel **out, qinfer_error *err);
/** [any thread, async-signal-safe] Sticky until reset, so a request made before the call counts. */
QINFER_API void qinfer_cancel_request(qinfer_cancel *cancel);
QINFER_API void qinfer_cancel_reset(qinfer_cancel *cancel); /* [any thread] */
QINFER_API void qinfer_cancel_free(qinfer_cancel *cancel);

/* ---- Runtime ----------------------------------------------------------------------------------------- */
/** Host memory for weights, KV blocks and scratch; small bookkeeping uses the C++ heap. */
typedef struct qinfer_allocator {
    uint32_t struct_size, reserved;
    void *(*alloc)(size_t size, size_t alignment, void *user); /* NULL on failure */
    void (*release)(void *ptr, size_t size, size_t alignment, void *user);
    void *user; /* borrowed until the runtime and all that depends on it are freed */
} qinfer_allocator;

/** A token's logits do not depend on batch, chunking, threads or block size, for one target and precision (but for
 *  "amx_mixed": there up to 4 tokens evaluated at once, and up to 4 logits kept at once, are computed another way than
 *  more). The AMX targets leave no tiles behind; a host's own are lost in a call, as in any that the x86-64 ABI
 *  describes. */
enum {
    QINFER_RUNTIME_NORMAL_PAGES = 2, /* no 2 MiB pages: what the system counts is then exact to the page */
    QINFER_RUNTIME_EXACT = 1 /* f32 activations and sums (so not avx512_fp16, not amx), weights and (by default) KV in a type that holds them exactly */
};
typedef struct qinfer_runtime_options {
    uint32_t                struct_size;
    uint32_t                n_threads;  /* compute threads, the caller included; 0 = physical cores */
    uint32_t                spin_us;    /* between evaluations workers spin this long; 0 = sleep at once */
    int32_t                 log_level;  /* most verbose level delivered; 0 = QINFER_LOG_WARN */
    qinfer_log_fn           log;        /* NULL = silent */
    void                   *log_user;   /* borrowed, as above */
    const uint32_t         *cpu_ids;    /* pin thread i to cpu_ids[i]; NULL = no pinning. As many as threads, each a CPU
                                           that this process may use, else QINFER_E_INVALID_ARGUMENT */
    uint32_t                n_cpu_ids;
    uint32_t                flags;      /* QINFER_RUNTIME_* */
    const char             *cpu_target; /* kernel set: "avx512_fp16", "avx512", "amx" and "amx_mixed" (by name only), "reference"; NULL = best for this CPU */
    const qinfer_allocator *allocator;  /* NULL = mmap */
} qinfer_runtime_options;

/** Evaluations on one runtime run one after another, each on all of its threads. options may be NULL. */
QINFER_STATUS qinfer_runtime_create(const qinfer_runtime_options *options, qinfer_runtime **out, qinfer_error *err);
QINFER_API void qinfer_runtime_free(qinfer_runtime *runtime);

typedef struct qinfer_runtime_info {
    uint32_t struct_size, n_threads;
    char     target[32]; /* kernel set; NUL-terminated */
} qinfer_runtime_info;
QINFER_STATUS qinfer_runtime_get_info(const qinfer_runtime *runtime, qinfer_runtime_info *out, qinfer_error *err);

/* ---- Model ------------------------------------------------------------------------------------------- */
enum {
    QINFER_LOAD_NO_WEIGHTS = 1, /* metadata and tokenizer only: fast, but no sessions */
    QINFER_LOAD_NO_MMAP    = 2, /* read into private memory: for files that others may truncate while they are mapped */
    QINFER_LOAD_LOCK       = 4, /* keep resident (mlock) */
    QINFER_LOAD_VERIFY     = 8, /* check that norm weights and biases are finite */
    QINFER_LOAD_EMBED_ROWS = 16 /* tied embeddings: a table of rows, in the type of the file, beside the LM head, whose own
                                   layout otherwise serves both. Changes bits where the two types differ */
};
typedef struct qinfer_load_options {
    uint32_t             struct_size;
    uint32_t             flags;               /* QINFER_LOAD_* */
    uint32_t             max_batch_tokens;    /* evaluated in one pass over the weights; 0 = 512 */
    uint32_t             reserved;
    uint64_t             memory_budget_bytes; /* for the model, its caches and sessions: loading fails before it reads
                                                 weights, creating before it takes memory, with what is needed, and
                                                 for a cache how many blocks would fit; 0 = none */
    const char          *weight_format;       /* "f16", "bf16", "f32"; NULL = what the kernel set wants */
    qinfer_progress_fn   progress;
    void                *progress_user;
    const qinfer_cancel *cancel;              /* looked at while headers, tokenizers and weights are read */
    const char          *packed_path;         /* use this file, if qinfer_model_pack made it from this directory as it is now */
} qinfer_load_options;

enum { QINFER_KV_DEFAULT = 0, QINFER_KV_F32 = 1, QINFER_KV_F16 = 2, QINFER_KV_BF16 = 3 };
enum {
    QINFER_CACHE_PREFIX = 1, /* keep freed blocks while there is room: a session that begins like an earlier one is
                                evaluated from the block where they part (one whose evaluated tokens end inside a block
                                looks for nothing); same bits */
    QINFER_CACHE_COMMIT = 2, /* prefault: no page fault later */
    QINFER_CACHE_CONTIGUOUS = 4 /* each session sees one flat range of reserved address space; same results. Needs memfd
                                   and the default allocator, else QINFER_E_UNSUPPORTED */
};
typedef struct qinfer_kv_cache_options {
    uint32_t struct_size;
    uint32_t flags;        /* QINFER_CACHE_* */
    int32_t  kv_type;      /* QINFER_KV_*; default f16, bf16 on amx, and f32 under QINFER_RUNTIME_EXACT */
    uint32_t block_tokens; /* tokens per block, a power of two from 32 to 256; 0 = 32 */
    uint64_t budget_bytes, budget_blocks; /* the smaller wins; both 0 = one session of context_tokens. Where layers differ
                                             in what they keep, a block counts once for each kind */
} qinfer_kv_cache_options;

enum {
    QINFER_SESSION_EMBEDDINGS = 1 /* keep final hidden states for qinfer_session_embedding: no prefixes are taken from the
                                     cache, and cutting off evaluated tokens makes all pending. Encoders always do */
};
typedef struct qinfer_session_options {
    uint32_t struct_size, flags;   /* QINFER_SESSION_* */
    uint32_t max_tokens;           /* 0 = context_tokens of the model; room for all of them is taken at creation, and the
                                      model's RoPE table is computed as far (QINFER_E_NO_MEMORY above 4 GiB of it) */
    uint32_t max_logits;           /* rows kept for qinfer_session_logits; 0 = 1; none in an encoder */
} qinfer_session_options;

/** Bytes, as planned or as in use: for equal options the two agree exactly. */
typedef struct qinfer_memory {
    uint32_t struct_size, reserved;
    uint64_t weights_mapped;  /* clean file pages the OS can drop */
    uint64_t weights_private; /* converted or copied weights */
    uint64_t tables;          /* tokenizer, and rope for the max_tokens of the longest session so far (all positions where
                                 memory comes from a qinfer_allocator; 0 before the first session, and where a packed file
                                 has it); the tokenizer's part is 0 for a bare config.json */
    uint64_t scratch;         /* activations for max_batch_tokens */
    uint64_t kv_per_block, kv_cache_bytes; /* kv_cache_bytes: 0 without cache options */
    uint64_t per_session;     /* outside the cache: logits rows, token list, block tables, sampler */
    uint64_t load_peak;       /* largest total while loading */
    uint64_t total;           /* mapped + private + tables + scratch + kv cache + kv lists, without sessions */
    uint64_t kv_lists;        /* of a cache: counts of holders, free blocks, the index of prefixes */
    uint64_t kv_per_token, kv_per_session; /* keys and values of a token; blocks that a session of max_tokens holds at most */
    uint64_t system_limit, system_available; /* of this machine or cgroup, now; 0 = not known */
} qinfer_memory;

/** What loading and creating with these options will take. Reads headers only; path may also be a packed model or a lone
 *  config.json.
 *  Any options may be NULL. */
QINFER_STATUS qinfer_model_plan(const char *path, const qinfer_runtime_options *runtime, const qinfer_load_options *load,
                                const qinfer_kv_cache_options *cache, const qinfer_session_options *session,
                                qinfer_memory *out, qinfer_error *err);
/** The same, buffer by buffer, as JSON: {"model": {...}, "regions": [{"name", "belongs_to": "model" | "cache" | "session",
 *  "bytes", "buffers": [{"name", "offset", "end", "bytes", "shape", "dtype", "lifetime"}]}]}. Regions that belong to model
 *  and cache add up to `total`, those of a session to `per_session`. In scratch, buffers whose lifetimes (first and last
 *  step of a layer) do not meet may share bytes; what no buffer has is alignment to 64 bytes, or 4096 for blocks. */
QINFER_STATUS qinfer_model_plan_map(const char *path, const qinfer_runtime_options *runtime, const qinfer_load_options *load,
                                    const qinfer_kv_cache_options *cache, const qinfer_session_options *session,
                                    char *json, size_t capacity, size_t *out_n, qinfer_error *err);
/** path: a directory (config.json, *.safetensors, tokenizer.json), or a file that qinfer_model_pack wrote. runtime NULL: a
 *  private runtime with defaults. options may be NULL. */
QINFER_STATUS qinfer_model_load(qinfer_runtime *runtime, const char *path, const qinfer_load_options *options,
                                qinfer_model **out, qinfer_error *err);
QINFER_API void qinfer_model_free(qinfer_model *model);
/** Writes the model directory `path` to one file that holds the weights as the runtime's kernel set wants them, the
 *  tokenizer and the RoPE table. Loading it is a mapping, shared between processes. Needs the memory of a loaded model.
 *  out_path appears whole or not at all; of files that are there only an empty one or one that this function wrote is
 *  replaced (links are followed), else QINFER_E_FORMAT; one of the directory's own is QINFER_E_INVALID_ARGUMENT. A file that is cut, altered in its header, or packed for other kernels is
 *  refused when loaded; QINFER_LOAD_VERIFY also checks the weights. */
QINFER_STATUS qinfer_model_pack(qinfer_runtime *runtime, const char *path, const qinfer_load_options *options,
                                const char *out_path, qinfer_error *err);

enum { QINFER_MODEL_ENCODER = 1 /* bidirectional: embeddings, no logits, nothing kept in a KV cache */ };
typedef struct qinfer_model_info {
    uint32_t     struct_size;
    uint32_t     flags;                               /* QINFER_MODEL_* */
    const char  *architecture, *name, *weight_format; /* live as long as the model */
    uint64_t     n_params, file_bytes;
    uint32_t     n_vocab, n_layers, n_embd, n_heads, n_kv_heads, head_dim;
    uint32_t     context_tokens;                      /* trained context length */
    uint32_t     max_token_bytes;                     /* longest text of one token */
    qinfer_token bos_token;                           /* -1 = none */
} qinfer_model_info;
QINFER_STATUS qinfer_model_get_info(const qinfer_model *model, qinfer_model_info *out, qinfer_error *err);
QINFER_STATUS qinfer_model_get_memory(const qinfer_model *model, qinfer_memory *out, qinfer_error *err);
/** Stored metadata as text, sorted by key. Pointers live as long as the model; NULL if there is none. */
QINFER_API size_t      qinfer_model_meta_count(const qinfer_model *model);
QINFER_API const char *qinfer_model_meta_key(const qinfer_model *model, size_t index);
QINFER_API const char *qinfer_model_meta_value(const qinfer_model *model, const char *key);

/* ---- Tokenizer ---------------------------------------------------------------------------------------- */
enum {
    QINFER_TEXT_ADD_SPECIAL   = 1, /* add what the tokenizer puts around a text, e.g. the begin token */
    QINFER_TEXT_PARSE_SPECIAL = 2  /* "<|im_end|>" in the text becomes one token */
};
enum { QINFER_TOKEN_CONTROL = 1, QINFER_TOKEN_END = 2 /* ends generation */, QINFER_TOKEN_BYTE = 4 };

/** Text that is not UTF-8 is QINFER_E_INVALID_ARGUMENT; detail: offset of the first bad byte. */
QINFER_STATUS qinfer_tokenize(const qinfer_model *model, const char *text, size_t len, uint32_t flags,
                              qinfer_token *tokens, size_t capacity, size_t *out_n, qinfer_error *err);
typedef struct qinfer_tokenize_options {
    uint32_t             struct_size;
    uint32_t             flags;    /* QINFER_TEXT_* */
    uint64_t             max_work; /* steps that the call may take; 0 = 1,000,000 + 512 for each byte of the text */
    const qinfer_cancel *cancel;
} qinfer_tokenize_options;
/** The same with options, which may be NULL. Steps are what a tokenizer's patterns and tables make of a text, whatever
 *  they are: beyond max_work the call ends with QINFER_E_UNSUPPORTED (detail: offset of what was not read any more), so
 *  that no tokenizer file can make it hang. Those in use take 4 to 16 steps for a byte. */
QINFER_STATUS qinfer_tokenize_with(const qinfer_model *model, const char *text, size_t len,
                                   const qinfer_tokenize_options *options, qinfer_token *tokens, size_t capacity,
                                   size_t *out_n, qinfer_error *err);
/** Raw bytes of one token, perhaps part of a character. Live as long as the model. */
QINFER_API const char *qinfer_token_text(const qinfer_model *model, qinfer_token token, size_t *out_n);
QINFER_API uint32_t    qinfer_token_flags(const qinfer_model *model, qinfer_token token); /* QINFER_TOKEN_* */

QINFER_STATUS qinfer_detok_create(const qinfer_model *model, qinfer_detok **out, qinfer_error *err);
/** Emits whole characters and holds back an unfinished one; invalid bytes become U+FFFD. A capacity of
 *  max_token_bytes * 3 + 16 always suffices. */
QINFER_STATUS qinfer_detok_push(qinfer_detok *detok, qinfer_token token, char *text, size_t capacity,
                                size_t *out_n, qinfer_error *err);
/** Emits what is held back and starts over. */
QINFER_STATUS qinfer_detok_finish(qinfer_detok *detok, char *text, size_t capacity, size_t *out_n, qinfer_error *err);
QINFER_API void qinfer_detok_free(qinfer_detok *detok);

/* ---- KV cache ---------------------------------------------------------------------------------------- */
QINFER_STATUS qinfer_kv_cache_create(const qinfer_model *model, const qinfer_kv_cache_options *options,
                                    qinfer_kv_cache **out, qinfer_error *err);
QINFER_API void qinfer_kv_cache_free(qinfer_kv_cache *cache);
typedef struct qinfer_kv_cache_stats {
    uint32_t struct_size, block_tokens;
    uint64_t blocks_total, blocks_used;       /* used: held by at least one session. Where layers differ in what they
                                                 keep, of all kinds together, and total as many as there could be */
    uint64_t blocks_shared, blocks_cached;    /* held by several; free, but reusable as a prefix */
    uint64_t bytes_reserved, bytes_committed; /* address space; memory behind the blocks used and cached */
    uint64_t bytes_resident, reserved;        /* as the operating system counts it, 0 where it does not tell */
} qinfer_kv_cache_stats;
QINFER_STATUS qinfer_kv_cache_get_stats(const qinfer_kv_cache *cache, qinfer_kv_cache_stats *out, qinfer_error *err);

/* ---- Session: a list of tokens, a prefix of which is evaluated while the rest is pending ------------- */

typedef struct qinfer_sampler_options { /* all zero: greedy */
    uint32_t            struct_size;
    float               temperature;                         /* 0 = greedy */
    uint32_t            top_k;                               /* 0 = off */
    float               top_p, min_p;                        /* 0 = off */
    float               repeat_penalty;                      /* multiplicative; 0 or 1 = off */
    float               frequency_penalty, presence_penalty; /* additive; 0 = off */
    uint32_t            penalty_tokens;                      /* how far back penalties look; 0 = all */
    uint32_t            reserved;
    uint64_t            seed; /* same seed, tokens, build and cpu_target: same output */
} qinfer_sampler_options;

QINFER_STATUS qinfer_session_create(qinfer_kv_cache *cache, const qinfer_session_options *options, qinfer_session **out,
                                    qinfer_error *err);
/** Copy-on-write: blocks are shared, the last one is copied when either side first writes to it. The copy has the
 *  tokens, logits and sampler too, and metrics of its own. Costs 4 bytes a token and one count a block. */
QINFER_STATUS qinfer_session_fork(const qinfer_session *session, qinfer_session **out, qinfer_error *err);
/** Keeps the first n_tokens, pending ones included; 0 resets. If that drops evaluated tokens, the last one kept
 *  becomes pending again, so that evaluating gives its logits; all do where layers with a sliding window have moved
 *  beyond it. The sampler rewinds; its options stay. */
QINFER_STATUS qinfer_session_truncate(qinfer_session *session, size_t n_tokens, qinfer_error *err);
/** Tokens, keys, values and sampler, to a file of this version of the format. To a file that holds the beginning of the
 *  session already only what is new is written; a crash at any moment leaves the old state or the new one. Another file
 *  than a snapshot is not overwritten: QINFER_E_FORMAT. QINFER_E_STATE while another process saves to it. */
QINFER_STATUS qinfer_session_save(const qinfer_session *session, const char *path, qinfer_error *err);
/** Needs the same weights and kv_type as when saved; max_tokens and max_logits are those of the session that was saved.
 *  The last token is pending: evaluating it gives its logits. A kernel set other than the one that saved goes on from the
 *  stored keys and values, but not with the same bits; the same one with other options that change bits is
 *  QINFER_E_UNSUPPORTED. QINFER_E_FORMAT if the file is damaged. Where one of the two states that a file holds has a
 *  damaged record, as after a crash while it was written, the other is loaded: qinfer_session_load_with tells. */
QINFER_STATUS qinfer_session_load(qinfer_kv_cache *cache, const char *path, qinfer_session **out, qinfer_error *err);
enum {
    QINFER_SNAPSHOT_ANY_BITS    = 1, /* go on from keys and values that other options computed, too */
    QINFER_SNAPSHOT_NO_RECOVERY = 2  /* QINFER_E_FORMAT instead of a state that may not be the last one */
};
typedef struct qinfer_session_load_options {
    uint32_t struct_size, flags; /* QINFER_SNAPSHOT_ANY_BITS, _NO_RECOVERY */
} qinfer_session_load_options;
enum {
    QINFER_SNAPSHOT_RECOVERED  = 1, /* the other state of the file is damaged: this may be the one before the last */
    QINFER_SNAPSHOT_OTHER_BITS = 2  /* another kernel set or other options computed the stored keys and values */
};
typedef struct qinfer_session_load_result {
    uint32_t struct_size, flags;       /* QINFER_SNAPSHOT_RECOVERED, _OTHER_BITS */
    uint64_t tokens, evaluated_tokens; /* as they were saved */
} qinfer_session_load_result;
/** The same with options, which may be NULL, and with what was found, which may be NULL too. */
QINFER_STATUS qinfer_session_load_with(qinfer_kv_cache *cache, const char *path,
                                       const qinfer_session_load_options *options, qinfer_session **out,
                                       qinfer_session_load_result *result, qinfer_error *err);
QINFER_API void qinfer_session_free(qinfer_session *session);

/** Adds pending tokens, computes nothing. */
QINFER_STATUS qinfer_session_append(qinfer_session *session, const qinfer_token *tokens, size_t n, qinfer_error *err);
QINFER_STATUS qinfer_session_get_tokens(const qinfer_session *session, qinfer_token *tokens, size_t capacity,
                                        size_t *out_n, qinfer_error *err);
QINFER_API size_t qinfer_session_length(const qinfer_session *session);  /* evaluated + pending */
QINFER_API size_t qinfer_session_pending(const qinfer_session *session); /* 0 = logits are ready */
/** Also reseeds. Without it a session is greedy. */
QINFER_STATUS qinfer_session_set_sampler(qinfer_session *session, const qinfer_sampler_options *options,
                                         qinfer_error *err);

/* ---- Evaluation: prefill, decode and continuous batching are one call -------------------------------- */
typedef struct qinfer_eval_options {
    uint32_t             struct_size;
    uint32_t             max_tokens;  /* evaluate at most this many in this call; 0 = all pending */
    uint32_t             keep_logits; /* for the last n tokens each session evaluates; 0 = 1; at most its max_logits */
    uint32_t             flags;       /* none yet */
    const qinfer_cancel *cancel;      /* looked at between layers */
} qinfer_eval_options;

/** Evaluates the pending tokens of n_sessions distinct sessions of one KV cache as one batch. Under max_tokens
 *  sessions with few pending tokens come first, so decoding continues while long prompts advance in chunks.
 *  Sessions without pending tokens are passed over and keep their logits; if none has any it is QINFER_E_STATE.
 *  Blocks for the whole call are taken first: QINFER_E_KV_FULL changes nothing; free, truncate or save and free other
 *  sessions of the cache, or leave some out of the batch, and call again. After any other error, cancellation
 *  included, no token is lost: those already evaluated stay so, the rest stays pending; call again to go on. */
QINFER_STATUS qinfer_eval(qinfer_session *const *sessions, size_t n_sessions, const qinfer_eval_options *options,
                          qinfer_error *err);
/** Adds values[i] to the logit of tokens[i] when sampling (-infinity bans it for good; otherwise repeated tokens add up,
 *  within the range of f32). Replaces the
 *  previous list; n 0 clears it; at most n_vocab entries. */
QINFER_STATUS qinfer_session_set_bias(qinfer_session *session, const qinfer_token *tokens, const float *values, size_t n,
                                      qinfer_error *err);
/** Draws one token from the last logits and appends it as pending. A session that holds max_tokens is
 *  QINFER_E_CONTEXT_FULL: truncate it, or go on in another one. */
QINFER_STATUS qinfer_session_sample(qinfer_session *session, qinfer_token *out, qinfer_error *err);
/** n_vocab floats for the last evaluated token, or the one `back` earlier; NULL if not kept. Valid until the
 *  session is next evaluated, truncated or freed. Own samplers read this and append. */
QINFER_API const float *qinfer_session_logits(const qinfer_session *session, size_t back);

/** The same row copied into values: n_vocab floats. */
QINFER_STATUS qinfer_session_copy_logits(const qinfer_session *session, size_t back, float *values, size_t capacity,
                                         size_t *out_n, qinfer_error *err);

/* ---- Embeddings --------------------------------------------------------------------------------------- */
enum {
    QINFER_POOL_DEFAULT = 0, /* the mean in an encoder, the last token's in a decoder */
    QINFER_POOL_LAST = 1, QINFER_POOL_MEAN = 2, QINFER_POOL_FIRST = 3
};
/** The final hidden states (behind the last norm) of all tokens of the session, pooled and scaled to length 1: n_embd
 *  floats. Layers that a checkpoint keeps for other libraries to put behind that (the dense modules of
 *  sentence-transformers) are not applied. Needs QINFER_SESSION_EMBEDDINGS or an encoder, and no pending tokens, else
 *  QINFER_E_STATE. An encoder evaluates a session whole: more pending tokens than max_batch_tokens are
 *  QINFER_E_INVALID_ARGUMENT, and appending makes all tokens pending. */
QINFER_STATUS qinfer_session_embedding(const qinfer_session *session, int32_t pooling, float *values, size_t capacity,
                                       size_t *out_n, qinfer_error *err);

/* ---- Generation in one call -------------------------------------------------------------------------- */
typedef struct qinfer_generate_options {
    uint32_t             struct_size;
    uint32_t             max_tokens; /* new tokens; 0 = until an end token or the context limit */
    const char *const   *stop;       /* n_stop texts of 1 to 4096 bytes; output ends before the first that appears */
    const size_t        *stop_lens;  /* their lengths; NULL = NUL-terminated */
    uint32_t             n_stop;     /* at most 256 */
    uint32_t             flags;      /* none yet */
    qinfer_token_fn      on_token;   /* NULL = none; text that may begin a stop text is held back */
    void                *user;
    const qinfer_cancel *cancel;
} qinfer_generate_options;

enum { QINFER_FINISH_END = 1, QINFER_FINISH_STOP = 2, QINFER_FINISH_LENGTH = 3, QINFER_FINISH_CALLBACK = 4 };
typedef struct qinfer_generate_result {
    uint32_t struct_size;
    int32_t  finish; /* QINFER_FINISH_* */
    uint32_t prompt_tokens, cached_tokens; /* cached: of the prompt, taken from the cache instead of evaluated */
    uint32_t new_tokens, reserved;
    uint64_t prefill_ns, decode_ns;
} qinfer_generate_result;

/** Evaluates what is pending, then samples until done; decode_ns covers the new_tokens - 1 evaluations in between. After
 *  an error or cancellation the session keeps the tokens made so far and *out counts them, with finish 0; a token that
 *  was sampled last is pending then. out may be NULL. */
QINFER_STATUS qinfer_generate(qinfer_session *session, const qinfer_generate_options *options,
                              qinfer_generate_result *out, qinfer_error *err);

/* ---- Metrics: totals since creation; a session counts its own share of a batch. A token that a session evaluates
 *      alone in a call counts as decoded, more than one as prefill. ---- */
typedef struct qinfer_metrics {
    uint32_t struct_size, reserved;
    uint64_t prefill_tokens, decode_tokens, evals;
    uint64_t cached_tokens; /* found in the cache instead of evaluated */
    uint64_t prefill_ns, decode_ns, sample_ns, wait_ns; /* wait: for the threads of the runtime */
} qinfer_metrics;
typedef struct qinfer_session_memory {
    uint32_t struct_size, reserved;
    uint64_t kv_private, kv_shared; /* blocks held in the cache; shared: others hold them too */
    uint64_t kv_reserved;           /* address space of QINFER_CACHE_CONTIGUOUS, else 0 */
    uint64_t other;                 /* everything else */
} qinfer_session_memory;
QINFER_STATUS qinfer_session_get_memory(const qinfer_session *session, qinfer_session_memory *out, qinfer_error *err);
QINFER_STATUS qinfer_session_get_metrics(const qinfer_session *session, qinfer_metrics *out, qinfer_error *err);
QINFER_STATUS qinfer_runtime_get_metrics(const qinfer_runtime *runtime, qinfer_metrics *out, qinfer_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QINFER_H */
