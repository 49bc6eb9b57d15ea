/* fork.c - a prompt is evaluated once and goes on three ways: forks share its keys and values, and each copies a block
 * only when it writes to it.
 * ./fork [MODEL_DIRECTORY] */
#include <qinfer/qinfer.h>
#include <stdio.h>

static const char story[] =
    "Once upon a time, there was a little girl named Lily. She was a very kind girl. She lived in a small house by the "
    "sea with her mom. One sunny day, Lily";

static int32_t print_text(const char* text, size_t n, qinfer_token token, void* user) {
  (void)token, (void)user;
  return fwrite(text, 1, n, stdout) != n;
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* prompt = NULL;
  qinfer_token tokens[64];
  size_t n = 0;
  qinfer_error error;
  int failed = qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &prompt, &error) ||
               qinfer_tokenize(model, story, SIZE_MAX, 0, tokens, 64, &n, &error) ||
               qinfer_session_append(prompt, tokens, n, &error) || qinfer_eval(&prompt, 1, NULL, &error);

  for (uint64_t seed = 1; seed <= 3 && !failed; ++seed) {
    qinfer_sampler_options sampler = {.struct_size = sizeof sampler, .temperature = 0.7f, .top_p = 0.9f, .seed = seed};
    qinfer_generate_options options = {.struct_size = sizeof options, .max_tokens = 12, .on_token = print_text};
    qinfer_session_memory memory = {.struct_size = sizeof memory};
    qinfer_session* branch = NULL;
    failed = qinfer_session_fork(prompt, &branch, &error) || qinfer_session_set_sampler(branch, &sampler, &error) ||
             qinfer_generate(branch, &options, NULL, &error) || qinfer_session_get_memory(branch, &memory, &error);
    if (!failed)
      printf("\n(KV blocks: %llu bytes shared, %llu its own)\n", (unsigned long long)memory.kv_shared,
             (unsigned long long)memory.kv_private);
    qinfer_session_free(branch);
  }
  if (failed) fprintf(stderr, "%s\n", error.message);

  qinfer_session_free(prompt);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
