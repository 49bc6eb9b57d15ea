/* The side of the bench that is C alone. */
#ifndef QINFER_GO_BENCH_PLAIN_H
#define QINFER_GO_BENCH_PLAIN_H

#include <qinfer/qinfer.h>

typedef struct bench_session bench_session;

/* NULL if a call fails. It lives until the process ends. */
bench_session* bench_open(const char* path, const char* prompt);
/* Generates from the prompt on, with a callback that counts bytes, and returns them; 0 if a call fails. */
size_t bench_run(bench_session* session, uint32_t tokens);

#endif
