/* cancel.c - Ctrl-C ends a generation, not the program: qinfer_cancel_request may be called in a signal handler and
 * from any thread. The session keeps the tokens made so far, and can go on. Here the program sends itself the signal.
 * ./cancel [MODEL_DIRECTORY] */
#include <qinfer/qinfer.h>
#include <signal.h>
#include <stdio.h>

static qinfer_cancel* interrupted; /* set before the handler is installed */

static void on_interrupt(int signal_number) {
  (void)signal_number;
  qinfer_cancel_request(interrupted);
}

static int32_t interrupt_after_five(const char* text, size_t n, qinfer_token token, void* user) {
  (void)text, (void)n, (void)token;
  if (++*(int*)user == 5) raise(SIGINT);
  return 0;
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_token tokens[64];
  size_t n = 0;
  int seen = 0;
  qinfer_error error;
  qinfer_generate_result result = {.struct_size = sizeof result};
  int failed = qinfer_cancel_create(&interrupted, &error) ||
               qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &session, &error) ||
               qinfer_tokenize(model, "Once upon a time", SIZE_MAX, 0, tokens, 64, &n, &error) ||
               qinfer_session_append(session, tokens, n, &error);
  if (failed) return fprintf(stderr, "%s\n", error.message), 1;

  qinfer_generate_options options = {.struct_size = sizeof options,
                                     .max_tokens = 20,
                                     .cancel = interrupted,
                                     .on_token = interrupt_after_five,
                                     .user = &seen};
  signal(SIGINT, on_interrupt);
  if (qinfer_generate(session, &options, &result, &error) == QINFER_E_CANCELLED) {
    printf("cancelled after %u tokens\n", result.new_tokens);
    qinfer_cancel_reset(interrupted);
    failed = qinfer_generate(session, &options, &result, &error) != QINFER_OK;
    printf("then %u more\n", result.new_tokens);
  }
  signal(SIGINT, SIG_DFL);
  if (failed) fprintf(stderr, "%s\n", error.message);

  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  qinfer_cancel_free(interrupted);
  return failed;
}
