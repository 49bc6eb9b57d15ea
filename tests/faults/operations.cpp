// See operations.h.
#include "operations.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "host_files.h"

namespace qinfer::faults {
namespace {

constexpr const char* kText = "Once upon a time there was the thing <s> and a king.";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::remove(path.c_str());
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

bool exists(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0;
}

unsigned permissions(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

std::vector<qinfer_token> some_tokens(std::size_t n, std::size_t step = 37) {
  std::vector<qinfer_token> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<qinfer_token>((i * step + 11) % 256);
  return tokens;
}

void append(qinfer_session* session, const std::vector<qinfer_token>& tokens) {
  MUST(qinfer_session_append(session, tokens.data(), tokens.size(), &err));
}

void eval(qinfer_session* session) { MUST(qinfer_eval(&session, 1, nullptr, &err)); }

std::string tokens_of(const qinfer_session* session) {
  std::vector<qinfer_token> tokens(qinfer_session_length(session));
  std::size_t n = 0;
  MUST(qinfer_session_get_tokens(session, tokens.data(), tokens.size(), &n, &err));
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(qinfer_token)};
}

/// Tokens and, as bytes, the logits of the last one.
std::string state_of(qinfer_session* session) {
  if (qinfer_session_pending(session) != 0) eval(session);
  std::vector<float> values(1 << 16);
  std::size_t n = 0;
  MUST(qinfer_session_copy_logits(session, 0, values.data(), values.size(), &n, &err));
  return tokens_of(session) + std::string(reinterpret_cast<const char*>(values.data()), n * sizeof(float));
}

std::string tokenized(const qinfer_model* model) {
  std::vector<qinfer_token> tokens(200);
  std::size_t n = 0;
  MUST(qinfer_tokenize(model, kText, SIZE_MAX, QINFER_TEXT_ADD_SPECIAL | QINFER_TEXT_PARSE_SPECIAL, tokens.data(),
                       tokens.size(), &n, &err));
  return {reinterpret_cast<const char*>(tokens.data()), n * sizeof(qinfer_token)};
}

std::string description_of(const qinfer_model* model) {
  auto info = sized<qinfer_model_info>();
  MUST(qinfer_model_get_info(model, &info, &err));
  std::string text = std::string(info.architecture) + " " + std::to_string(info.n_params);
  for (qinfer_token token = 0; token < static_cast<qinfer_token>(info.n_vocab); ++token) {
    std::size_t n = 0;
    const char* bytes = qinfer_token_text(model, token, &n);
    text.append(bytes != nullptr ? bytes : "", bytes != nullptr ? n : 0);
    text += std::to_string(qinfer_token_flags(model, token));
  }
  for (std::size_t i = 0; i < qinfer_model_meta_count(model); ++i) {
    const char* key = qinfer_model_meta_key(model, i);
    text.append(key).append(qinfer_model_meta_value(model, key));
  }
  return text + tokenized(model);
}

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

class Plan : public Subject {
 public:
  Plan(std::string path, bool map) : path_(std::move(path)), map_(map), json_(1 << 16, '\0') { runtime_.n_threads = 1; }
  qinfer_status call(qinfer_error* err) override {
    memory_ = sized<qinfer_memory>();
    const auto cache = sized<qinfer_kv_cache_options>();
    const auto session = sized<qinfer_session_options>();
    return faulty([&] {
      return map_ ? qinfer_model_plan_map(path_.c_str(), &runtime_, nullptr, &cache, &session, json_.data(),
                                          json_.size(), &size_, err)
                  : qinfer_model_plan(path_.c_str(), &runtime_, nullptr, &cache, &session, &memory_, err);
    });
  }
  std::string result() override {
    if (map_) return json_.substr(0, size_);
    memory_.system_limit = memory_.system_available = 0;
    return {reinterpret_cast<const char*>(&memory_), sizeof memory_};
  }

 private:
  std::string path_;
  bool map_;
  qinfer_runtime_options runtime_ = sized<qinfer_runtime_options>();
  qinfer_memory memory_ = {};
  std::string json_;
  std::size_t size_ = 0;
};

class Load : public Subject {
 public:
  Load(std::string path, std::uint32_t flags, std::string packed = {})
      : runtime_(make_runtime()), path_(std::move(path)), packed_(std::move(packed)) {
    options_.flags = flags;
    if (!packed_.empty()) {
      MUST(qinfer_model_pack(runtime_, path_.c_str(), nullptr, packed_.c_str(), &err));
      options_.packed_path = packed_.c_str();
    }
  }
  ~Load() override { qinfer_runtime_free(runtime_); }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_model_load(runtime_, path_.c_str(), &options_, &model_, err); });
  }
  std::string leftovers(qinfer_status status, bool) override {
    return (model_ != nullptr) == (status == QINFER_OK) ? "" : "the output handle does not fit the status";
  }
  std::string result() override {
    std::string text = description_of(model_);
    if ((options_.flags & QINFER_LOAD_NO_WEIGHTS) != 0) return text;
    qinfer_kv_cache* cache = nullptr;
    qinfer_session* session = nullptr;
    MUST(qinfer_kv_cache_create(model_, nullptr, &cache, &err));
    MUST(qinfer_session_create(cache, nullptr, &session, &err));
    append(session, some_tokens(3));
    text += state_of(session);
    qinfer_session_free(session);
    qinfer_kv_cache_free(cache);
    return text;
  }
  void after() override {
    qinfer_model_free(model_);
    model_ = nullptr;
  }

 protected:
  qinfer_load_options options_ = sized<qinfer_load_options>();

 private:
  qinfer_runtime* runtime_;
  qinfer_model* model_ = nullptr;
  std::string path_, packed_;
};

/// The same through callbacks, which know a directory "model".
class HostLoad : public Load {
 public:
  HostLoad(const std::string& directory, bool maps) : Load("model", 0), host_(maps) {
    DIR* listing = opendir(directory.c_str());
    while (const dirent* entry = readdir(listing))
      if (entry->d_name[0] != '.')
        host_.add(std::string("model/") + entry->d_name, read_file(directory + "/" + entry->d_name));
    closedir(listing);
    options_.files = host_.calls();
  }
  std::string leftovers(qinfer_status status, bool removable) override {
    if (status != QINFER_OK && (host_.n_open() != 0 || host_.n_mapped() != 0)) return "files are left open or mapped";
    return Load::leftovers(status, removable);
  }
  void after() override {
    Load::after();
    if (host_.n_open() != 0 || host_.n_mapped() != 0) throw std::runtime_error("files are left open or mapped");
  }

 private:
  HostFiles host_;
};

/// A call that writes a file of its own folder: before it the file is not there, or holds `old` and only the owner may
/// read it.
class Writing {
 public:
  Writing(const std::string& folder, const char* name) : folder_(folder + "/" + name), path_(folder_ + "/out") {
    mkdir(folder_.c_str(), 0700);
  }
  const std::string& path() const { return path_; }
  std::string old, wanted;
  bool in_place = false;  ///< the old file itself is written to, and others judge what it holds

  void before() const {
    std::remove((path_ + ".qinfer-new").c_str());
    std::remove(path_.c_str());
    if (old.empty()) return;
    write_file(path_, old);
    chmod(path_.c_str(), 0600);
  }
  std::string leftovers(qinfer_status status, bool temporaries) const {
    if (exists(path_) && !old.empty() && permissions(path_) != 0600) return "the file's permissions changed";
    if (temporaries && exists(path_ + ".qinfer-new")) return "a temporary file is left";
    if (wanted.empty() || in_place) return {};
    const std::string now = read_file(path_);
    if (now == wanted) return {};
    if (status == QINFER_OK) return "the file is not as it should be";
    return now == old ? "" : "the file is neither the old one nor the new one";
  }

 private:
  std::string folder_, path_;
};

class Pack : public Subject {
 public:
  Pack(const Files& files, std::string model, bool over)
      : runtime_(make_runtime()), model_(std::move(model)), file_(files.folder, "pack") {
    if (!over) return;
    // Half of a packed file: of what is there, pack replaces only its own kind.
    MUST(qinfer_model_pack(runtime_, model_.c_str(), nullptr, file_.path().c_str(), &err));
    file_.old = read_file(file_.path());
    file_.old.resize(file_.old.size() / 2);
  }
  ~Pack() override { qinfer_runtime_free(runtime_); }
  void before() override { file_.before(); }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_model_pack(runtime_, model_.c_str(), nullptr, file_.path().c_str(), err); });
  }
  std::string leftovers(qinfer_status status, bool removable) override { return file_.leftovers(status, removable); }
  std::string result() override {
    if (file_.wanted.empty()) file_.wanted = read_file(file_.path());
    return file_.wanted;
  }

 private:
  qinfer_runtime* runtime_;
  std::string model_;
  Writing file_;
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

class Tokenize : public Subject {
 public:
  explicit Tokenize(const std::string& path) : runtime_(make_runtime()), tokens_(500) {
    auto options = sized<qinfer_load_options>();
    options.flags = QINFER_LOAD_NO_WEIGHTS;
    MUST(qinfer_model_load(runtime_, path.c_str(), &options, &model_, &err));
  }
  ~Tokenize() override {
    qinfer_model_free(model_);
    qinfer_runtime_free(runtime_);
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] {
      return qinfer_tokenize(model_, kText, SIZE_MAX, QINFER_TEXT_PARSE_SPECIAL, tokens_.data(), tokens_.size(), &n_,
                             err);
    });
  }
  std::string result() override { return {reinterpret_cast<const char*>(tokens_.data()), n_ * sizeof(qinfer_token)}; }

 private:
  qinfer_runtime* runtime_;
  qinfer_model* model_ = nullptr;
  std::vector<qinfer_token> tokens_;
  std::size_t n_ = 0;
};

class RuntimeCreate : public Subject {
 public:
  qinfer_status call(qinfer_error* err) override {
    static constexpr std::uint32_t kCpus[] = {0, 0};
    auto options = sized<qinfer_runtime_options>();
    options.n_threads = options.n_cpu_ids = 2;
    options.cpu_ids = kCpus;
    return faulty([&] { return qinfer_runtime_create(&options, &runtime_, err); });
  }
  std::string leftovers(qinfer_status status, bool) override {
    return (runtime_ != nullptr) == (status == QINFER_OK) ? "" : "the output handle does not fit the status";
  }
  std::string result() override {
    auto info = sized<qinfer_runtime_info>();
    MUST(qinfer_runtime_get_info(runtime_, &info, &err));
    return std::to_string(info.n_threads) + info.target;
  }
  void after() override {
    qinfer_runtime_free(runtime_);
    runtime_ = nullptr;
  }

 private:
  qinfer_runtime* runtime_ = nullptr;
};

template <typename T, typename... Arguments>
Operation make(std::string name, long weight, Arguments... arguments) {
  return {std::move(name), [=] { return std::make_unique<T>(arguments...); }, weight};
}

}  // namespace

qinfer_runtime* make_runtime() {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = 1;
  qinfer_runtime* runtime = nullptr;
  MUST(qinfer_runtime_create(&options, &runtime, &err));
  return runtime;
}

std::vector<Operation> all_operations(const Files& files) {
  constexpr std::uint32_t kPaged = 0, kContiguous = QINFER_CACHE_CONTIGUOUS, kPrefix = QINFER_CACHE_PREFIX;
  const std::string &tiny = files.tiny, &shipped = files.shipped;
  std::vector<Operation> all = {
      make<Tokenize>("tokenize", 1, shipped),
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
      make<RuntimeCreate>("runtime_create", 16),
      make<Plan>("model_plan of a tiny model", 4, tiny, false),
      make<Plan>("model_plan_map of a tiny model", 4, tiny, true),
      make<Load>("model_load of a tiny model", 4, tiny, std::uint32_t{QINFER_LOAD_LOCK}),
      make<Load>("model_load without weights", 4, tiny, std::uint32_t{QINFER_LOAD_NO_WEIGHTS}),
      make<Load>("model_load without mmap", 4, tiny, std::uint32_t{QINFER_LOAD_NO_MMAP}),
      make<HostLoad>("model_load through callbacks, read", 4, tiny, false),
      make<HostLoad>("model_load through callbacks, mapped", 4, tiny, true),
      make<Load>("model_load with a packed file", 4, tiny, std::uint32_t{0}, files.folder + "/packed"),
      make<Pack>("model_pack, new file", 8, files, tiny, false),
      make<Pack>("model_pack, in place of another", 8, files, tiny, true),
      make<Plan>("model_plan of the shipped model", 8, shipped, false),
      make<Load>("model_load of the shipped model", 40, shipped, std::uint32_t{QINFER_LOAD_VERIFY}),
      make<Pack>("model_pack of the shipped model", 80, files, shipped, false),
  };
  for (Operation& operation : chat_operations(files)) all.push_back(std::move(operation));
  for (Operation& operation : score_operations(files)) all.push_back(std::move(operation));
  for (Operation& operation : encoder_operations()) all.push_back(std::move(operation));
  return all;
}

}  // namespace qinfer::faults
