// Sessions and caches for the programs that let the heap and the system fail: made, forked, evaluated, saved and
// loaded.
#include <stdexcept>

#include "host_files.h"
#include "operation_parts.h"

namespace qinfer::faults {
namespace {

/// A model with what a call may need besides. All of it lives as long as the subject.
class World : public Subject {
 public:
  explicit World(const std::string& path, std::uint32_t cache_flags = 0) : runtime_(make_runtime()) {
    auto options = sized<qinfer_load_options>();
    options.max_batch_tokens = 32;
    MUST(qinfer_model_load(runtime_, path.c_str(), &options, &model_, &err));
    auto cache_options = sized<qinfer_kv_cache_options>();
    cache_options.flags = cache_flags;
    cache_options.budget_blocks = 64;
    MUST(qinfer_kv_cache_create(model_, &cache_options, &cache_, &err));
  }
  ~World() override {
    qinfer_session_free(made_);
    qinfer_session_free(session_);
    qinfer_kv_cache_free(cache_);
    qinfer_model_free(model_);
    qinfer_runtime_free(runtime_);
  }
  void after() override {
    qinfer_session_free(made_);
    made_ = nullptr;
  }

 protected:
  qinfer_session* session_of(const std::vector<qinfer_token>& tokens) {
    qinfer_session* session = nullptr;
    MUST(qinfer_session_create(cache_, nullptr, &session, &err));
    append(session, tokens);
    eval(session);
    return session;
  }
  std::string handle_fits(qinfer_status status) const {
    return (made_ != nullptr) == (status == QINFER_OK) ? "" : "the output handle does not fit the status";
  }

  qinfer_runtime* runtime_ = nullptr;
  qinfer_model* model_ = nullptr;
  qinfer_kv_cache* cache_ = nullptr;
  qinfer_session *session_ = nullptr, *made_ = nullptr;
};

enum class Target { absent, grows, other };

class Save : public World {
 public:
  Save(const Files& files, Target target) : World(files.tiny), file_(files.folder, "save") {
    session_ = session_of(some_tokens(50));
    if (target != Target::absent) {
      qinfer_session* before = session_of(some_tokens(40, target == Target::grows ? 37 : 5));
      file_.before();
      MUST(qinfer_session_save(before, file_.path().c_str(), &err));
      qinfer_session_free(before);
      file_.old = read_file(file_.path());
    }
    file_.in_place = target == Target::grows;
  }
  void before() override { file_.before(); }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_session_save(session_, file_.path().c_str(), err); });
  }
  std::string leftovers(qinfer_status status, bool removable) override {
    if (std::string wrong = file_.leftovers(status, removable); !wrong.empty() || !file_.in_place) return wrong;
    const std::size_t length = load();
    if (length == 50 || (status != QINFER_OK && length == 40)) return {};
    return "the file holds " + std::to_string(length) + " tokens";
  }
  std::string result() override {
    if (file_.wanted.empty()) file_.wanted = read_file(file_.path());
    qinfer_session* loaded = nullptr;
    MUST(qinfer_session_load(cache_, file_.path().c_str(), &loaded, &err));
    std::string text = state_of(loaded);
    qinfer_session_free(loaded);
    return text;
  }

 private:
  std::size_t load() const {
    qinfer_session* loaded = nullptr;
    if (qinfer_session_load(cache_, file_.path().c_str(), &loaded, nullptr) != QINFER_OK) return 0;
    const std::size_t length = qinfer_session_length(loaded);
    qinfer_session_free(loaded);
    return length;
  }
  Writing file_;
};

/// Saving through callbacks, and loading again.
class HostSave : public World {
 public:
  HostSave(const Files& files, Target target, bool loads) : World(files.tiny), loads_(loads) {
    host_.add("saved", "", std::size_t{4} << 20, false);
    session_ = session_of(some_tokens(50));
    if (target != Target::absent) {
      qinfer_session* before = session_of(some_tokens(40, target == Target::grows ? 37 : 5));
      MUST(save(before, &err));
      qinfer_session_free(before);
      old_ = host_.bytes(0);
    }
  }
  void before() override { host_.set(0, old_, !old_.empty()); }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return loads_ ? load(&made_, err) : save(session_, err); });
  }
  std::string leftovers(qinfer_status status, bool) override {
    if (host_.n_open() != 0) return "a file is left open";
    if (loads_) return handle_fits(status);
    const std::size_t length = length_in_file();
    if (length == 50 || (status != QINFER_OK && length == (old_.empty() ? 0 : 40))) return {};
    return "the file holds " + std::to_string(length) + " tokens";
  }
  std::string result() override {
    if (loads_) return state_of(made_);
    qinfer_session* loaded = nullptr;
    MUST(load(&loaded, &err));
    std::string text = state_of(loaded);
    qinfer_session_free(loaded);
    return text;
  }

 private:
  qinfer_status save(const qinfer_session* session, qinfer_error* err) const {
    auto options = sized<qinfer_session_save_options>();
    options.files = host_.calls();
    return qinfer_session_save_with(session, "saved", &options, err);
  }
  qinfer_status load(qinfer_session** out, qinfer_error* err) const {
    auto options = sized<qinfer_session_load_options>();
    options.files = host_.calls();
    return qinfer_session_load_with(cache_, "saved", &options, out, nullptr, err);
  }
  std::size_t length_in_file() const {
    qinfer_session* loaded = nullptr;
    if (load(&loaded, nullptr) != QINFER_OK) return 0;
    const std::size_t length = qinfer_session_length(loaded);
    qinfer_session_free(loaded);
    return length;
  }
  bool loads_;
  HostFiles host_{false};
  std::string old_;
};

class SessionLoad : public World {
 public:
  explicit SessionLoad(const Files& files, std::uint32_t flags)
      : World(files.tiny, flags), path_(files.folder + "/loaded.kv") {
    std::remove(path_.c_str());
    session_ = session_of(some_tokens(50));
    MUST(qinfer_session_save(session_, path_.c_str(), &err));
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_session_load(cache_, path_.c_str(), &made_, err); });
  }
  std::string leftovers(qinfer_status status, bool) override { return handle_fits(status); }
  std::string result() override { return state_of(made_); }

 private:
  std::string path_;
};

class CacheCreate : public World {
 public:
  CacheCreate(const Files& files, std::uint32_t flags) : World(files.tiny) {
    options_.flags = flags;
    options_.budget_blocks = 20;
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_kv_cache_create(model_, &options_, &created_, err); });
  }
  std::string leftovers(qinfer_status status, bool) override {
    return (created_ != nullptr) == (status == QINFER_OK) ? "" : "the output handle does not fit the status";
  }
  std::string result() override {
    qinfer_session* session = nullptr;
    MUST(qinfer_session_create(created_, nullptr, &session, &err));
    append(session, some_tokens(40));
    std::string text = state_of(session);
    qinfer_session_free(session);
    return text;
  }
  void after() override {
    qinfer_kv_cache_free(created_);
    created_ = nullptr;
  }

 private:
  qinfer_kv_cache_options options_ = sized<qinfer_kv_cache_options>();
  qinfer_kv_cache* created_ = nullptr;
};

class SessionCreate : public World {
 public:
  SessionCreate(const Files& files, std::uint32_t flags) : World(files.tiny, flags) {}
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_session_create(cache_, nullptr, &made_, err); });
  }
  std::string leftovers(qinfer_status status, bool) override { return handle_fits(status); }
  std::string result() override {
    append(made_, some_tokens(40));
    return state_of(made_);
  }
};

class Fork : public World {
 public:
  Fork(const Files& files, std::uint32_t flags) : World(files.tiny, flags) { session_ = session_of(some_tokens(50)); }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_session_fork(session_, &made_, err); });
  }
  std::string leftovers(qinfer_status status, bool) override { return handle_fits(status); }
  std::string result() override {
    append(made_, some_tokens(5));
    return state_of(made_) + state_of(session_);
  }
};

/// Evaluation in blocks that have to be taken first.
class Eval : public World {
 public:
  Eval(const Files& files, std::uint32_t flags) : World(files.tiny, flags) {}
  void before() override {
    MUST(qinfer_session_create(cache_, nullptr, &made_, &err));
    append(made_, some_tokens(100));
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_eval(&made_, 1, nullptr, err); });
  }
  std::string leftovers(qinfer_status status, bool) override {
    if (qinfer_session_length(made_) != 100) return "tokens were lost";
    if (status == QINFER_OK) return qinfer_session_pending(made_) == 0 ? "" : "tokens are pending";
    // What was not evaluated can be now.
    return reference_.empty() || state_of(made_) == reference_ ? "" : "evaluating again gives other logits";
  }
  std::string result() override {
    if (reference_.empty()) reference_ = state_of(made_);
    return state_of(made_);
  }

 private:
  std::string reference_;
};

}  // namespace

std::vector<Operation> session_operations(const Files& files) {
  constexpr std::uint32_t kPaged = 0, kContiguous = QINFER_CACHE_CONTIGUOUS, kPrefix = QINFER_CACHE_PREFIX;
  return {
      make<SessionCreate>("session_create, paged", 1, files, kPrefix),
      make<SessionCreate>("session_create, contiguous", 1, files, kContiguous),
      make<Fork>("session_fork, paged", 1, files, kPaged),
      make<Fork>("session_fork, contiguous", 1, files, kContiguous),
      make<Eval>("eval, paged", 1, files, kPrefix),
      make<Eval>("eval, contiguous", 1, files, kContiguous),
      make<CacheCreate>("kv_cache_create, paged", 1, files, kPrefix),
      make<CacheCreate>("kv_cache_create, contiguous", 1, files, kContiguous | QINFER_CACHE_COMMIT),
      make<Save>("session_save, new file", 1, files, Target::absent),
      make<Save>("session_save, more of the same", 1, files, Target::grows),
      make<Save>("session_save, in place of another", 1, files, Target::other),
      make<HostSave>("session_save through callbacks, new file", 1, files, Target::absent, false),
      make<HostSave>("session_save through callbacks, more of the same", 1, files, Target::grows, false),
      make<HostSave>("session_save through callbacks, in place of another", 1, files, Target::other, false),
      make<HostSave>("session_load through callbacks", 1, files, Target::grows, true),
      make<SessionLoad>("session_load, paged", 1, files, kPaged),
      make<SessionLoad>("session_load, contiguous", 1, files, kContiguous),
  };
}

}  // namespace qinfer::faults
