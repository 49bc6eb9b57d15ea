// See sweep.h.
#include "sweep.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "held.h"
#include "support/checkpoint_writer.h"

namespace qinfer::faults {
namespace {

constexpr unsigned kLimitSeconds = 5;
constexpr std::size_t kMostDeaths = 5;  // of one operation: the rest would be more of the same

/// What a child tells its parent.
struct Shared {
  std::size_t index, cases, failures;
  bool done;
  char present[200];
};

int open_files() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

struct Held {
  long heap, mapped;
  int files;
};

Held held_now() { return {heap_bytes(), mapped_bytes(), open_files()}; }

std::string what_leaked(const Held& before, const Held& after) {
  std::string text;
  if (after.heap != before.heap) text += std::to_string(after.heap - before.heap) + " bytes of the heap leaked; ";
  if (after.mapped != before.mapped) text += std::to_string(after.mapped - before.mapped) + " mapped bytes leaked; ";
  if (after.files != before.files) text += std::to_string(after.files - before.files) + " descriptors leaked; ";
  return text;
}

class Child {
 public:
  Child(Injector& injector, const Operation& operation, Shared& shared)
      : injector_(injector), name_(operation.name), shared_(shared) {
    std::snprintf(shared_.present, sizeof shared_.present, "while it was prepared");
    alarm(10 * kLimitSeconds);
    subject_ = operation.make();
  }

  void run(std::size_t from, long stride) {
    injector_.count();
    once(nullptr, reference_);
    if (const std::string wrong = repeat(); !wrong.empty()) return fail("without faults: " + wrong);
    shared_.cases = injector_.cases(stride);
    if (from == 0) std::printf("%s: %s, %zu cases\n", name_.c_str(), injector_.counted().c_str(), shared_.cases);
    std::fflush(stdout);
    for (shared_.index = from; shared_.index < shared_.cases; ++shared_.index) {
      std::snprintf(shared_.present, sizeof shared_.present, "%s", injector_.describe(shared_.index).c_str());
      alarm(kLimitSeconds);
      std::string wrong = faulty(shared_.index);
      alarm(kLimitSeconds);
      if (const std::string later = repeat(); !later.empty()) wrong += "and without faults again: " + later;
      if (!wrong.empty()) fail(std::string(shared_.present) + ": " + wrong);
    }
    alarm(0);
  }

 private:
  void fail(const std::string& what) {
    if (++shared_.failures <= 20) std::printf("FAILED %s, %s\n", name_.c_str(), what.c_str());
    std::fflush(stdout);
  }

  /// One call, with the case of `index` or without faults; what is wrong.
  std::string once(const std::size_t* index, std::string& result) {
    std::string wrong;
    subject_->before();
    qinfer_error err;
    std::memset(&err, 0, sizeof err);
    if (index != nullptr) injector_.arm(*index);
    const qinfer_status status = subject_->call(&err);
    if (index == nullptr && status != QINFER_OK)
      wrong = std::string(qinfer_status_name(status)) + " (" + err.message + "); ";
    if (index != nullptr) wrong = injector_.judge(status, err);
    if (const std::string left = subject_->leftovers(status, index == nullptr || !injector_.keeps_temporaries());
        !left.empty())
      wrong += left + "; ";
    if (status == QINFER_OK) result = subject_->result();
    subject_->after();
    return wrong;
  }

  std::string compared(const std::size_t* index) {
    std::string result = reference_;
    std::string wrong = once(index, result);
    if (result != reference_) wrong += "the result is another: " + difference(result) + "; ";
    return wrong;
  }

  std::string difference(const std::string& result) const {
    std::size_t at = 0;
    while (at < std::min(result.size(), reference_.size()) && result[at] == reference_[at]) ++at;
    return "at byte " + std::to_string(at) + " of " + std::to_string(reference_.size());
  }

  std::string repeat() { return compared(nullptr); }

  /// Also looks at what is held before and after.
  std::string faulty(std::size_t index) {
    const Held before = held_now();
    std::string wrong = compared(&index);
    std::string leaked;
    {
      const std::size_t size = wrong.capacity();  // what this function itself holds is no leak
      const long own = size > 15 ? block_bytes(wrong.data()) : 0;
      Held after = held_now();
      after.heap -= own;
      leaked = what_leaked(before, after);
    }
    return wrong + leaked;
  }

  Injector& injector_;
  std::string name_;
  Shared& shared_;
  std::unique_ptr<Subject> subject_;
  std::string reference_;
};

std::string how_it_ended(int status) {
  if (WIFEXITED(status)) return "the process exited with " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM) return "did not end within " + std::to_string(kLimitSeconds) + " s";
  return std::string("the process was ended by ") + strsignal(WTERMSIG(status));
}

/// In the child: does not return.
[[noreturn]] void be_child(Injector& injector, const Operation& operation, Shared& shared, std::size_t from,
                           long stride) {
  try {
    Child(injector, operation, shared).run(from, stride);
    shared.done = true;
  } catch (const std::exception& e) {
    std::printf("FAILED %s, %s: %s\n", operation.name.c_str(), shared.present, e.what());
    std::fflush(stdout);
  }
  _exit(shared.done ? 0 : 3);
}

void sweep_one(Injector& injector, const Operation& operation, Shared& shared, long stride) {
  shared = {};
  std::size_t deaths = 0, failures = 0;
  for (std::size_t from = 0; deaths < kMostDeaths; from = shared.index + 1) {
    std::fflush(stdout);
    shared.index = from;
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("cannot fork");
    if (child == 0) be_child(injector, operation, shared, from, stride);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    if (status == 0) break;
    ++deaths;
    std::printf("FAILED %s, %s: %s\n", operation.name.c_str(), shared.present, how_it_ended(status).c_str());
    if (shared.cases == 0) break;
  }
  failures = shared.failures;
  if (deaths == kMostDeaths)
    std::printf("FAILED %s: given up at case %zu of %zu\n", operation.name.c_str(), shared.index, shared.cases);
  shared.failures = failures + deaths;
}

}  // namespace

int sweep(Injector& injector, const Files& files, long stride) {
  auto* shared =
      static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (shared == MAP_FAILED) throw std::runtime_error("no shared memory");
  std::size_t failures = 0;
  for (const Operation& operation : all_operations(files)) {
    sweep_one(injector, operation, *shared,
              stride == 1 ? std::max(operation.weight / 8, 1L) : stride * operation.weight);
    failures += shared->failures;
  }
  std::printf("%zu failed\n", failures);
  return failures == 0 ? 0 : 1;
}

int run_program(int argc, char** argv, Injector& injector) {
  if (argc != 2 && argc != 3) return std::fprintf(stderr, "usage: %s MODEL_DIR [STRIDE]\n", argv[0]), 2;
  const long stride = argc == 3 ? std::max(std::atol(argv[2]), 1L) : 1;
  try {
    test::TinySpec spec;
    spec.architecture = "Qwen2ForCausalLM";
    spec.layers = 3, spec.shards = 3, spec.window = 40, spec.full_layers = 1;
    const test::ModelDir tiny(spec), folder;
    // What the library does not know is parsed all the same.
    std::string config = tiny.read("config.json");
    config.insert(config.find('{') + 1,
                  R"("nested": {"a": [1, [2.5, {"b": [null, true, "text that is not short"]}]]},)");
    tiny.write("config.json", config);
    tiny.write("generation_config.json", R"({"eos_token_id": [263, 5], "bos_token_id": 262})");
    return sweep(injector, {folder.path(), tiny.path(), argv[1]}, stride);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}

}  // namespace qinfer::faults
