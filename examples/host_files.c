/* host_files.c - a model through callbacks of the host instead of paths. Here they read files of a folder that the
 * library never hears of; an archive, an encrypted store or memory would answer the same questions.
 * ./host_files [MODEL_DIRECTORY] */
#include <qinfer/qinfer.h>
#include <stdio.h>

static qinfer_status open_file(const char* name, int32_t mode, void** out, void* user) {
  char path[1024];
  const int n = snprintf(path, sizeof path, "%s/%s", (const char*)user, name);
  if (mode != QINFER_FILE_READ || n < 0 || (size_t)n >= sizeof path) return QINFER_E_UNSUPPORTED;
  if (name[0] == '\0') return QINFER_E_NOT_FOUND; /* the path of the model: a directory, not one file */
  *out = fopen(path, "rb");
  return *out != NULL ? QINFER_OK : QINFER_E_NOT_FOUND;
}

static qinfer_status size_of(void* file, uint64_t* bytes, void* user) {
  (void)user;
  if (fseek(file, 0, SEEK_END) != 0) return QINFER_E_IO;
  const long end = ftell(file);
  *bytes = (uint64_t)end;
  return end >= 0 ? QINFER_OK : QINFER_E_IO;
}

static qinfer_status read_at(void* file, uint64_t offset, void* data, size_t n, void* user) {
  (void)user;
  if (fseek(file, (long)offset, SEEK_SET) != 0) return QINFER_E_IO;
  return fread(data, 1, n, file) == n ? QINFER_OK : QINFER_E_IO;
}

static qinfer_status close_file(void* file, void* user) {
  (void)user;
  return fclose(file) == 0 ? QINFER_OK : QINFER_E_IO;
}

int main(int argc, char** argv) {
  qinfer_files files = {
      .struct_size = sizeof files, .open = open_file, .size = size_of, .read_at = read_at, .close = close_file};
  qinfer_load_options load = {.struct_size = sizeof load, .files = &files};
  qinfer_model* model = NULL;
  qinfer_memory memory = {.struct_size = sizeof memory};
  qinfer_error error;
  files.user = argc > 1 ? argv[1] : "examples/models/tiny-stories";
  int failed = qinfer_model_load(NULL, "", &load, &model, &error) || qinfer_model_get_memory(model, &memory, &error);
  if (!failed) printf("%llu bytes of weights read through callbacks\n", (unsigned long long)memory.weights_private);
  if (failed) fprintf(stderr, "%s\n", error.message);
  qinfer_model_free(model);
  return failed;
}
