// stack_use: how much of the calling thread's stack each call needs. Every call runs on a thread whose stack is memory
// of this program, filled with a pattern before; what is not the pattern afterwards was used. The header promises that
// no call needs more than 64 KiB.
//
//   stack_use MODEL QUANTISED
#include <qinfer/qinfer.hpp>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kStack = std::size_t{1} << 20, kPromised = 64 * 1024;
constexpr unsigned char kPattern = 0xA5;
int failures = 0;

/// Bytes of stack that `call` touches, beside those that an empty thread does.
std::size_t stack_of(const std::function<void()>& call) {
  auto* stack = static_cast<unsigned char*>(
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
  std::memset(stack, kPattern, kStack);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStack);
  pthread_t thread;
  const auto entry = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  if (pthread_create(&thread, &attributes, entry, const_cast<std::function<void()>*>(&call)) != 0) std::abort();
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  std::size_t untouched = 0;
  while (untouched < kStack && stack[untouched] == kPattern) ++untouched;
  munmap(stack, kStack);
  return kStack - untouched;
}

void measure(const char* what, const std::function<void()>& call) {
  // The first thread of all may use more than others: it lets the dynamic linker look for what threads call.
  static const std::size_t nothing = (stack_of([] {}), stack_of([] {}));
  const std::size_t whole = stack_of(call), used = whole > nothing ? whole - nothing : 0;
  const bool good = used <= kPromised;
  if (!good) ++failures;
  std::printf("%s %s: %zu bytes of stack, promised are %zu\n", good ? "ok    " : "FAILED", what, used, kPromised);
}

void must(qinfer_status status, const qinfer_error& error) {
  if (status == QINFER_OK) return;
  std::printf("FAILED %s\n", error.message);
  ++failures;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string repeated(const std::string& text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

/// Loads the model's folder with another tokenizer, whose text is split by a pattern.
void load_pattern(const std::string& folder, const std::string& what, const std::string& pattern, bool is_good,
                  std::size_t sequences = 4) {
  std::ofstream(folder + "/tokenizer.json")
      << R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":)"
      << repeated(R"({"type":"Sequence","pretokenizers":[)", sequences) << R"({"type":"Split","pattern":{"Regex":")"
      << pattern << R"("},"behavior":"Isolated","invert":false})" << repeated("]}", sequences)
      << R"(,"post_processor":null,"decoder":null,)"
      << R"("model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";
  measure(what.c_str(), [&] {
    auto options = qi::options<qinfer_load_options>();
    options.flags = QINFER_LOAD_NO_WEIGHTS;
    qinfer_model* loaded = nullptr;
    qinfer_error error{};
    const qinfer_status status = qinfer_model_load(nullptr, folder.c_str(), &options, &loaded, &error);
    if (status != (is_good ? QINFER_OK : QINFER_E_UNSUPPORTED))
      std::printf("FAILED %s: %s\n", what.c_str(), error.message), ++failures;
    std::vector<qinfer_token> tokens(100000);
    std::size_t n = 0;
    const std::string text = repeated("a", 50000);
    if (loaded != nullptr && qinfer_tokenize(loaded, text.c_str(), text.size(), 0, tokens.data(), tokens.size(), &n,
                                             &error) == QINFER_E_INTERNAL)
      ++failures;
    qinfer_model_free(loaded);
  });
}

/// Patterns with as many groups inside each other as are accepted, and with many more of all that nests.
void deep_patterns(const std::string& model, const std::string& folder) {
  for (const char* name : {"config.json", "model.safetensors"})
    std::ofstream(folder + "/" + name, std::ios::binary) << read_file(model + "/" + name);
  constexpr std::size_t kMost = 12;
  load_pattern(folder, "groups", repeated("(?:", kMost) + "a" + repeated(")+", kMost), true);
  load_pattern(folder, "choices", repeated("(?:", kMost) + "a" + repeated("x?|d)*", kMost), true);
  load_pattern(folder, "looks", repeated("(?=b|c|", kMost) + "a" + repeated("|d)", kMost), true);
  load_pattern(folder, "options", repeated("((?i)b|", kMost / 2) + "a" + repeated("|d)*+", kMost / 2), true);
  load_pattern(folder, "repetitions", repeated("(?:b|", kMost) + "a" + repeated("|d)*?+?*+", kMost), true);
  load_pattern(folder, "249 groups", repeated("(?:", 249) + "a" + repeated(")+", 249), false);
  load_pattern(folder, "5000 groups", repeated("(?:", 5000) + "a" + repeated(")+", 5000), false);
  load_pattern(folder, "16000 stars", repeated("a", 1) + repeated("*", 16000), false);
  load_pattern(folder, "25 sequences", "a", false, 25);
  load_pattern(folder, "4000 options", repeated("(?i)", 4000) + "a", false);
}

void all_calls(const std::string& path, const std::string& folder) {
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 2;
  qinfer_runtime* runtime = nullptr;
  qinfer_model* model = nullptr;
  qinfer_kv_cache* cache = nullptr;
  qinfer_session *session = nullptr, *fork = nullptr, *loaded = nullptr;
  qinfer_error error{};
  auto memory = qi::options<qinfer_memory>();
  std::vector<char> json(1 << 20);
  std::vector<qinfer_token> tokens(4096);
  std::size_t n = 0;
  const std::string text = repeated("Once upon a time there was a little girl named Lily. ", 20);
  const std::string packed = folder + "/packed", saved = folder + "/saved";
  measure("runtime_create", [&] { must(qinfer_runtime_create(&runtime_options, &runtime, &error), error); });
  measure("plan",
          [&] { must(qinfer_model_plan(path.c_str(), nullptr, nullptr, nullptr, nullptr, &memory, &error), error); });
  measure("plan_map", [&] {
    must(qinfer_model_plan_map(path.c_str(), nullptr, nullptr, nullptr, nullptr, json.data(), json.size(), &n, &error),
         error);
  });
  measure("pack", [&] { must(qinfer_model_pack(runtime, path.c_str(), nullptr, packed.c_str(), &error), error); });
  measure("load of a packed file", [&] {
    qinfer_model* other = nullptr;
    must(qinfer_model_load(runtime, packed.c_str(), nullptr, &other, &error), error);
    qinfer_model_free(other);
  });
  measure("load", [&] { must(qinfer_model_load(runtime, path.c_str(), nullptr, &model, &error), error); });
  measure("tokenize", [&] {
    must(qinfer_tokenize(model, text.c_str(), text.size(), 0, tokens.data(), tokens.size(), &n, &error), error);
  });
  for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_CONTIGUOUS}}) {
    auto cache_options = qi::options<qinfer_kv_cache_options>();
    cache_options.flags = flags;
    cache_options.budget_blocks = 100;
    measure("kv_cache_create", [&] { must(qinfer_kv_cache_create(model, &cache_options, &cache, &error), error); });
    measure("session_create", [&] { must(qinfer_session_create(cache, nullptr, &session, &error), error); });
    measure("append", [&] { must(qinfer_session_append(session, tokens.data(), 200, &error), error); });
    measure("eval of 200 tokens", [&] { must(qinfer_eval(&session, 1, nullptr, &error), error); });
    measure("sample", [&] {
      auto sampler = qi::options<qinfer_sampler_options>();
      sampler.temperature = 1;
      sampler.top_p = 0.9f;
      sampler.top_k = 50;
      qinfer_token token = 0;
      must(qinfer_session_set_sampler(session, &sampler, &error), error);
      must(qinfer_session_sample(session, &token, &error), error);
    });
    measure("fork", [&] { must(qinfer_session_fork(session, &fork, &error), error); });
    measure("generate", [&] {
      auto options = qi::options<qinfer_generate_options>();
      options.max_tokens = 20;
      must(qinfer_generate(fork, &options, nullptr, &error), error);
    });
    measure("save", [&] { must(qinfer_session_save(session, saved.c_str(), &error), error); });
    measure("session_load", [&] { must(qinfer_session_load(cache, saved.c_str(), &loaded, &error), error); });
    measure("stats and memory", [&] {
      auto stats = qi::options<qinfer_kv_cache_stats>();
      must(qinfer_kv_cache_get_stats(cache, &stats, &error), error);
      must(qinfer_model_get_memory(model, &memory, &error), error);
    });
    measure("truncate and free", [&] {
      must(qinfer_session_truncate(session, 5, &error), error);
      for (qinfer_session* s : {session, fork, loaded}) qinfer_session_free(s);
      qinfer_kv_cache_free(cache);
    });
    std::remove(saved.c_str());
  }
  qinfer_model_free(model);
  qinfer_runtime_free(runtime);
}

/// A prompt in a model with quantised weights: they are decoded on the stack, of many rows in larger pieces.
void quantised_weights(const std::string& path) {
  for (std::size_t i = 0; i < qinfer_kernel_set_count(); ++i) {
    auto set = qi::options<qinfer_kernel_set_info>();
    auto options = qi::options<qinfer_runtime_options>();
    qinfer_runtime* runtime = nullptr;
    qinfer_model* model = nullptr;
    qinfer_kv_cache* cache = nullptr;
    qinfer_session* session = nullptr;
    qinfer_error error{};
    must(qinfer_kernel_set_get_info(i, &set, &error), error);
    options.cpu_target = set.name, options.n_threads = 1;
    if (qinfer_runtime_create(&options, &runtime, nullptr) != QINFER_OK) continue;
    if (qinfer_model_load(runtime, path.c_str(), nullptr, &model, nullptr) == QINFER_OK) {
      must(qinfer_kv_cache_create(model, nullptr, &cache, &error), error);
      must(qinfer_session_create(cache, nullptr, &session, &error), error);
      const std::vector<qinfer_token> tokens(60, 3);
      must(qinfer_session_append(session, tokens.data(), tokens.size(), &error), error);
      measure((std::string("eval of 60 tokens with quantised weights on ") + set.name).c_str(),
              [&] { must(qinfer_eval(&session, 1, nullptr, &error), error); });
      qinfer_session_free(session);
      qinfer_kv_cache_free(cache);
      qinfer_model_free(model);
    }
    qinfer_runtime_free(runtime);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: stack_use MODEL QUANTISED\n", stderr), 2;
  char folder[] = "/tmp/qinfer-stack-XXXXXX";
  if (mkdtemp(folder) == nullptr) return std::fputs("no temporary folder\n", stderr), 2;
  all_calls(argv[1], folder);
  quantised_weights(argv[2]);
  deep_patterns(argv[1], folder);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "packed", "saved"})
    std::remove((std::string(folder) + "/" + name).c_str());
  rmdir(folder);
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
