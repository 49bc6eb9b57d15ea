/* main.c - shows that an installed qinfer is found, linked and called: prints its version and, given a model
 * directory, what the model is. */
#include <inttypes.h>
#include <qinfer/qinfer.h>
#include <stdio.h>

static int print_model(const char* path) {
  qinfer_load_options options = {.struct_size = sizeof options, .flags = QINFER_LOAD_NO_WEIGHTS};
  qinfer_model_info info = {.struct_size = sizeof info};
  qinfer_model* model = NULL;
  qinfer_error error;
  const int failed = qinfer_model_load(NULL, path, &options, &model, &error) != QINFER_OK ||
                     qinfer_model_get_info(model, &info, &error) != QINFER_OK;
  if (failed) {
    fprintf(stderr, "%s: %s\n", qinfer_status_name(error.code), error.message);
  } else {
    printf("%s: %" PRIu32 " layers, %" PRIu32 " tokens in the vocabulary, %" PRIu32 " of context\n", info.architecture,
           info.n_layers, info.n_vocab, info.context_tokens);
  }
  qinfer_model_free(model);
  return failed;
}

int main(int argc, char** argv) {
  if (argc > 2) {
    fprintf(stderr, "usage: %s [MODEL_DIRECTORY]\n", argv[0]);
    return 2;
  }
  printf("qinfer %s\n", qinfer_version_string());
  if (qinfer_version() != QINFER_VERSION) printf("built against qinfer.h %d\n", QINFER_VERSION);
  return argc == 2 ? print_model(argv[1]) : 0;
}
