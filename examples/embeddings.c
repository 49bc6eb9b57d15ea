/* embeddings.c - texts as vectors of length 1, and how alike each is to the first: the product of the two vectors.
 * ./embeddings MODEL_DIRECTORY TEXT TEXT... */
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <stdlib.h>

static int embed(const qinfer_model* model, qinfer_session* session, const char* text, float* values, size_t dims,
                 qinfer_error* error) {
  qinfer_token tokens[512];
  size_t n = 0, needed = 0;
  return qinfer_embedding_tokenize(model, text, SIZE_MAX, NULL, tokens, 512, &n, NULL, error) ||
         qinfer_session_truncate(session, 0, error) || qinfer_session_append(session, tokens, n, error) ||
         qinfer_eval(&session, 1, NULL, error) ||
         qinfer_session_embedding(session, QINFER_POOL_DEFAULT, values, dims, &needed, error);
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_session_options options = {.struct_size = sizeof options, .flags = QINFER_SESSION_EMBEDDINGS};
  qinfer_model_info info = {.struct_size = sizeof info};
  qinfer_error error;
  if (argc < 4) return fprintf(stderr, "usage: embeddings MODEL_DIRECTORY TEXT TEXT...\n"), 2;
  int failed = qinfer_model_load(NULL, argv[1], NULL, &model, &error) || qinfer_model_get_info(model, &info, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, &options, &session, &error);
  float* values = failed ? NULL : calloc(2 * (size_t)info.embedding_dims, sizeof *values);
  float* first = values;
  if (!failed && values == NULL) return fprintf(stderr, "out of memory\n"), 1;

  for (int i = 2; i < argc && !failed; ++i) {
    float* vector = i == 2 ? first : first + info.embedding_dims;
    failed = embed(model, session, argv[i], vector, info.embedding_dims, &error);
    double product = 0;
    for (uint32_t j = 0; j < info.embedding_dims && !failed; ++j) product += (double)first[j] * vector[j];
    if (!failed) printf("%.3f %s\n", product, argv[i]);
  }
  if (failed) fprintf(stderr, "%s\n", error.message);

  free(values);
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
