/* A program as it was written for 0.1: built with the header of that release, beside this file, and run with the
 * library of today. It goes through what 0.1 could do and says what came out; check_abi.sh knows what that is. */
#include "qinfer.h"

#include <stdio.h>
#include <string.h>

static int failed(const char* what, const qinfer_error* error) {
  printf("%s: %s: %s\n", what, qinfer_status_name(error->code), error->message);
  return 1;
}

static int32_t print_text(const char* text, size_t n, qinfer_token token, void* user) {
  (void)token;
  ++*(int*)user;
  return fwrite(text, 1, n, stdout) != n;
}

int main(int argc, char** argv) {
  qinfer_runtime_options runtime_options = {.struct_size = sizeof runtime_options, .n_threads = 1};
  qinfer_load_options load = {.struct_size = sizeof load, .max_batch_tokens = 64};
  qinfer_kv_cache_options cache_options = {.struct_size = sizeof cache_options, .budget_blocks = 8};
  qinfer_session_options session_options = {.struct_size = sizeof session_options, .max_tokens = 128};
  qinfer_sampler_options sampler = {.struct_size = sizeof sampler, .temperature = 0};
  qinfer_model_info info = {.struct_size = sizeof info};
  qinfer_memory plan = {.struct_size = sizeof plan}, memory = {.struct_size = sizeof memory};
  qinfer_metrics metrics = {.struct_size = sizeof metrics};
  qinfer_generate_result result = {.struct_size = sizeof result};
  int calls = 0;
  qinfer_generate_options generate = {
      .struct_size = sizeof generate, .max_tokens = 16, .on_token = print_text, .user = &calls};
  qinfer_runtime* runtime;
  qinfer_model* model;
  qinfer_kv_cache* cache;
  qinfer_session *session, *fork;
  qinfer_token tokens[64], drawn;
  size_t n;
  qinfer_error error;

  if (argc != 2) return 2;
  if (qinfer_version() < QINFER_VERSION) return printf("an older library\n"), 1;
  if (qinfer_runtime_create(&runtime_options, &runtime, &error)) return failed("runtime", &error);
  if (qinfer_model_plan(argv[1], &runtime_options, &load, &cache_options, &session_options, &plan, &error))
    return failed("plan", &error);
  if (qinfer_model_load(runtime, argv[1], &load, &model, &error)) return failed("load", &error);
  if (qinfer_model_get_info(model, &info, &error)) return failed("info", &error);
  if (qinfer_kv_cache_create(model, &cache_options, &cache, &error)) return failed("cache", &error);
  if (qinfer_session_create(cache, &session_options, &session, &error)) return failed("session", &error);
  if (qinfer_model_get_memory(model, &memory, &error)) return failed("memory", &error);
  if (qinfer_session_set_sampler(session, &sampler, &error)) return failed("sampler", &error);
  if (qinfer_tokenize(model, "Once upon a time", SIZE_MAX, QINFER_TEXT_ADD_SPECIAL, tokens, 64, &n, &error))
    return failed("tokenize", &error);
  if (qinfer_session_append(session, tokens, n, &error)) return failed("append", &error);
  if (qinfer_session_fork(session, &fork, &error)) return failed("fork", &error);
  if (qinfer_generate(session, &generate, &result, &error)) return failed("generate", &error);
  printf("\n%u tokens, %d calls, finish %d, %s, %u words\n", result.new_tokens, calls, result.finish, info.architecture,
         info.n_vocab);
  if (qinfer_eval(&fork, 1, NULL, &error) || qinfer_session_sample(fork, &drawn, &error)) return failed("eval", &error);
  if (qinfer_session_get_metrics(session, &metrics, &error)) return failed("metrics", &error);
  printf("token %d, prefill %d, planned %d\n", (int)drawn, (int)metrics.prefill_tokens,
         plan.weights_private == memory.weights_private && plan.weights_mapped == memory.weights_mapped);
  /* What this release did not know is not there: a longer struct with something in its tail is refused. */
  {
    struct {
      qinfer_load_options known;
      uint64_t newer[32];
    } longer = {.known = load, .newer = {[31] = 1}};
    longer.known.struct_size = sizeof longer;
    printf("%s\n", qinfer_status_name(qinfer_model_load(runtime, argv[1], &longer.known, &model, &error)));
  }
  qinfer_runtime_free(runtime);
  qinfer_kv_cache_free(cache);
  qinfer_session_free(fork);
  qinfer_session_free(session);
  return 0;
}
