// A folder of kept keys and values: what is fetched has the bits that evaluating gives, whatever was evicted, cut,
// altered, kept by others at the same time or by a process that was killed; and nothing is found by those it is not
// for.
#include <qinfer/qinfer.hpp>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kv/support.h"
#include "support/c_api.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/in_child.h"

using namespace qinfer::test;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kPlenty = 1 << 30;
constexpr std::uint32_t kBlock = 32;

/// Removed at the end.
struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() /
                  ("qinfer-store-" + std::to_string(getpid()) + "-" + std::to_string(std::random_device()()));
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string text() const { return path.string(); }
  /// Of blocks; those of the folder itself are left out.
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().filename().string().size() == 34) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
};

TinySpec spec(std::uint32_t window = 0) {
  TinySpec spec;
  spec.architecture = "Qwen2ForCausalLM";
  spec.context_tokens = 2048;
  spec.layers = 3;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.window = window;
  spec.full_layers = window != 0 ? 1 : 0;
  spec.dtype = qinfer::DType::f16;
  return spec;
}

qi::Model load(const std::string& path, const char* target = nullptr) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 1;
  options.cpu_target = target;
  qi::Runtime runtime(options);
  auto load_options = qi::options<qinfer_load_options>();
  load_options.max_batch_tokens = 96;
  return qi::Model::load(runtime, path, load_options);
}

qi::KvCache cache_of(const qi::Model& model, std::uint64_t blocks = 200, std::uint32_t flags = QINFER_CACHE_PREFIX,
                     std::uint32_t block_tokens = kBlock) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = blocks;
  options.flags = flags;
  options.block_tokens = block_tokens;
  return qi::KvCache(model, options);
}

struct Evaluated {
  std::vector<float> logits;
  std::uint64_t cached = 0;  ///< tokens that were not evaluated
};

Evaluated evaluate(qi::Session& session, const std::vector<qi::Token>& tokens) {
  session.append(tokens);
  session.eval();
  return {session.copy_logits(), session.metrics().cached_tokens};
}

Evaluated evaluate(qi::KvCache& cache, const std::vector<qi::Token>& tokens) {
  qi::Session session(cache);
  return evaluate(session, tokens);
}

/// What a cache of its own computes.
std::vector<float> alone(const qi::Model& model, const std::vector<qi::Token>& tokens) {
  qi::KvCache cache = cache_of(model, 200, 0);
  return evaluate(cache, tokens).logits;
}

std::size_t keep(qi::KvStore& store, qi::KvCache& cache, const std::vector<qi::Token>& tokens,
                 const std::string& tenant = {}) {
  qi::Session session(cache);
  evaluate(session, tokens);
  return store.keep(session, tenant);
}

std::vector<qi::Token> joined(std::vector<qi::Token> a, const std::vector<qi::Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("a conversation that was kept goes on in another cache with the same bits", "[kv][store]") {
  for (const std::uint32_t window : {0u, 64u})
    for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_CACHE_CONTIGUOUS}}) {
      INFO("window " << window << ", flags " << flags);
      const ModelDir directory(spec(window));
      const qi::Model model = load(directory.path());
      const TemporaryFolder folder;
      const auto first = tokens_of(330, 1), more = joined(first, tokens_of(50, 2));
      {
        qi::KvCache cache = cache_of(model, 200, flags | QINFER_CACHE_PREFIX);
        qi::KvStore store(cache, folder.text(), kPlenty);
        REQUIRE(keep(store, cache, first) == 320);
        REQUIRE(store.stats().n_files == folder.files().size());
        REQUIRE(keep(store, cache, first) == 320);  // nothing new
        REQUIRE(store.stats().written == store.stats().n_files);
      }
      qi::KvCache cache = cache_of(model, 200, flags | QINFER_CACHE_PREFIX);
      qi::KvStore store(cache, folder.text(), kPlenty);
      REQUIRE(store.fetch(more) == 320);
      REQUIRE(cache.stats().blocks_used == 0);
      REQUIRE(cache.stats().blocks_cached >= 10);
      REQUIRE(store.fetch(more) == 320);  // from the cache
      REQUIRE(store.stats().read == cache.stats().blocks_cached);
      const Evaluated found = evaluate(cache, more);
      REQUIRE(found.cached == 320);
      REQUIRE(same_bits(found.logits, alone(model, more)));
      // Of the tokens that are all kept the last one is evaluated.
      const std::vector<qi::Token> all(first.begin(), first.begin() + 320);
      REQUIRE(store.fetch(all) == (window == 0 ? 288 : 0));  // no place where it was kept
    }
}

TEST_CASE("beginnings that conversations share are one file each", "[kv][store]") {
  const ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  const TemporaryFolder folder;
  qi::KvCache cache = cache_of(model);
  qi::KvStore store(cache, folder.text(), kPlenty);
  const auto begin = tokens_of(96, 3);
  keep(store, cache, joined(begin, tokens_of(40, 4)));
  keep(store, cache, joined(begin, tokens_of(40, 5)));
  REQUIRE(store.stats().n_files == 3 + 1 + 1);
  REQUIRE(store.fetch(joined(begin, tokens_of(70, 6))) == 96);
  for (const auto& file : folder.files()) {
    struct stat info = {};
    REQUIRE(stat(file.c_str(), &info) == 0);
    REQUIRE((info.st_mode & 0777) == 0600);
  }
  REQUIRE(fs::status(folder.path).permissions() == fs::perms::owner_all);
}

TEST_CASE("blocks of other tenants, models, kernels and layouts are not found", "[kv][store]") {
  const ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  const TemporaryFolder folder;
  const auto tokens = tokens_of(100, 7), more = joined(tokens, tokens_of(5, 8));
  const auto fetched = [&](qi::KvCache& cache, const std::string& tenant) {
    qi::KvStore store(cache, folder.text(), kPlenty);
    return store.fetch(more, tenant);
  };
  {
    qi::KvCache cache = cache_of(model);
    qi::KvStore store(cache, folder.text(), kPlenty);
    keep(store, cache, tokens, "a");
  }
  qi::KvCache cache = cache_of(model);
  CHECK(fetched(cache, "b") == 0);
  CHECK(fetched(cache, "") == 0);
  CHECK(fetched(cache, "a\n") == 0);
  qi::KvCache larger = cache_of(model, 200, QINFER_CACHE_PREFIX, 64);
  CHECK(fetched(larger, "a") == 0);
  TinySpec other_spec = spec();
  other_spec.seed += 1;
  const ModelDir other_directory(other_spec);
  const qi::Model other = load(other_directory.path());
  qi::KvCache others = cache_of(other);
  CHECK(fetched(others, "a") == 0);
  if (std::string(model.info().kernel_set) != "reference") {
    const qi::Model reference = load(directory.path(), "reference");
    qi::KvCache slow = cache_of(reference);
    CHECK(fetched(slow, "a") == 0);
  }
  CHECK(fetched(cache, "a") == 96);
}

TEST_CASE("what was used longest ago makes room, ends before beginnings", "[kv][store]") {
  const ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  const TemporaryFolder folder;
  const auto a = tokens_of(200, 9), b = tokens_of(200, 10), c = tokens_of(1000, 11);
  const auto in_files = [&](const std::vector<qi::Token>& tokens) {
    qi::KvCache cache = cache_of(model);
    qi::KvStore store(cache, folder.text(), kPlenty);
    return store.fetch(joined(tokens, {1}));
  };
  std::uint64_t file = 0;
  {
    qi::KvCache cache = cache_of(model);
    qi::KvStore store(cache, folder.text(), kPlenty);
    keep(store, cache, a);
    file = store.stats().bytes / 6;
    keep(store, cache, b);
  }
  REQUIRE(in_files(a) == 192);  // which uses it
  qi::KvCache cache = cache_of(model);
  {
    qi::KvStore store(cache, folder.text(), 9 * file);
    REQUIRE(store.stats().bytes == 9 * file);
    REQUIRE(store.stats().removed == 3);
  }
  REQUIRE(in_files(b) == 3 * 32);
  REQUIRE(in_files(a) == 192);
  {
    qi::KvStore store(cache, folder.text(), 9 * file);
    REQUIRE(keep(store, cache, c) == 9 * 32);  // the largest that fits: its beginning
    REQUIRE(keep(store, cache, a) == 192);
    REQUIRE(store.stats().bytes == 9 * file);
  }
  CHECK(in_files(a) == 192);
  CHECK(in_files(b) == 0);
  CHECK(in_files(c) == 3 * 32);
}

TEST_CASE("random conversations with few blocks and little room", "[kv][store]") {
  const ModelDir directory(spec(64));
  const qi::Model model = load(directory.path());
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    const TemporaryFolder folder;
    qi::KvCache cache = cache_of(model, 24);
    qi::KvStore store(cache, folder.text(), 40000 * (1 + below(60)));
    std::vector<std::vector<qi::Token>> all(4);
    for (int step = 0; step < 30; ++step) {
      std::vector<qi::Token>& tokens = all[below(4)];
      if (below(8) == 0) tokens.resize(tokens.size() / 2);
      if (tokens.size() > 400) tokens.clear();
      tokens = joined(tokens, tokens_of(1 + below(80), below(3)));
      const std::string tenant = below(4) == 0 ? "t" : "";
      if (below(3) != 0) REQUIRE(store.fetch(tokens, tenant) < tokens.size());
      qi::Session session(cache);
      REQUIRE(same_bits(evaluate(session, tokens).logits, alone(model, tokens)));
      if (below(3) != 0) store.keep(session, tenant);
      if (below(20) == 0) store.keep(session, "u");
    }
    REQUIRE(cache.stats().blocks_used == 0);
    REQUIRE(store.stats().damaged == 0);
  }
}

TEST_CASE("a damaged file is evaluated again", "[kv][store]") {
  const ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  const auto tokens = tokens_of(100, 12);
  const std::vector<float> right = alone(model, tokens);
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const TemporaryFolder folder;
    qi::KvCache cache = cache_of(model), fresh = cache_of(model);
    {
      qi::KvStore store(cache, folder.text(), kPlenty);
      keep(store, cache, tokens);
    }
    const std::vector<fs::path> files = folder.files();
    REQUIRE(files.size() == 3);
    const fs::path& file = files[random() % 3];
    const auto size = fs::file_size(file);
    if (round % 3 == 0) {
      fs::resize_file(file, random() % size);
    } else if (round % 3 == 1) {
      std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
      const auto at = static_cast<std::streamoff>(round % 2 == 0 ? random() % size : random() % 200);
      stream.seekg(at);
      const char byte = static_cast<char>(stream.get() ^ (1 << (random() % 8)));
      stream.seekp(at);
      stream.put(byte);
    } else {
      fs::copy_file(files[(random() % 2 + 1 +
                           static_cast<std::size_t>(std::find(files.begin(), files.end(), file) - files.begin())) %
                          3],
                    file, fs::copy_options::overwrite_existing);
    }
    INFO("round " << round);
    qi::KvStore store(fresh, folder.text(), kPlenty);
    REQUIRE(store.fetch(tokens) < 96);
    REQUIRE(store.stats().damaged == 1);
    REQUIRE(folder.files().size() == 2);
    REQUIRE(same_bits(evaluate(fresh, tokens).logits, right));
    REQUIRE(keep(store, fresh, tokens) == 96);
    REQUIRE(store.stats().n_files == 3);
  }
}

TEST_CASE("a folder and its secret", "[kv][store]") {
  const ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = cache_of(model);
  const TemporaryFolder folder;
  const auto refused = [](qi::KvCache& its, const std::string& path, std::uint64_t bytes, qinfer_status status,
                          const char* says) {
    try {
      qi::KvStore store(its, path, bytes);
      FAIL("opened");
    } catch (const qi::Error& e) {
      INFO(e.what());
      CHECK(e.status() == status);
      CHECK(std::string(e.what()).find(says) != std::string::npos);
    }
  };
  refused(cache, folder.text(), 0, QINFER_E_INVALID_ARGUMENT, "max_bytes");
  refused(cache, folder.text() + "/a/b", kPlenty, QINFER_E_NOT_FOUND, "/a/b");
  refused(cache, "/dev/null", kPlenty, QINFER_E_IO, "/dev/null");
  {
    qi::KvStore store(cache, folder.text(), kPlenty);
    refused(cache, folder.text(), kPlenty, QINFER_E_STATE, "in use");
    REQUIRE(in_child([&] {
              const qi::Model again = load(directory.path());
              qi::KvCache its = cache_of(again);
              refused(its, folder.text(), kPlenty, QINFER_E_STATE, "process");
            }).empty());
    std::ofstream(folder.path / "notes.txt") << "of another";
    std::ofstream(folder.path / "0123456789abcdef0123456789abcdef.x") << "of another";
    keep(store, cache, tokens_of(40, 1));
  }
  {
    qi::KvStore store(cache, folder.text(), 1);  // nothing has room
    REQUIRE(store.stats().n_files == 0);
    REQUIRE(keep(store, cache, tokens_of(40, 1)) == 0);
  }
  REQUIRE(fs::exists(folder.path / "notes.txt"));
  REQUIRE(fs::exists(folder.path / "0123456789abcdef0123456789abcdef.x"));
  fs::resize_file(folder.path / "secret", 10);
  refused(cache, folder.text(), kPlenty, QINFER_E_FORMAT, "secret");
  qi::KvCache plain = cache_of(model, 20, 0);
  REQUIRE_THROWS_AS(qi::KvStore(plain, folder.text(), kPlenty), qi::Error);
}

TEST_CASE("sessions that a store does not keep, and calls that are cancelled", "[kv][store]") {
  const ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  qi::KvCache cache = cache_of(model), other = cache_of(model);
  const TemporaryFolder folder;
  qi::Cancel cancel;
  cancel.request();
  {
    qi::KvStore store(cache, folder.text(), kPlenty);
    qi::Session session(cache), foreign(other);
    REQUIRE(store.keep(session) == 0);
    evaluate(session, tokens_of(100, 1));
    REQUIRE_THROWS_AS(store.keep(foreign), qi::Error);
    session.save(folder.text() + "/snapshot");
    qi::Session loaded = qi::Session::load(cache, folder.text() + "/snapshot");
    REQUIRE_THROWS_AS(store.keep(loaded), qi::Error);
    REQUIRE_THROWS_AS(store.keep(session, {}, &cancel), qi::Error);
    REQUIRE(store.stats().n_files == 0);
    REQUIRE(store.keep(session) == 96);
  }
  qi::KvStore store(other, folder.text(), kPlenty);
  REQUIRE_THROWS_AS(store.fetch(tokens_of(100, 1), {}, &cancel), qi::Error);
  REQUIRE(store.fetch({}) == 0);
  REQUIRE(store.fetch({1}) == 0);
  REQUIRE(store.fetch(tokens_of(100, 1)) == 96);
  REQUIRE(store.fetch(std::vector<qi::Token>(5000, 1)) == 0);  // more than the context has
}

TEST_CASE("what a process kept that was killed is there", "[kv][store]") {
  const ModelDir directory(spec());
  const qi::Model model = load(directory.path());
  std::mt19937 random(1);
  for (int round = 0; round < 8; ++round) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const qi::Model again = load(directory.path());
      qi::KvCache cache = cache_of(again);
      qi::KvStore store(cache, folder.text(), kPlenty);
      for (unsigned seed = 1;; ++seed) keep(store, cache, tokens_of(300, seed % 40));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(60 + random() % 60));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (!fs::exists(folder.path)) continue;  // so slow a machine
    qi::KvCache cache = cache_of(model);
    qi::KvStore store(cache, folder.text(), kPlenty);
    for (unsigned seed = 1; seed < 4; ++seed) {
      store.fetch(tokens_of(300, seed));
      REQUIRE(same_bits(evaluate(cache, tokens_of(300, seed)).logits, alone(model, tokens_of(300, seed))));
    }
    REQUIRE(store.stats().damaged == 0);
  }
}

TEST_CASE("threads keep and fetch while others evaluate", "[kv][store][threads]") {
  const ModelDir directory(spec(64));
  const qi::Model model = load(directory.path());
  const TemporaryFolder folder;
  qi::KvCache cache = cache_of(model, 60);
  qi::KvStore store(cache, folder.text(), 2'000'000);
  std::vector<std::vector<float>> right;
  for (unsigned seed = 0; seed < 6; ++seed) right.push_back(alone(model, tokens_of(120, seed)));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 12; ++i) {
        const unsigned seed = (i * 5 + t) % 6;
        try {
          store.fetch(tokens_of(120, seed));
          qi::Session session(cache);
          if (!same_bits(evaluate(session, tokens_of(120, seed)).logits, right[seed])) ++wrong;
          store.keep(session);
        } catch (const qi::Error&) {
          ++wrong;
        }
      }
    });
  for (auto& thread : threads) thread.join();
  REQUIRE(wrong == 0);
  REQUIRE(store.stats().damaged == 0);
}
