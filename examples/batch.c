/* batch.c - continuous batching: requests arrive while others are answered; a step evaluates at most 16 tokens of all
 * sessions together, so that long prompts advance in chunks while others decode. ./batch [MODEL_DIRECTORY] */
#include <qinfer/qinfer.h>
#include <stdio.h>

enum { REQUESTS = 3, LENGTH = 28 };
static const char* const prompts[REQUESTS] = {"Once upon a time", "One sunny day, Lily was playing with her ball",
                                              "Once upon a time, there was"};

static int print_text(const qinfer_model* model, const qinfer_session* session, qinfer_error* error) {
  qinfer_token tokens[64];
  size_t n = 0, bytes = 0;
  if (qinfer_session_get_tokens(session, tokens, 64, &n, error) != QINFER_OK) return 1;
  for (size_t i = 0; i < n; ++i) {
    const char* text = qinfer_token_text(model, tokens[i], &bytes);
    fwrite(text, 1, bytes, stdout);
  }
  puts("");
  return 0;
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* running[REQUESTS] = {NULL};
  size_t n_running = 0, arrived = 0;
  qinfer_session_options limits = {.struct_size = sizeof limits, .max_tokens = 64};
  qinfer_eval_options options = {.struct_size = sizeof options, .max_tokens = 16};
  qinfer_error error;
  int failed = qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error);

  for (int step = 0; !failed && (arrived < REQUESTS || n_running > 0); ++step) {
    if (arrived < REQUESTS && step % 3 == 0) { /* a request arrives */
      qinfer_token tokens[32];
      size_t n = 0;
      failed = qinfer_session_create(cache, &limits, &running[n_running], &error) ||
               qinfer_tokenize(model, prompts[arrived++], SIZE_MAX, 0, tokens, 32, &n, &error) ||
               qinfer_session_append(running[n_running++], tokens, n, &error);
    }
    if (n_running == 0) continue;
    failed = failed || qinfer_eval(running, n_running, &options, &error);
    for (size_t i = n_running; i-- > 0 && !failed;) {
      qinfer_token token = 0;
      if (qinfer_session_pending(running[i]) != 0) continue; /* its prompt is not evaluated yet */
      failed = qinfer_session_sample(running[i], &token, &error) != QINFER_OK;
      const int end = qinfer_token_flags(model, token) & QINFER_TOKEN_END;
      if (failed || (!end && qinfer_session_length(running[i]) < LENGTH)) continue;
      failed = print_text(model, running[i], &error);
      qinfer_session_free(running[i]);
      running[i] = running[--n_running], running[n_running] = NULL; /* the last takes its place */
    }
  }
  if (failed) fprintf(stderr, "%s\n", error.message);
  for (size_t i = 0; i < REQUESTS; ++i) qinfer_session_free(running[i]);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
