// Files that another program changes while they are loaded: bytes, their ends, or the whole file, again and again. Each
// load ends, in a model that works or in a status with a message; and once nothing changes any more the model is what
// it was. Files are read and not mapped here, since nothing survives that a mapped file is cut (docs/security.md).
#include <fcntl.h>
#include <qinfer/qinfer.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/c_api.h"
#include "support/soak.h"

using namespace qinfer::test;

namespace {

/// Another program, which changes the files of a directory until it is stopped, then makes them what they were.
class Vandal {
 public:
  Vandal(const ModelDir& dir, const std::vector<std::string>& names, unsigned seed) : dir_(dir), engine_(seed) {
    for (const std::string& name : names) originals_[name] = dir.read(name);
    thread_ = std::thread([this] {
      while (!stopped_) change_one();
    });
  }
  ~Vandal() {
    stopped_ = true;
    thread_.join();
    for (const auto& [name, bytes] : originals_) dir_.write(name, bytes);
  }
  Vandal(const Vandal&) = delete;
  Vandal& operator=(const Vandal&) = delete;
  std::size_t changes() const { return changes_; }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : engine_() % n; }

  void change_one() {
    auto at = originals_.begin();
    std::advance(at, below(originals_.size()));
    const auto& [name, bytes] = *at;
    const std::size_t kind = below(8), offset = below(bytes.size());
    if (kind == 0) {
      changes_ += ::truncate(dir_.file(name).c_str(), static_cast<off_t>(offset)) == 0 ? 1 : 0;
    } else if (kind < 4) {  // so that most loads come far
      dir_.write(name, bytes);
    } else {
      const int file = ::open(dir_.file(name).c_str(), O_WRONLY | O_CLOEXEC);
      const std::string garbage(1 + below(8), static_cast<char>(engine_()));
      changes_ += ::pwrite(file, garbage.data(), garbage.size(), static_cast<off_t>(offset)) > 0 ? 1 : 0;
      ::close(file);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(below(300)));
  }

  const ModelDir& dir_;
  std::mt19937 engine_;
  std::map<std::string, std::string> originals_;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::size_t> changes_ = 0;
  std::thread thread_;
};

/// Whether a call succeeded; otherwise it may have any cause but a fault of the library.
bool is_done(qinfer_status status) {
  REQUIRE(status != QINFER_E_INTERNAL);
  return status == QINFER_OK;
}

/// Logits of a few tokens; empty where the model is refused, which says why.
std::vector<float> logits_or_nothing(const Runtime& runtime, const std::string& path, const char* packed) {
  auto options = sized<qinfer_load_options>();
  options.flags = QINFER_LOAD_NO_MMAP | QINFER_LOAD_VERIFY;
  options.packed_path = packed;
  qinfer_error error = {};
  qinfer_model* loaded = nullptr;
  const qinfer_status status = qinfer_model_load(runtime.get(), path.c_str(), &options, &loaded, &error);
  const Model model(loaded);
  INFO(qinfer_status_name(status) << ": " << error.message);
  REQUIRE(status != QINFER_E_INTERNAL);
  REQUIRE((status == QINFER_OK) == (loaded != nullptr));
  if (status != QINFER_OK) {
    REQUIRE(error.message[0] != '\0');
    return {};
  }
  qinfer_token tokens[8];
  std::size_t n = 0;
  is_done(qinfer_tokenize(model.get(), "the thing", SIZE_MAX, 0, tokens, 8, &n, &error));
  // The context, or a size, may have become one that these calls refuse.
  auto session_options = sized<qinfer_session_options>();
  session_options.max_tokens = 16;
  qinfer_kv_cache* created_cache = nullptr;
  const bool has_cache = is_done(qinfer_kv_cache_create(model.get(), nullptr, &created_cache, &error));
  const Cache cache(created_cache);
  qinfer_session* created = nullptr;
  const bool has_session = has_cache && is_done(qinfer_session_create(cache.get(), &session_options, &created, &error));
  const Session session(created);
  const std::vector<qinfer_token> five = some_tokens(5);
  if (!has_session || !is_done(qinfer_session_append(session.get(), five.data(), five.size(), &error)) ||
      !is_done(qinfer_eval(&created, 1, nullptr, &error)))
    return {};
  auto info = sized<qinfer_model_info>();
  REQUIRE(qinfer_model_get_info(model.get(), &info, &error) == QINFER_OK);
  return last_logits(session, info.n_vocab);
}

void load_while_changing(const ModelDir& dir, const std::string& path, const std::vector<std::string>& names,
                         const char* packed) {
  const Runtime runtime = make_runtime(1);
  const std::vector<float> before = logits_or_nothing(runtime, path, packed);
  REQUIRE(!before.empty());
  std::size_t refused = 0;
  {
    Vandal vandal(dir, names, first_seed());
    const std::size_t steps = soak_steps(60);
    // On a busy machine the other thread may begin late.
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    const auto is_enough = [&](std::size_t n) { return n >= steps && vandal.changes() >= 50 && refused > 0; };
    for (std::size_t n = 0; !is_enough(n) && std::chrono::steady_clock::now() < end; ++n)
      refused += logits_or_nothing(runtime, path, packed).empty() ? 1 : 0;
    CHECK(vandal.changes() >= 50);
  }
  CHECK(refused > 0);
  CHECK(logits_or_nothing(runtime, path, packed) == before);
}

}  // namespace

TEST_CASE("files that change while they are loaded give a model or an error", "[hostile][fuzz]") {
  TinySpec spec;
  spec.shards = 2;
  const ModelDir dir(spec);
  const std::vector<std::string> names = {"config.json", "tokenizer.json", "model.safetensors.index.json",
                                          "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  const Runtime runtime = make_runtime(1);
  const std::string packed = dir.file("packed");
  SECTION("a directory") { load_while_changing(dir, dir.path(), names, nullptr); }
  SECTION("a packed file") {
    qinfer_error error = {};
    REQUIRE(qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, packed.c_str(), &error) == QINFER_OK);
    load_while_changing(dir, dir.path(), {"packed", "config.json"}, packed.c_str());
  }
  SECTION("a GGUF file") {
    qinfer_error error = {};
    const ModelDir other;
    const std::string path = other.file("model.gguf");
    REQUIRE(qinfer_model_export_gguf(runtime.get(), dir.path().c_str(), nullptr, path.c_str(), &error) == QINFER_OK);
    load_while_changing(other, path, {"model.gguf"}, nullptr);
  }
}
