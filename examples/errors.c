/* errors.c - a failure is a status and a message, and leaves everything as it was: a path that is not there, a token
 * that the model does not have, and a cache without room, which a host can make room in and call again.
 * ./errors [MODEL_DIRECTORY] */
#include <qinfer/qinfer.h>
#include <stdio.h>

static void show(const qinfer_error* error) {
  printf("%s (%lld): %s\n", qinfer_status_name(error->code), (long long)error->detail, error->message);
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session *first = NULL, *second = NULL;
  qinfer_kv_cache_options kv = {.struct_size = sizeof kv, .budget_blocks = 1}; /* 32 tokens */
  qinfer_session_options limits = {.struct_size = sizeof limits, .max_tokens = 32};
  const qinfer_token tokens[3] = {10, 20, 30}, wrong[2] = {10, 1 << 30};
  qinfer_error error;

  if (qinfer_model_load(NULL, "no/such/model", NULL, &model, &error) == QINFER_E_NOT_FOUND) show(&error);

  int failed = qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_kv_cache_create(model, &kv, &cache, &error) ||
               qinfer_session_create(cache, &limits, &first, &error) ||
               qinfer_session_create(cache, &limits, &second, &error);
  /* detail is the index of the token at fault; none of the two was appended */
  if (!failed && qinfer_session_append(first, wrong, 2, &error) == QINFER_E_INVALID_ARGUMENT) show(&error);

  failed = failed || qinfer_session_append(first, tokens, 3, &error) || qinfer_eval(&first, 1, NULL, &error) ||
           qinfer_session_append(second, tokens, 3, &error);
  if (!failed) {
    qinfer_status status = qinfer_eval(&second, 1, NULL, &error);
    if (status == QINFER_E_KV_FULL) { /* the tokens of both sessions are still there */
      show(&error);
      failed = qinfer_session_truncate(first, 0, &error) != QINFER_OK; /* its block is free again */
      if (!failed) status = qinfer_eval(&second, 1, NULL, &error);
    }
    failed = failed || status != QINFER_OK;
  }
  if (failed)
    fprintf(stderr, "%s\n", error.message);
  else
    printf("evaluated: %zu pending\n", qinfer_session_pending(second));

  qinfer_session_free(second);
  qinfer_session_free(first);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
