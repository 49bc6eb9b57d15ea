/* What the Go files need in C: room for errors, and calls that take handles of Go values (runtime/cgo.Handle) instead
 * of user pointers. A handle is a small number. It must not be held in a pointer of Go, so it becomes a void* here. */
#ifndef QINFER_GO_TRAMPOLINES_H
#define QINFER_GO_TRAMPOLINES_H

#include <qinfer/qinfer.h>

enum { QGO_MESSAGE_ROOM = 16384 };

/* Room for the error of one call at a time. It is memory of C, since it holds a pointer into itself. */
typedef struct qgo_failure {
  qinfer_full_error full;
  qinfer_error* arg; /* of qinfer_full_error_arg */
  char text[QGO_MESSAGE_ROOM];
} qgo_failure;

/* NULL where there is no memory. It is never freed: the next call uses it again. */
qgo_failure* qgo_failure_new(void);

/* The functions of qinfer.h with the callbacks of this package; a handle that is 0 stands for no callback. */
qinfer_status qgo_model_load(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                             uintptr_t progress, uintptr_t files, qinfer_model** out, qinfer_error* err);
qinfer_status qgo_model_pack(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                             uintptr_t progress, const char* out_path, qinfer_error* err);
qinfer_status qgo_session_save(const qinfer_session* session, const char* path, uintptr_t files, qinfer_error* err);
qinfer_status qgo_session_load(qinfer_kv_cache* cache, const char* path, uint32_t flags, uintptr_t files,
                               qinfer_session** out, qinfer_session_load_result* result, qinfer_error* err);
qinfer_status qgo_generate(qinfer_session* session, const qinfer_generate_options* options, uintptr_t generation,
                           qinfer_generate_result* out, qinfer_error* err);
/* The chat options are a pointer inside others, which must not be in memory of Go. */
qinfer_status qgo_reply_create(const qinfer_model* model, const char* conversation, size_t len,
                               const qinfer_chat_options* chat, uint32_t flags, qinfer_reply** out, qinfer_error* err);

/* With clones 0 forks have no hook. */
qinfer_status qgo_set_logits_hook(qinfer_session* session, uintptr_t hook, int clones, qinfer_error* err);
/* `fork` is given to the callback that clones a hook, which the library calls on this thread without saying which fork
 * it is for. */
qinfer_status qgo_session_fork(const qinfer_session* session, uintptr_t fork, qinfer_session** out, qinfer_error* err);

/* `user` is the number of a request, which is no address. */
qinfer_status qgo_scheduler_submit(qinfer_scheduler* scheduler, qinfer_generation* generation,
                                   const qinfer_request_options* options, uintptr_t user, qinfer_request** out,
                                   qinfer_error* err);
qinfer_status qgo_scheduler_next(qinfer_scheduler* scheduler, qinfer_event* out, uintptr_t* user, qinfer_error* err);

/* The engine whose requests this thread draws; 0: none. */
void qgo_set_engine_of_thread(uintptr_t engine);
uintptr_t qgo_engine_of_thread(void);

/* What the deadlines of a scheduler without a clock count. */
uint64_t qgo_now_ns(void);

#endif
