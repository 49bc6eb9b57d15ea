// count_allocations: stands in for malloc, calloc, realloc, aligned allocation, mmap and mremap of the whole process
// and counts what the library asks of them while it generates: nothing, but one mmap for each block of contiguous
// storage.
//
// Four threads of a host work on eight sessions of one cache, in both storages: prompts, decoding, sampling,
// detokenising, generating, forks, cutting back, cancelled calls. Forks may allocate, but a bounded number of times.
// Threads of the library count as generating all the time.
//
// Without forks the process's mappings and its break are the same afterwards, but for the blocks of contiguous storage.
//
// Before that, what loading and creating map must be the plan's regions, to the byte.
//
//   count_allocations MODEL [STEPS]     of each thread in each storage; 500; the suite takes fewer
#include <qinfer/qinfer.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> watching{false};
/// What a thread is doing; the library's own threads are generating whenever they run.
enum class Doing { generating, forking, other };
thread_local Doing doing = Doing::generating;
std::atomic<long> requests{0}, mappings{0}, fork_requests{0};
/// Anonymous memory that was mapped while `planning`: by the library alone, for glibc's own calls do not come by here.
std::atomic<bool> planning{false};
std::atomic<std::size_t> mapped_bytes{0};
/// Of malloc, while watching.
std::atomic<std::size_t> asked_bytes{0};

void note(std::atomic<long>& counter) {
  if (!watching) return;
  if (doing == Doing::generating) ++counter;
  if (doing == Doing::forking) ++fork_requests;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t n, size_t size);
void* __libc_realloc(void* p, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  note(requests);
  if (watching) asked_bytes += size;
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  note(requests);
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  note(requests);
  return __libc_realloc(p, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  note(requests);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  note(requests);
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  note(mappings);
  if (planning && file < 0) mapped_bytes += size;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
void* mremap(void* old, size_t old_size, size_t size, int flags, ...) {
  note(mappings);
  return reinterpret_cast<void*>(syscall(SYS_mremap, old, old_size, size, flags, nullptr));
}
}

namespace {

int failures = 0;

void expect(bool good, const char* what, long got) {
  if (!good) ++failures;
  std::printf("%s %s: %ld\n", good ? "ok    " : "FAILED", what, got);
}

/// Runs f as something other than generating.
template <typename F>
auto as(Doing what, F f) {
  const Doing before = doing;
  doing = what;
  auto result = f();
  doing = before;
  return result;
}

/// Forbids a token, and takes no memory itself but for its clones.
struct Mask final : qi::LogitsHook {
  bool apply(float* logits, std::uint32_t) override {
    logits[0] = -INFINITY;
    return true;
  }
  std::unique_ptr<qi::LogitsHook> clone() const override { return std::make_unique<Mask>(); }
};

/// One thread of the host with two sessions of its own. All it needs itself is there before counting begins.
class Host {
 public:
  Host(qi::KvCache& cache, const qi::Model& model, unsigned seed, bool may_fork)
      : cache_(cache), random_(seed), may_fork_(may_fork), detok_(model), n_vocab_(model.info().n_vocab) {
    for (int i = 0; i < 2; ++i) sessions_.push_back(make());
    tokens_.resize(200);
    text_.resize(model.info().max_token_bytes * 3 + 16);
    cancel_.request();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step(sessions_[random_() % sessions_.size()]);
  }

  long done = 0, forks = 0, wrong = 0;

 private:
  qi::Session make() {
    auto options = qi::options<qinfer_session_options>();
    options.max_draft = 8;
    qi::Session session(cache_, options);
    auto sampler = qi::options<qinfer_sampler_options>();
    sampler.temperature = 0.9f;
    sampler.top_k = 20;
    sampler.top_p = 0.95f;
    sampler.repeat_penalty = 1.1f;
    sampler.dry_multiplier = 0.5f;
    sampler.dynatemp_range = 0.3f;
    sampler.typical_p = 0.99f;
    sampler.top_n_sigma = 3;
    sampler.xtc_probability = 0.5f;
    sampler.mirostat = random_() % 2 == 0 ? 2 : 0;
    session.set_sampler(sampler);
    session.set_logits_hook(std::make_unique<Mask>());
    return session;
  }

  void step(qi::Session& session) {
    ++done;
    const std::size_t length = session.length(), room = length < 400 ? 400 - length : 0;
    switch (random_() % 8) {
      case 0:
        if (may_fork_) return fork(session);
        break;
      case 1: return good(qinfer_session_truncate(session.native(), length == 0 ? 0 : random_() % length, nullptr));
      case 2: return generate(session);
      case 3: return cancelled(session);
      default: break;
    }
    const std::size_t n = std::min<std::size_t>(random_() % 3 == 0 ? 1 + random_() % tokens_.size() : 1, room);
    if (n == 0) return good(qinfer_session_truncate(session.native(), 10, nullptr));
    for (std::size_t i = 0; i < n; ++i) tokens_[i] = static_cast<qinfer_token>(random_() % n_vocab_);
    good(qinfer_session_append(session.native(), tokens_.data(), n, nullptr));
    qinfer_session* handle = session.native();
    good(qinfer_eval(&handle, 1, nullptr, nullptr));
    qinfer_token token = 0;
    std::size_t n_text = 0;
    good(qinfer_session_sample(handle, &token, nullptr));
    good(qinfer_detok_push(detok_.native(), token, text_.data(), text_.size(), &n_text, nullptr));
  }

  void generate(qi::Session& session) {
    if (session.length() == 0 || session.length() > 380) return;
    auto options = qi::options<qinfer_generate_options>();
    options.max_tokens = 5;
    options.n_top = 20;
    options.on_token_info = [](const qinfer_token_info* info, void*) -> std::int32_t { return info->n_top != 20; };
    good(qinfer_generate(session.native(), &options, nullptr, nullptr));
  }

  void cancelled(qi::Session& session) {
    if (session.pending() == 0) return;
    auto options = qi::options<qinfer_eval_options>();
    options.cancel = cancel_.native();
    qinfer_session* handle = session.native();
    if (qinfer_eval(&handle, 1, &options, nullptr) != QINFER_E_CANCELLED) ++wrong;
  }

  void fork(qi::Session& session) {
    ++forks;
    qi::Session copy = as(Doing::forking, [&] { return session.fork(); });
    std::swap(session, copy);
    doing = Doing::other;
    { const qi::Session gone = std::move(copy); }
    doing = Doing::generating;
  }

  void good(qinfer_status status) {
    if (status != QINFER_OK) ++wrong;
  }

  qi::KvCache& cache_;
  std::mt19937 random_;
  bool may_fork_;
  qi::Detokenizer detok_;
  std::uint32_t n_vocab_;
  std::vector<qi::Session> sessions_;
  std::vector<qinfer_token> tokens_;
  std::vector<char> text_;
  qi::Cancel cancel_;
};

qi::KvCache make_cache(const qi::Model& model, std::uint32_t flags, std::uint32_t blocks = 256) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = blocks;
  options.flags = flags;
  return qi::KvCache(model, options);
}

/// The process's mappings and its break, read without allocating. Mappings of blocks, and what is reserved for them and
/// not mapped, are left out.
class AddressSpace {
 public:
  AddressSpace() : text_(1 << 20, '\0') { kept_.reserve(text_.size()); }

  void read() {
    kept_.clear();
    break_ = sbrk(0);
    const int file = open("/proc/self/maps", O_RDONLY);
    std::size_t size = 0;
    for (ssize_t n = 1; n > 0 && size < text_.size(); size += static_cast<std::size_t>(n))
      n = std::max<ssize_t>(::read(file, text_.data() + size, text_.size() - size), 0);
    close(file);
    for (std::string_view rest(text_.data(), size); !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n') + 1);
      rest.remove_prefix(line.size());
      if (line.find("memfd:") == line.npos && line.find(" ---p ") == line.npos) kept_ += line;
    }
  }

  bool operator==(const AddressSpace& other) const { return kept_ == other.kept_ && break_ == other.break_; }
  std::size_t size() const { return kept_.size(); }

 private:
  std::string text_, kept_;
  void* break_ = nullptr;
};

void many_threads(const qi::Model& model, int steps, std::uint32_t flags, const char* name, bool may_fork) {
  qi::KvCache cache = make_cache(model, flags);
  std::vector<std::unique_ptr<Host>> hosts;
  for (unsigned i = 0; i < 4; ++i) hosts.push_back(std::make_unique<Host>(cache, model, i + 1, may_fork));
  requests = mappings = fork_requests = 0;
  std::atomic<int> ready{0}, finished{0};
  std::vector<std::thread> threads;
  for (auto& host : hosts)
    threads.emplace_back([&ready, &finished, &host, steps] {
      ++ready;
      while (!watching) std::this_thread::yield();
      host->run(steps);
      ++finished;
      while (watching) usleep(1000);
    });
  AddressSpace before, after;
  while (ready != 4) std::this_thread::yield();
  before.read();
  watching = true;
  while (finished != 4) usleep(1000);
  after.read();
  watching = false;
  for (auto& thread : threads) thread.join();
  long done = 0, forks = 0, wrong = 0;
  for (const auto& host : hosts) done += host->done, forks += host->forks, wrong += host->wrong;
  std::printf("%s, %ld steps, %ld forks\n", name, done, forks);
  expect(done == 4L * steps && (forks > steps / 5) == may_fork, "steps", done);
  // Forks may let the heap grow.
  if (!may_fork)
    expect(before.size() > 0 && before == after, "mappings and break as before, bytes of maps",
           static_cast<long>(before.size()));
  expect(wrong == 0, "calls that did not end as they should", wrong);
  expect(requests == 0, "allocations while generating", requests);
  // A handle, the session, its tables, two shared buffers and their spares.
  expect(fork_requests <= forks * 24, "allocations of all forks", fork_requests);
  if ((flags & QINFER_CACHE_CONTIGUOUS) == 0) expect(mappings == 0, "mappings while generating", mappings);
}

/// What is mapped is what was planned, but for what is smaller than a page and comes from the heap.
void mapped_as_planned(const std::string& path) {
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 2;
  runtime_options.flags = QINFER_RUNTIME_NORMAL_PAGES;
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  auto session_options = qi::options<qinfer_session_options>();
  session_options.max_logits = 3;
  const auto map =
      nlohmann::json::parse(qi::plan_map(path, &runtime_options, nullptr, &cache_options, &session_options));
  std::size_t planned = 0;
  for (const auto& region : map.at("regions")) {
    std::size_t bytes = region.at("bytes");
    if (region.at("name") == "weights_mapped" || region.at("name") == "kv_lists") continue;
    if (region.at("name") == "tables")
      bytes = region.at("buffers")[0].at("bytes");  // rope; the tokenizer is on the heap
    if (bytes >= 4096) planned += bytes;
  }
  qi::Runtime runtime(runtime_options);
  mapped_bytes = 0;
  planning = true;
  const qi::Model model = qi::Model::load(runtime, path);
  qi::KvCache cache(model, cache_options);
  qi::Session session(cache, session_options);
  planning = false;
  expect(mapped_bytes == planned, "bytes mapped beyond the plan", static_cast<long>(mapped_bytes - planned));
}

/// Contiguous storage makes one mapping for each block that is taken.
void one_mapping_a_block(const qi::Model& model) {
  qi::KvCache cache = make_cache(model, QINFER_CACHE_CONTIGUOUS);
  qi::Session session(cache);
  std::vector<qinfer_token> tokens(320, 5);
  auto eval_options = qi::options<qinfer_eval_options>();
  requests = mappings = 0;
  watching = true;
  qinfer_session* handle = session.native();
  int bad = 0;
  for (int i = 0; i < 10; ++i) {
    bad += qinfer_session_append(handle, tokens.data(), 25, nullptr) != QINFER_OK;
    bad += qinfer_eval(&handle, 1, &eval_options, nullptr) != QINFER_OK;
  }
  watching = false;
  expect(bad == 0, "calls that failed", bad);
  expect(requests == 0, "allocations", requests);
  expect(mappings == 8, "mappings for 250 tokens in blocks of 32", mappings);
}

/// What is planned for a scheduler is what it takes.
void memory_of_a_scheduler(const qi::Model& model) {
  qi::KvCache cache = make_cache(model, 0);
  for (const char* park_path : {static_cast<const char*>(nullptr), "."})
    for (const std::uint32_t waiting : {1u, 256u, 50'000u}) {
      auto options = qi::options<qinfer_scheduler_options>();
      options.max_running = 1 + waiting % 100;
      options.max_waiting = waiting;
      options.park_path = park_path;
      std::uint64_t planned = 0;
      int bad = qinfer_scheduler_plan(&options, &planned, nullptr) != QINFER_OK;
      qinfer_scheduler* scheduler = nullptr;
      asked_bytes = 0;
      watching = true;
      bad += qinfer_scheduler_create(cache.native(), &options, &scheduler, nullptr) != QINFER_OK;
      watching = false;
      qinfer_scheduler_free(scheduler);
      // A file is opened and closed again, to know that it can be.
      const std::size_t more = asked_bytes - planned;
      expect(bad == 0 && more <= (park_path != nullptr ? 400 : 0), "bytes that a scheduler takes and no plan has",
             static_cast<long>(more));
    }
}

/// Steps of a scheduler, with prompts that are cut and requests that wait or, where few blocks are left, are parked. In
/// the first of two rounds files are opened. There are more where the times that were measured say for a while that
/// guesses do not pay, as they do on a machine that is busy.
void steps_of_a_scheduler(const qi::Model& model, std::uint32_t flags, const char* park_path) {
  qi::KvCache cache = make_cache(model, flags, park_path != nullptr ? 9 : 256);
  auto options = qi::options<qinfer_scheduler_options>();
  options.max_running = park_path != nullptr ? 8 : 3;
  options.step_ns = 1;
  options.park_path = park_path;
  qi::Scheduler scheduler(cache, options);
  qi::GenerateOptions request;
  request.max_tokens = park_path != nullptr ? 120 : 20;
  request.stop = {"never"};
  request.logprobs = true;
  auto guessing = qi::options<qinfer_session_options>();
  guessing.max_draft = 16;
  int bad = 0, ends = 0, rounds = 0;
  long guesses = 0;
  requests = mappings = 0;
  for (; rounds < 2 || (guesses == 0 && rounds < 40); ++rounds) {
    std::vector<std::unique_ptr<qi::Session>> sessions;
    std::vector<std::unique_ptr<qi::Generation>> generations;
    std::vector<std::unique_ptr<qi::Request>> submitted;
    for (std::size_t i = 0; i < 8; ++i) {
      sessions.push_back(std::make_unique<qi::Session>(cache, guessing));
      sessions.back()->append(std::vector<qinfer_token>(3 + 9 * i, 5));
      sessions.back()->set_bias({{2, -1e9F}});
      generations.push_back(std::make_unique<qi::Generation>(*sessions.back(), request));
      auto request_options = qi::options<qinfer_request_options>();
      request_options.user = sessions.back().get();
      submitted.push_back(std::make_unique<qi::Request>(scheduler.submit(*generations.back(), request_options)));
    }
    watching = park_path == nullptr || rounds > 0;
    const int until = ends + 8;
    for (int step = 0; step < 10000 && ends < until && bad == 0; ++step) {
      bad += qinfer_scheduler_step(scheduler.native(), nullptr) != QINFER_OK;
      for (qinfer_event event = {}; bad == 0;) {
        event.struct_size = sizeof event;
        bad += qinfer_scheduler_next(scheduler.native(), &event, nullptr) != QINFER_OK;
        if (event.kind == QINFER_EVENT_NONE) break;
        if (event.kind != QINFER_EVENT_END) continue;
        bad += event.status != QINFER_OK;
        ++ends;
        const bool before = watching.exchange(false);
        auto& session = *static_cast<qi::Session*>(event.user);
        guesses += static_cast<long>(session.metrics().drafted[0]);
        session.truncate(0);  // its blocks are free
        watching = before;
      }
    }
    watching = false;
  }
  expect(bad == 0, "calls of a scheduler that failed", bad);
  expect(ends == 8 * rounds, "requests that ended", ends);
  expect(guesses > 0, "guesses that a scheduler evaluated", guesses);
  const auto parked = static_cast<long>(scheduler.stats().times_parked);
  expect((parked > 1) == (park_path != nullptr), "requests that were parked", parked);
  expect(requests == 0, "allocations of a scheduler's steps", requests);
  expect(mappings == 0, "mappings of a scheduler's steps", mappings);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc == 3 ? std::atoi(argv[2]) : 500;
  if (argc < 2 || argc > 3 || steps < 10) return std::fputs("usage: count_allocations MODEL [STEPS]\n", stderr), 2;
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 2;
  qi::Runtime runtime(options);
  const qi::Model model = qi::Model::load(runtime, argv[1]);
  mapped_as_planned(argv[1]);
  for (const bool may_fork : {true, false}) {
    many_threads(model, steps, 0, "paged", may_fork);
    many_threads(model, steps, QINFER_CACHE_PREFIX, "paged with prefixes", may_fork);
    many_threads(model, steps, QINFER_CACHE_CONTIGUOUS, "contiguous", may_fork);
  }
  one_mapping_a_block(model);
  memory_of_a_scheduler(model);
  for (const std::uint32_t flags : {std::uint32_t{0}, std::uint32_t{QINFER_CACHE_PREFIX}})
    for (const char* park_path : {static_cast<const char*>(nullptr), "."})
      steps_of_a_scheduler(model, flags, park_path);
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
