/* story.c - the program of README.md: a model from this checkout goes on after four words. minimal.c frees, too. */
#include <qinfer/qinfer.h>
#include <stdio.h>

static int32_t print_text(const char* text, size_t n, qinfer_token token, void* user) {
  (void)token, (void)user;
  return fwrite(text, 1, n, stdout) != n; /* nonzero stops the generation */
}

int main(int argc, char** argv) {
  qinfer_model* model;
  qinfer_kv_cache* cache;
  qinfer_session* session;
  qinfer_token tokens[64];
  size_t n;
  qinfer_error error;
  qinfer_generate_options options = {.struct_size = sizeof options, .on_token = print_text};

  if (qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
      qinfer_kv_cache_create(model, NULL, &cache, &error) || qinfer_session_create(cache, NULL, &session, &error) ||
      qinfer_tokenize(model, "Once upon a time", SIZE_MAX, 0, tokens, 64, &n, &error) ||
      qinfer_session_append(session, tokens, n, &error) || qinfer_generate(session, &options, NULL, &error))
    return fprintf(stderr, "%s\n", error.message), 1;
}
