/* See grammar_library.h. */
#define _GNU_SOURCE
#include "grammar_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void qgo_library_path(char* path, size_t capacity) {
  Dl_info info;
  const void* function = dlsym(RTLD_DEFAULT, "qinfer_version_string"); /* in a program &qinfer_... may be a stub's */
  if (function == NULL) function = (const void*)&qinfer_version_string;
  const char* found = dladdr(function, &info) != 0 ? info.dli_fname : "";
  snprintf(path, capacity, "%s", found);
}

#ifdef __has_include
#if __has_include(<qinfer/qinfer_grammar.h>)
#define QGO_HAS_GRAMMARS
#endif
#endif

#ifdef QGO_HAS_GRAMMARS
#include <qinfer/qinfer_grammar.h>

_Static_assert(QGO_JSON_SCHEMA == QINFER_GRAMMAR_JSON_SCHEMA && QGO_REGEX == QINFER_GRAMMAR_REGEX &&
                   QGO_LARK == QINFER_GRAMMAR_LARK && QGO_ANY_SPACE == QINFER_GRAMMAR_ANY_SPACE &&
                   QGO_ACCEPTING == QINFER_GRAMMAR_ACCEPTING && QGO_ENDED == QINFER_GRAMMAR_ENDED &&
                   QGO_FAILED == QINFER_GRAMMAR_FAILED,
               "grammar_library.h has other numbers than qinfer_grammar.h");

#define FUNCTIONS(X)  \
  X(vocab_create)     \
  X(vocab_free)       \
  X(compile)          \
  X(get_info)         \
  X(free)             \
  X(matcher_create)   \
  X(matcher_clone)    \
  X(matcher_free)     \
  X(matcher_hook)     \
  X(matcher_mask)     \
  X(matcher_accept)   \
  X(matcher_rewind)   \
  X(matcher_get_info) \
  X(matcher_error)

typedef struct functions {
#define MEMBER(name) __typeof__(&qinfer_grammar_##name) name;
  FUNCTIONS(MEMBER)
} functions;

static functions library; /* set once */

int qgo_has_grammars(void) { return 1; }

int qgo_grammar_open(const char* path, char* why, size_t capacity) {
  functions found;
  void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    snprintf(why, capacity, "%s", dlerror());
    return 1;
  }
#define FIND(name)                                                                \
  found.name = (__typeof__(found.name))dlsym(handle, "qinfer_grammar_" #name);    \
  if (found.name == NULL) {                                                       \
    snprintf(why, capacity, "%s has no function qinfer_grammar_%s", path, #name); \
    return 1; /* it stays loaded: qinfer_grammar.h forbids dlclose() */           \
  }
  FUNCTIONS(FIND)
  library = found;
  return 0;
}

qinfer_status qgo_vocab_create(const qinfer_model* model, uint32_t n_tokens, qgo_vocab** out, qinfer_error* err) {
  const qinfer_grammar_vocab_options options = {.struct_size = sizeof options,
                                                .n_tokens = n_tokens,
                                                .model = model,
                                                .token_text = qinfer_token_text,
                                                .token_flags = qinfer_token_flags};
  return library.vocab_create(&options, out, err);
}

void qgo_vocab_free(qgo_vocab* vocab) { library.vocab_free(vocab); }

qinfer_status qgo_grammar_compile(const qgo_vocab* vocab, int32_t kind, const char* text, size_t len,
                                  const qgo_limits* limits, qgo_grammar** out, qinfer_error* err) {
  const qinfer_grammar_options options = {.struct_size = sizeof options,
                                          .flags = limits->flags,
                                          .max_source_bytes = limits->max_source_bytes,
                                          .max_depth = limits->max_depth,
                                          .max_states = limits->max_states,
                                          .max_symbols = limits->max_symbols,
                                          .max_row_items = limits->max_row_items,
                                          .compile_work = limits->compile_work,
                                          .mask_work = limits->mask_work};
  return library.compile(vocab, kind, text, len, &options, out, err);
}

qinfer_status qgo_grammar_get_about(const qgo_grammar* grammar, qgo_grammar_about* out, qinfer_error* err) {
  qinfer_grammar_info info = {.struct_size = sizeof info};
  const qinfer_status status = library.get_info(grammar, &info, err);
  *out = (qgo_grammar_about){.kind = info.kind, .n_tokens = info.n_tokens, .n_warnings = info.n_warnings};
  return status;
}

void qgo_grammar_free(qgo_grammar* grammar) { library.free(grammar); }

qinfer_status qgo_matcher_create(const qgo_grammar* grammar, qgo_matcher** out, qinfer_error* err) {
  return library.matcher_create(grammar, out, err);
}

qinfer_status qgo_matcher_clone(const qgo_matcher* matcher, qgo_matcher** out, qinfer_error* err) {
  return library.matcher_clone(matcher, out, err);
}

void qgo_matcher_free(qgo_matcher* matcher) { library.matcher_free(matcher); }

qinfer_status qgo_matcher_mask(qgo_matcher* matcher, uint32_t* words, size_t capacity, size_t* n, qinfer_error* err) {
  return library.matcher_mask(matcher, words, capacity, n, err);
}

qinfer_status qgo_matcher_accept(qgo_matcher* matcher, const qinfer_token* tokens, size_t n, qinfer_error* err) {
  return library.matcher_accept(matcher, tokens, n, err);
}

qinfer_status qgo_matcher_rewind(qgo_matcher* matcher, size_t n, qinfer_error* err) {
  return library.matcher_rewind(matcher, n, err);
}

qinfer_status qgo_matcher_get_about(qgo_matcher* matcher, qgo_matcher_about* out, qinfer_error* err) {
  qinfer_grammar_matcher_info info = {.struct_size = sizeof info};
  const qinfer_status status = library.matcher_get_info(matcher, &info, err);
  *out = (qgo_matcher_about){.flags = info.flags, .n_tokens = info.n_tokens};
  return status;
}

qinfer_status qgo_matcher_error(const qgo_matcher* matcher, qinfer_error* err) {
  return library.matcher_error(matcher, err);
}

qinfer_status qgo_matcher_install(const qgo_matcher* matcher, qinfer_session* session, qinfer_error* err) {
  qinfer_logits_hook hook = {.struct_size = sizeof hook};
  qinfer_status status = library.matcher_hook(matcher, &hook, err);
  if (status != QINFER_OK) return status;
  status = qinfer_session_set_logits_hook(session, &hook, err);
  if (status != QINFER_OK) hook.release(hook.user);
  return status;
}

#else
int qgo_has_grammars(void) { return 0; }

/* So nothing below is called. */
int qgo_grammar_open(const char* path, char* why, size_t capacity) { return 1; }

#define ABSENT(name, ...) \
  qinfer_status name(__VA_ARGS__) { return QINFER_E_UNSUPPORTED; }
#define ABSENT_FREE(name, type) \
  void name(type* object) { (void)object; }

ABSENT(qgo_vocab_create, const qinfer_model* model, uint32_t n_tokens, qgo_vocab** out, qinfer_error* err)
ABSENT(qgo_grammar_compile, const qgo_vocab* vocab, int32_t kind, const char* text, size_t len,
       const qgo_limits* limits, qgo_grammar** out, qinfer_error* err)
ABSENT(qgo_grammar_get_about, const qgo_grammar* grammar, qgo_grammar_about* out, qinfer_error* err)
ABSENT(qgo_matcher_create, const qgo_grammar* grammar, qgo_matcher** out, qinfer_error* err)
ABSENT(qgo_matcher_clone, const qgo_matcher* matcher, qgo_matcher** out, qinfer_error* err)
ABSENT(qgo_matcher_mask, qgo_matcher* matcher, uint32_t* words, size_t capacity, size_t* n, qinfer_error* err)
ABSENT(qgo_matcher_accept, qgo_matcher* matcher, const qinfer_token* tokens, size_t n, qinfer_error* err)
ABSENT(qgo_matcher_rewind, qgo_matcher* matcher, size_t n, qinfer_error* err)
ABSENT(qgo_matcher_get_about, qgo_matcher* matcher, qgo_matcher_about* out, qinfer_error* err)
ABSENT(qgo_matcher_error, const qgo_matcher* matcher, qinfer_error* err)
ABSENT(qgo_matcher_install, const qgo_matcher* matcher, qinfer_session* session, qinfer_error* err)
ABSENT_FREE(qgo_vocab_free, qgo_vocab)
ABSENT_FREE(qgo_grammar_free, qgo_grammar)
ABSENT_FREE(qgo_matcher_free, qgo_matcher)
#endif
