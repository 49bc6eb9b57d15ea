/* memory.c - the memory of a model, a cache and a session: planned from the headers of the files, taken through the
 * host's allocator, and held to a budget.
 * ./memory [MODEL_DIRECTORY] */
#define _POSIX_C_SOURCE 200112L
#include <inttypes.h>
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <stdlib.h>

static void* count_alloc(size_t size, size_t alignment, void* user) {
  void* memory = NULL;
  if (posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, size) != 0) return NULL;
  *(uint64_t*)user += size;
  return memory;
}

static void count_release(void* memory, size_t size, size_t alignment, void* user) {
  (void)alignment;
  *(uint64_t*)user -= size;
  free(memory);
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "examples/models/tiny-stories";
  uint64_t bytes_in_use = 0;
  qinfer_allocator allocator = {sizeof allocator, 0, count_alloc, count_release, &bytes_in_use};
  qinfer_runtime_options runtime_options = {.struct_size = sizeof runtime_options, .allocator = &allocator};
  qinfer_load_options load = {.struct_size = sizeof load};
  qinfer_kv_cache_options kv = {.struct_size = sizeof kv, .budget_blocks = 8}; /* of 32 tokens */
  qinfer_session_options limits = {.struct_size = sizeof limits, .max_tokens = 256};
  qinfer_memory plan = {.struct_size = sizeof plan};
  qinfer_runtime* runtime = NULL;
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_error error;
  int failed = qinfer_model_plan(path, &runtime_options, &load, &kv, &limits, &plan, &error);
  if (failed) return fprintf(stderr, "%s\n", error.message), 1;
  const uint64_t needed = plan.total + plan.per_session; /* one session */
  /* Without what is the file itself, mapped. */
  printf("%" PRIu64 " bytes, of which a cache has %" PRIu64 "\n", needed - plan.weights_mapped, plan.kv_cache_bytes);

  failed = failed || qinfer_runtime_create(&runtime_options, &runtime, &error);
  load.memory_budget_bytes = 1 << 20; /* too little: refused before weights are read */
  if (!failed && qinfer_model_load(runtime, path, &load, &model, &error) == QINFER_E_NO_MEMORY)
    printf("%s: %s\n", qinfer_status_name(error.code), error.message);
  load.memory_budget_bytes = needed; /* exactly enough */
  failed = failed || qinfer_model_load(runtime, path, &load, &model, &error);
  failed = failed || qinfer_kv_cache_create(model, &kv, &cache, &error);
  failed = failed || qinfer_session_create(cache, &limits, &session, &error);
  if (failed) fprintf(stderr, "%s\n", error.message);
  printf("%" PRIu64 " bytes from the allocator\n", bytes_in_use);

  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  qinfer_runtime_free(runtime);
  return failed || bytes_in_use != 0;
}
