/* conversation.c - two turns: each hands over the whole conversation, of which what is new is evaluated, and the reply
 * is taken apart into content and calls of tools while it comes.
 * ./conversation MODEL_DIRECTORY TOOLS_AS_JSON MESSAGE MESSAGE */
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <string.h>

typedef struct Chat {
  qinfer_model* model;
  qinfer_session* session;
  char json[8000]; /* {"tools": [...], "messages": [...]} without the last two brackets */
} Chat;

static int32_t show(const char* text, size_t n, qinfer_token token, void* user) {
  qinfer_reply_part part = {.struct_size = sizeof part};
  (void)text, (void)n;
  if (token >= 0 && qinfer_reply_push(user, token, NULL)) return 1;
  while (qinfer_reply_next(user, &part, NULL) == QINFER_OK && part.kind != QINFER_PART_NONE)
    printf(part.kind == QINFER_PART_CALL ? "[call of %s%.*s]" : "%s%.*s", part.name != NULL ? part.name : "",
           (int)part.text_len, part.text);
  return 0;
}

static int turn(Chat* chat, const char* message, qinfer_error* error) {
  qinfer_token tokens[512];
  char json[sizeof chat->json + 2], answer[2000], *end = strchr(chat->json, 0);
  size_t n = 0, kept = 0, room = sizeof chat->json;
  qinfer_chat_options options = {.struct_size = sizeof options, .flags = QINFER_CHAT_GENERATION_PROMPT};
  qinfer_reply_options parse = {.struct_size = sizeof parse, .chat = &options};
  qinfer_reply* reply = NULL;
  snprintf(end, room - strlen(chat->json), "{\"role\":\"user\",\"content\":\"%s\"}", message);
  snprintf(json, sizeof json, "%s]}", chat->json);
  int failed = qinfer_reply_create(chat->model, json, SIZE_MAX, &parse, &reply, error);
  qinfer_generate_options draw = {.struct_size = sizeof draw, .max_tokens = 100, .on_token = show, .user = reply};
  failed = failed || qinfer_chat_tokenize(chat->model, json, SIZE_MAX, &options, tokens, 512, &n, error) ||
           qinfer_session_set_tokens(chat->session, tokens, n, &kept, error) ||
           qinfer_generate(chat->session, &draw, NULL, error) || qinfer_reply_finish(reply, error) ||
           qinfer_reply_message(reply, answer, sizeof answer, &n, error);
  if (!failed && printf("\n(%zu tokens of the prompt were there)\n", kept) > 0)
    snprintf(strchr(end, 0), room - strlen(chat->json), ",%.*s,", (int)n, answer);
  qinfer_reply_free(reply);
  return failed;
}

int main(int argc, char** argv) {
  Chat chat = {.json = ""};
  qinfer_kv_cache* cache = NULL;
  qinfer_error error = {.message = "usage: conversation MODEL_DIRECTORY TOOLS_AS_JSON MESSAGE MESSAGE"};
  if (argc == 5) snprintf(chat.json, sizeof chat.json, "{\"tools\":%s,\"messages\":[", argv[2]);
  int failed = argc != 5 || qinfer_model_load(NULL, argv[1], NULL, &chat.model, &error) ||
               qinfer_kv_cache_create(chat.model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &chat.session, &error) || turn(&chat, argv[3], &error) ||
               turn(&chat, argv[4], &error);
  if (failed) fprintf(stderr, "%s\n", error.message);
  qinfer_session_free(chat.session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(chat.model);
  return failed;
}
