// See operations.h: models and their tokenizers, runtimes, and the list of all.
#include "operations.h"

#include <dirent.h>

#include <stdexcept>

#include "host_files.h"
#include "operation_parts.h"

namespace qinfer::faults {
namespace {

constexpr const char* kText = "Once upon a time there was the thing <s> and a king.";

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

}  // namespace

qinfer_runtime* make_runtime() {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = 1;
  qinfer_runtime* runtime = nullptr;
  MUST(qinfer_runtime_create(&options, &runtime, &err));
  return runtime;
}

std::vector<Operation> all_operations(const Files& files) {
  const std::string &tiny = files.tiny, &shipped = files.shipped;
  std::vector<Operation> all = {
      make<Tokenize>("tokenize", 1, shipped),
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
  for (Operation& operation : session_operations(files)) all.push_back(std::move(operation));
  for (Operation& operation : chat_operations(files)) all.push_back(std::move(operation));
  for (Operation& operation : score_operations(files)) all.push_back(std::move(operation));
  for (Operation& operation : encoder_operations()) all.push_back(std::move(operation));
  return all;
}

}  // namespace qinfer::faults
