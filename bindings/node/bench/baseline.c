/* baseline.c - what bench.mjs compares with: qinfer_generate with a callback that counts bytes. For each line of
 * standard input it generates once and writes "NANOSECONDS CPU_NANOSECONDS TOKENS".
 * ./baseline MODEL PROMPT MAX_TOKENS */
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int32_t count(const char* text, size_t text_len, qinfer_token token, void* user) {
  (void)text, (void)token;
  *(size_t*)user += text_len;
  return 0;
}

static long long now_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char** argv) {
  qinfer_runtime_options threads = {.struct_size = sizeof threads, .n_threads = 1};
  qinfer_runtime* runtime = NULL;
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_token tokens[256];
  size_t n = 0, bytes = 0;
  qinfer_error error;
  char line[16];

  if (argc != 4) return 2;
  qinfer_generate_options options = {.struct_size = sizeof options, .on_token = count, .user = &bytes};
  qinfer_generate_result result = {.struct_size = sizeof result};
  options.max_tokens = (uint32_t)atoi(argv[3]);
  int failed = qinfer_runtime_create(&threads, &runtime, &error);
  failed = failed || qinfer_model_load(runtime, argv[1], NULL, &model, &error);
  failed = failed || qinfer_kv_cache_create(model, NULL, &cache, &error);
  failed = failed || qinfer_session_create(cache, NULL, &session, &error);
  failed = failed || qinfer_tokenize(model, argv[2], SIZE_MAX, QINFER_TEXT_ADD_SPECIAL, tokens, 256, &n, &error);
  failed = failed || qinfer_session_append(session, tokens, n, &error);
  while (!failed && fgets(line, sizeof line, stdin) != NULL) {
    failed = qinfer_session_truncate(session, n, &error);
    const long long begin = now_ns(CLOCK_MONOTONIC), cpu_begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    failed = failed || qinfer_generate(session, &options, &result, &error);
    const long long ns = now_ns(CLOCK_MONOTONIC) - begin, cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin;
    if (!failed) printf("%lld %lld %u\n", ns, cpu_ns, result.new_tokens);
    fflush(stdout);
  }
  if (failed) fprintf(stderr, "baseline: %s\n", error.message);
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  qinfer_runtime_free(runtime);
  return failed;
}
