/* threads.c - one runtime with two compute threads serves two threads of the host, each with a session of its own.
 * Their evaluations run one after the other; sessions that decode together belong into one batch (batch.c).
 * ./threads [MODEL_DIRECTORY] */
#include <pthread.h>
#include <qinfer/qinfer.h>
#include <stdio.h>

typedef struct {
  qinfer_model* model;
  qinfer_kv_cache* cache;
  const char* prompt;
  size_t new_tokens;
  qinfer_error error; /* each thread has its own */
  int failed;
} Job;

static void* run(void* user) {
  Job* job = user;
  qinfer_session* session = NULL;
  qinfer_session_options limits = {.struct_size = sizeof limits, .max_tokens = 64};
  qinfer_generate_options options = {.struct_size = sizeof options, .max_tokens = 16};
  qinfer_generate_result result = {.struct_size = sizeof result};
  qinfer_token tokens[64];
  size_t n = 0;
  job->failed = qinfer_session_create(job->cache, &limits, &session, &job->error) ||
                qinfer_tokenize(job->model, job->prompt, SIZE_MAX, 0, tokens, 64, &n, &job->error) ||
                qinfer_session_append(session, tokens, n, &job->error) ||
                qinfer_generate(session, &options, &result, &job->error);
  job->new_tokens = result.new_tokens;
  qinfer_session_free(session);
  return NULL;
}

int main(int argc, char** argv) {
  qinfer_runtime_options options = {.struct_size = sizeof options, .n_threads = 2};
  qinfer_runtime* runtime = NULL;
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_error error;
  int failed = qinfer_runtime_create(&options, &runtime, &error) ||
               qinfer_model_load(runtime, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error);
  if (failed) return fprintf(stderr, "%s\n", error.message), 1;

  Job jobs[2] = {{.model = model, .cache = cache, .prompt = "Once upon a time"},
                 {.model = model, .cache = cache, .prompt = "One sunny day"}};
  pthread_t second;
  const int started = pthread_create(&second, NULL, run, &jobs[1]) == 0;
  run(&jobs[0]);
  if (!started || pthread_join(second, NULL) != 0) failed = 1;
  for (int i = 0; i < 1 + started; ++i) {
    if (jobs[i].failed) failed = fprintf(stderr, "%s\n", jobs[i].error.message) != 0;
    printf("%s: %zu new tokens\n", jobs[i].prompt, jobs[i].new_tokens);
  }
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  qinfer_runtime_free(runtime);
  return failed;
}
