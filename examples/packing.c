/* packing.c - a checkpoint is packed once into a file that has the weights as the kernel set wants them, tokenizer and
 * RoPE table. Loading it maps the file, which processes share. Time and memory of both, and the same bits.
 * ./packing MODEL_DIRECTORY NEW_FILE */
#define _POSIX_C_SOURCE 200112L
#include <inttypes.h>
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double milliseconds(void) {
  struct timespec now;
  return clock_gettime(CLOCK_MONOTONIC, &now) != 0 ? 0 : (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int logits_of(qinfer_runtime* runtime, const char* path, float** values, size_t* n, qinfer_error* error) {
  qinfer_model_info info = {.struct_size = sizeof info};
  qinfer_memory memory = {.struct_size = sizeof memory};
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  const qinfer_token tokens[3] = {10, 20, 30};
  const double begin = milliseconds();
  int failed = qinfer_model_load(runtime, path, NULL, &model, error) != QINFER_OK;
  const double end = milliseconds();
  failed = failed || qinfer_model_get_memory(model, &memory, error) || qinfer_model_get_info(model, &info, error) ||
           qinfer_kv_cache_create(model, NULL, &cache, error) || qinfer_session_create(cache, NULL, &session, error) ||
           qinfer_session_append(session, tokens, 3, error) || qinfer_eval(&session, 1, NULL, error);
  if (!failed)
    printf("%.1f ms, weights: %" PRIu64 " bytes mapped, %" PRIu64 " private\n", end - begin, memory.weights_mapped,
           memory.weights_private);
  *values = malloc((info.n_vocab + 1) * sizeof **values); /* a buffer of NULL is too small: the call says so */
  failed = failed || qinfer_session_copy_logits(session, 0, *values, *values ? info.n_vocab : 0, n, error);
  qinfer_session_free(session), qinfer_kv_cache_free(cache), qinfer_model_free(model);
  return failed;
}

int main(int argc, char** argv) {
  qinfer_runtime* runtime = NULL; /* its kernel set is the one that is packed for */
  float *loaded = NULL, *packed = NULL;
  size_t n = 0;
  qinfer_error error;
  int failed =
      argc != 3 || qinfer_runtime_create(NULL, &runtime, &error) || logits_of(runtime, argv[1], &loaded, &n, &error) ||
      qinfer_model_pack(runtime, argv[1], NULL, argv[2], &error) || logits_of(runtime, argv[2], &packed, &n, &error);
  if (!failed) puts(memcmp(loaded, packed, n * sizeof *loaded) == 0 ? "the same logits" : "other logits");
  if (failed) fprintf(stderr, "%s\n", argc != 3 ? "usage: packing MODEL_DIRECTORY NEW_FILE" : error.message);
  free(loaded), free(packed), qinfer_runtime_free(runtime);
  return failed;
}
