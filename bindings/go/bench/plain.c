/* The side of the bench that is C alone: one thread, greedy, with end tokens banned. */
#include "plain.h"

#include <stdlib.h>

enum { MOST_TOKENS = 64 };

struct bench_session {
  qinfer_session* session;
  qinfer_token prompt[MOST_TOKENS];
  size_t n;
};

static int32_t count(const char* text, size_t n, qinfer_token token, void* user) {
  (void)text;
  (void)token;
  *(size_t*)user += n;
  return 0;
}

bench_session* bench_open(const char* path, const char* prompt) {
  static const float banned[MOST_TOKENS] = {-1e30F, -1e30F, -1e30F, -1e30F};
  bench_session* made = calloc(1, sizeof *made);
  const qinfer_runtime_options one = {.struct_size = sizeof one, .n_threads = 1};
  qinfer_runtime* runtime = NULL;
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_token ends[4];
  size_t n = 0;
  if (made == NULL || qinfer_runtime_create(&one, &runtime, NULL) ||
      qinfer_model_load(runtime, path, NULL, &model, NULL) || qinfer_kv_cache_create(model, NULL, &cache, NULL) ||
      qinfer_session_create(cache, NULL, &made->session, NULL) ||
      qinfer_tokenize(model, prompt, SIZE_MAX, QINFER_TEXT_ADD_SPECIAL, made->prompt, MOST_TOKENS, &made->n, NULL) ||
      qinfer_model_end_tokens(model, ends, 4, &n, NULL) ||
      qinfer_session_set_bias(made->session, ends, banned, n, NULL))
    return NULL;
  return made;
}

size_t bench_run(bench_session* session, uint32_t tokens) {
  size_t bytes = 0;
  const qinfer_generate_options options = {
      .struct_size = sizeof options, .max_tokens = tokens, .on_token = count, .user = &bytes};
  if (qinfer_session_set_tokens(session->session, session->prompt, session->n, NULL, NULL) ||
      qinfer_generate(session->session, &options, NULL, NULL))
    return 0;
  return bytes;
}
