/* logits_hook.c - a hook between logits and sampler: no token with the letter b can be drawn, whatever the sampler's
 * options, and the hook counts what was drawn. A grammar would work the same way.
 * ./logits_hook [MODEL_DIRECTORY] */
#include <math.h>
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <string.h>

typedef struct Letters {
  const qinfer_model* model;
  unsigned drawn;
} Letters;

static int32_t forbid_b(const qinfer_session* session, float* logits, uint32_t n_vocab, void* user) {
  const Letters* letters = user;
  (void)session;
  for (qinfer_token token = 0; token < (qinfer_token)n_vocab; ++token) {
    size_t n = 0;
    const char* text = qinfer_token_text(letters->model, token, &n);
    if (text != NULL && (memchr(text, 'b', n) != NULL || memchr(text, 'B', n) != NULL)) logits[token] = -INFINITY;
  }
  return 0;
}

static int32_t count(qinfer_token token, void* user) {
  (void)token;
  ++((Letters*)user)->drawn;
  return 0;
}

static int32_t print_text(const char* text, size_t len, qinfer_token token, void* user) {
  (void)token, (void)user;
  return fwrite(text, 1, len, stdout) != len;
}

int main(int argc, char** argv) {
  Letters letters = {0};
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_logits_hook hook = {.struct_size = sizeof hook, .apply = forbid_b, .accept = count, .user = &letters};
  qinfer_generate_options options = {.struct_size = sizeof options, .max_tokens = 40, .on_token = print_text};
  qinfer_token tokens[64];
  size_t n = 0;
  qinfer_error error;
  int failed = qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &session, &error);
  letters.model = model;
  failed = failed || qinfer_session_set_logits_hook(session, &hook, &error) ||
           qinfer_tokenize(model, "Once upon a time", SIZE_MAX, 0, tokens, 64, &n, &error) ||
           qinfer_session_append(session, tokens, n, &error) || qinfer_generate(session, &options, NULL, &error);
  if (!failed) printf("\n(%u tokens drawn)\n", letters.drawn);
  if (failed) fprintf(stderr, "%s\n", error.message);
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
