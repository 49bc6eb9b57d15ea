/* limits.c - what a host that answers strangers bounds: the work of tokenizing a text, the tokens of prompt and answer
 * together, those of the answer, and the time. Memory has bounds in memory.c and errors.c. ./limits MODEL_DIRECTORY */
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <time.h>

static void* after_100_ms(void* cancel) {
  const struct timespec wait = {0, 100000000};
  nanosleep(&wait, NULL);
  qinfer_cancel_request(cancel);
  return NULL;
}

static void say(const char* what, const qinfer_error* error) {
  printf("%s: %s: %s\n", what, qinfer_status_name(error->code), error->message);
}

int main(int argc, char** argv) {
  static const char long_text[] = "Once upon a time, there was a little girl named Lily. She had a very big red ball.";
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_cancel* late = NULL;
  qinfer_token tokens[64];
  size_t n = 0;
  qinfer_session_options limits = {.struct_size = sizeof limits, .max_tokens = 12}; /* prompt and answer together */
  qinfer_tokenize_options work = {.struct_size = sizeof work, .max_work = 20};
  qinfer_generate_result result = {.struct_size = sizeof result};
  qinfer_error error;
  pthread_t timer;
  int failed = argc != 2 || qinfer_model_load(NULL, argv[1], NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, &limits, &session, &error) || qinfer_cancel_create(&late, &error);
  if (failed) return fprintf(stderr, "%s\n", argc != 2 ? "usage: limits MODEL_DIRECTORY" : error.message), 1;

  if (qinfer_tokenize_with(model, long_text, SIZE_MAX, &work, tokens, 64, &n, &error)) say("steps", &error);
  failed = qinfer_tokenize(model, long_text, SIZE_MAX, 0, tokens, 64, &n, &error) != QINFER_OK;
  if (!failed && qinfer_session_append(session, tokens, n, &error)) say("prompt", &error); /* none is appended */
  qinfer_generate_options options = {.struct_size = sizeof options, .max_tokens = 4, .cancel = late};
  failed = failed || qinfer_session_append(session, tokens, 4, &error) ||
           qinfer_generate(session, &options, &result, &error);
  if (!failed && result.finish == QINFER_FINISH_LENGTH) printf("answer: ended at %u tokens\n", result.new_tokens);

  const int started = !failed && pthread_create(&timer, NULL, after_100_ms, late) == 0;
  for (failed |= !started; !failed;) { /* answers until the time is over, wherever that is: a flag for all of them */
    if (qinfer_session_truncate(session, 4, &error)) failed = 1;
    if (!failed && qinfer_generate(session, &options, &result, &error)) break;
  }
  if (!failed && error.code == QINFER_E_CANCELLED) say("time", &error);
  if (failed) fprintf(stderr, "%s\n", started ? error.message : "no thread");
  if (started) pthread_join(timer, NULL);
  qinfer_session_free(session), qinfer_kv_cache_free(cache), qinfer_model_free(model), qinfer_cancel_free(late);
  return failed;
}
