// Snapshots: what comes back is what was saved, in any cache; damage is noticed; a process that is killed while saving
// leaves the old state or the new one.
#include <qinfer/qinfer.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#ifdef QINFER_HAVE_AMX
#include "support/amx_runtime.h"
#endif
#include "kv/support.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/hash.h"
#include "support/targets.h"

using qinfer::test::same_bits;
using qinfer::test::tokens_of;

namespace {

qinfer::test::TinySpec spec() {
  qinfer::test::TinySpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.context_tokens = 1024;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 10;  // not what the kernels pad to
  spec.dtype = qinfer::DType::f16;
  return spec;
}

qi::Model load(const std::string& path, const std::string& target = "") {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 1;
  if (!target.empty()) options.cpu_target = target.c_str();
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, path);
}

qi::KvCache make_cache(const qi::Model& model, std::uint32_t block_tokens = 32, std::uint32_t flags = 0,
                       std::int32_t type = QINFER_KV_F16) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.block_tokens = block_tokens;
  options.kv_type = type;
  options.flags = flags;
  return qi::KvCache(model, options);
}

std::vector<float> logits_after(qi::Session& session, const std::vector<std::int32_t>& tokens) {
  session.append(tokens);
  session.eval();
  return session.copy_logits();
}

std::uint64_t file_bytes(const std::string& path) {
  struct stat info = {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

qinfer_status try_load(qi::KvCache& cache, const std::string& path, qinfer_error& error) {
  qinfer_session* session = nullptr;
  const qinfer_status status = qinfer_session_load(cache.native(), path.c_str(), &session, &error);
  CHECK((session != nullptr) == (status == QINFER_OK));
  qinfer_session_free(session);
  return status;
}

}  // namespace

TEST_CASE("a session comes back from its snapshot, into any cache", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory(spec());
  const std::string path = directory.file("session.kv");
  const auto prompt = tokens_of(100, 1), more = tokens_of(70, 2);
  for (const std::string& target : qinfer::test::usable_targets()) {
    const qi::Model model = load(directory.path(), target);
    qi::KvCache cache = make_cache(model);
    qi::Session session(cache);
    auto sampler = qi::options<qinfer_sampler_options>();
    sampler.temperature = 1;
    sampler.seed = 5;
    session.set_sampler(sampler);
    session.set_bias({{7, 2.5f}});
    const auto at_save = logits_after(session, prompt);
    session.append(more.data(), 5);
    directory.remove("session.kv");
    session.save(path);
    session.eval();
    const qinfer_token drawn = session.sample();
    for (const std::uint32_t block_tokens : {32u, 128u}) {
      for (const std::uint32_t flags :
           {0u, std::uint32_t{QINFER_CACHE_CONTIGUOUS}, std::uint32_t{QINFER_CACHE_PREFIX}}) {
        INFO(target << ", blocks of " << block_tokens << ", flags " << flags);
        qi::KvCache other = make_cache(model, block_tokens, flags);
        qi::Session loaded = qi::Session::load(other, path);
        CHECK(loaded.length() == 105);
        CHECK(loaded.pending() == 5);
        loaded.eval();
        CHECK(loaded.sample() == drawn);
        loaded.truncate(100);
        loaded.eval();
        CHECK(same_bits(loaded.copy_logits(), at_save));
      }
    }
  }
}

TEST_CASE("saving again writes what is new, and mixes in no other way and no other file", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model);
  const std::string path = directory.file("session.kv");
  qi::Session session(cache);
  logits_after(session, tokens_of(320, 3));
  session.save(path);
  for (int i = 0; i < 5; ++i) {
    const auto logits = logits_after(session, tokens_of(40, static_cast<unsigned>(i)));
    session.save(path);
    qi::KvCache other = make_cache(model);
    qi::Session loaded = qi::Session::load(other, path);
    CHECK(loaded.tokens() == session.tokens());
    CHECK(loaded.pending() == 1);
    loaded.eval();
    CHECK(same_bits(loaded.copy_logits(), logits));
  }
  // Cut back and gone on otherwise: the file is the new session's alone.
  session.truncate(200);
  const auto logits = logits_after(session, tokens_of(60, 9));
  session.save(path);
  qi::KvCache other = make_cache(model);
  qi::Session loaded = qi::Session::load(other, path);
  CHECK(loaded.length() == 260);
  loaded.eval();
  CHECK(same_bits(loaded.copy_logits(), logits));
  // An empty session, and one with pending tokens only.
  qi::Session empty(cache);
  empty.save(path);
  CHECK(qi::Session::load(other, path).length() == 0);
  empty.append(tokens_of(3, 1));
  empty.save(path);
  CHECK(qi::Session::load(other, path).pending() == 3);
  // Damage to the file is not built upon.
  {
    std::string bytes = directory.read("session.kv");
    session.save(path);
    bytes = directory.read("session.kv").substr(0, bytes.size() - 5000);
    directory.write("session.kv", bytes);
    session.append({1, 2, 3});
    session.eval();
    session.save(path);
    qi::Session again = qi::Session::load(other, path);
    CHECK(again.tokens() == session.tokens());
  }
  // What is no snapshot stays as it is.
  directory.write("notes.txt", "not to be lost");
  qinfer_error error{};
  CHECK(qinfer_session_save(session.native(), directory.file("notes.txt").c_str(), &error) == QINFER_E_FORMAT);
  CHECK(directory.read("notes.txt") == "not to be lost");
  CHECK(qinfer_session_save(session.native(), directory.file("none/session.kv").c_str(), &error) == QINFER_E_NOT_FOUND);
}

TEST_CASE("invented headers are refused before their sizes are believed", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model, 32, QINFER_CACHE_PREFIX);
  qi::Session session(cache);
  logits_after(session, tokens_of(100, 1));
  const std::string path = directory.file("session.kv");
  session.save(path);
  const std::string good = directory.read("session.kv");
  // Offsets as in kv/snapshot.cpp: Header. The checksum is made to fit: it is against damage, not malice.
  const auto refuse = [&](std::size_t at, const std::string& bytes, const std::string& message) {
    INFO("bytes at " << at);
    std::string bad = good;
    bad.replace(at, bytes.size(), bytes);
    const std::uint64_t checksum = XXH3_64bits(bad.data(), 168);
    std::memcpy(bad.data() + 168, &checksum, sizeof checksum);
    directory.write("bad.kv", bad);
    qinfer_error error{};
    CHECK(try_load(cache, directory.file("bad.kv"), error) == QINFER_E_FORMAT);
    CHECK(std::string(error.message).find(message) != std::string::npos);
  };
  const auto u32 = [](std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
  refuse(136, std::string(32, '\0'), "sizes that cannot be");  // that no computation gave
  refuse(68, u32(1u << 30), "a session of 1073741824 tokens");
  refuse(68, u32(0), "a session of 0 tokens");
  refuse(72, u32(0), "with 0 rows");
  refuse(72, u32(2000), "with 2000 rows");
  refuse(96, std::string("\0\0\0\0\0\0\0\x80", 8), "sizes that cannot be");
  refuse(32, u32(0), "sizes that cannot be");
  refuse(32, u32(5), "sizes that cannot be");
  refuse(32, u32(2), "groups of layers");
}

TEST_CASE("what a snapshot brings is not handed to other sessions", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  const std::string path = directory.file("session.kv");
  const auto prompt = tokens_of(128, 1);
  {
    qi::KvCache cache = make_cache(model);
    qi::Session session(cache);
    logits_after(session, prompt);
    session.save(path);
  }
  qi::KvCache cache = make_cache(model, 32, QINFER_CACHE_PREFIX);
  qi::Session loaded = qi::Session::load(cache, path), fork = loaded.fork(), other(cache);
  logits_after(fork, tokens_of(40, 2));
  logits_after(other, prompt);
  CHECK(other.metrics().cached_tokens == 0);
  // Its own from the start again, it takes part like any other.
  loaded.truncate(0);
  logits_after(loaded, prompt);
  CHECK(loaded.metrics().cached_tokens == 96);
}

#if !defined(QINFER_POISON)  // which fills what is not in use with NaN, paddings too
TEST_CASE("a snapshot holds nothing that its session does not", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  const std::string path = directory.file("session.kv"), clean = directory.file("clean.kv");
  const auto prompt = tokens_of(40, 1);
  for (const std::uint32_t flags : {std::uint32_t{QINFER_CACHE_PREFIX}, std::uint32_t{QINFER_CACHE_COMMIT}}) {
    auto options = qi::options<qinfer_kv_cache_options>();
    options.budget_blocks = 4;
    options.kv_type = QINFER_KV_F16;
    options.flags = flags;
    qi::KvCache used(model, options), fresh(model, options);
    {
      qi::Session secret(used);
      logits_after(secret, tokens_of(128, 7));
    }
    qi::Session session(used), alone(fresh);
    logits_after(session, tokens_of(60, 8));
    session.truncate(0);
    logits_after(session, prompt);
    logits_after(alone, prompt);
    directory.remove("session.kv");
    directory.remove("clean.kv");
    session.save(path);
    alone.save(clean);
    CHECK((directory.read("session.kv") == directory.read("clean.kv")));
  }
}
#endif

TEST_CASE("an appended snapshot costs what is new", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model);
  const std::string path = directory.file("session.kv");
  qi::Session session(cache);
  logits_after(session, tokens_of(640, 3));
  session.save(path);
  const std::uint64_t before = file_bytes(path), block = cache.stats().bytes_committed / cache.stats().blocks_used;
  logits_after(session, tokens_of(32, 4));
  session.save(path);
  session.save(path);
  CHECK(file_bytes(path) <= before + 2 * block + 4 * 4096);  // one block, and the tail of the other state
}

TEST_CASE("snapshots that do not fit are refused with the reason", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model);
  const std::string path = directory.file("session.kv");
  qi::Session session(cache);
  logits_after(session, tokens_of(64, 3));
  session.save(path);
  qinfer_error error{};
  const auto refuses = [&](qi::KvCache& into, qinfer_status status, const char* word) {
    CHECK(try_load(into, path, error) == status);
    INFO(error.message);
    CHECK(std::strstr(error.message, word) != nullptr);
    CHECK(into.stats().blocks_used == 0);
  };
  auto tuned = spec();
  tuned.seed = 2;
  const qinfer::test::ModelDir other_directory(tuned);
  const qi::Model other_model = load(other_directory.path());
  qi::KvCache of_other = make_cache(other_model), wide = make_cache(model, 32, 0, QINFER_KV_F32);
  refuses(of_other, QINFER_E_UNSUPPORTED, "other weights");
  refuses(wide, QINFER_E_UNSUPPORTED, "the cache holds");
  auto small = qi::options<qinfer_kv_cache_options>();
  small.budget_blocks = 1;
  small.kv_type = QINFER_KV_F16;
  qi::KvCache full(model, small);
  refuses(full, QINFER_E_KV_FULL, "no room");
  CHECK(try_load(cache, directory.file("missing.kv"), error) == QINFER_E_NOT_FOUND);
  CHECK(try_load(cache, directory.file("config.json"), error) == QINFER_E_FORMAT);
}

namespace {

using LoadOn = std::function<qi::Model(const std::string& path, const std::string& target)>;

/// Saves on each target, loads on each, and back.
void check_snapshots_between(const std::vector<std::string>& targets, const LoadOn& load_on) {
  const qinfer::test::ModelDir directory(spec());
  const std::string path = directory.file("session.kv");
  const auto prompt = tokens_of(90, 6);
  for (const std::string& from : targets) {
    const qi::Model writer = load_on(directory.path(), from);
    qi::KvCache written = make_cache(writer);
    qi::Session session(written);
    const auto expected = logits_after(session, prompt);
    directory.remove("session.kv");
    session.save(path);
    for (const std::string& to : targets) {
      INFO(from << " to " << to);
      const qi::Model reader = load_on(directory.path(), to);
      qi::KvCache cache = make_cache(reader);
      qi::Session loaded = qi::Session::load(cache, path);
      loaded.eval();
      const auto logits = loaded.copy_logits();
      // Tells values from garbage; that not a bit was lost on the way is seen below.
      float largest = 0, apart = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        largest = std::max(largest, std::fabs(expected[i]));
        apart = std::max(apart, std::fabs(expected[i] - logits[i]));
      }
      CHECK(apart <= 0.01f * largest);
      if (from == to) CHECK(same_bits(logits, expected));
      // Saved again over there and loaded here it is what it was, whatever the other set pads its heads to.
      const std::string back = directory.file("back.kv");
      directory.remove("back.kv");
      qi::Session::load(cache, path).save(back);
      qi::KvCache home = make_cache(writer);
      qi::Session returned = qi::Session::load(home, back);
      returned.eval();
      CHECK(same_bits(returned.copy_logits(), expected));
    }
  }
}

}  // namespace

TEST_CASE("a snapshot of one kernel set loads on another", "[kv][snapshot]") {
  check_snapshots_between(qinfer::test::usable_targets(),
                          [](const std::string& path, const std::string& target) { return load(path, target); });
}

#ifdef QINFER_HAVE_AMX
TEST_CASE("a snapshot of emulated AMX loads on another kernel set, and theirs on it", "[kv][snapshot][amx]") {
  SKIP_UNLESS_CPU_HAS(qinfer::test::can_emulate_amx(), "AVX-512");
  check_snapshots_between({"amx", "avx512", "reference"}, [](const std::string& path, const std::string& target) {
    if (target != "amx") return load(path, target);
    qinfer::test::EmulatedRuntime runtime(1);
    return qi::Model::load(runtime, path);
  });
}
#endif

TEST_CASE("every altered byte and every cut of a snapshot is noticed or harmless", "[kv][snapshot]") {
  auto tiny = spec();
  tiny.context_tokens = 128;
  const qinfer::test::ModelDir directory(tiny);
  const qi::Model model = load(directory.path());
  qi::KvCache cache = make_cache(model);
  const std::string path = directory.file("session.kv");
  std::vector<float> first, second;
  {
    qi::Session session(cache);
    first = logits_after(session, tokens_of(40, 3));
    session.save(path);
    second = logits_after(session, tokens_of(30, 4));
    session.save(path);
  }
  const std::string good = directory.read("session.kv");
  const auto check = [&](const std::string& bytes, std::size_t at) {
    directory.write("session.kv", bytes);
    qinfer_session* handle = nullptr;
    qinfer_error error{};
    const qinfer_status status = qinfer_session_load(cache.native(), path.c_str(), &handle, &error);
    if (status != QINFER_OK) {
      if (status != QINFER_E_FORMAT && status != QINFER_E_UNSUPPORTED)
        FAIL("byte " << at << ": " << qinfer_status_name(status) << ", " << error.message);
      return;
    }
    // Harmless: nothing that counts was hit, or the state before is whole and takes over.
    if (qinfer_eval(&handle, 1, nullptr, &error) != QINFER_OK) FAIL("byte " << at << ": " << error.message);
    const std::size_t length = qinfer_session_length(handle);
    const std::vector<float>& expected = length == 70 ? second : first;
    if (length != 70 && length != 40) FAIL("byte " << at << ": " << length << " tokens");
    if (std::memcmp(qinfer_session_logits(handle, 0), expected.data(), expected.size() * sizeof(float)) != 0)
      FAIL("byte " << at << " changed the logits unnoticed");
    qinfer_session_free(handle);
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    // Bytes that are zero in a file with room for much are many: all of the first two pages, then every 61st.
    if (good[at] == 0 && at > 3 * 4096 && at % 61 != 0) continue;
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    check(bytes, at);
  }
  for (std::size_t size = 0; size < good.size(); size += size < 400 ? 7 : 1021) check(good.substr(0, size), size);
  CHECK(cache.stats().blocks_used == 0);
}

// Not a test: what the next one kills. Saves after each 20 tokens, for ever.
TEST_CASE("save until killed", "[.saver]") {
  const char *model_path = std::getenv("QINFER_SAVER_MODEL"), *path = std::getenv("QINFER_SAVER_PATH");
  REQUIRE((model_path != nullptr && path != nullptr));
  const qi::Model model = load(model_path);
  qi::KvCache cache = make_cache(model);
  close(open((std::string(path) + ".ready").c_str(), O_WRONLY | O_CREAT, 0600));
  for (;;) {
    qi::Session session(cache);
    for (unsigned i = 0; i < 40; ++i) {
      logits_after(session, tokens_of(20, i));
      session.save(path);
    }
  }
}

TEST_CASE("kill -9 while saving leaves a snapshot that loads", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory(spec());
  const std::string path = directory.file("session.kv");
  const std::string model_variable = "QINFER_SAVER_MODEL=" + directory.path(),
                    path_variable = "QINFER_SAVER_PATH=" + path;
  const qi::Model model = load(directory.path());
  std::vector<std::int32_t> all;
  for (unsigned i = 0; i < 40; ++i) {
    const auto part = tokens_of(20, i);
    all.insert(all.end(), part.begin(), part.end());
  }
  std::mt19937 random(1);
  const std::string ready = path + ".ready";
  int seen = 0;
  for (int round = 0; round < 200; ++round) {
    const char* const arguments[] = {"qinfer_tests", "save until killed", nullptr};
    const char* const environment[] = {model_variable.c_str(), path_variable.c_str(), nullptr};
    pid_t child = 0;
    REQUIRE(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char* const*>(arguments),
                        const_cast<char* const*>(environment)) == 0);
    for (int i = 0; i < 20000 && access(ready.c_str(), F_OK) != 0; ++i) usleep(500);
    unlink(ready.c_str());
    usleep(random() % 30000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));  // otherwise it ended by itself: the saver failed
    if (access(path.c_str(), F_OK) != 0) continue;
    qi::KvCache cache = make_cache(model);
    qinfer_error error{};
    qinfer_session* handle = nullptr;
    if (qinfer_session_load(cache.native(), path.c_str(), &handle, &error) != QINFER_OK)
      FAIL("round " << round << ": " << error.message);
    std::vector<std::int32_t> tokens(qinfer_session_length(handle));
    std::size_t n = 0;
    REQUIRE(qinfer_session_get_tokens(handle, tokens.data(), tokens.size(), &n, &error) == QINFER_OK);
    qinfer_session_free(handle);
    CHECK(tokens.size() % 20 == 0);
    CHECK(std::equal(tokens.begin(), tokens.end(), all.begin()));
    ++seen;
  }
  CHECK(seen >= 150);
}
