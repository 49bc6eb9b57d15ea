// A process with small resource limits: writing beyond RLIMIT_FSIZE is QINFER_E_IO (EFBIG) and never a SIGXFSZ,
// whatever the host does about that signal, and old files stay whole; where RLIMIT_AS refuses to map weights it is
// QINFER_E_NO_MEMORY. Each test runs in a child of its own, forked before there is any runtime.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "support/c_api.h"
#include "support/in_child.h"

using namespace qinfer::test;

namespace {

TinySpec spec() {
  TinySpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.context_tokens = 1024;
  spec.heads = 4;
  spec.kv_heads = 2;
  return spec;
}

struct Stack {
  Runtime runtime = make_runtime(1);
  Model model;
  Cache cache;
  Session session;
  explicit Stack(const ModelDir& dir) : model(load_model(runtime, dir.path())) {
    cache = make_cache(model);
    session = grown(cache, 100);
  }
  static Session grown(const Cache& cache, std::size_t n) {
    Session session = make_session(cache);
    append(session, some_tokens(n));
    eval(session);
    return session;
  }
  void pack(const ModelDir& dir, qinfer_status wanted) const {
    qinfer_error err = {};
    const std::string out = dir.file("packed");
    const qinfer_status status = qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, out.c_str(), &err);
    need_status("pack", status, err, wanted, EFBIG, out + ": File too large");
  }
  void save(const ModelDir& dir, qinfer_status wanted) const {
    qinfer_error err = {};
    const std::string out = dir.file("session");
    const qinfer_status status = qinfer_session_save(session.get(), out.c_str(), &err);
    need_status("save", status, err, wanted, EFBIG, out + ": File too large");
  }
  /// How many tokens the saved session has; nothing about it may be out of the ordinary.
  std::size_t saved_tokens(const ModelDir& dir) const {
    qinfer_session* loaded = nullptr;
    qinfer_error err = {};
    auto result = sized<qinfer_session_load_result>();
    const qinfer_status status =
        qinfer_session_load_with(cache.get(), dir.file("session").c_str(), nullptr, &loaded, &result, &err);
    need_status("load", status, err, QINFER_OK, 0, "");
    need(result.flags == 0, fmt::format("loading says flags {}, expected none", result.flags));
    const Session handle(loaded);
    return qinfer_session_length(loaded);
  }
};

std::vector<std::string> names_in(const ModelDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<float> next_logits(const Session& session, std::size_t n) {
  append(session, some_tokens(n));
  eval(session);
  return last_logits(session, 300);
}

Cache contiguous(const Model& model) {
  auto options = sized<qinfer_kv_cache_options>();
  options.flags = QINFER_CACHE_CONTIGUOUS;
  return make_cache(model, &options);
}

}  // namespace

TEST_CASE("RLIMIT_FSIZE: packing is QINFER_E_IO, the process lives, and no file changes", "[hostile][limits]") {
  const ModelDir dir(spec());
  REQUIRE_CHILD([&] {
    const Stack s(dir);
    const auto before = names_in(dir);
    for (const std::uint64_t limit : {0u, 1u, 4096u}) {
      const SmallLimit small(RLIMIT_FSIZE, limit);
      s.pack(dir, QINFER_E_IO);
      need(names_in(dir) == before, fmt::format("under a limit of {} a file was left behind", limit));
    }
    s.pack(dir, QINFER_OK);
    const std::string good = dir.read("packed");
    for (const std::uint64_t limit : {std::size_t{0}, std::size_t{4096}, good.size() - 1}) {
      const SmallLimit small(RLIMIT_FSIZE, limit);
      s.pack(dir, QINFER_E_IO);
      need(dir.read("packed") == good, fmt::format("under a limit of {} the old file changed", limit));
      need(names_in(dir).size() == before.size() + 1, fmt::format("under a limit of {} a file was left behind", limit));
    }
    const SmallLimit enough(RLIMIT_FSIZE, good.size());
    s.pack(dir, QINFER_OK);
  });
}

TEST_CASE("RLIMIT_FSIZE: a first save is QINFER_E_IO and leaves no file", "[hostile][limits]") {
  const ModelDir dir(spec());
  REQUIRE_CHILD([&] {
    const Stack s(dir);
    const auto before = names_in(dir);
    for (const std::uint64_t limit : {0u, 1u, 4096u, 20'000u}) {
      const SmallLimit small(RLIMIT_FSIZE, limit);
      s.save(dir, QINFER_E_IO);
      need(names_in(dir) == before, fmt::format("under a limit of {} a file was left behind", limit));
    }
    s.save(dir, QINFER_OK);
    // Another session takes the file's place whole, or not at all.
    const std::string good = dir.read("session");
    const Session other = make_session(s.cache);
    append(other, {9, 8, 7});
    const SmallLimit small(RLIMIT_FSIZE, 4096);
    qinfer_error err = {};
    const qinfer_status status = qinfer_session_save(other.get(), dir.file("session").c_str(), &err);
    need_status("save over another session", status, err, QINFER_E_IO, EFBIG, "session: File too large");
    need(dir.read("session") == good, "the file of the other session changed");
    need(names_in(dir).size() == before.size() + 1, "a file was left behind");
  });
}

TEST_CASE("RLIMIT_FSIZE: a save that goes on is QINFER_E_IO and the state before stays", "[hostile][limits]") {
  const ModelDir dir(spec());
  REQUIRE_CHILD([&] {
    const Stack s(dir);
    s.save(dir, QINFER_OK);
    const auto before = names_in(dir);
    const std::string good = dir.read("session");
    append(s.session, some_tokens(200));
    eval(s.session);
    {
      const SmallLimit small(RLIMIT_FSIZE, good.size());
      s.save(dir, QINFER_E_IO);
      need(dir.read("session") == good, "the file changed, though nothing could be added");
    }
    for (const std::size_t more : {1, 100, 5000}) {
      const SmallLimit small(RLIMIT_FSIZE, good.size() + more);
      s.save(dir, QINFER_E_IO);
      need(names_in(dir) == before, "a file was left behind");
      const std::size_t n = s.saved_tokens(dir);
      need(n == 100, fmt::format("with room for {} bytes more the file has {} tokens, expected 100", more, n));
    }
    s.save(dir, QINFER_OK);
    const std::size_t n = s.saved_tokens(dir);
    need(n == 300, fmt::format("the file has {} tokens in the end, expected 300", n));
  });
}

TEST_CASE("RLIMIT_FSIZE: a contiguous cache is QINFER_E_IO where it has no room", "[hostile][limits]") {
  const ModelDir dir(spec());
  REQUIRE_CHILD([&] {
    const Stack s(dir);
    for (const std::uint32_t flags :
         {std::uint32_t{QINFER_CACHE_CONTIGUOUS}, std::uint32_t{QINFER_CACHE_CONTIGUOUS | QINFER_CACHE_COMMIT}}) {
      const SmallLimit small(RLIMIT_FSIZE, 4096);
      auto options = sized<qinfer_kv_cache_options>();
      options.flags = flags;
      qinfer_kv_cache* cache = nullptr;
      qinfer_error err = {};
      const qinfer_status status = qinfer_kv_cache_create(s.model.get(), &options, &cache, &err);
      need_status("cache", status, err, QINFER_E_IO, EFBIG, "RLIMIT_FSIZE");
      need(std::string(err.message).ends_with("File too large"), err.message);
    }
    contiguous(s.model);
  });
}

TEST_CASE("RLIMIT_FSIZE: a contiguous cache that exists grows, or says why not and goes on later",
          "[hostile][limits]") {
  const ModelDir dir(spec());
  REQUIRE_CHILD([&] {
    const Stack s(dir);
    const std::vector<float> expected = next_logits(Stack::grown(s.cache, 40), 200);
    const Cache cache = contiguous(s.model);
    const Session session = Stack::grown(cache, 40);
    qinfer_session* copy = nullptr;
    REQUIRE_OK(qinfer_session_fork(session.get(), &copy, &err));
    const Session fork(copy);
    for (const Session* one : {&session, &fork}) {  // who goes on first copies the block that both share
      append(*one, some_tokens(200));
      qinfer_session* batch = one->get();
      qinfer_error err = {};
      {
        const SmallLimit small(RLIMIT_FSIZE, 4096);
        const qinfer_status status = qinfer_eval(&batch, 1, nullptr, &err);
        if (status != QINFER_OK || one == &session)
          need_status("growing", status, err, QINFER_E_IO, EFBIG, "RLIMIT_FSIZE");
        if (status != QINFER_OK) need(qinfer_session_pending(batch) == 200, "tokens were lost");
      }
      if (qinfer_session_pending(batch) != 0) eval(*one);
      need(last_logits(*one, 300) == expected, "the logits differ from those of a process without a limit");
    }
  });
}

namespace {

volatile sig_atomic_t g_handled = 0;

sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

/// All that writes beyond the limit, one after the other.
void exceed(const Stack& s, const ModelDir& dir, const Cache& flat) {
  const SmallLimit small(RLIMIT_FSIZE, 4096);
  s.pack(dir, QINFER_E_IO);
  s.save(dir, QINFER_E_IO);
  auto options = sized<qinfer_kv_cache_options>();
  options.flags = QINFER_CACHE_CONTIGUOUS;
  qinfer_kv_cache* cache = nullptr;
  qinfer_error err = {};
  need_status("cache", qinfer_kv_cache_create(s.model.get(), &options, &cache, &err), err, QINFER_E_IO, EFBIG, "");
  const Session session = Stack::grown(flat, 10);
  qinfer_session* copy = nullptr;
  REQUIRE_OK(qinfer_session_fork(session.get(), &copy, &err));
  const Session fork(copy);
  append(fork, {1});
  need_status("growing", qinfer_eval(&copy, 1, nullptr, &err), err, QINFER_E_IO, EFBIG, "RLIMIT_FSIZE");
}

/// Sends the signal with a value by which it is known again: 't' to the calling thread, 'k' to the process.
void send(char to) {
  sigval value = {};
  value.sival_int = to;
  need((to == 't' ? pthread_sigqueue(pthread_self(), SIGXFSZ, value) : sigqueue(getpid(), SIGXFSZ, value)) == 0,
       "sending failed");
}

/// The SIGXFSZ that are waiting, taken one after the other, as they were sent; '?' for one of the system.
std::string take_pending() {
  const sigset_t set = only(SIGXFSZ);
  const timespec at_once = {};
  std::string found;
  siginfo_t info = {};
  while (sigtimedwait(&set, &info, &at_once) == SIGXFSZ)
    found += info.si_code == SI_QUEUE ? static_cast<char>(info.si_value.sival_int) : '?';
  std::sort(found.begin(), found.end());
  return found;
}

std::string mask_text(const sigset_t& set) {
  std::string text;
  for (int i = 1; i < SIGRTMAX; ++i)
    if (sigismember(&set, i) == 1) text += fmt::format("{} ", i);
  return text;
}

}  // namespace

TEST_CASE("SIGXFSZ: a host that does nothing about it lives, and none is pending", "[hostile][limits]") {
  const ModelDir dir(spec());
  REQUIRE_CHILD([&] {
    const Stack s(dir);
    const Cache flat = contiguous(s.model);
    const sigset_t other = only(SIGUSR1);
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, &other, &before);
    pthread_sigmask(SIG_SETMASK, nullptr, &before);
    exceed(s, dir, flat);
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    need(mask_text(before) == mask_text(after),
         fmt::format("the mask was {} and is {}", mask_text(before), mask_text(after)));
    sigset_t pending;
    sigpending(&pending);
    need(mask_text(pending).empty(), "pending: " + mask_text(pending));
    struct sigaction action = {};
    sigaction(SIGXFSZ, nullptr, &action);
    need(action.sa_handler == SIG_DFL, "the disposition changed");
  });
}

TEST_CASE("SIGXFSZ: a host's handler is its own, and is not called", "[hostile][limits]") {
  const ModelDir dir(spec());
  REQUIRE_CHILD([&] {
    const Stack s(dir);
    const Cache flat = contiguous(s.model);
    const auto handler = +[](int) { g_handled = g_handled + 1; };
    struct sigaction action = {}, now = {};
    action.sa_handler = handler;
    sigaction(SIGXFSZ, &action, nullptr);
    g_handled = 0;
    exceed(s, dir, flat);
    need(g_handled == 0, fmt::format("the handler was called {} times", static_cast<int>(g_handled)));
    sigaction(SIGXFSZ, nullptr, &now);
    need(now.sa_handler == handler, "the handler was replaced");
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    need(sigismember(&mask, SIGXFSZ) == 0, "the signal is blocked now");
    raise(SIGXFSZ);
    need(g_handled == 1, "the handler does not work any more");
  });
}

TEST_CASE("SIGXFSZ: what a host has blocked and pending stays pending, and nothing more", "[hostile][limits]") {
  const ModelDir dir(spec());
  for (const std::string sent : {"", "t", "k", "kt"}) {
    INFO("sent before: " << (sent.empty() ? "none" : sent) << " (k: to the process, t: to the thread)");
    REQUIRE_CHILD([&] {
      const Stack s(dir);
      const Cache flat = contiguous(s.model);
      const sigset_t set = only(SIGXFSZ);
      pthread_sigmask(SIG_BLOCK, &set, nullptr);
      for (const char to : sent) send(to);
      exceed(s, dir, flat);
      sigset_t mask;
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      need(sigismember(&mask, SIGXFSZ) == 1, "the signal is not blocked any more");
      const std::string left = take_pending();
      need(left == sent, fmt::format("\"{}\" were pending, \"{}\" are", sent, left));
    });
  }
}

TEST_CASE("SIGXFSZ: threads that the library started let the process's signal through to the host",
          "[hostile][limits]") {
  const ModelDir dir(spec());
  REQUIRE_CHILD([&] {
    const Runtime runtime = make_runtime(3);
    const Model model = load_model(runtime, dir.path());
    const Cache flat = contiguous(model);
    const Session session = Stack::grown(flat, 100);
    const sigset_t set = only(SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    send('k');  // would end the process if a worker took it
    usleep(20'000);
    const std::string left = take_pending();
    need(left == "k", fmt::format("\"{}\" are pending, expected the one that was sent", left));
  });
}

#if !defined(QINFER_SANITIZED)  // sanitizers reserve more address space than any limit allows
namespace {

/// A checkpoint with an embedding of `rows` rows of zeros, which take no place on the disk.
void write_sparse(const ModelDir& dir, std::uint64_t rows) {
  TinySpec large = spec(), small = spec();
  large.vocab = static_cast<std::uint32_t>(rows);
  large.tied = small.tied = true;
  dir.write("config.json", tiny_config(large).dump());
  nlohmann::json header;
  std::uint64_t at = 0;
  for (TinyTensor& tensor : tiny_tensors(small)) {
    if (tensor.name == "model.embed_tokens.weight") tensor.shape[0] = rows;
    std::uint64_t bytes = 4;
    for (const std::uint64_t extent : tensor.shape) bytes *= extent;
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  const std::string file = safetensors_file(header.dump(), "");
  dir.write("model.safetensors", file);
  REQUIRE(truncate(dir.file("model.safetensors").c_str(), static_cast<off_t>(file.size() + at)) == 0);
}

std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("RLIMIT_AS: weights that cannot be mapped are QINFER_E_NO_MEMORY", "[hostile][limits]") {
  const ModelDir dir;
  write_sparse(dir, 1'600'000);
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(dir.file("model.safetensors")));
  REQUIRE(bytes > 100'000'000);
  REQUIRE_CHILD([&] {
    const Runtime runtime = make_runtime(1, "reference");
    qinfer_model* model = nullptr;
    qinfer_error err = {};
    {
      const SmallLimit small(RLIMIT_AS, address_space() + static_cast<std::uint64_t>(bytes) - (8 << 20));
      const qinfer_status status = qinfer_model_load(runtime.get(), dir.path().c_str(), nullptr, &model, &err);
      need_status("load", status, err, QINFER_E_NO_MEMORY, bytes, "model.safetensors: no address space to map");
      need(model == nullptr, "a handle was given out");
      auto options = sized<qinfer_load_options>();
      options.flags = QINFER_LOAD_NO_MMAP;
      const qinfer_status read = qinfer_model_load(runtime.get(), dir.path().c_str(), &options, &model, &err);
      need(read == QINFER_E_NO_MEMORY,
           fmt::format("without mapping it is {}: {}", qinfer_status_name(read), err.message));
    }
    load_model(runtime, dir.path());
  });
}
#endif
