/* Loads the library 400 times with dlopen, uses it and unloads it, then runs two copies of it in one process, each on
 * a thread of its own. Memory, threads, mappings and open files must be what they were after the first rounds.
 *
 * usage: load_unload LIBQINFER_SO MODEL [--emulated]
 * --emulated: the memory of the process is not compared, for an emulator keeps its translations of each round's code
 *             there. Mappings are those of the program alone, and are. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <qinfer/qinfer.h>

enum { ROUNDS = 400, WARM_UP = 100 };

typedef struct functions {
  void* library;
  qinfer_status (*load)(qinfer_runtime*, const char*, const qinfer_load_options*, qinfer_model**, qinfer_error*);
  qinfer_status (*cache)(const qinfer_model*, const qinfer_kv_cache_options*, qinfer_kv_cache**, qinfer_error*);
  qinfer_status (*session)(qinfer_kv_cache*, const qinfer_session_options*, qinfer_session**, qinfer_error*);
  qinfer_status (*runtime)(const qinfer_runtime_options*, qinfer_runtime**, qinfer_error*);
  qinfer_status (*append)(qinfer_session*, const qinfer_token*, size_t, qinfer_error*);
  qinfer_status (*generate)(qinfer_session*, const qinfer_generate_options*, qinfer_generate_result*, qinfer_error*);
  void (*free_runtime)(qinfer_runtime*);
  void (*free_model)(qinfer_model*);
  void (*free_cache)(qinfer_kv_cache*);
  void (*free_session)(qinfer_session*);
} functions;

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "FAILED: %s\n", dlerror());
    exit(1);
  }
  return found;
}

static functions open_library(const char* path) {
  functions f;
  f.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (f.library == NULL) {
    fprintf(stderr, "FAILED: %s\n", dlerror());
    exit(1);
  }
#define FIND(member, name) *(void**)&f.member = symbol(f.library, name)
  FIND(load, "qinfer_model_load");
  FIND(cache, "qinfer_kv_cache_create");
  FIND(session, "qinfer_session_create");
  FIND(runtime, "qinfer_runtime_create");
  FIND(append, "qinfer_session_append");
  FIND(generate, "qinfer_generate");
  FIND(free_runtime, "qinfer_runtime_free");
  FIND(free_model, "qinfer_model_free");
  FIND(free_cache, "qinfer_kv_cache_free");
  FIND(free_session, "qinfer_session_free");
  return f;
}

typedef struct text {
  char bytes[512];
  size_t n;
} text;

static int32_t keep(const char* piece, size_t n, qinfer_token token, void* user) {
  text* out = user;
  (void)token;
  if (n > sizeof out->bytes - 1 - out->n) return 1;
  memcpy(out->bytes + out->n, piece, n);
  out->n += n;
  return 0;
}

/* Two threads of the runtime, so that one is the library's. */
static text story(const functions* f, const char* path, uint32_t tokens) {
  qinfer_runtime_options options = {.struct_size = sizeof options, .n_threads = 2};
  qinfer_kv_cache_options blocks = {.struct_size = sizeof blocks, .budget_blocks = 8};
  qinfer_session_options room = {.struct_size = sizeof room, .max_tokens = 128};
  text out = {.n = 0};
  qinfer_generate_options generate = {
      .struct_size = sizeof generate, .max_tokens = tokens, .on_token = keep, .user = &out};
  const qinfer_token begin = 1;
  qinfer_runtime* runtime = NULL;
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_error error;
  if (f->runtime(&options, &runtime, &error) || f->load(runtime, path, NULL, &model, &error) ||
      f->cache(model, &blocks, &cache, &error) || f->session(cache, &room, &session, &error) ||
      f->append(session, &begin, 1, &error) || f->generate(session, &generate, NULL, &error)) {
    fprintf(stderr, "FAILED: %s\n", error.message);
    exit(1);
  }
  f->free_session(session);
  f->free_cache(cache);
  f->free_model(model);
  f->free_runtime(runtime);
  return out;
}

typedef struct use {
  long pages, threads, files, mappings;
} use;

static long count(const char* folder) {
  DIR* dir = opendir(folder);
  long n = 0;
  while (dir != NULL && readdir(dir) != NULL) ++n;
  if (dir != NULL) closedir(dir);
  return n;
}

static use measure(void) {
  use now = {0, count("/proc/self/task"), count("/proc/self/fd"), 0};
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*d %ld", &now.pages) != 1) exit(1);
  fclose(file);
  file = fopen("/proc/self/maps", "r");
  for (int c; file != NULL && (c = fgetc(file)) != EOF;) now.mappings += c == '\n';
  if (file != NULL) fclose(file);
  return now;
}

static int differs(const char* what, long before, long after, long allowed) {
  printf("%s: %ld, then %ld\n", what, before, after);
  if (after <= before + allowed) return 0;
  printf("FAILED: %s grew by %ld, at most %ld are allowed\n", what, after - before, allowed);
  return 1;
}

typedef struct teller {
  functions f;
  const char* model;
  text told;
  pthread_t thread;
} teller;

static void* tell(void* user) {
  teller* t = user;
  for (int round = 0; round < 20; ++round) t->told = story(&t->f, t->model, 32);
  return NULL;
}

/* A second copy is another file: the loader gives one file to all who ask for it. */
static int two_copies(const char* path, const char* model) {
  char copy[] = "/tmp/qinfer-copy-XXXXXX", command[4096];
  teller tellers[2] = {{.model = model}, {.model = model}};
  const int file = mkstemp(copy);
  if (file < 0) return 1;
  close(file);
  snprintf(command, sizeof command, "cp '%s' '%s'", path, copy);
  if (system(command) != 0) return 1;
  tellers[0].f = open_library(path);
  tellers[1].f = open_library(copy);
  unlink(copy);
  const int apart = tellers[0].f.generate != tellers[1].f.generate;
  for (int i = 0; i < 2; ++i)
    if (pthread_create(&tellers[i].thread, NULL, tell, &tellers[i]) != 0) return 1;
  for (int i = 0; i < 2; ++i) pthread_join(tellers[i].thread, NULL);
  for (int i = 0; i < 2; ++i) dlclose(tellers[i].f.library);
  printf("two copies: %s\n", tellers[1].told.bytes);
  return !apart || tellers[0].told.n == 0 || strcmp(tellers[0].told.bytes, tellers[1].told.bytes) != 0;
}

int main(int argc, char** argv) {
  const int emulated = argc == 4 && strcmp(argv[3], "--emulated") == 0;
  if (argc != 3 + emulated) return 2;
  use before = {0, 0, 0, 0};
  for (int round = 0; round < ROUNDS; ++round) {
    const functions f = open_library(argv[1]);
    story(&f, argv[2], round % 50 == 0 ? 32 : 2);
    if (dlclose(f.library) != 0) return 1;
    if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL) {
      printf("FAILED: the library is still loaded after dlclose\n");
      return 1;
    }
    if (round + 1 == WARM_UP) before = measure();
  }
  const use after = measure();
  /* Pages: what malloc keeps varies by some; one that is lost in each round would be 300. */
  int failed = !emulated && differs("resident pages", before.pages, after.pages, 64);
  failed |= differs("threads", before.threads, after.threads, 0);
  failed |= differs("open files", before.files, after.files, 0);
  failed |= differs("mappings", before.mappings, after.mappings, 2);
  if (two_copies(argv[1], argv[2])) {
    printf("FAILED: two copies in one process\n");
    failed = 1;
  }
  return failed;
}
