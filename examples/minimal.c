/* minimal.c - the smallest complete host of qinfer: loads a model and prints how it goes on after a prompt.
 * cc -std=c99 minimal.c -lqinfer -o minimal && ./minimal MODEL_DIRECTORY "Once upon a time" */
#include <qinfer/qinfer.h>
#include <stdio.h>

static int32_t print_text(const char* text, size_t len, qinfer_token token, void* user) {
  (void)token, (void)user;
  return fwrite(text, 1, len, stdout) != len || fflush(stdout) != 0; /* nonzero stops the generation */
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_token tokens[4096];
  size_t n = 0;
  qinfer_error error;
  qinfer_generate_options options = {.struct_size = sizeof options, .max_tokens = 128, .on_token = print_text};
  qinfer_generate_result result = {.struct_size = sizeof result};

  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL_DIRECTORY PROMPT\n", argv[0]);
    return 2;
  }
  int failed = qinfer_model_load(NULL, argv[1], NULL, &model, &error);
  failed = failed || qinfer_kv_cache_create(model, NULL, &cache, &error);
  failed = failed || qinfer_session_create(cache, NULL, &session, &error);
  failed = failed || qinfer_tokenize(model, argv[2], SIZE_MAX, QINFER_TEXT_ADD_SPECIAL, tokens, 4096, &n, &error);
  failed = failed || qinfer_session_append(session, tokens, n, &error);
  failed = failed || qinfer_generate(session, &options, &result, &error);
  if (failed) fprintf(stderr, "%s: %s: %s\n", argv[0], qinfer_status_name(error.code), error.message);
  if (!failed) puts("");

  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
