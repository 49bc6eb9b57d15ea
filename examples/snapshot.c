/* snapshot.c - a session is saved, freed and loaded again; the loaded one goes on with the same tokens.
 * ./snapshot MODEL_DIRECTORY FILE */
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <string.h>

static int go_on(qinfer_session* session, qinfer_token* tokens, size_t* n, qinfer_error* error) {
  qinfer_generate_options options = {.struct_size = sizeof options, .max_tokens = 16};
  return qinfer_generate(session, &options, NULL, error) || qinfer_session_get_tokens(session, tokens, 64, n, error);
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session *session = NULL, *loaded = NULL;
  qinfer_session_options limits = {.struct_size = sizeof limits, .max_tokens = 64};
  qinfer_session_load_result found = {.struct_size = sizeof found};
  qinfer_token prompt[64], before[64], after[64];
  size_t n = 0, n_before = 0, n_after = 0;
  qinfer_error error;
  int failed = argc != 3 || qinfer_model_load(NULL, argv[1], NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, &limits, &session, &error) ||
               qinfer_tokenize(model, "Once upon a time", SIZE_MAX, 0, prompt, 64, &n, &error) ||
               qinfer_session_append(session, prompt, n, &error) || qinfer_eval(&session, 1, NULL, &error);

  /* A second save to the same file writes what is new; a crash leaves the old state or the new one. */
  failed = failed || qinfer_session_save(session, argv[2], &error) || go_on(session, before, &n_before, &error);
  qinfer_session_free(session);
  failed = failed || qinfer_session_load_with(cache, argv[2], NULL, &loaded, &found, &error) ||
           go_on(loaded, after, &n_after, &error);
  if (failed) {
    fprintf(stderr, "%s\n", argc != 3 ? "usage: snapshot MODEL_DIRECTORY FILE" : error.message);
  } else {
    const int same = n_before == n_after && memcmp(before, after, n_after * sizeof *after) == 0;
    if (found.flags & QINFER_SNAPSHOT_RECOVERED) puts("the last save was damaged: this is the state before it");
    printf("%zu tokens loaded, then %zu more: %s\n", n, n_after - n, same ? "the same" : "not the same");
    failed = !same;
  }
  qinfer_session_free(loaded);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
