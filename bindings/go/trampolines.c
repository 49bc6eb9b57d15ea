/* The callbacks that the library calls. Each calls a function of Go, which catches panics; see callbacks.go. */
#include "trampolines.h"

#include <stdlib.h>
#include <time.h>

#include "_cgo_export.h"

qgo_failure* qgo_failure_new(void) {
  qgo_failure* failure = calloc(1, sizeof *failure);
  if (failure == NULL) return NULL;
  failure->full.struct_size = sizeof failure->full;
  failure->full.text = failure->text;
  failure->full.capacity = sizeof failure->text;
  failure->arg = qinfer_full_error_arg(&failure->full);
  return failure;
}

/* ---- Progress and tokens ---- */
static int32_t on_progress(uint64_t done, uint64_t total, void* user) {
  return qgoProgress((uintptr_t)user, done, total);
}

static int32_t on_token(const char* text, size_t n, qinfer_token token, void* user) {
  return qgoToken((uintptr_t)user, (char*)text, n, token);
}

/* ---- Files ---- */
static qinfer_status file_open(const char* name, int32_t mode, void** out_file, void* user) {
  uintptr_t file = 0;
  const qinfer_status status = qgoFileOpen((uintptr_t)user, (char*)name, mode, &file);
  *out_file = (void*)file;
  return status;
}

static qinfer_status file_size(void* file, uint64_t* out_bytes, void* user) {
  return qgoFileSize((uintptr_t)user, (uintptr_t)file, out_bytes);
}

static qinfer_status file_read_at(void* file, uint64_t offset, void* data, size_t n, void* user) {
  return qgoFileReadAt((uintptr_t)user, (uintptr_t)file, offset, data, n);
}

static qinfer_status file_write_at(void* file, uint64_t offset, const void* data, size_t n, void* user) {
  return qgoFileWriteAt((uintptr_t)user, (uintptr_t)file, offset, (void*)data, n);
}

static qinfer_status file_sync(void* file, void* user) { return qgoFileSync((uintptr_t)user, (uintptr_t)file); }

static qinfer_status file_truncate(void* file, uint64_t n_bytes, void* user) {
  return qgoFileTruncate((uintptr_t)user, (uintptr_t)file, n_bytes);
}

static qinfer_status file_close(void* file, void* user) { return qgoFileClose((uintptr_t)user, (uintptr_t)file); }

static qinfer_files files_of(uintptr_t handle) {
  const qinfer_files files = {.struct_size = sizeof files,
                              .user = (void*)handle,
                              .open = file_open,
                              .size = file_size,
                              .read_at = file_read_at,
                              .close = file_close,
                              .write_at = file_write_at,
                              .sync = file_sync,
                              .truncate = file_truncate};
  return files;
}

/* ---- Logits hooks ---- */
static _Thread_local uintptr_t forking; /* the fork that this thread makes */

static int32_t hook_apply(const qinfer_session* session, float* logits, uint32_t n_vocab, void* user) {
  (void)session;
  return qgoHookApply((uintptr_t)user, logits, n_vocab);
}

static int32_t hook_accept(qinfer_token token, void* user) { return qgoHookAccept((uintptr_t)user, token); }

static int32_t hook_rewind(size_t n_tokens, void* user) { return qgoHookRewind((uintptr_t)user, n_tokens); }

static int32_t hook_clone(void* user, void** out_user) {
  const uintptr_t made = qgoHookClone((uintptr_t)user, forking);
  *out_user = (void*)made;
  return made == 0;
}

static void hook_release(void* user) { qgoHookRelease((uintptr_t)user); }

/* ---- Calls ---- */
qinfer_status qgo_model_load(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                             uintptr_t progress, uintptr_t files, qinfer_model** out, qinfer_error* err) {
  qinfer_load_options load = *options;
  const qinfer_files callbacks = files_of(files);
  if (progress != 0) {
    load.progress = on_progress;
    load.progress_user = (void*)progress;
  }
  if (files != 0) load.files = &callbacks;
  return qinfer_model_load(runtime, path, &load, out, err);
}

qinfer_status qgo_model_pack(qinfer_runtime* runtime, const char* path, const qinfer_load_options* options,
                             uintptr_t progress, const char* out_path, qinfer_error* err) {
  qinfer_load_options load = *options;
  if (progress != 0) {
    load.progress = on_progress;
    load.progress_user = (void*)progress;
  }
  return qinfer_model_pack(runtime, path, &load, out_path, err);
}

qinfer_status qgo_session_save(const qinfer_session* session, const char* path, uintptr_t files, qinfer_error* err) {
  const qinfer_files callbacks = files_of(files);
  qinfer_session_save_options options = {.struct_size = sizeof options};
  if (files != 0) options.files = &callbacks;
  return qinfer_session_save_with(session, path, &options, err);
}

qinfer_status qgo_session_load(qinfer_kv_cache* cache, const char* path, uint32_t flags, uintptr_t files,
                               qinfer_session** out, qinfer_session_load_result* result, qinfer_error* err) {
  const qinfer_files callbacks = files_of(files);
  qinfer_session_load_options options = {.struct_size = sizeof options, .flags = flags};
  if (files != 0) options.files = &callbacks;
  return qinfer_session_load_with(cache, path, &options, out, result, err);
}

qinfer_status qgo_generate(qinfer_session* session, const qinfer_generate_options* options, uintptr_t generation,
                           qinfer_generate_result* out, qinfer_error* err) {
  qinfer_generate_options with = *options;
  with.on_token = on_token;
  with.user = (void*)generation;
  return qinfer_generate(session, &with, out, err);
}

qinfer_status qgo_reply_create(const qinfer_model* model, const char* conversation, size_t len,
                               const qinfer_chat_options* chat, uint32_t flags, qinfer_reply** out, qinfer_error* err) {
  const qinfer_reply_options options = {.struct_size = sizeof options, .flags = flags, .chat = chat};
  return qinfer_reply_create(model, conversation, len, &options, out, err);
}

qinfer_status qgo_set_logits_hook(qinfer_session* session, uintptr_t hook, int clones, qinfer_error* err) {
  const qinfer_logits_hook callbacks = {.struct_size = sizeof callbacks,
                                        .apply = hook_apply,
                                        .accept = hook_accept,
                                        .rewind = hook_rewind,
                                        .clone = clones ? hook_clone : NULL,
                                        .release = hook_release,
                                        .user = (void*)hook};
  return qinfer_session_set_logits_hook(session, hook != 0 ? &callbacks : NULL, err);
}

qinfer_status qgo_session_fork(const qinfer_session* session, uintptr_t fork, qinfer_session** out, qinfer_error* err) {
  const uintptr_t outer = forking; /* of a callback that forks another session */
  forking = fork;
  const qinfer_status status = qinfer_session_fork(session, out, err);
  forking = outer;
  return status;
}

/* ---- Engines ---- */
static _Thread_local uintptr_t engine_of_thread;

void qgo_set_engine_of_thread(uintptr_t engine) { engine_of_thread = engine; }

uintptr_t qgo_engine_of_thread(void) { return engine_of_thread; }

uint64_t qgo_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

qinfer_status qgo_scheduler_submit(qinfer_scheduler* scheduler, qinfer_generation* generation,
                                   const qinfer_request_options* options, uintptr_t user, qinfer_request** out,
                                   qinfer_error* err) {
  qinfer_request_options with = *options;
  with.user = (void*)user;
  return qinfer_scheduler_submit(scheduler, generation, &with, out, err);
}

qinfer_status qgo_scheduler_next(qinfer_scheduler* scheduler, qinfer_event* out, uintptr_t* user, qinfer_error* err) {
  const qinfer_status status = qinfer_scheduler_next(scheduler, out, err);
  *user = (uintptr_t)out->user;
  return status;
}
