/* stream.c - text as it comes, up to a stop text: nothing that may begin one is shown before it is known not to.
 * ./stream [MODEL_DIRECTORY] */
#include <qinfer/qinfer.h>
#include <stdio.h>

typedef struct {
  size_t bytes, limit;
} Reader;

static int32_t show(const char* text, size_t n, qinfer_token token, void* user) {
  Reader* reader = user;
  (void)token; /* n may be 0: the characters of this token are not complete, or held back */
  reader->bytes += n;
  if (fwrite(text, 1, n, stdout) != n || fflush(stdout) != 0) return 1;
  return reader->bytes > reader->limit; /* nonzero ends the generation */
}

int main(int argc, char** argv) {
  static const char* const stop[] = {"\n\n", "vase"};
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_token tokens[64];
  size_t n = 0;
  qinfer_error error;
  Reader reader = {0, 4096};
  qinfer_generate_options options = {
      .struct_size = sizeof options, .max_tokens = 200, .stop = stop, .n_stop = 2, .on_token = show, .user = &reader};
  qinfer_generate_result result = {.struct_size = sizeof result};
  int failed = qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &session, &error) ||
               qinfer_tokenize(model, "Once upon a time", SIZE_MAX, QINFER_TEXT_ADD_SPECIAL, tokens, 64, &n, &error) ||
               qinfer_session_append(session, tokens, n, &error) || qinfer_generate(session, &options, &result, &error);
  if (failed) {
    fprintf(stderr, "%s\n", error.message);
  } else {
    const char* const ends[] = {"?", "end token", "stop text", "length", "callback"};
    printf("\n(%zu bytes, %u tokens, ended by: %s)\n", reader.bytes, result.new_tokens, ends[result.finish]);
  }
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
