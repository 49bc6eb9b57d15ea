/* chat_stream.c - a chat completion of OpenAI's interface as it comes, each chunk a server-sent event: what a program
 * that has a socket would send.
 * ./chat_stream MODEL_DIRECTORY REQUEST_AS_JSON */
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <time.h>

static int send_bytes(qinfer_openai_answer* answer, int32_t* complete, qinfer_error* error) {
  char bytes[65536];
  size_t n = 0;
  if (qinfer_openai_answer_bytes(answer, bytes, sizeof bytes, &n, complete, error)) return 1;
  return fwrite(bytes, 1, n, stdout) != n || fflush(stdout) != 0;
}

static int draw(const qinfer_openai_request* request, size_t choice, qinfer_session* session,
                qinfer_openai_answer* answer, int32_t* complete, qinfer_error* error) {
  qinfer_generation* generation = NULL;
  qinfer_token_info info = {.struct_size = sizeof info};
  int32_t ended = 0;
  int failed = qinfer_openai_generation_create(request, choice, session, NULL, &generation, error) ||
               qinfer_openai_answer_begin(answer, choice, generation, &ended, error);
  while (!failed && !ended)
    failed = qinfer_generation_next(generation, &info, error) ||
             qinfer_openai_answer_add(answer, choice, generation, &ended, error) || send_bytes(answer, complete, error);
  qinfer_generation_free(generation);
  return failed;
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_openai_request* request = NULL;
  qinfer_openai_answer* answer = NULL;
  qinfer_openai_info info = {.struct_size = sizeof info};
  qinfer_openai_answer_options head = {.struct_size = sizeof head, .id = "chatcmpl-1", .created = (int64_t)time(NULL)};
  qinfer_error error = {.message = "usage: chat_stream MODEL_DIRECTORY REQUEST_AS_JSON"};
  int32_t complete = 0;
  int failed = argc != 3 || qinfer_model_load(NULL, argv[1], NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &session, &error) ||
               qinfer_openai_request_create(model, QINFER_OPENAI_CHAT, argv[2], SIZE_MAX, NULL, &request, &error) ||
               qinfer_openai_request_get_info(request, &info, &error) ||
               qinfer_openai_answer_create(request, &head, &answer, &error);
  if (!failed && info.schema != NULL) /* json_schema.c shows how a session is given a grammar */
    failed = snprintf(error.message, sizeof error.message, "response_format is not supported here") > 0;
  for (size_t choice = 0; !failed && choice < info.n_choices; ++choice)
    failed = draw(request, choice, session, answer, &complete, &error);
  if (failed) fprintf(stderr, "%s\n", error.message);
  qinfer_openai_answer_free(answer);
  qinfer_openai_request_free(request);
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed || !complete;
}
