/* clang-format off */
/*
 * qinfer.h - C API of qinfer, an embeddable library for running language models on CPUs.
 *
 * These rules hold for every declaration below.
 *
 * Process    The library never throws, aborts, exits, prints, reads the environment, installs signal handlers
 *            or keeps mutable process-wide state, except for what the system permits a process that uses AMX
 *            (cpu_target). It runs no code at load or at exit, so a process may end with live handles. Handles do not
 *            work in a fork()ed child: calls there fail with QINFER_E_STATE. Free all handles before dlclose(): a
 *            runtime's threads run in the library's code. Writing beyond RLIMIT_FSIZE is QINFER_E_IO (EFBIG), without
 *            a SIGXFSZ.
 * Stack      No call needs more than 64 KiB of the calling thread's stack.
 * Stability  Within one major version nothing here is removed, renumbered or reordered. Functions, constants
 *            and trailing struct members are added, so treat an unknown negative status as an error.
 * Errors     What can fail returns qinfer_status and takes a qinfer_error (or NULL, or qinfer_full_error_arg) last. On
 *            failure an output handle is set to NULL and objects keep the state they had before the call, unless noted.
 *            A NULL handle is an error, never a crash; functions that cannot report it return 0 or NULL.
 * Ownership  What *_create, *_load or *_fork returns is released by the matching *_free; freeing NULL does
 *            nothing. Objects keep alive what they depend on: handles may be freed in any order. Arguments are
 *            copied unless marked borrowed. A returned pointer belongs to the handle it came from.
 * Buffers    The library never hands out memory to free. An output array comes with its capacity in elements
 *            and *out_n, always set to the number of elements needed; too small a capacity gives
 *            QINFER_E_BUFFER_TOO_SMALL and has no other effect, so (NULL, 0) asks for the size. Output text is
 *            not NUL-terminated.
 * Structs    struct_size is sizeof the struct as the caller knows it. Zero everything else, which always means
 *            "default", then set what differs. Members beyond a shorter struct read as zero. A longer struct is
 *            accepted if all bytes after the members that the library knows are zero, else QINFER_E_UNSUPPORTED.
 *            Output structs are filled up to struct_size, with zeros after the members that the library knows. A
 *            callback must not read members beyond the struct_size of a struct that the library hands to it.
 * Arrays     A struct without struct_size (qinfer_error, qinfer_text_part) keeps its layout, so its arrays are those of
 *            C. In an array of structs with struct_size, which no function takes yet, all have the same struct_size
 *            and begin that many bytes after each other, else QINFER_E_INVALID_ARGUMENT (detail: index): as a single
 *            struct they may be longer or shorter than the library knows.
 * Threads    Functions taking a handle as const may run concurrently on it; a non-const handle needs exclusive
 *            access during the call; [any thread] lifts that. Handles may move between threads. Callbacks run
 *            on the calling thread, inside the call, may use only const and [any thread] functions, and must
 *            return normally: no exception, longjmp or panic. Creating, loading and freeing are [any thread].
 *            A call that would change a session while another one does (from another thread, or from a callback)
 *            is QINFER_E_STATE; freeing a handle that is in use cannot be noticed.
 * Bits       Kernel set (cpu_target), QINFER_RUNTIME_EXACT, weight_format, QINFER_LOAD_EMBED_ROWS and kv_type change
 *            the bits of logits. No other option does.
 * Constants  fit int32_t and uint32_t: flags are held in uint32_t, kinds in int32_t.
 * Text       UTF-8. (text, len) is a byte range; len SIZE_MAX means NUL-terminated.
 */
#ifndef QINFER_H
#define QINFER_H

#ifndef QINFER_PLAIN_C /* cc -E -P -DQINFER_PLAIN_C: declarations only, for parsers that know size_t and uint32_t */
#include <stddef.h>
#include <stdint.h>
#endif

#define QINFER_VERSION_MAJOR 0
#define QINFER_VERSION_MINOR 2
#define QINFER_VERSION_PATCH 0
#define QINFER_VERSION       200 /* major * 10000 + minor * 100 + patch */

#if defined(QINFER_PLAIN_C) || defined(QINFER_STATIC)
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
typedef struct qinfer_reply   qinfer_reply;   /* takes what a model answers apart */
typedef struct qinfer_generation qinfer_generation; /* draws tokens in a session, step by step */

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
    QINFER_E_NUMERIC          = -13  /* non-finite logits, or none left to draw from */
};

/** Filled when a call fails, untouched otherwise; needs no initialisation. Layout frozen. Messages do not depend on the
 *  locale. */
typedef struct qinfer_error {
    qinfer_status code;
    int32_t       reserved;
    int64_t       detail;       /* as the status constant says, else 0 */
    char          message[240]; /* English, NUL-terminated; one that is too long has "..." for its middle */
} qinfer_error;

/** An error with a buffer of the caller for the whole message. */
typedef struct qinfer_full_error {
    uint32_t     struct_size, reserved;
    qinfer_error error;    /* as any call fills it */
    char        *text;     /* filled when a call fails: the whole message, NUL-terminated; one that is too long for
                              it has "..." for its middle */
    size_t       capacity; /* of text, the NUL included */
    size_t       text_len; /* of the whole message, without NUL */
} qinfer_full_error;
/** What to pass as err, so that a call that fails fills *error. Use it for nothing else: it is not the address of a
 *  qinfer_error, and must not be read or written through. NULL gives NULL. */
QINFER_API qinfer_error *qinfer_full_error_arg(qinfer_full_error *error);

enum { QINFER_LOG_ERROR = 1, QINFER_LOG_WARN = 2, QINFER_LOG_INFO = 3, QINFER_LOG_DEBUG = 4 };
/** One complete line without newline, valid during the call. */
typedef void (*qinfer_log_fn)(int32_t level, const char *line, size_t line_len, void *user);
/** Called about every 16 MiB and once at the end. Return nonzero to cancel. */
typedef int32_t (*qinfer_progress_fn)(uint64_t done_bytes, uint64_t total_bytes, void *user);
/** After each token, with the new whole characters (maybe none). Text that was held back comes after the last token,
 *  with token -1. Return nonzero to stop. */
typedef int32_t (*qinfer_token_fn)(const char *text, size_t text_len, qinfer_token token, void *user);

/* ---- Files of a host ---------------------------------------------------------------------------------- */
enum {
    QINFER_FILE_READ  = 1, /* an existing file */
    QINFER_FILE_WRITE = 2  /* reading and writing; where there is no file an empty one is made */
};
/** Callbacks that take the place of the operating system's files, so that models and snapshots can come from an
 *  archive, an encrypted store or memory. The struct is copied.
 *
 *  Names    The library hands a `path` argument to open as it is, "" too. If open finds it, it is one file (a packed
 *           model, a snapshot), otherwise a directory, whose files are asked for as "<path>/config.json" (without the
 *           slash where path is empty or ends with one). Nothing is listed. Names are borrowed during the call.
 *  Results  0, or a QINFER_E_* status that the call then returns, with a message that names the file.
 *           QINFER_E_NOT_FOUND from open means that there is no such file. From another callback it becomes
 *           QINFER_E_IO, and so do QINFER_E_INTERNAL and values that are no status. After a failure nothing is called
 *           for that file but unmap and close.
 *  Threads  Called on the thread that makes the call, one at a time for each call of the library; calls on several
 *           threads use the same callbacks at once. unmap and close of a mapped model are called on the thread that
 *           frees the last handle that uses it. A callback may do what the rules at the top allow (Threads), which
 *           includes opening other files through the same callbacks.
 *  Lifetime user is borrowed until the call returns or, if a model was loaded with map, until the model and all that
 *           depends on it are freed. Each file opened is closed exactly once, after its unmap, and nothing is called
 *           after that.
 *  Locking  The host must prevent two calls that write to one file at once, or write and read it. */
typedef struct qinfer_files {
    uint32_t struct_size, reserved;
    void *user;
    /** mode: QINFER_FILE_*; *out_file may be anything, NULL too. */
    qinfer_status (*open)(const char *name, int32_t mode, void **out_file, void *user);
    /** Once, after opening; at most 2^63 - 1. */
    qinfer_status (*size)(void *file, uint64_t *out_bytes, void *user);
    /** All n bytes, or fail. Never asks for bytes beyond the size, which writes may have grown. */
    qinfer_status (*read_at)(void *file, uint64_t offset, void *data, size_t n, void *user);
    /** The file is closed whatever it returns; a failure counts only where the file was written to. */
    qinfer_status (*close)(void *file, void *user);
    /** Models, optional: without map weights are read into private memory, as under QINFER_LOAD_NO_MMAP. Gives the
     *  whole file, read-only, at a multiple of 64 (else QINFER_E_UNSUPPORTED); any thread of the runtime reads it until
     *  unmap. The library neither locks nor advises its pages: QINFER_LOAD_LOCK is QINFER_E_UNSUPPORTED. */
    qinfer_status (*map)(void *file, uint64_t n_bytes, const void **out_data, void *user);
    void (*unmap)(void *file, const void *data, uint64_t n_bytes, void *user); /* NULL: mapped until close */
    /** Snapshots: writes all n bytes. Beyond the end the file grows, and bytes in between may read as anything. When
     *  the process or the machine stops while a snapshot is saved, each write since the last sync may be there, in part
     *  or not at all; those before the sync must be whole. The next load then finds the old state or the new one, or
     *  QINFER_E_NOT_FOUND in a new file that has neither. */
    qinfer_status (*write_at)(void *file, uint64_t offset, const void *data, size_t n, void *user);
    qinfer_status (*sync)(void *file, void *user); /* returns when all that was written will last */
    /** Optional: cuts off what is of no use any more. */
    qinfer_status (*truncate)(void *file, uint64_t n_bytes, void *user);
} qinfer_files;

/* ---- Library [any thread] ---------------------------------------------------------------------------- */
QINFER_API uint32_t    qinfer_version(void);        /* QINFER_VERSION of the library that is loaded */
QINFER_API const char *qinfer_version_string(void); /* "0.2.0"; static */
QINFER_API const char *qinfer_build_info(void);     /* commit, compiler, flags, kernel sets; static */
QINFER_API const char *qinfer_status_name(qinfer_status status); /* "QINFER_E_IO"; static */

typedef struct qinfer_cpu_info {
    uint32_t struct_size;
    uint32_t n_physical_cores, n_logical_cores; /* usable by this process: affinity mask and cgroup quota */
    uint32_t n_numa_nodes;
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, per socket; 0 = unknown */
    const char *target;                     /* kernel set chosen by default; static */
} qinfer_cpu_info;
QINFER_STATUS qinfer_get_cpu_info(qinfer_cpu_info *out, qinfer_error *err);
/** As the CPU names itself: "AMD EPYC". */
QINFER_STATUS qinfer_cpu_name(char *text, size_t capacity, size_t *out_n, qinfer_error *err);
/** "avx2 fma avx512f": all that CPU and operating system offer, in words separated by spaces. */
QINFER_STATUS qinfer_cpu_features(char *text, size_t capacity, size_t *out_n, qinfer_error *err);

/** The kernel sets of this library, the preferred ones first.
 *  USABLE        This CPU and system have all that the set needs.
 *  DEFAULT       Runs models of any kind where cpu_target is NULL.
 *  EXACT         Can be used under QINFER_RUNTIME_EXACT.
 *  HELD_EXACTLY  Preferred over the DEFAULT for models that it stores losslessly, and for encoders also where it rounds
 *                plain weights, if it is usable and comes before the DEFAULT. qinfer_model_info.kernel_set says which
 *                of them a model runs on.
 *  HELD_PLAIN    The same for such of these models as have no quantised matrix, or none but in Q8_0, which are packed
 *                for it while they are loaded, as with QINFER_LOAD_PACK. As cpu_target it uses a bf16 checkpoint where
 *                the file is mapped.
 *  QUANTISED     Preferred over the DEFAULT, under the same conditions, for models with quantised matrices.
 *  INVARIANT     A token's logits do not depend on how many tokens are evaluated with it: so in all sets. */
enum {
    QINFER_KERNELS_USABLE = 1, QINFER_KERNELS_DEFAULT = 2, QINFER_KERNELS_EXACT = 4,
    QINFER_KERNELS_INVARIANT = 16, QINFER_KERNELS_HELD_EXACTLY = 32, QINFER_KERNELS_HELD_PLAIN = 64,
    QINFER_KERNELS_QUANTISED = 128
};
typedef struct qinfer_kernel_set_info {
    uint32_t    struct_size;
    uint32_t    flags;          /* QINFER_KERNELS_* */
    const char *name;           /* for cpu_target; this and the others are static */
    const char *cpu_features;   /* words of qinfer_cpu_features that it needs, separated by spaces; "" = none */
    const char *weight_formats; /* "f32 f16 bf16": words for weight_format in which it holds matrices */
    const char *kv_types;       /* "f32 f16 bf16": names of QINFER_KV_* */
} qinfer_kernel_set_info;
QINFER_API size_t qinfer_kernel_set_count(void);
/** Below qinfer_kernel_set_count(), else QINFER_E_INVALID_ARGUMENT. */
QINFER_STATUS qinfer_kernel_set_get_info(size_t index, qinfer_kernel_set_info *out, qinfer_error *err);
QINFER_API const char *qinfer_kv_type_name(int32_t kv_type); /* "f16"; static. "default" for QINFER_KV_DEFAULT, NULL
                                                                for what is no QINFER_KV_* */

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

/** A part of what is computed. */
typedef void (*qinfer_task_fn)(uint32_t index, void *context);
/** Threads of a host that has a pool already, instead of threads of the runtime. The struct is copied.
 *
 *  run calls task(i, context) exactly once for each i below n, on any threads, in any order, one after another if need
 *  be, and returns when all have returned. A task never waits for another one and calls nothing of the host. run is
 *  called a few times for each layer of a model and must return normally; calls come one at a time, from the thread
 *  that makes a call of the library. The bits are those of any number of threads. */
typedef struct qinfer_executor {
    uint32_t struct_size;
    uint32_t n_tasks; /* into how many tasks work is cut: the host's threads, the caller included if it helps; 1 to
                         1024 */
    void (*run)(uint32_t n, qinfer_task_fn task, void *context, void *user);
    void *user;       /* borrowed until the runtime and all that depends on it are freed */
} qinfer_executor;

/** For one target and precision a token's logits do not depend on batch, chunking, threads or block size. The AMX targets
 *  leave no tiles behind. Tiles that a host had loaded are lost in a call, as in any call by the x86-64 ABI. */
enum {
    QINFER_RUNTIME_EXACT        = 1, /* f32 activations and sums (kernel sets with QINFER_KERNELS_EXACT), weights in a
                                        type that holds them exactly, and keys and values in f32 by default */
    QINFER_RUNTIME_NORMAL_PAGES = 2, /* no 2 MiB pages: what the system counts is then exact to the page */
    QINFER_RUNTIME_NO_TILES     = 4  /* never ask the system for tiles of AMX, see cpu_target */
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
    const char             *cpu_target; /* kernel set: a name of qinfer_kernel_set_get_info; NULL = best for CPU and
                                           model. On a CPU with AMX the best one is "amx" where all matrices are in bf16
                                           or Q8_0, and for other models with quantised ones "amx_int16", if the CPU has
                                           AVX512-FP16. Loading such a model, or one that was packed for a set with
                                           tiles, and a runtime on one of them, has the system permit this process to
                                           use tiles, for as long as it lives, also after all handles are freed: from
                                           then on sigaltstack() fails with ENOMEM for a stack of less than
                                           sysconf(_SC_MINSIGSTKSZ) bytes, some 12,000 (not 8,192). Where a thread has
                                           such a stack already, or a seccomp filter forbids it, the system refuses: the
                                           next best set runs the model, and a warning in the log says why; what was
                                           named, or packed in a form that the set for any model does not take, is
                                           QINFER_E_UNSUPPORTED. QINFER_RUNTIME_NO_TILES does the same without asking,
                                           and without the warning. Planning does not ask */
    const qinfer_allocator *allocator;  /* NULL = mmap */
    const qinfer_executor  *executor;   /* NULL = threads of the runtime; otherwise leave n_threads, spin_us and cpu_ids
                                           0 */
} qinfer_runtime_options;

/** Evaluations on one runtime run one after another, each on all of its threads. options may be NULL. */
QINFER_STATUS qinfer_runtime_create(const qinfer_runtime_options *options, qinfer_runtime **out, qinfer_error *err);
QINFER_API void qinfer_runtime_free(qinfer_runtime *runtime);

typedef struct qinfer_runtime_info {
    uint32_t    struct_size, n_threads;
    const char *target; /* cpu_target, or the kernel set that is the DEFAULT; static */
} qinfer_runtime_info;
QINFER_STATUS qinfer_runtime_get_info(const qinfer_runtime *runtime, qinfer_runtime_info *out, qinfer_error *err);

/* ---- Model ------------------------------------------------------------------------------------------- */
enum {
    QINFER_LOAD_NO_WEIGHTS = 1, /* metadata and tokenizer only: fast, but no sessions */
    QINFER_LOAD_NO_MMAP    = 2, /* read into private memory, on 2 MiB pages: for files that others may truncate while
                                   they are mapped, and for speed where a mapped file is on small pages */
    QINFER_LOAD_LOCK       = 4, /* keep weights resident (mlock), mapped and private ones. Where RLIMIT_MEMLOCK, or the
                                   memory of the machine or cgroup, does not allow it, QINFER_E_NO_MEMORY (detail:
                                   bytes to lock) before any is read */
    QINFER_LOAD_VERIFY     = 8, /* norm weights and biases, and the scales of quantised matrices that are mapped, must
                                   be finite; in a packed model matrices and RoPE table must match their checksums
                                   (there scales are not looked at). Else QINFER_E_FORMAT */
    QINFER_LOAD_EMBED_ROWS = 16, /* tied embeddings: keep a table of rows, in the type of the file, in addition to the
                                   LM head, whose layout otherwise serves both. Changes bits where the types differ */
    QINFER_LOAD_BUDGET_PRIVATE = 32, /* memory_budget_bytes does not count weights_mapped, which the system may drop and
                                   read again (nor what qinfer_files.map gives): a mapped model may be larger than the
                                   budget, and than memory. Its speed then depends on how fast the system reads the
                                   weights of each token again; experts that are never chosen are never read. With
                                   QINFER_LOAD_LOCK it is QINFER_E_INVALID_ARGUMENT, unless QINFER_LOAD_NO_MMAP is set
                                   and nothing is mapped */
    QINFER_LOAD_PACK       = 64  /* copy weights into the layout that the kernel set multiplies fastest, where it would
                                   otherwise use the mapped file ("amx"), with the same bits; qinfer_model_pack does */
};
typedef struct qinfer_load_options {
    uint32_t             struct_size;
    uint32_t             flags;               /* QINFER_LOAD_* */
    uint32_t             max_batch_tokens;    /* evaluated in one pass over the weights; 0 = 512 */
    uint32_t             reserved;
    uint64_t             memory_budget_bytes; /* for the model, its caches and sessions; 0 = none. Beyond it loading
                                                 fails before weights are read, and creating before memory is taken;
                                                 the error says how much is needed, and for a cache how many blocks
                                                 would fit. Plans are made for any budget */
    const char          *weight_format;       /* of qinfer_kernel_set_info.weight_formats; NULL = what the kernel set
                                                 wants. qinfer_model_pack knows more */
    qinfer_progress_fn   progress;
    void                *progress_user;
    const qinfer_cancel *cancel;              /* looked at while headers, tokenizers and weights are read */
    const char          *packed_path;         /* use this file, if qinfer_model_pack made it from this model as it
                                                 is now */
    const qinfer_files  *files;               /* where path and packed_path are; NULL = the operating system's files */
    /** Tokens that sessions will have at most; 0 = any. It matters to models whose rotary embedding has two sets of
     *  factors (longrope: Phi-3.5, Phi-4-mini): up to the context before scaling the short ones are taken, and
     *  context_tokens is that context; otherwise the long ones, at all lengths. Snapshots of one are not the other's.
     *  qinfer_model_pack and qinfer_model_export_gguf keep both, and want 0 */
    uint32_t             max_context, reserved2;
    /** A stage: layers first_layer to first_layer + n_layers - 1 alone (n_layers 0 = to the last one), of a decoder that
     *  more than one process or machine holds a part of. Weights of other layers are not read. A stage with layers
     *  before it takes hidden states (qinfer_eval_options.hidden_in), one with layers after it gives some (hidden_out),
     *  and only the last one gives logits; sessions of all stages get the same tokens. With one kernel set throughout
     *  the bits are those of the whole model. Stages have no QINFER_CACHE_PREFIX, max_draft or scheduler.
     *  qinfer_model_pack and qinfer_model_export_gguf want 0; a packed model can be loaded in stages */
    uint32_t             first_layer, n_layers;
} qinfer_load_options;

enum { QINFER_KV_DEFAULT = 0, QINFER_KV_F32 = 1, QINFER_KV_F16 = 2, QINFER_KV_BF16 = 3 };
enum {
    QINFER_CACHE_PREFIX = 1, /* keep freed blocks while there is room: a session that begins with the tokens of an
                                earlier one is evaluated from the first block that differs, with the same bits. (A
                                session whose evaluated tokens end inside a block does not search.) */
    QINFER_CACHE_COMMIT = 2, /* prefault, with 2 MiB pages where the system has them: no page fault later */
    QINFER_CACHE_CONTIGUOUS = 4 /* each session sees one flat range of reserved address space; same results. Needs memfd
                                   and the default allocator, else QINFER_E_UNSUPPORTED */
};
typedef struct qinfer_kv_cache_options {
    uint32_t struct_size;
    uint32_t flags;        /* QINFER_CACHE_* */
    int32_t  kv_type;      /* QINFER_KV_*; default f32 under QINFER_RUNTIME_EXACT, otherwise f16 or bf16, as the
                              kernel set prefers */
    uint32_t block_tokens; /* tokens per block, a power of two from 32 to 256; 0 = 32 */
    uint64_t budget_bytes, budget_blocks; /* the smaller wins; both 0 = one session of context_tokens. Layers with
                                             equal windows (or without one) are a group and have their own blocks: one
                                             block of each group counts as one */
} qinfer_kv_cache_options;

enum {
    QINFER_SESSION_EMBEDDINGS = 1 /* keep final hidden states for qinfer_session_embedding: no prefixes are taken from
                                     the cache, and cutting off evaluated tokens makes all tokens pending. Always on
                                     in an encoder */
};
typedef struct qinfer_session_options {
    uint32_t struct_size, flags;   /* QINFER_SESSION_* */
    uint32_t max_tokens;           /* 0 = context_tokens of the model; room for all of them is taken at creation, and
                                      the model's RoPE table is computed as far (QINFER_E_NO_MEMORY above 4 GiB of
                                      it) */
    uint32_t max_logits;           /* rows kept for qinfer_session_logits; 0 = 1; none in an encoder */
    /** Tokens that generations guess ahead, at most 16; 0 = none. What followed the last tokens where they occurred
     *  before in the session is evaluated along with the last one, as often and as far as it has paid so far (an
     *  evaluation of a few rows takes hardly longer than that of one): text that repeats earlier text, like edits of
     *  it, is several times faster. Tokens, text, log probabilities and all that calls tell of the session are the same
     *  as without. Takes memory for so many rows of logits, and between two steps guesses may hold a block more of the
     *  cache. */
    uint32_t max_draft;
    /** With QINFER_CACHE_PREFIX only sessions of the same number find what others have evaluated: where users must not
     *  learn from qinfer_metrics, or from the time that it takes, what others have sent, each has one. */
    uint32_t prefix_space;
} qinfer_session_options;

/** Bytes, as planned or as in use: for equal options the two agree exactly. */
typedef struct qinfer_memory {
    uint32_t struct_size, reserved;
    uint64_t weights_mapped;  /* clean file pages the OS can drop, or what qinfer_files.map gave */
    uint64_t weights_private; /* converted or copied weights */
    uint64_t tables;          /* tokenizer, and rope for the max_tokens of the longest session so far (all positions
                                 where memory comes from a qinfer_allocator; 0 before the first session, and where a
                                 packed file has it); the tokenizer's part is 0 for a bare config.json */
    uint64_t scratch;         /* activations for max_batch_tokens */
    uint64_t kv_per_block, kv_cache_bytes; /* kv_cache_bytes: 0 without cache options */
    uint64_t per_session;     /* outside the cache: logits rows, token list, block tables, sampler */
    uint64_t load_peak;       /* largest total while loading */
    uint64_t total;           /* mapped + private + tables + scratch + kv cache + kv lists, without sessions */
    uint64_t kv_lists;        /* of a cache: counts of holders, free blocks, the index of prefixes */
    uint64_t kv_per_token, kv_per_session; /* keys and values of a token; blocks that a session of max_tokens holds at
                                              most */
    uint64_t system_limit, system_available; /* of this machine or cgroup, now; 0 = not known */
    uint64_t active_weight_bytes; /* of weights_mapped and weights_private, what is read to compute one token: the
                                     experts that a token goes through, and all other weights, except an input
                                     embedding that is not also the LM head */
    uint64_t expert_weight_bytes; /* of weights_mapped and weights_private, all experts of all layers; 0 without
                                     experts */
} qinfer_memory;

/** What loading and creating with these options will take. Reads headers only; path may also be a packed model or a
 *  lone config.json. Any options may be NULL. */
QINFER_STATUS qinfer_model_plan(const char *path, const qinfer_runtime_options *runtime,
                                const qinfer_load_options *load, const qinfer_kv_cache_options *cache,
                                const qinfer_session_options *session, qinfer_memory *out, qinfer_error *err);
/** The same, buffer by buffer, as JSON: {"model": {...}, "regions": [{"name", "belongs_to": "model" | "cache" |
 *  "session", "bytes", "buffers": [{"name", "offset", "end", "bytes", "shape", "dtype", "lifetime"}]}]}. Regions that
 *  belong to model and cache add up to `total`, those of a session to `per_session`. In scratch, buffers whose
 *  lifetimes (first and last step of a layer) do not meet may share bytes. Bytes between buffers are alignment to 64
 *  bytes, or 4096 for blocks. */
QINFER_STATUS qinfer_model_plan_map(const char *path, const qinfer_runtime_options *runtime,
                                    const qinfer_load_options *load, const qinfer_kv_cache_options *cache,
                                    const qinfer_session_options *session, char *json, size_t capacity, size_t *out_n,
                                    qinfer_error *err);
/** What the headers of a model say. */
typedef struct qinfer_model_details {
    uint32_t struct_size;
    uint32_t flags;                         /* QINFER_MODEL_* */
    const char *architecture, *name;        /* name: as the checkpoint calls itself, or "" */
    const char *weight_types;               /* of the matrices in the files: "bf16", or all of them, "bf16 f32"; of a
                                               lone config.json what it names */
    uint64_t n_params, n_active_params;     /* active: those that compute one token: n_active_experts of a layer's
                                               experts, and everything else, the embedding included */
    uint64_t file_bytes;                    /* of the weights; 0 for a lone config.json */
    uint32_t n_vocab, n_layers, n_window_layers, window_tokens; /* layers with a sliding window, and the widest window
                                                                   of them */
    uint32_t n_embd, n_ffn, n_heads, n_kv_heads, head_dim; /* n_ffn: of layers without experts; 0 if all have some */
    uint32_t context_tokens;                /* trained context length */
    uint32_t max_token_bytes;               /* 0 without a tokenizer */
    qinfer_token bos_token;                 /* -1 = none */
    uint32_t n_experts, n_active_experts;   /* of a layer, and how many of them a token goes through; the largest of
                                               any layer; 0 = none */
    uint32_t n_expert_layers;               /* layers that have experts */
    uint32_t expert_ffn, shared_ffn;        /* width of each expert, and of the shared network that all tokens go
                                               through; 0 = none */
    uint32_t reserved;
} qinfer_model_details;
/** Reads headers only, and takes no memory that lasts; path as in qinfer_model_plan. Of the options, which may be
 *  NULL, only QINFER_LOAD_NO_WEIGHTS (the tensors need not be there), packed_path, files and cancel matter. texts: room
 *  for the three texts, NUL-terminated, which *out then points to; *out_n is how much they take, hardly ever more than
 *  1024. */
QINFER_STATUS qinfer_model_inspect(const char *path, const qinfer_load_options *options, qinfer_model_details *out,
                                   char *texts, size_t capacity, size_t *out_n, qinfer_error *err);
/** path: a directory (config.json, *.safetensors, tokenizer.json), a GGUF file (of a split one the first part; the
 *  other parts are in the same directory) or a directory that holds one, or a file that qinfer_model_pack wrote.
 *  runtime NULL: a private runtime with defaults. options may be NULL. What does not matter refuses no model, such as
 *  a token that the model has no row for; the log (QINFER_LOG_WARN) and the metadata "qinfer.note.1" and so on say
 *  what was passed over or put right. A decoder without lm_head.weight gives embeddings, and no logits. */
QINFER_STATUS qinfer_model_load(qinfer_runtime *runtime, const char *path, const qinfer_load_options *options,
                                qinfer_model **out, qinfer_error *err);
QINFER_API void qinfer_model_free(qinfer_model *model);
/** Writes the model directory or GGUF file `path` to one file that holds the weights as the runtime's kernel set wants
 *  them, the tokenizer and the RoPE table. Loading it is a mapping, shared between processes. Needs the memory of a
 *  loaded model. out_path appears whole or not at all. An existing file is replaced (links are followed) only if it is
 *  empty or was written by this function, else QINFER_E_FORMAT, and if its owner may write to it, else QINFER_E_IO
 *  (EACCES); a file of the model directory is QINFER_E_INVALID_ARGUMENT. Weights are converted on all threads of the
 *  runtime, and written to the file on the calling one. A packed file that is cut, altered in its header, or packed
 *  for other kernels is refused when loaded; QINFER_LOAD_VERIFY also checks its matrices. Both paths are the operating
 *  system's: options with files are QINFER_E_UNSUPPORTED.
 *
 *  weight_format may also be "q8_0", "q4_0" or "q4_k_m", which quantise a checkpoint of f32, f16 and bf16: the mixes of
 *  encodings that llama-quantize calls so, without an importance matrix. The log has a line at QINFER_LOG_INFO for each
 *  matrix, with its encoding, bits and relative root mean square error. Needs the memory of the quantised model, and
 *  some MiB to read. A model that is quantised already is QINFER_E_UNSUPPORTED; a weight that is not finite, or
 *  beyond the range of f16, is QINFER_E_FORMAT. */
QINFER_STATUS qinfer_model_pack(qinfer_runtime *runtime, const char *path, const qinfer_load_options *options,
                                const char *out_path, qinfer_error *err);
/** Writes the model directory or GGUF file `path` to one GGUF file, which this library and llama.cpp read: weights as
 *  they are, or with weight_format quantised as qinfer_model_pack does. Some MiB at a time are in memory. The file has
 *  the tokenizer as tokenizer.json (for this library) and, where llama.cpp has a name for what it does, in llama.cpp's
 *  keys. The log says at QINFER_LOG_WARN what llama.cpp cannot read of the file, or reads with another meaning. The
 *  header is read back before weights are written: QINFER_E_UNSUPPORTED if GGUF has no architecture, or no key, for
 *  what the model is. An existing file is replaced only if it is empty or a GGUF file. The rest is as in
 *  qinfer_model_pack. */
QINFER_STATUS qinfer_model_export_gguf(qinfer_runtime *runtime, const char *path, const qinfer_load_options *options,
                                       const char *out_path, qinfer_error *err);

enum {
    QINFER_MODEL_ENCODER         = 1, /* bidirectional: embeddings, no logits, nothing kept in a KV cache */
    QINFER_MODEL_TIED_EMBEDDINGS = 2, /* the embedding is also the LM head, and counts once in n_params */
    QINFER_MODEL_TOKENIZER       = 4, /* has one */
    QINFER_MODEL_PACKED          = 8, /* qinfer_model_inspect: a file of qinfer_model_pack */
    QINFER_MODEL_NO_LM_HEAD      = 16, /* a decoder whose files have no LM head: embeddings, no logits */
    QINFER_MODEL_TAKES_HIDDEN    = 32, /* a stage that begins with hidden states, and one that ends with some: */
    QINFER_MODEL_GIVES_HIDDEN    = 64  /* see qinfer_load_options.first_layer */
};
typedef struct qinfer_model_info {
    uint32_t     struct_size;
    uint32_t     flags;                               /* QINFER_MODEL_* */
    const char  *architecture, *name, *weight_format; /* live as long as the model */
    uint64_t     n_params, file_bytes;
    uint32_t     n_vocab, n_layers, n_embd, n_heads, n_kv_heads, head_dim;
    uint32_t     context_tokens;                      /* trained context length */
    uint32_t     max_token_bytes;                     /* longest text of one token */
    qinfer_token bos_token;                           /* -1 = none */
    uint32_t     reserved;
    uint64_t     n_active_params;                     /* this and the next as in qinfer_model_details; params are 0
                                                         under QINFER_LOAD_NO_WEIGHTS */
    uint32_t     n_experts, n_active_experts, n_expert_layers, expert_ffn;
    const char  *kernel_set;                          /* that it runs on; static */
    uint32_t     embedding_dims;                      /* floats of an embedding */
    uint32_t     embedding_tokens;                    /* most tokens of a text or pair for an embedding or score */
    int32_t      pooling;                             /* QINFER_POOL_*: the model's */
    int32_t      scoring;                             /* QINFER_SCORING_*: what its files say */
    uint32_t     first_layer, n_model_layers;         /* of a stage: which layer its first one is, and how many the whole
                                                         model has; otherwise 0 and n_layers */
} qinfer_model_info;
QINFER_STATUS qinfer_model_get_info(const qinfer_model *model, qinfer_model_info *out, qinfer_error *err);
QINFER_STATUS qinfer_model_get_memory(const qinfer_model *model, qinfer_memory *out, qinfer_error *err);
/** How the weights are stored in the model's files, for each encoding that occurs, by bytes in descending order:
 *  8 * file_bytes / n_params bits a weight. A matrix that serves as embedding and LM head counts once. */
typedef struct qinfer_encoding_info {
    uint32_t    struct_size;
    uint32_t    n_tensors;
    const char *name;         /* "q4_k"; static. Those of GGUF files are written in lower case */
    uint64_t    n_params;     /* values */
    uint64_t    file_bytes;   /* in the model's files; of a packed model in the files that it was made from */
    uint64_t    memory_bytes; /* where the weights are used, mapped or not */
} qinfer_encoding_info;
/** 0 under QINFER_LOAD_NO_WEIGHTS. */
QINFER_API size_t qinfer_model_encoding_count(const qinfer_model *model);
/** Below qinfer_model_encoding_count(), else QINFER_E_INVALID_ARGUMENT. */
QINFER_STATUS qinfer_model_encoding_info(const qinfer_model *model, size_t index, qinfer_encoding_info *out,
                                         qinfer_error *err);
/** [any thread] How many tokens each expert of a layer was chosen for since the model was loaded, for hosts that place
 *  experts; during an evaluation as far as it has come. *out_n: experts of the layer, 0 where it has none. All counts
 *  are 0 under QINFER_LOAD_NO_WEIGHTS. Tokens taken from a cache are not counted, nor are tokens for which the router
 *  gave a number that is not finite; a token that is evaluated again is counted again. layer: below n_layers, else
 *  QINFER_E_INVALID_ARGUMENT. */
QINFER_STATUS qinfer_model_expert_counts(const qinfer_model *model, uint32_t layer, uint64_t *counts, size_t capacity,
                                         size_t *out_n, qinfer_error *err);
/** Stored metadata as text, sorted by key. Pointers live as long as the model; NULL if there is none. */
QINFER_API size_t      qinfer_model_meta_count(const qinfer_model *model); /* keys: "config.x", "generation.top_k", ... */
QINFER_API const char *qinfer_model_meta_key(const qinfer_model *model, size_t index);
QINFER_API const char *qinfer_model_meta_value(const qinfer_model *model, const char *key);

/* ---- Tokenizer ---------------------------------------------------------------------------------------- */
enum {
    QINFER_TEXT_ADD_SPECIAL   = 1, /* add what the tokenizer puts around a text, e.g. the begin token */
    QINFER_TEXT_PARSE_SPECIAL = 2, /* "<|im_end|>" in the text becomes one token */
    QINFER_TEXT_PLAIN_CONTENT = 4  /* qinfer_tokenize_options.content is searched for no added tokens at all */
};
enum { QINFER_TOKEN_CONTROL = 1, QINFER_TOKEN_END = 2 /* ends generation */, QINFER_TOKEN_BYTE = 4 };

/** Text that is not UTF-8 is QINFER_E_INVALID_ARGUMENT; detail: offset of the first bad byte. */
QINFER_STATUS qinfer_tokenize(const qinfer_model *model, const char *text, size_t len, uint32_t flags,
                              qinfer_token *tokens, size_t capacity, size_t *out_n, qinfer_error *err);
typedef struct qinfer_text_part {
    uint64_t begin, end; /* bytes [begin, end) */
} qinfer_text_part;
typedef struct qinfer_tokenize_options {
    uint32_t             struct_size;
    uint32_t             flags;    /* QINFER_TEXT_* */
    uint64_t             max_work; /* steps that the call may take; 0 = 1,000,000 + 512 for each byte of the text */
    const qinfer_cancel *cancel;
    const qinfer_text_part *content; /* parts of the text that others wrote, whole characters, ascending and apart: no
                                        byte of them becomes part of a control token, whatever the text says, except
                                        white space before or after a control token that the tokenizer lets take it.
                                        Other added tokens, such as "<think>", are found in them, too. NULL = none */
    uint64_t             n_content;
} qinfer_tokenize_options;
/** The same with options, which may be NULL. Everything that the tokenizer's patterns and tables do with a text is
 *  counted in steps. Beyond max_work the call ends with QINFER_E_UNSUPPORTED (detail: offset of the text that was not
 *  read any more), so that no tokenizer file can make it hang. The tokenizers of known models take 4 to 16 steps for a
 *  byte. */
QINFER_STATUS qinfer_tokenize_with(const qinfer_model *model, const char *text, size_t len,
                                   const qinfer_tokenize_options *options, qinfer_token *tokens, size_t capacity,
                                   size_t *out_n, qinfer_error *err);
/** Raw bytes of one token, perhaps part of a character. Live as long as the model. */
QINFER_API const char *qinfer_token_text(const qinfer_model *model, qinfer_token token, size_t *out_n);
QINFER_API uint32_t    qinfer_token_flags(const qinfer_model *model, qinfer_token token); /* QINFER_TOKEN_* */

/** The token whose entry in the tokenizer is exactly this text, as the file writes it: "<|im_end|>", or in a byte-level
 *  vocabulary an entry with its stand-ins for bytes. QINFER_E_NOT_FOUND if there is none, or no tokenizer. */
QINFER_STATUS qinfer_token_find(const qinfer_model *model, const char *text, size_t len, qinfer_token *out,
                                qinfer_error *err);
/** The tokens that end generation, each once (QINFER_TOKEN_END); there may be none. They are those that the model's
 *  files name, added tokens whose name says it ("<|im_end|>"), and what the chat template writes after an answer. */
QINFER_STATUS qinfer_model_end_tokens(const qinfer_model *model, qinfer_token *tokens, size_t capacity, size_t *out_n,
                                      qinfer_error *err);
/** The model's chat template, as its files have it (usually Jinja). name NULL: the template called "default", which is
 *  also the name of a template without one. QINFER_E_NOT_FOUND if there is none. */
QINFER_STATUS qinfer_model_chat_template(const qinfer_model *model, const char *name, char *text, size_t capacity,
                                         size_t *out_n, qinfer_error *err);
/** Names of its chat templates, sorted; NULL past the last. Live as long as the model. */
QINFER_API const char *qinfer_model_chat_template_name(const qinfer_model *model, size_t index);

enum {
    QINFER_CHAT_GENERATION_PROMPT = 1, /* add_generation_prompt is true, unless the conversation says what it is */
    QINFER_CHAT_PLAIN_CONTENT     = 2, /* as QINFER_TEXT_PLAIN_CONTENT */
    /** Messages as programs for OpenAI's service send them: arguments of calls as text or object, contents as text,
     *  parts or null, calls null or empty. The template gets the form that it takes, which small conversations rendered
     *  with it tell, once for each of the model's templates. */
    QINFER_CHAT_OPENAI_FORMS      = 4
};
typedef struct qinfer_chat_options {
    uint32_t             struct_size;
    uint32_t             flags;         /* QINFER_CHAT_* */
    const char          *template_name; /* of the model; NULL = "tool_use", if there is one and the conversation has
                                           tools, else "default" */
    const char          *template_text; /* a template instead of the model's; NULL = the model's */
    const char          *now;           /* what strftime_now() tells: "2026-11-22" or "2026-11-22T15:04:05"; NULL =
                                           the system's clock, UTC */
    const qinfer_cancel *cancel;
} qinfer_chat_options;
/** Renders a conversation with the chat template. A conversation is a JSON object of the template's variables, such as
 *  {"messages": [{"role": "user", "content": "Hi"}], "tools": [...], "enable_thinking": false}. If it has no bos_token
 *  or eos_token, the template finds the model's. The template is Jinja as transformers sets it up, in an interpreter
 *  that has no access to files, environment or network. `content` gets the parts of the text that came from the
 *  conversation, for qinfer_tokenize_with; it and out_n_content may be NULL. options may be NULL.
 *
 *  QINFER_E_NOT_FOUND if there is no template. QINFER_E_FORMAT if the template or the conversation cannot be read, with
 *  line and column. QINFER_E_INVALID_ARGUMENT if the template fails on this conversation, also when it raises an error
 *  itself, such as that roles must alternate. QINFER_E_UNSUPPORTED if a part of a message is an image, sound or video,
 *  or the template asks for something that is refused, or goes beyond the bounds of steps, text and memory that every
 *  template has (docs/security.md). */
QINFER_STATUS qinfer_chat_render(const qinfer_model *model, const char *conversation, size_t len,
                                 const qinfer_chat_options *options, char *text, size_t capacity, size_t *out_n,
                                 qinfer_text_part *content, size_t content_capacity, size_t *out_n_content,
                                 qinfer_error *err);
/** The tokens of the rendered text; no begin or end token is added. No byte that came from the conversation becomes
 *  part of a control token, whatever messages, tools and documents say: see qinfer_tokenize_options.content. Otherwise
 *  the ids are those of the whole text. */
QINFER_STATUS qinfer_chat_tokenize(const qinfer_model *model, const char *conversation, size_t len,
                                   const qinfer_chat_options *options, qinfer_token *tokens, size_t capacity,
                                   size_t *out_n, qinfer_error *err);

/** How the families of models write calls of tools; reasoning is between <think> and </think> (Mistral: [THINK] and
 *  [/THINK]) where the reply begins with that marker, or the prompt ends with it. */
enum {
    QINFER_REPLY_AUTO = 0,        /* the one that the chat template writes; PLAIN if that is none of these */
    QINFER_REPLY_PLAIN = 1,       /* no calls */
    QINFER_REPLY_HERMES = 2,      /* Hermes and Qwen: <tool_call>{"name", "arguments"}</tool_call>, or <function=name>
                                     and <parameter=key> inside */
    QINFER_REPLY_LLAMA3 = 3,      /* {"name", "parameters"} as the reply, if it names one of the conversation's tools,
                                     or after <|python_tag|> */
    QINFER_REPLY_MISTRAL = 4,     /* [TOOL_CALLS][{"name", "arguments"}], or [TOOL_CALLS]name[ARGS]{...} */
    QINFER_REPLY_DEEPSEEK = 5,    /* between tool call begin and end, with the arguments in a fence or not */
    QINFER_REPLY_FUNCTIONARY = 6, /* >>>name and JSON (of "python" code), >>>all and content */
    QINFER_REPLY_FIREFUNCTION = 7 /* functools[{"name", "arguments"}] */
};
enum { QINFER_PART_NONE = 0, QINFER_PART_CONTENT = 1, QINFER_PART_REASONING = 2, QINFER_PART_CALL = 3 };
enum {
    /** Nothing is taken for reasoning, even where the prompt ends with its marker: with a grammar the answer begins at
     *  once. */
    QINFER_REPLY_NO_REASONING = 1
};
typedef struct qinfer_reply_options {
    uint32_t struct_size, flags;     /* QINFER_REPLY_NO_REASONING */
    int32_t  format;                 /* QINFER_REPLY_* */
    uint32_t reserved;
    const qinfer_chat_options *chat; /* the options that the prompt was made with; NULL = none */
} qinfer_reply_options;
typedef struct qinfer_reply_part {
    uint32_t    struct_size;
    int32_t     kind;     /* QINFER_PART_*; NONE: nothing more is known yet, and the rest is 0 */
    const char *text;     /* valid until the handle is next used: a piece of content or reasoning; of a call all its
                             arguments, a JSON object as the model wrote it (code, of Functionary's python) */
    size_t      text_len;
    const char *name, *id; /* of a call, NUL-terminated, valid as long as text; the id is 9 letters and digits, and
                              different for each call of the conversation */
    uint32_t    call;     /* which call of the reply, from 0 */
    uint32_t    reserved;
    size_t      name_len; /* bytes of name: a model may write a NUL into it */
} qinfer_reply_part;
/** Takes the reply to a conversation apart while it is generated, into content, reasoning and calls of tools.
 *  conversation, len and options->chat are those of the prompt (with QINFER_CHAT_GENERATION_PROMPT if it had that);
 *  errors as in qinfer_chat_tokenize. Text that is not a call as the family writes it is content, unchanged. A reply is
 *  for one thread at a time; callbacks of qinfer_generate may use it. */
QINFER_STATUS qinfer_reply_create(const qinfer_model *model, const char *conversation, size_t len,
                                  const qinfer_reply_options *options, qinfer_reply **out, qinfer_error *err);
/** Adds the next token of the reply; an end token, and other control tokens that are no markers, add nothing. After
 *  qinfer_reply_finish QINFER_E_STATE; after QINFER_E_NO_MEMORY the reply can only be freed. */
QINFER_STATUS qinfer_reply_push(qinfer_reply *reply, qinfer_token token, qinfer_error *err);
/** The reply is complete: text that was held back becomes parts. */
QINFER_STATUS qinfer_reply_finish(qinfer_reply *reply, qinfer_error *err);
/** The next part, in order. Content and reasoning come in pieces as soon as they cannot be part of a marker, calls when
 *  they are complete. */
QINFER_STATUS qinfer_reply_next(qinfer_reply *reply, qinfer_reply_part *out, qinfer_error *err);
/** The reply so far as a message, in JSON, to add to the conversation's messages: {"role": "assistant", "content": ...,
 *  "reasoning_content": ..., "tool_calls": [{"id", "type", "function": {"name", "arguments"}}]}, the last two only if
 *  there are any. arguments is an object or, where the family's templates want a text, that object as text. */
QINFER_STATUS qinfer_reply_message(const qinfer_reply *reply, char *json, size_t capacity, size_t *out_n,
                                   qinfer_error *err);
/** *out: 1 while the reply is in its reasoning, whose end has not come; otherwise 0. For hosts that draw tokens with
 *  qinfer_session_sample and have a grammar: it is for what comes after the reasoning. */
QINFER_STATUS qinfer_reply_in_reasoning(const qinfer_reply *reply, int32_t *out, qinfer_error *err);
/** The tokens that end its reasoning, whether it is in one or not: *out_n of them, none for a family without reasoning.
 *  For such hosts, too, where they bound it: they append these tokens instead of drawing some. */
QINFER_STATUS qinfer_reply_reasoning_end(const qinfer_reply *reply, qinfer_token *tokens, size_t capacity,
                                         size_t *out_n, qinfer_error *err);
QINFER_API void qinfer_reply_free(qinfer_reply *reply);

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
    uint64_t blocks_total, blocks_used;       /* used: held by at least one session. With several groups (see
                                                 budget_blocks) of all groups together; total: at most possible */
    uint64_t blocks_shared, blocks_cached;    /* held by several; free, but reusable as a prefix */
    uint64_t bytes_reserved, bytes_committed; /* address space; memory of the blocks used and cached */
    uint64_t bytes_resident, reserved;        /* as the operating system counts it, 0 where it does not tell */
} qinfer_kv_cache_stats;
QINFER_STATUS qinfer_kv_cache_get_stats(const qinfer_kv_cache *cache, qinfer_kv_cache_stats *out, qinfer_error *err);
/** Of these tokens, how many from the first on a session of this prefix_space (qinfer_session_options) would find in
 *  the cache now if more tokens followed them: whole blocks, and 0 without QINFER_CACHE_PREFIX. Nothing is held: they
 *  may be evicted at any time. For hosts that choose among several caches. */
QINFER_STATUS qinfer_kv_cache_find(const qinfer_kv_cache *cache, const qinfer_token *tokens, size_t n,
                                   uint32_t prefix_space, size_t *out_n, qinfer_error *err);

/* ---- Kept keys and values --------------------------------------------------------------------------- */
/* A folder with blocks of keys and values, so that a conversation which goes on later, in another process too, is not
 * evaluated again. Blocks are found by their tokens and all tokens before them: nothing has a name, conversations that
 * begin alike share the files of their beginning, and a session whose tokens are known has the bits that it would
 * compute. After the process was killed all that was kept is there; nothing is synced, so after a crash of the machine
 * files may be damaged: those are removed, and evaluated again.
 *
 *   qinfer_kv_store_fetch    before a session is evaluated or submitted: puts what is known of its tokens into the
 *                            cache, where evaluations find it (QINFER_CACHE_PREFIX)
 *   qinfer_kv_store_keep     once it has ended: writes its full blocks that are not in the folder
 *
 * Both read and write files, as fast as the system does, and may be called by any thread at any time. A block of keys
 * and values takes the cache's bytes and a page. The folder and its files are made for their owner alone; tenants do
 * not find each other's blocks. A store takes some 200 bytes for each file, and that of a block during a call. */
typedef struct qinfer_kv_store qinfer_kv_store;
typedef struct qinfer_kv_store_options {
    uint32_t    struct_size, flags; /* none yet */
    const char *path;               /* a folder, made where there is none; its parent must be there */
    uint64_t    max_bytes;          /* of files; those used longest ago are removed for others. Not 0 */
} qinfer_kv_store_options;
/** Holds the cache, which must keep prefixes (QINFER_E_UNSUPPORTED). QINFER_E_STATE while another store has the folder,
 *  of this process or another. Blocks of other models, kernel sets or layouts stay there and are not found. */
QINFER_STATUS qinfer_kv_store_open(qinfer_kv_cache *cache, const qinfer_kv_store_options *options,
                                   qinfer_kv_store **out, qinfer_error *err);
/** *out_n (may be NULL): tokens from the session's first on that are in the folder now, as far as they fill blocks.
 *  tenant: NUL-terminated; NULL = "". A session that was loaded from a snapshot is QINFER_E_UNSUPPORTED. With a window
 *  in some layers (Gemma) a conversation is found where it was kept and not at places before; with one in all layers
 *  (Mistral 0.1) only as far as all its blocks were kept. After an error what was written stays. */
QINFER_STATUS qinfer_kv_store_keep(qinfer_kv_store *store, qinfer_session *session, const char *tenant,
                                   const qinfer_cancel *cancel, size_t *out_n, qinfer_error *err);
/** *out_n (may be NULL): tokens from the first on that the cache knows now, never the last one. Where it has no room
 *  for more, or a file is damaged, they are fewer: that is no error. What was put into the cache is evicted as any
 *  prefix without a session. */
QINFER_STATUS qinfer_kv_store_fetch(qinfer_kv_store *store, const qinfer_token *tokens, size_t n, const char *tenant,
                                    const qinfer_cancel *cancel, size_t *out_n, qinfer_error *err);
/** The same for sessions of this prefix_space (qinfer_session_options). */
QINFER_STATUS qinfer_kv_store_fetch_into(qinfer_kv_store *store, const qinfer_token *tokens, size_t n,
                                         const char *tenant, uint32_t prefix_space, const qinfer_cancel *cancel,
                                         size_t *out_n, qinfer_error *err);
typedef struct qinfer_kv_store_stats {
    uint32_t struct_size, reserved;
    uint64_t n_files, bytes;                  /* there now */
    uint64_t written, read, removed, damaged; /* files, since it was opened; removed: for others */
} qinfer_kv_store_stats;
QINFER_STATUS qinfer_kv_store_get_stats(const qinfer_kv_store *store, qinfer_kv_store_stats *out, qinfer_error *err);
QINFER_API void qinfer_kv_store_free(qinfer_kv_store *store);

/* ---- Session: a list of tokens, a prefix of which is evaluated while the rest is pending ------------- */

/** How a token is drawn. After the hook and the biases come these steps, in the order that `steps` lists by their
 *  letters; those that it leaves out are left out. p(t) is the softmax over the tokens that the steps before have left
 *  (candidates), H = -sum of p ln p its entropy, and l[t] the logit at that point.
 *    e  penalties: of each token in the window first l = l > 0 ? l / repeat_penalty : l * repeat_penalty, then
 *       l -= count * frequency_penalty + presence_penalty
 *    d  DRY: a token that would go on with a repetition of r tokens, r >= dry_allowed_length, loses dry_multiplier *
 *       dry_base^(r - dry_allowed_length). The token at each earlier place of the window would go on with as many
 *       tokens as those before it and the last ones of the window have in common, but with no more than come after the
 *       last sequence breaker (qinfer_session_set_dry_breakers); its largest r counts. Tokens that contain a breaker
 *       lose nothing (p-e-w, text-generation-webui pull request 5637)
 *    t  temperature: l /= T. With dynatemp_range T = low + (high - low) * (H / ln n)^dynatemp_exponent, n the number of
 *       candidates, low = max(0, temperature - range), high = temperature + range (llama.cpp; kalomaze)
 *    s  top-n-sigma: keep l >= largest - top_n_sigma * standard deviation of l (Tang et al., arXiv:2411.07641)
 *    k  top-k: keep the top_k largest l, and those equal to the last of them
 *    y  typical: by ascending |-ln p - H| keep tokens until they have typical_p together (Meister et al.,
 *       arXiv:2202.00666)
 *    p  top-p: by descending p keep tokens until they have top_p together
 *    m  min-p: keep p >= min_p * largest p
 *    x  XTC: with a chance of xtc_probability remove all tokens with p >= xtc_threshold but the least likely of them
 *       (p-e-w, text-generation-webui pull request 6335)
 *  Then mirostat 2, in place of s k y p m x, keeps -log2 p <= mu, at least the likeliest; once the token is drawn, with
 *  p of what was kept, mu -= mirostat_eta * (-log2 p - mirostat_tau). mu begins as 2 * mirostat_tau (Basu et al.,
 *  arXiv:2007.14966). Then one token is drawn by p. temperature 0 takes the largest l after e and d.
 *  A draw depends on the seed, the position and, with mirostat, on mu; truncating brings mu back, and forks and
 *  snapshots have it. llama.cpp's order is "edskypmxt". */
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
    float               typical_p;                           /* 0 or 1 = off */
    float               top_n_sigma;                         /* 0 = off */
    float               dynatemp_range, dynatemp_exponent;   /* range 0 = off; exponent 0 = 1 */
    float               xtc_probability, xtc_threshold;      /* probability 0 = off; threshold 0 = 0.1 */
    float               dry_multiplier, dry_base;            /* multiplier 0 = off; base 0 = 1.75, or 1 and more */
    uint32_t            dry_allowed_length;                  /* 0 = 2 */
    uint32_t            dry_penalty_tokens;                  /* the window of DRY; 0 = all */
    uint32_t            mirostat;                            /* 0 = off, 2 = version 2; there is no other */
    float               mirostat_tau, mirostat_eta;          /* 0 = 5, at most 1000; 0 = 0.1, at most 1 */
    char                steps[20];                           /* NUL-terminated; "" = "edtskypmx" */
} qinfer_sampler_options;

QINFER_STATUS qinfer_session_create(qinfer_kv_cache *cache, const qinfer_session_options *options, qinfer_session **out,
                                    qinfer_error *err);
/** Copy-on-write: blocks are shared, the last one is copied when either side first writes to it. The copy also has the
 *  tokens, logits, sampler and a clone of the hook; its metrics begin at 0. Charges per_session of qinfer_memory, as
 *  qinfer_session_create does, although tokens and logits are shared until one side changes them. */
QINFER_STATUS qinfer_session_fork(const qinfer_session *session, qinfer_session **out, qinfer_error *err);
/** Keeps the first n_tokens, pending ones included; 0 resets. If evaluated tokens are dropped, the last token kept
 *  becomes pending again, so that evaluating gives its logits; if a sliding window has moved beyond it, all tokens
 *  become pending. The sampler rewinds; its options stay. */
QINFER_STATUS qinfer_session_truncate(qinfer_session *session, size_t n_tokens, qinfer_error *err);
/** Writes tokens, keys, values and sampler to a file of this version of the format. If the file already holds the
 *  beginning of the session, only what is new is written. A crash at any moment leaves the old state or the new one.
 *  QINFER_E_FORMAT for a file that is not a snapshot, which is not overwritten. QINFER_E_STATE while another process
 *  saves to it. */
QINFER_STATUS qinfer_session_save(const qinfer_session *session, const char *path, qinfer_error *err);
typedef struct qinfer_session_save_options {
    uint32_t            struct_size, flags; /* none yet */
    const qinfer_files *files;              /* where path is; NULL = the operating system's files */
} qinfer_session_save_options;
/** The same with options, which may be NULL. In a host's file a snapshot that replaces another one is first written
 *  where the old one is not: the file grows to hold both, and only truncate cuts it to the size of one. */
QINFER_STATUS qinfer_session_save_with(const qinfer_session *session, const char *path,
                                       const qinfer_session_save_options *options, qinfer_error *err);
/** Needs the same weights and kv_type as when saved. max_tokens and max_logits are those of the session that was saved
 *  (qinfer_session_get_info tells); its flags and its hook are not kept. The last token is pending: evaluating it gives
 *  its logits. Another kernel set than the one that saved goes on from the stored keys and values, but not with the
 *  same bits. The same kernel set with other options that change bits is QINFER_E_UNSUPPORTED. QINFER_E_FORMAT if the
 *  file is damaged. A file holds two states; if one has a damaged record, as after a crash while it was written, the
 *  other is loaded, and qinfer_session_load_with says so. */
QINFER_STATUS qinfer_session_load(qinfer_kv_cache *cache, const char *path, qinfer_session **out, qinfer_error *err);
enum {
    QINFER_SNAPSHOT_ANY_BITS    = 1, /* also go on from keys and values that other options computed */
    QINFER_SNAPSHOT_NO_RECOVERY = 2  /* QINFER_E_FORMAT instead of a state that may not be the last one */
};
typedef struct qinfer_session_load_options {
    uint32_t struct_size, flags; /* QINFER_SNAPSHOT_ANY_BITS, _NO_RECOVERY */
    const qinfer_files *files;   /* where path is; NULL = the operating system's files */
    uint32_t max_draft, reserved; /* of qinfer_session_options */
} qinfer_session_load_options;
enum {
    QINFER_SNAPSHOT_RECOVERED  = 1, /* the other state of the file is damaged: this may be the one before the last */
    QINFER_SNAPSHOT_OTHER_BITS = 2  /* another kernel set or other options computed the stored keys and values */
};
typedef struct qinfer_session_load_result {
    uint32_t struct_size, flags;       /* QINFER_SNAPSHOT_RECOVERED, _OTHER_BITS */
    uint64_t tokens, evaluated_tokens; /* as they were saved */
} qinfer_session_load_result;
/** The same with options and a result, each of which may be NULL. */
QINFER_STATUS qinfer_session_load_with(qinfer_kv_cache *cache, const char *path,
                                       const qinfer_session_load_options *options, qinfer_session **out,
                                       qinfer_session_load_result *result, qinfer_error *err);
QINFER_API void qinfer_session_free(qinfer_session *session);

/** Adds pending tokens, computes nothing. */
QINFER_STATUS qinfer_session_append(qinfer_session *session, const qinfer_token *tokens, size_t n, qinfer_error *err);
/** Makes these the session's tokens. The common beginning with the tokens that it holds stays as it is, evaluated or
 *  pending (*out_kept tokens; may be NULL). Its other tokens are cut off, as by qinfer_session_truncate, and the
 *  remaining new ones are pending. So a host passes the whole conversation for the next turn of a chat, and only what
 *  is new, or what the template now writes differently, is evaluated, with the bits of a new session. After an error
 *  nothing has changed. */
QINFER_STATUS qinfer_session_set_tokens(qinfer_session *session, const qinfer_token *tokens, size_t n, size_t *out_kept,
                                        qinfer_error *err);
QINFER_STATUS qinfer_session_get_tokens(const qinfer_session *session, qinfer_token *tokens, size_t capacity,
                                        size_t *out_n, qinfer_error *err);
QINFER_API size_t qinfer_session_length(const qinfer_session *session);  /* evaluated + pending */
QINFER_API size_t qinfer_session_pending(const qinfer_session *session); /* 0 = logits are ready */
/** Also reseeds, and mirostat begins anew. Without it a session is greedy. */
QINFER_STATUS qinfer_session_set_sampler(qinfer_session *session, const qinfer_sampler_options *options,
                                         qinfer_error *err);
/** The texts that no repetition of DRY reaches over: n of them, at most 16, of 1 to 40 bytes; n 0: none. Without this
 *  call a line feed, a colon, a double quote and an asterisk. They are found in the bytes of the tokens one after
 *  another; a breaker ends in the token that its last byte is in. lens: their lengths; NULL = NUL-terminated. Looks
 *  through the vocabulary, which takes milliseconds; a model keeps the last four lists. Forks and snapshots have them.
 *  QINFER_E_NOT_FOUND for a model without a tokenizer. */
QINFER_STATUS qinfer_session_set_dry_breakers(qinfer_session *session, const char *const *texts, const size_t *lens,
                                              size_t n, qinfer_error *err);

/** Adds values[i] to the logit of tokens[i] when sampling (-infinity bans it for good; otherwise repeated tokens add
 *  up, within the range of f32). Replaces the previous list; n 0 clears it; at most n_vocab entries. */
QINFER_STATUS qinfer_session_set_bias(qinfer_session *session, const qinfer_token *tokens, const float *values,
                                      size_t n, qinfer_error *err);

/* ---- Evaluation: prefill, decode and continuous batching are one call -------------------------------- */
enum {
    QINFER_EVAL_NO_LOGITS = 1 /* compute and keep no logits: for all chunks of a prompt but the last. Needs keep_logits
                                 0. Sampling is then QINFER_E_STATE; truncating the session to its own length and
                                 evaluating it again gives the logits of its last token. Encoders never have logits */
};
typedef struct qinfer_eval_options {
    uint32_t             struct_size;
    uint32_t             max_tokens;  /* evaluate at most this many in this call; 0 = all pending */
    uint32_t             keep_logits; /* for the last n tokens each session evaluates; 0 = 1; at most its max_logits */
    uint32_t             flags;       /* QINFER_EVAL_* */
    const qinfer_cancel *cancel;      /* looked at between layers */
    const qinfer_cancel *const *session_cancels; /* NULL, or one for each session, each of which may be NULL: after a
                                         request that session is left out of the rest of the call, or of the whole.
                                         What it has not evaluated stays pending; the others go on as if it had
                                         ended. A call whose sessions are all left out does nothing */
    /** Of a stage (qinfer_load_options.first_layer): one array for each session, f32 [tokens][n_embd], a row for each
     *  token that it evaluates in this call, in their order. hidden_in: what the stage before gives, where this one does
     *  not begin with the first layer. hidden_out: room for what this one gives, where it does not end with the last.
     *  Otherwise NULL. After a failure rows of tokens that stayed pending say nothing. */
    const float *const  *hidden_in;
    float *const        *hidden_out;
} qinfer_eval_options;

/** Evaluates the pending tokens of n_sessions distinct sessions of one KV cache as one batch. Under max_tokens
 *  sessions with few pending tokens come first, so decoding continues while long prompts advance in chunks.
 *  Sessions without pending tokens are passed over and keep their logits; QINFER_E_STATE if no session has any.
 *  Blocks for the whole call are promised first: QINFER_E_KV_FULL changes nothing. Then free, truncate, or save and
 *  free other sessions of the cache, or leave some out of the batch, and call again. After any other error,
 *  cancellation included, no token is lost: evaluated tokens stay evaluated, the others stay pending; call again to go
 *  on. */
QINFER_STATUS qinfer_eval(qinfer_session *const *sessions, size_t n_sessions, const qinfer_eval_options *options,
                          qinfer_error *err);
/** Code of the host between the logits and the sampler, for grammars and watermarks, in qinfer_session_sample and
 *  qinfer_generate alike. apply and accept return 0 to go on; nonzero ends the call with QINFER_E_CANCELLED, and the
 *  token is not added. Callbacks may run under the default floating-point environment instead of the host's. */
typedef struct qinfer_logits_hook {
    uint32_t struct_size, reserved;
    /** Before bias, penalties and filters, for every token: changes a private copy of the n_vocab logits, not the row
     *  that qinfer_session_logits gives. A token set to -infinity is not drawn. Any other value that is not finite, or
     *  all tokens at -infinity, is QINFER_E_NUMERIC, and no token is added. */
    int32_t (*apply)(const qinfer_session *session, float *logits, uint32_t n_vocab, void *user);
    /** Once for each token that sampling appends, when it is the last of the session. Tokens that the host appends are
     *  not shown: a prompt is no part of a grammar. NULL = not called. */
    int32_t (*accept)(qinfer_token token, void *user);
    /** qinfer_session_truncate is about to take back the last n_tokens of the accepted tokens. Nonzero: it changes
     *  nothing and ends with QINFER_E_CANCELLED. NULL = not called. Not counted are tokens that accept refused and
     *  tokens that were there when the hook was set. */
    int32_t (*rewind)(size_t n_tokens, void *user);
    /** The last step of a fork: makes the user of the fork's hook. Nonzero: QINFER_E_CANCELLED, and no fork. Several
     *  threads may call it at once, if they fork the session at once. NULL = forks have no hook. */
    int32_t (*clone)(void *user, void **out_user);
    /** The hook was replaced or cleared, or its session freed: nothing is called with this user any more. NULL = not
     *  called. */
    void (*release)(void *user);
    void *user;
} qinfer_logits_hook;
/** Replaces the session's hook; NULL removes it. After a failure the session has the hook that it had, and user still
 *  belongs to the caller. Snapshots hold no hook. An encoder is QINFER_E_UNSUPPORTED. */
QINFER_STATUS qinfer_session_set_logits_hook(qinfer_session *session, const qinfer_logits_hook *hook,
                                             qinfer_error *err);
/** Draws one token from the last logits and appends it as pending. A session that holds max_tokens is
 *  QINFER_E_CONTEXT_FULL: truncate it, or go on in another one. */
QINFER_STATUS qinfer_session_sample(qinfer_session *session, qinfer_token *out, qinfer_error *err);
/** n_vocab floats for the last evaluated token, or the one `back` earlier; NULL if not kept (max_logits, keep_logits,
 *  QINFER_EVAL_NO_LOGITS). Valid until the session is next evaluated, truncated or freed. A sampler of the host reads
 *  this and appends a token. */
QINFER_API const float *qinfer_session_logits(const qinfer_session *session, size_t back);

/** The same row copied into values: n_vocab floats. */
QINFER_STATUS qinfer_session_copy_logits(const qinfer_session *session, size_t back, float *values, size_t capacity,
                                         size_t *out_n, qinfer_error *err);

/** Log probabilities of tokens under the model, for the row that qinfer_session_logits(session, back) gives: the
 *  natural logarithm of its softmax, l[t] - m - log(sum of exp(l - m)) with m the largest, in double. Hook, bias,
 *  penalties, temperature and filters play no part. After qinfer_session_sample, back 0 is the row that the token was
 *  drawn from. Fills logprobs[n]. QINFER_E_STATE if the row is not kept, QINFER_E_NUMERIC if it is not finite. */
QINFER_STATUS qinfer_session_logprobs(const qinfer_session *session, size_t back, const qinfer_token *tokens, size_t n,
                                      double *logprobs, qinfer_error *err);
/** The n most likely tokens of such a row and their log probabilities, in descending order, equal ones by id. n: at
 *  most n_vocab, else QINFER_E_INVALID_ARGUMENT. */
QINFER_STATUS qinfer_session_top_logprobs(const qinfer_session *session, size_t back, qinfer_token *tokens,
                                          double *logprobs, size_t n, qinfer_error *err);

/* ---- Embeddings --------------------------------------------------------------------------------------- */
/* The vector of a text, as the model's files say it is made (modules.json and the files that it names, or the keys of a
 * GGUF file; qinfer_model_info has embedding_dims, embedding_tokens and pooling):
 *
 *   qinfer_embedding_tokenize      the text's tokens, with a prompt before it where one is asked for
 *   qinfer_session_set_tokens, qinfer_eval    of many sessions at once
 *   qinfer_session_embedding       the vector */
enum {
    QINFER_POOL_DEFAULT = 0, /* what the model's files say; otherwise the mean in an encoder, and the last token in a
                                decoder */
    QINFER_POOL_LAST = 1, QINFER_POOL_MEAN = 2, QINFER_POOL_FIRST = 3
};
/** The final hidden states (after the last norm) of all tokens of the session, pooled, through the model's layers after
 *  pooling (its dense modules), and scaled to length 1: embedding_dims floats. Needs QINFER_SESSION_EMBEDDINGS or an
 *  encoder, and no pending tokens, else QINFER_E_STATE. An encoder evaluates all tokens of a session at once: more
 *  pending tokens than max_batch_tokens are QINFER_E_INVALID_ARGUMENT, and appending makes all tokens pending. Where
 *  the model has layers after pooling the call waits for evaluations of the runtime, and runs on its threads. */
QINFER_STATUS qinfer_session_embedding(const qinfer_session *session, int32_t pooling, float *values, size_t capacity,
                                       size_t *out_n, qinfer_error *err);
enum {
    QINFER_EMBEDDING_UNSCALED = 1 /* not of length 1, but as pooling and layers give it */
};
typedef struct qinfer_embedding_options {
    uint32_t struct_size, flags; /* QINFER_EMBEDDING_UNSCALED */
    int32_t  pooling;            /* QINFER_POOL_* */
    uint32_t dims;               /* the first so many floats alone, scaled to length 1, of models that are trained for
                                    it (Matryoshka); 0 = all. At most embedding_dims, else QINFER_E_INVALID_ARGUMENT */
} qinfer_embedding_options;
/** The same with options, which may be NULL. */
QINFER_STATUS qinfer_session_embedding_with(const qinfer_session *session, const qinfer_embedding_options *options,
                                            float *values, size_t capacity, size_t *out_n, qinfer_error *err);

/** Names of the prompts that the model's files have for texts of a kind, such as "query" and "document", sorted; NULL
 *  past the last. Live as long as the model. */
QINFER_API const char *qinfer_model_prompt_name(const qinfer_model *model, size_t index);
/** The name of the one that the files call the default; NULL = none. Lives as long as the model. Nothing is put before
 *  a text unless a host asks for it. */
QINFER_API const char *qinfer_model_default_prompt(const qinfer_model *model);
/** The text of a prompt. QINFER_E_NOT_FOUND, with all names in the message, if there is none of this name. */
QINFER_STATUS qinfer_model_prompt(const qinfer_model *model, const char *name, char *text, size_t capacity,
                                  size_t *out_n, qinfer_error *err);

enum {
    QINFER_EMBED_TRUNCATE      = 1, /* a text that is too long loses its last tokens, but not those that are put around
                                       it */
    QINFER_EMBED_PARSE_SPECIAL = 2  /* as QINFER_TEXT_PARSE_SPECIAL: what transformers does with a text */
};
typedef struct qinfer_embedding_text_options {
    uint32_t             struct_size, flags; /* QINFER_EMBED_* */
    const char          *prompt_name;        /* one of the model's goes before the text; NULL = none */
    const char          *prompt;             /* this text goes before it instead; NULL = none */
    uint32_t             max_tokens;         /* at most; 0 = embedding_tokens */
    uint32_t             reserved;
    const qinfer_cancel *cancel;
} qinfer_embedding_text_options;
/** The tokens of a text, with those that the tokenizer puts around it. options may be NULL. *out_cut (may be NULL):
 *  tokens that QINFER_EMBED_TRUNCATE has cut off. Without it a text of more tokens than max_tokens is
 *  QINFER_E_CONTEXT_FULL (detail: its tokens). A model whose pooling leaves out prompts takes none
 *  (QINFER_E_UNSUPPORTED). */
QINFER_STATUS qinfer_embedding_tokenize(const qinfer_model *model, const char *text, size_t len,
                                        const qinfer_embedding_text_options *options, qinfer_token *tokens,
                                        size_t capacity, size_t *out_n, uint64_t *out_cut, qinfer_error *err);

/* ---- Scores of pairs of texts ---------------------------------------------------------------------------- */
/* How well a document answers a query, for models that are trained to tell (rerankers):
 *
 *   qinfer_session_set_pair    the two texts as the model wants them; a session keeps what pairs have in common
 *   qinfer_eval                of many sessions at once
 *   qinfer_session_score       the score */
enum {
    QINFER_SCORING_NONE   = 0, /* the files do not say: options must name a template */
    QINFER_SCORING_TOKENS = 1, /* the logit of a token, "yes", less that of another, "no", after a template */
    QINFER_SCORING_CLASSIFIER = 2 /* the one label of a classifier, for both texts as the tokenizer joins them. Of an
                                     encoder: options' template, instruction, yes and no play no part. Of a decoder's
                                     last token: a template, that of options or else a chat template that writes a
                                     query and a document, has both texts instead */
};
enum {
    QINFER_SCORE_TRUNCATE = 1, /* of a pair that is too long the document loses its last tokens; for a classifier the
                                  longer text does until both are as long, then both (transformers' longest_first) */
    QINFER_SCORE_RAW      = 2  /* the score itself, any number, even if the model's files ask for its sigmoid */
};
typedef struct qinfer_score_options {
    uint32_t             struct_size, flags; /* QINFER_SCORE_* */
    const char          *template_name;      /* "qwen3-reranker": the template of Qwen's rerankers, for files that do
                                                not say how they score; NULL = the model's */
    const char          *template_text;      /* a template instead, in which {instruction}, {query} and, last,
                                                {document} stand for texts; NULL = none */
    const char          *instruction;        /* what is asked for, in words; NULL = what the model's files or the
                                                template say */
    const char          *yes, *no;           /* the tokens, by their texts as in qinfer_token_find; no alone NULL: the
                                                logit of yes; both NULL: the model's, or those of template_name */
    uint32_t             max_tokens;         /* of a pair; 0 = embedding_tokens, or what the session holds */
    uint32_t             reserved;
    const qinfer_cancel *cancel;
} qinfer_score_options;
/** Makes the pair's tokens those of the session, as qinfer_session_set_tokens does. No byte of the texts becomes part
 *  of a control token. options may be NULL. *out_cut (may be NULL): tokens that QINFER_SCORE_TRUNCATE has cut off,
 *  of both texts together. A pair that is too long is QINFER_E_CONTEXT_FULL (detail: its tokens); QINFER_E_UNSUPPORTED
 *  where neither the model's files nor options say how a pair is written. */
QINFER_STATUS qinfer_session_set_pair(qinfer_session *session, const char *query, size_t query_len,
                                      const char *document, size_t document_len, const qinfer_score_options *options,
                                      uint64_t *out_cut, qinfer_error *err);
/** The score of the session's tokens: between 0 and 1, or any number where the model's files, or QINFER_SCORE_RAW, say
 *  so. options: those of the pair, of which flags, template_name, yes and no matter. No token may be pending, else
 *  QINFER_E_STATE. */
QINFER_STATUS qinfer_session_score(const qinfer_session *session, const qinfer_score_options *options, float *out,
                                   qinfer_error *err);

/* ---- Generation ---------------------------------------------------------------------------------------- */
/** Of a callback it is made by the library: members beyond struct_size are not there. */
typedef struct qinfer_token_info {
    uint32_t            struct_size;
    qinfer_token        token;        /* -1: none; text that was held back comes after the last token */
    const char         *text;         /* new whole characters, maybe none; this and the arrays live during the call of a
                                         callback, or until the qinfer_generation is next used */
    size_t              text_len;
    double              logprob;      /* as qinfer_session_logprobs gives it; 0 without a token */
    uint32_t            n_top;        /* of the options; 0 without a token */
    int32_t             finish;       /* QINFER_FINISH_*: this is the last one; 0: it goes on */
    const qinfer_token *top_tokens;   /* n_top of each, as qinfer_session_top_logprobs gives them */
    const double       *top_logprobs;
} qinfer_token_info;
/** Once for each token that was sampled, the end token included. Return nonzero to stop. */
typedef int32_t (*qinfer_token_info_fn)(const qinfer_token_info *info, void *user);

enum {
    QINFER_GENERATE_LOGPROBS = 1 /* qinfer_generation_next gives log probabilities, as on_token_info always has */
};
typedef struct qinfer_generate_options {
    uint32_t             struct_size;
    uint32_t             max_tokens; /* new tokens; 0 = until an end token or the context limit */
    /** n_stop texts of 1 to 4096 bytes; output ends before the first that appears. One that is a control token, which
     *  has no text in the output, ends it at that token (with QINFER_FINISH_STOP, even if it is an end token). */
    const char *const   *stop;
    const size_t        *stop_lens;  /* their lengths; NULL = NUL-terminated */
    uint32_t             n_stop;     /* at most 256 */
    uint32_t             flags;      /* QINFER_GENERATE_LOGPROBS */
    qinfer_token_fn      on_token;   /* NULL = none; text that may begin a stop text is held back */
    void                *user;
    const qinfer_cancel *cancel;
    qinfer_token_info_fn on_token_info; /* NULL = none; called after on_token, with the same user */
    uint32_t             n_top;      /* most likely tokens told with log probabilities; at most 64 */
    uint32_t             max_reasoning_tokens; /* with reply: after so many tokens of reasoning in this call its end
                                        marker follows, whatever the model would draw; 0 = no bound */
    /** NULL, or the reply that these tokens are: it gets the text of each of them before the callbacks do (do not push
     *  them), up to a stop text, and the callbacks may take its parts. While it is in its reasoning the session's
     *  logits hook rests: reasoning is free, no stop text but a control token is looked for in it, and a grammar begins
     *  where the content begins. */
    qinfer_reply        *reply;
} qinfer_generate_options;

enum { QINFER_FINISH_END = 1, QINFER_FINISH_STOP = 2, QINFER_FINISH_LENGTH = 3, QINFER_FINISH_CALLBACK = 4 };
enum { QINFER_RESULT_IN_REASONING = 1 /* it ended inside of the reasoning: there is no content */ };
typedef struct qinfer_generate_result {
    uint32_t struct_size;
    int32_t  finish; /* QINFER_FINISH_* */
    uint32_t prompt_tokens, cached_tokens; /* cached: of the prompt, taken from the cache instead of evaluated */
    uint32_t new_tokens, reserved;
    uint64_t prefill_ns, decode_ns; /* the session's part of the evaluations before the first token was drawn, and
                                       since; the wait for the runtime's threads included */
    uint32_t flags;            /* QINFER_RESULT_IN_REASONING */
    uint32_t reasoning_tokens; /* of the new ones, with a reply; its end marker is one of them */
} qinfer_generate_result;

/** Evaluates the pending tokens, then samples until done. After an error or cancellation the session keeps the tokens
 *  made so far, the last one pending if it was not yet evaluated, and *out counts them, with finish 0. out may be
 *  NULL. */
QINFER_STATUS qinfer_generate(qinfer_session *session, const qinfer_generate_options *options,
                              qinfer_generate_result *out, qinfer_error *err);

/** The same step by step, for hosts that draw the tokens of many sessions in turn, or stream without callbacks. Options
 *  are copied, but cancel is borrowed; on_token and on_token_info must be NULL. A session may have one after
 *  another. It is for one thread at a time, and so is what it uses. Until it is freed it keeps its session, with that
 *  session's blocks and hook, and its reply.
 *
 *      while (!qinfer_generation_next(generation, &info, &err)) {
 *          fwrite(info.text, 1, info.text_len, stdout);
 *          if (info.finish) break;
 *      }
 *
 *  With many sessions, call qinfer_eval for all of them as a batch, then this for each. */
QINFER_STATUS qinfer_generation_create(qinfer_session *session, const qinfer_generate_options *options,
                                       qinfer_generation **out, qinfer_error *err);
/** Evaluates the session's tokens if any are pending, draws the next one, and says what is new. Where finish is set, it
 *  was the last step: token is the one that ended it, or -1 at a limit. Then QINFER_E_STATE, and so it is once tokens
 *  were appended or taken back by other means. After another error the step can be done again (after
 *  QINFER_E_NO_MEMORY a token may be there whose text is lost), and qinfer_generation_finish gives the text that was
 *  held back. */
QINFER_STATUS qinfer_generation_next(qinfer_generation *generation, qinfer_token_info *out, qinfer_error *err);
/** Ends it, with QINFER_FINISH_CALLBACK if it has not ended yet: text that was held back is text after all. */
QINFER_STATUS qinfer_generation_finish(qinfer_generation *generation, qinfer_token_info *out, qinfer_error *err);
/** Takes the last n of its tokens back, as qinfer_session_truncate does, and all that was made of them; it goes on,
 *  also where it has ended. *out_text_len (may be NULL): how many bytes of the texts so far, in order, are still right.
 *  Parts that the reply has given stay given, and what still stands of them is not given again, unless it has become
 *  something else. n: at most new_tokens. QINFER_E_STATE for one of qinfer_openai_generation_create, whose answer has
 *  the text. */
QINFER_STATUS qinfer_generation_take_back(qinfer_generation *generation, size_t n, size_t *out_text_len,
                                          qinfer_error *err);
/** What it is so far. */
QINFER_STATUS qinfer_generation_get_result(qinfer_generation *generation, qinfer_generate_result *out,
                                           qinfer_error *err);
QINFER_API void qinfer_generation_free(qinfer_generation *generation);

/* ---- Many generations as one batch ---------------------------------------------------------------------- */
/* A scheduler evaluates the generations of many requests together, and says what each step has brought. It has no
 * thread of its own: the host calls _step, and then _next until nothing is left, on one thread; others submit and
 * cancel meanwhile.
 *
 *   qinfer_generation_create, or qinfer_openai_generation_create; qinfer_scheduler_submit   [any thread]
 *   while (serving) {
 *       qinfer_scheduler_wait(scheduler, timeout_ns, &has_requests, &err);
 *       qinfer_scheduler_step(scheduler, &err);
 *       while (!qinfer_scheduler_next(scheduler, &event, &err) && event.kind != QINFER_EVENT_NONE) ...
 *   }
 *
 * A request's tokens do not depend on the others, nor on when it came. Each step evaluates a row of every request that
 * decodes, and as many of prompts as it has time for: keys have equal parts of these, and so have the prompts of a
 * key. A request begins when blocks for its prompt and all tokens that it may add can be promised, by priority, then
 * of the key with the fewest running ones, then with the most evaluated tokens, then by age; none is passed over more
 * than 16 times. With QINFER_CACHE_PREFIX, tokens that the cache knows count as evaluated, and a request whose prompt
 * begins like one that is being evaluated waits for that: n choices of one prompt evaluate it once. What other
 * sessions of the cache hold is allowed for, so free those of requests that have ended; where others take more
 * meanwhile, or nothing runs and there still is no room, the request that finds none ends with QINFER_E_KV_FULL.
 * Once it is made, a step allocates nothing but messages of errors and files of parked requests. Where sessions have
 * max_draft and no prompt is evaluated, a step has rows for guesses too; those that are right are drawn by steps of
 * their own, which take no time.
 *
 * From _submit to QINFER_EVENT_END a generation, its session and its reply are the scheduler's; between two steps calls
 * on the stepping thread that read them are allowed, and qinfer_reply_next, qinfer_openai_answer_begin and _add, but
 * none that changes the session's tokens; a generation is submitted once at a time. Its qinfer_cancel, and what a hook
 * of its session uses, must live until END, or until the step after qinfer_request_free. */
typedef struct qinfer_scheduler qinfer_scheduler;
typedef struct qinfer_request   qinfer_request; /* a generation that was submitted */
/** Nanoseconds since any moment; never goes back. Called by qinfer_scheduler_step. */
typedef uint64_t (*qinfer_clock_fn)(void *user);

typedef struct qinfer_scheduler_options {
    uint32_t        struct_size, flags; /* none yet */
    uint32_t        max_running; /* requests that are evaluated together; 0 = 16. Less than max_batch_tokens */
    uint32_t        max_waiting; /* requests that have not begun; 0 = 256, at most 1,048,576 */
    uint64_t        step_ns;     /* what a step should take at most where a request decodes, four times that where none
                                    does; 0 = 100 ms. At least 8 rows of prompts are evaluated in each step */
    qinfer_clock_fn clock;       /* NULL = the monotonic clock */
    void           *clock_user;  /* borrowed until qinfer_scheduler_free */
    const char     *park_path;   /* where requests are parked, see below; NULL = none is */
    const qinfer_files *park_files; /* where park_path is; NULL = the operating system's files. Its user is borrowed
                                       until qinfer_scheduler_free */
    uint64_t        park_bytes;  /* in these files at most, 0 = as many as needed. One that is to leave and finds no
                                    room there ends with QINFER_E_NO_MEMORY */
} qinfer_scheduler_options;
/* Parking. With park_path a request begins when there are blocks for its prompt, whatever its limit. Where blocks run
 * out later, a request leaves: of the lowest priority the one with the most tokens left to do. Its keys and values
 * are written to a file and its blocks given back; when there is room again it returns, and goes on with the same
 * bits. No others begin meanwhile. park_path is a directory, in which files without a name are made, or with
 * park_files what they are opened under, as "<park_path>/0" and so on for at most max_running files: each scheduler
 * needs names of its own. Nothing is synced, and nothing of use is left. A step moves a block, or as many as half of
 * step_ns allows. Where a file fails, is damaged or has no room, its request ends with that status, and no other.
 * Where the sessions of others hold all blocks a request waits for them for 10 s, and ends with QINFER_E_KV_FULL
 * then. While a request is parked, all tokens of its session are pending; if it ends then, they stay so. */
/** What a scheduler with these options, which may be NULL, takes: it is charged to the model's memory_budget_bytes, as
 *  a session is. Messages of errors and the names of files come on top, for a time. */
QINFER_STATUS qinfer_scheduler_plan(const qinfer_scheduler_options *options, uint64_t *out_bytes, qinfer_error *err);
/** options may be NULL. QINFER_E_UNSUPPORTED for an encoder. */
QINFER_STATUS qinfer_scheduler_create(qinfer_kv_cache *cache, const qinfer_scheduler_options *options,
                                      qinfer_scheduler **out, qinfer_error *err);

typedef struct qinfer_request_options {
    uint32_t struct_size;
    int32_t  priority;    /* higher ones begin first, and are parked last */
    uint64_t key;         /* whose it is: keys share alike */
    uint64_t deadline_ns; /* of the clock; 0 = none. After it the request ends with QINFER_E_CANCELLED */
    void    *user;        /* borrowed; in each of its events */
} qinfer_request_options;
/** [any thread] options may be NULL. The generation's session must be of the scheduler's cache and have a token.
 *  QINFER_E_NO_MEMORY where max_waiting are waiting, QINFER_E_KV_FULL for one that may need more blocks than the cache
 *  has. Free the request once it has ended, before or after its generation. */
QINFER_STATUS qinfer_scheduler_submit(qinfer_scheduler *scheduler, qinfer_generation *generation,
                                      const qinfer_request_options *options, qinfer_request **out, qinfer_error *err);
/** [any thread] Blocks for n_tokens of a session that the host evaluates itself, as qinfer_openai_answer_begin does for
 *  the log probabilities of a prompt, and qinfer_openai_answer_embed: what it took otherwise could be promised to
 *  requests, which then found none. The reservation is a request that waits its turn with the others and has no rows;
 *  from its QINFER_EVENT_RESERVED on evaluate the session, on any thread, and free the request when that is done or,
 *  where the session's generation is submitted then, after that. The session must be of the scheduler's cache and hold
 *  no block yet; until the event, END or the step after qinfer_request_free it must not be evaluated. Errors as
 *  qinfer_scheduler_submit's, QINFER_E_STATE for a session that holds blocks. */
QINFER_STATUS qinfer_scheduler_reserve(qinfer_scheduler *scheduler, qinfer_session *session, uint64_t n_tokens,
                                       const qinfer_request_options *options, qinfer_request **out, qinfer_error *err);
/** [any thread] The request ends with the step that runs, or else with the next one, with QINFER_E_CANCELLED; a step
 *  that evaluates it alone stops within a layer. The qinfer_cancel of its generation ends it after a step, too. */
QINFER_API void qinfer_request_cancel(qinfer_request *request);
/** [any thread] paused not 0: from the next step on nothing of the request is evaluated or drawn, until it is 0 again,
 *  for a client that does not take what is there. One that waits does not begin; one that runs keeps its place, and its
 *  blocks, but with park_path it leaves first where blocks run out or one that waits needs them, and returns when it
 *  goes on. It may be cancelled, and its deadline holds. */
QINFER_API void qinfer_request_pause(qinfer_request *request, int32_t paused);
/** [any thread] One that has not ended is cancelled, and no events of it follow; its generation and session are free to
 *  use after the next step. */
QINFER_API void qinfer_request_free(qinfer_request *request);

/** One step; nothing happens where there is no request. QINFER_E_STATE while events of the last one are left, or
 *  another step runs. After QINFER_E_NO_MEMORY or QINFER_E_IO nothing was evaluated, and it can be called again when
 *  its events were taken. What fails of one request alone is in its QINFER_EVENT_END. */
QINFER_STATUS qinfer_scheduler_step(qinfer_scheduler *scheduler, qinfer_error *err);
/** [any thread] Waits until there is a request, running or not, but not longer than timeout_ns. */
QINFER_STATUS qinfer_scheduler_wait(qinfer_scheduler *scheduler, uint64_t timeout_ns, int32_t *out_has_requests,
                                    qinfer_error *err);

/** PROMPT  Some of the prompt was evaluated: n_evaluated of n_tokens.
 *  TOKEN   token: what qinfer_generation_next gives; its text and arrays are valid until the next step, or until the
 *          generation is freed and its END was taken.
 *  END     The last event of a request: status, and if that is not QINFER_OK message. The text that was held back is
 *          given by qinfer_generation_finish then.
 *  RESERVED  Of qinfer_scheduler_reserve: the blocks are promised. */
enum {
    QINFER_EVENT_NONE = 0,
    QINFER_EVENT_PROMPT = 1,
    QINFER_EVENT_TOKEN = 2,
    QINFER_EVENT_END = 3,
    QINFER_EVENT_RESERVED = 4
};
typedef struct qinfer_event {
    uint32_t          struct_size;
    int32_t           kind;        /* QINFER_EVENT_* */
    qinfer_request   *request;     /* NULL with QINFER_EVENT_NONE */
    void             *user;        /* of qinfer_request_options */
    uint32_t          n_evaluated, n_tokens; /* of the session, after the step */
    qinfer_status     status;
    uint32_t          reserved;
    const char       *message;     /* NUL-terminated; until the request is freed */
    qinfer_token_info token;       /* its struct_size is 0 but with QINFER_EVENT_TOKEN */
} qinfer_event;
/** What the last step has brought, one after the other in the order in which it happened; then QINFER_EVENT_NONE. */
QINFER_STATUS qinfer_scheduler_next(qinfer_scheduler *scheduler, qinfer_event *out, qinfer_error *err);

typedef struct qinfer_scheduler_stats {
    uint32_t struct_size;
    uint32_t parked; /* of running, those that leave or return too */
    uint32_t waiting, running;
    uint64_t promised_bytes; /* of the cache's blocks, to running requests */
    uint64_t submitted, ended, steps, decode_rows, prompt_rows; /* since creation; steps that evaluated something */
    uint64_t last_step_ns;
    uint64_t parked_bytes, times_parked; /* in files now; how often a request has left, since creation */
} qinfer_scheduler_stats;
/** [any thread] */
QINFER_STATUS qinfer_scheduler_get_stats(qinfer_scheduler *scheduler, qinfer_scheduler_stats *out, qinfer_error *err);
/** Requests that have not ended give no more events; each is still to be freed. */
QINFER_API void qinfer_scheduler_free(qinfer_scheduler *scheduler);

/* ---- OpenAI's interface, without sockets ---------------------------------------------------------------- */
/* Requests and answers of OpenAI's interface (chat completions, completions, embeddings) as bytes: a program that has
 * them from anywhere, a socket or a queue, computes an answer so:
 *
 *   qinfer_openai_request_create     reads the bytes; for what is wrong qinfer_openai_error_json makes the answer
 *   qinfer_openai_answer_create      takes what comes, and gives bytes: JSON, or server-sent events
 *   for each choice:
 *     qinfer_openai_generation_create  puts the prompt into a session, to draw from
 *     qinfer_openai_answer_begin       once
 *     qinfer_generation_next, qinfer_openai_answer_add    in turns, until the choice has ended
 *   qinfer_openai_answer_bytes       at any time
 *
 * A request has at most 64 MiB, 64 levels, 1,048,576 values and 4,096 choices. An answer takes the memory of its text
 * as JSON, and a KiB for each choice. */
typedef struct qinfer_openai_request qinfer_openai_request; /* never changes */
typedef struct qinfer_openai_answer  qinfer_openai_answer;
enum { QINFER_OPENAI_CHAT = 1, QINFER_OPENAI_COMPLETION = 2, QINFER_OPENAI_EMBEDDINGS = 3 };
typedef struct qinfer_openai_options {
    uint32_t struct_size, flags;     /* none yet */
    const qinfer_chat_options *chat; /* template and date; NULL = the model's, now. Its cancel is looked at */
    uint64_t seed;                   /* of a request that has none; each choice of a prompt adds 1 */
} qinfer_openai_options;
/** Reads a request. What is not honoured is refused by name, and fields that ask for nothing that changes the answer,
 *  such as "user", are named in qinfer_openai_info.unused. Beyond OpenAI's fields: top_k, min_p, repetition_penalty,
 *  chat_template_kwargs (variables of the template), max_reasoning_tokens, and reasoning (false: none is looked for).
 *  A schema with "strict": true is closed: its objects have no properties that it does not name.
 *  With a schema reasoning has half of max_completion_tokens, unless max_reasoning_tokens says otherwise. Where
 *  "tool_choice" asks for a call ("required", or the name of a function) the schema is that of one call.
 *
 *  QINFER_E_FORMAT for what is no such request, QINFER_E_UNSUPPORTED for what is not honoured, and the errors of
 *  qinfer_chat_tokenize. Messages name the field. */
QINFER_STATUS qinfer_openai_request_create(const qinfer_model *model, int32_t kind, const char *json, size_t len,
                                           const qinfer_openai_options *options, qinfer_openai_request **out,
                                           qinfer_error *err);
enum {
    QINFER_OPENAI_STREAM          = 1, /* server-sent events are asked for */
    QINFER_OPENAI_PROMPT_LOGPROBS = 2, /* qinfer_openai_answer_begin evaluates the prompt, as many tokens at a time as
                                          the session's max_logits */
    QINFER_OPENAI_NO_NEW_TOKENS   = 4  /* none is drawn: "max_tokens" is 0, or embeddings are asked for */
};
typedef struct qinfer_openai_info {
    uint32_t    struct_size;
    int32_t     kind;                /* QINFER_OPENAI_CHAT, _COMPLETION or _EMBEDDINGS */
    uint32_t    flags;               /* QINFER_OPENAI_STREAM, _PROMPT_LOGPROBS */
    uint32_t    n_prompts, n_choices; /* those of one prompt follow each other */
    uint32_t    longest_prompt;      /* in tokens */
    uint32_t    max_new_tokens;      /* of a choice; 0 = no bound but the context's */
    uint32_t    reserved;
    const char *model;               /* as the client calls it, maybe ""; texts live as long as the request */
    size_t      model_len;
    const char *schema;              /* JSON schema that the content, or its one call, must fulfil: for a grammar in
                                        the session's hook; NULL = none */
    size_t      schema_len;
    const char *unused;              /* fields that change nothing, separated by spaces; maybe "" */
    size_t      unused_len;
} qinfer_openai_info;
QINFER_STATUS qinfer_openai_request_get_info(const qinfer_openai_request *request, qinfer_openai_info *out,
                                             qinfer_error *err);
/** The tokens of a prompt, below n_prompts. */
QINFER_STATUS qinfer_openai_request_tokens(const qinfer_openai_request *request, size_t prompt, qinfer_token *tokens,
                                           size_t capacity, size_t *out_n, qinfer_error *err);
QINFER_API void qinfer_openai_request_free(qinfer_openai_request *request);

/** Puts the prompt of a choice into the session (qinfer_session_set_tokens), sets its sampler and bias, and gives the
 *  generation of the choice. The session's logits hook stays: a grammar is the host's to set and to remove. cancel may
 *  be NULL, and is borrowed. QINFER_E_CONTEXT_FULL (detail: tokens that the session holds) if prompt and max_new_tokens
 *  do not fit. */
QINFER_STATUS qinfer_openai_generation_create(const qinfer_openai_request *request, size_t choice,
                                              qinfer_session *session, const qinfer_cancel *cancel,
                                              qinfer_generation **out, qinfer_error *err);
/** The generation of a choice that was begun elsewhere, from the same request (bytes, seed, template and date): the
 *  session, of qinfer_session_load perhaps, begins with the choice's prompt, and what follows was drawn there. The
 *  first steps of qinfer_generation_next give these tokens again, without evaluating anything, so that a new answer
 *  becomes what that one was; a hook of the session is shown them. Then it goes on, with the bits that it would have
 *  had there.
 *  QINFER_E_INVALID_ARGUMENT for a session with another beginning, or more tokens than are asked for;
 *  QINFER_E_UNSUPPORTED with log probabilities or mirostat. The rest is as in qinfer_openai_generation_create. */
QINFER_STATUS qinfer_openai_generation_resume(const qinfer_openai_request *request, size_t choice,
                                              qinfer_session *session, const qinfer_cancel *cancel,
                                              qinfer_generation **out, qinfer_error *err);
typedef struct qinfer_openai_answer_options {
    uint32_t    struct_size, reserved;
    const char *id, *model; /* of the answer; NULL = "" and the name that the client gave */
    int64_t     created;    /* seconds since 1970 */
} qinfer_openai_answer_options;
QINFER_STATUS qinfer_openai_answer_create(const qinfer_openai_request *request,
                                          const qinfer_openai_answer_options *options, qinfer_openai_answer **out,
                                          qinfer_error *err);
/** Before the first step of a choice. With "echo" its prompt is added, with log probabilities where they are asked for.
 *  *out_ended (may be NULL): 1 if the choice has ended, since no new tokens are asked for. */
QINFER_STATUS qinfer_openai_answer_begin(qinfer_openai_answer *answer, size_t choice, qinfer_generation *generation,
                                         int32_t *out_ended, qinfer_error *err);
/** Adds what the last qinfer_generation_next, or qinfer_generation_finish, has brought, once. *out_ended (may be NULL):
 *  1 if the choice has ended; with "parallel_tool_calls": false the first call ends it. */
QINFER_STATUS qinfer_openai_answer_add(qinfer_openai_answer *answer, size_t choice, qinfer_generation *generation,
                                       int32_t *out_ended, qinfer_error *err);
/** Adds an embedding: evaluates the prompt in a session with QINFER_SESSION_EMBEDDINGS, or of an encoder; prompt by
 *  prompt. pooling: QINFER_POOL_*. */
QINFER_STATUS qinfer_openai_answer_embed(qinfer_openai_answer *answer, size_t prompt, qinfer_session *session,
                                         int32_t pooling, const qinfer_cancel *cancel, qinfer_error *err);
/** The answer ends with this error; a stream says so in an event. Nothing happens once it is complete. */
QINFER_STATUS qinfer_openai_answer_fail(qinfer_openai_answer *answer, const qinfer_error *error, qinfer_error *err);
/** The bytes that are ready and were not given before: of a stream events, otherwise the JSON text once all choices
 *  have ended. *out_complete (may be NULL): 1 if nothing follows. */
QINFER_STATUS qinfer_openai_answer_bytes(qinfer_openai_answer *answer, char *bytes, size_t capacity, size_t *out_n,
                                         int32_t *out_complete, qinfer_error *err);
QINFER_API void qinfer_openai_answer_free(qinfer_openai_answer *answer);
/** {"error": {"message", "type", "param", "code"}} for a call that failed. */
QINFER_STATUS qinfer_openai_error_json(const qinfer_error *error, char *json, size_t capacity, size_t *out_n,
                                       qinfer_error *err);

/* ---- State, memory and metrics ----------------------------------------------------------------------- */
/** Totals since creation; a session counts its own share of a batch. A token that a session evaluates alone in a call
 *  counts as decoded, more than one as prefill. */
typedef struct qinfer_metrics {
    uint32_t struct_size, reserved;
    uint64_t prefill_tokens, decode_tokens, evals;
    uint64_t cached_tokens; /* found in the cache instead of evaluated */
    uint64_t prefill_ns, decode_ns, sample_ns, wait_ns; /* wait: for the threads of the runtime */
    uint64_t drafted[16], accepted[16]; /* with max_draft: guessed tokens that were evaluated, and those that were
                                           right, by their place in the guess. decode_tokens counts the right ones */
} qinfer_metrics;
typedef struct qinfer_session_memory {
    uint32_t struct_size, reserved;
    uint64_t kv_private, kv_shared; /* blocks held in the cache; shared: others hold them too */
    uint64_t kv_reserved;           /* address space of QINFER_CACHE_CONTIGUOUS, else 0 */
    uint64_t other;                 /* everything else */
} qinfer_session_memory;
QINFER_STATUS qinfer_session_get_memory(const qinfer_session *session, qinfer_session_memory *out, qinfer_error *err);
typedef struct qinfer_session_info {
    uint32_t struct_size;
    uint32_t flags;                  /* QINFER_SESSION_*; EMBEDDINGS in every session of an encoder */
    uint32_t max_tokens, max_logits; /* as it was created, with the defaults filled in, or saved */
    uint64_t n_tokens, n_evaluated;  /* the rest is pending */
    uint32_t n_logits;               /* rows that qinfer_session_logits gives now */
    uint32_t n_bias;                 /* entries of qinfer_session_set_bias */
    uint32_t has_logits_hook;        /* 1 or 0 */
    uint32_t max_draft;
} qinfer_session_info;
QINFER_STATUS qinfer_session_get_info(const qinfer_session *session, qinfer_session_info *out, qinfer_error *err);
QINFER_STATUS qinfer_session_get_metrics(const qinfer_session *session, qinfer_metrics *out, qinfer_error *err);
QINFER_STATUS qinfer_runtime_get_metrics(const qinfer_runtime *runtime, qinfer_metrics *out, qinfer_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QINFER_H */
