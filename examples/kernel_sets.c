/* kernel_sets.c - the kernel sets of the library, each that this CPU runs chosen by name, and which bits are equal: for
 * one set the logits of a token do not depend on threads or on how the prompt was cut, from one set to another they
 * differ in the last digits. ./kernel_sets MODEL_DIRECTORY */
#include <inttypes.h>
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <string.h>

/* A number of the logits after a prompt, which is evaluated `step` tokens at a time: FNV-1a of their bytes. */
static int digest(const char* path, const char* target, uint32_t flags, uint32_t threads, uint32_t step, uint64_t* out,
                  qinfer_error* error) {
  qinfer_runtime_options options = {
      .struct_size = sizeof options, .flags = flags, .n_threads = threads, .cpu_target = target};
  qinfer_eval_options part = {.struct_size = sizeof part, .max_tokens = step};
  qinfer_model_info info = {.struct_size = sizeof info};
  qinfer_runtime* runtime = NULL;
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_token tokens[32];
  size_t n = 0;
  int failed = qinfer_runtime_create(&options, &runtime, error) ||
               qinfer_model_load(runtime, path, NULL, &model, error) || qinfer_model_get_info(model, &info, error) ||
               qinfer_kv_cache_create(model, NULL, &cache, error) ||
               qinfer_session_create(cache, NULL, &session, error) ||
               qinfer_tokenize(model, "One day, a cat went out", SIZE_MAX, 0, tokens, 32, &n, error) ||
               qinfer_session_append(session, tokens, n, error);
  while (!failed && qinfer_session_pending(session) > 0) failed = qinfer_eval(&session, 1, &part, error) != QINFER_OK;
  const unsigned char* bytes = failed ? NULL : (const unsigned char*)qinfer_session_logits(session, 0);
  *out = UINT64_C(14695981039346656037);
  for (size_t i = 0; !failed && i < info.n_vocab * sizeof(float); ++i) *out = (*out ^ bytes[i]) * 1099511628211u;
  qinfer_session_free(session), qinfer_kv_cache_free(cache), qinfer_model_free(model), qinfer_runtime_free(runtime);
  return failed;
}

int main(int argc, char** argv) {
  qinfer_error error;
  int failed = argc != 2;
  for (size_t i = 0; i < qinfer_kernel_set_count() && !failed; ++i) {
    qinfer_kernel_set_info set = {.struct_size = sizeof set};
    uint64_t one = 0, other = 0;
    failed = qinfer_kernel_set_get_info(i, &set, &error) != QINFER_OK;
    if (failed) break;
    printf("%s: needs \"%s\", has %s%s%s\n", set.name, set.cpu_features, set.weight_formats,
           set.flags & QINFER_KERNELS_DEFAULT ? ", runs where none is named" : "",
           set.flags & QINFER_KERNELS_USABLE ? "" : ", not on this CPU");
    if (!(set.flags & QINFER_KERNELS_USABLE)) continue; /* as cpu_target it is QINFER_E_UNSUPPORTED */
    failed = digest(argv[1], set.name, 0, 1, 0, &one, &error) || digest(argv[1], set.name, 0, 2, 3, &other, &error);
    if (!failed) printf("  %016" PRIx64 ", 2 threads and cut: %s\n", one, one == other ? "the same" : "another");
    if (failed || !(set.flags & QINFER_KERNELS_EXACT)) continue;
    failed = digest(argv[1], set.name, QINFER_RUNTIME_EXACT, 1, 0, &other, &error); /* f32 activations and sums */
    if (!failed) printf("  %016" PRIx64 " under QINFER_RUNTIME_EXACT\n", other);
  }
  if (failed) fprintf(stderr, "%s\n", argc != 2 ? "usage: kernel_sets MODEL_DIRECTORY" : error.message);
  return failed;
}
