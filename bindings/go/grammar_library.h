/* libqinfer_grammar for the Go files: loaded when it is first needed, since a program without grammars does not need
 * it. Nothing of qinfer_grammar.h is seen from there, which is not installed where the library was not built. */
#ifndef QINFER_GO_GRAMMAR_LIBRARY_H
#define QINFER_GO_GRAMMAR_LIBRARY_H

#include <qinfer/qinfer.h>

#define QGO_GRAMMAR_SONAME "libqinfer_grammar.so.0.2"

typedef struct qinfer_grammar_vocab qgo_vocab;
typedef struct qinfer_grammar qgo_grammar;
typedef struct qinfer_grammar_matcher qgo_matcher;

enum { QGO_JSON_SCHEMA = 1, QGO_REGEX = 2, QGO_LARK = 3 }; /* QINFER_GRAMMAR_* */
enum { QGO_ANY_SPACE = 1 };
enum { QGO_ACCEPTING = 1, QGO_ENDED = 2, QGO_FAILED = 4 };

/* Members of qinfer_grammar_options. */
typedef struct qgo_limits {
  uint32_t flags, max_depth, max_states, max_symbols, max_row_items;
  uint64_t max_source_bytes, compile_work, mask_work;
} qgo_limits;

typedef struct qgo_grammar_about {
  int32_t kind;
  uint32_t n_tokens, n_warnings;
} qgo_grammar_about;

typedef struct qgo_matcher_about {
  uint32_t flags;
  uint64_t n_tokens;
} qgo_matcher_about;

/* Whether the program was built with qinfer_grammar.h. Without it no library is opened. */
int qgo_has_grammars(void);
/* 0, or another number where (why, capacity) says why not. One call at a time; the functions below need one that
 * succeeded. */
int qgo_grammar_open(const char* path, char* why, size_t capacity);
/* The file that libqinfer was loaded from, or "". */
void qgo_library_path(char* path, size_t capacity);

qinfer_status qgo_vocab_create(const qinfer_model* model, uint32_t n_tokens, qgo_vocab** out, qinfer_error* err);
void qgo_vocab_free(qgo_vocab* vocab);
qinfer_status qgo_grammar_compile(const qgo_vocab* vocab, int32_t kind, const char* text, size_t len,
                                  const qgo_limits* limits, qgo_grammar** out, qinfer_error* err);
qinfer_status qgo_grammar_get_about(const qgo_grammar* grammar, qgo_grammar_about* out, qinfer_error* err);
void qgo_grammar_free(qgo_grammar* grammar);
qinfer_status qgo_matcher_create(const qgo_grammar* grammar, qgo_matcher** out, qinfer_error* err);
qinfer_status qgo_matcher_clone(const qgo_matcher* matcher, qgo_matcher** out, qinfer_error* err);
void qgo_matcher_free(qgo_matcher* matcher);
qinfer_status qgo_matcher_mask(qgo_matcher* matcher, uint32_t* words, size_t capacity, size_t* n, qinfer_error* err);
qinfer_status qgo_matcher_accept(qgo_matcher* matcher, const qinfer_token* tokens, size_t n, qinfer_error* err);
qinfer_status qgo_matcher_rewind(qgo_matcher* matcher, size_t n, qinfer_error* err);
qinfer_status qgo_matcher_get_about(qgo_matcher* matcher, qgo_matcher_about* out, qinfer_error* err);
qinfer_status qgo_matcher_error(const qgo_matcher* matcher, qinfer_error* err);
/* The matcher's hook becomes that of the session. */
qinfer_status qgo_matcher_install(const qgo_matcher* matcher, qinfer_session* session, qinfer_error* err);

#endif
