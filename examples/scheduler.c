/* scheduler.c - two users of one model: each thread begins a generation and submits it, and the main thread evaluates
 * both as one batch and hands out what each step has brought. ./scheduler [MODEL_DIRECTORY] */
#include <pthread.h>
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <string.h>

static qinfer_model* model;
static qinfer_kv_cache* cache;
static qinfer_scheduler* scheduler;
typedef struct {
  const char* prompt;
  char text[512]; /* of the answer: 16 tokens have less */
} User;
/* On the user's own thread. What is made here is freed by the thread that steps, when the request has ended. */
static void* ask(void* user) {
  User* u = user;
  qinfer_session* session = NULL;
  qinfer_generation* generation = NULL;
  qinfer_request* request = NULL;
  qinfer_session_options limits = {.struct_size = sizeof limits, .max_tokens = 64};
  qinfer_generate_options options = {.struct_size = sizeof options, .max_tokens = 16};
  qinfer_request_options whose = {.struct_size = sizeof whose, .user = u};
  qinfer_token tokens[32];
  size_t n = 0;
  if (qinfer_session_create(cache, &limits, &session, NULL) ||
      qinfer_tokenize(model, u->prompt, SIZE_MAX, 0, tokens, 32, &n, NULL) ||
      qinfer_session_append(session, tokens, n, NULL) ||
      qinfer_generation_create(session, &options, &generation, NULL) ||
      qinfer_scheduler_submit(scheduler, generation, &whose, &request, NULL))
    fprintf(stderr, "not submitted: %s\n", u->prompt);
  qinfer_generation_free(generation); /* the request holds it, and it the session */
  qinfer_session_free(session);
  return NULL;
}

int main(int argc, char** argv) {
  qinfer_error error = {0};
  int failed = qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_scheduler_create(cache, NULL, &scheduler, &error);
  User users[2] = {{.prompt = "Once upon a time"}, {.prompt = "One sunny day"}};
  pthread_t threads[2];
  for (int i = 0; i < 2 && !failed; ++i) failed = pthread_create(&threads[i], NULL, ask, &users[i]);
  for (int left = 2; left > 0 && !failed;) {
    qinfer_event event = {.struct_size = sizeof event};
    int32_t has_requests = 0;
    failed = qinfer_scheduler_wait(scheduler, 1000000000, &has_requests, &error) || !has_requests ||
             qinfer_scheduler_step(scheduler, &error);
    while (!failed && !qinfer_scheduler_next(scheduler, &event, &error) && event.kind != QINFER_EVENT_NONE) {
      if (event.kind == QINFER_EVENT_TOKEN) strncat(((User*)event.user)->text, event.token.text, event.token.text_len);
      if (event.kind == QINFER_EVENT_END) --left, failed |= event.status, qinfer_request_free(event.request);
    }
  }
  for (int i = 0; i < 2 && !failed; ++i) failed = pthread_join(threads[i], NULL);
  for (int i = 0; i < 2 && !failed; ++i) printf("%s%s\n", users[i].prompt, users[i].text);
  return failed ? fprintf(stderr, "%s\n", error.message), 1 : 0;
}
