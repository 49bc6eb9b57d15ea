// Models through a host's callbacks: the same bits as from paths, a callback that fails at every call in turn, sizes
// that are not true. Snapshots have their tests in api_file_snapshots.cpp.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cstddef>
#include <random>

#include "support/host_files.h"

using namespace qinfer::test;

TEST_CASE("a model through callbacks has the bits and the plan of one from a path", "[files]") {
  for (const std::uint32_t shards : {1u, 3u})
    for (const bool maps : {false, true}) {
      INFO(shards << " shards, " << (maps ? "mapped" : "read"));
      const ModelDir dir(small(shards));
      Host host;
      host.files.maps = maps;
      take_directory(dir, shards, host.files);
      const qinfer_load_options options = host.options();
      auto plain = sized<qinfer_load_options>();
      if (!maps) plain.flags = QINFER_LOAD_NO_MMAP;
      const Model from_path = load_model(host.runtime, dir.path(), &plain);
      const qinfer_memory plan = plan_of("models/tiny", options);
      REQUIRE(host.files.all_closed());
      Model model;
      qinfer_error err = {};
      REQUIRE(host.load("models/tiny", options, model, err) == QINFER_OK);
      const qinfer_memory used = memory_of(model), expected = memory_of(from_path);
      REQUIRE(std::memcmp(&used, &expected, sizeof used) == 0);
      require_planned(plan, used);
      REQUIRE((used.weights_mapped != 0) == maps);
      REQUIRE((host.files.n_open != 0) == maps);
      REQUIRE(logits_of(model) == logits_of(from_path));
      model.reset();
      REQUIRE(host.files.all_closed());
      REQUIRE_FALSE(host.files.misused);
    }
}

TEST_CASE("names are what the host is asked for, whatever the path is", "[files]") {
  const ModelDir dir(small(1));
  Host host;
  MemoryFiles plain;
  take_directory(dir, 1, plain);
  for (const std::string path : {"", "a", "a/", "/", "http://host/x"}) {
    INFO(path);
    host.files.files.clear();
    const std::string prefix = path.empty() || path.back() == '/' ? path : path + "/";
    for (const auto& [name, bytes] : plain.files) host.files.files[prefix + name.substr(name.rfind('/') + 1)] = bytes;
    Model model;
    qinfer_error err = {};
    const qinfer_status status = host.load(path.c_str(), host.options(), model, err);
    INFO(err.message);
    REQUIRE(status == QINFER_OK);
    auto memory = sized<qinfer_memory>();
    const std::string config = prefix + "config.json";
    const qinfer_load_options options = host.options();
    REQUIRE_OK(qinfer_model_plan(config.c_str(), nullptr, &options, nullptr, nullptr, &memory, &err));
  }
  Model model;
  qinfer_error err = {};
  REQUIRE(host.load("elsewhere", host.options(), model, err) == QINFER_E_NOT_FOUND);
  REQUIRE_THAT(std::string(err.message), contains("elsewhere/config.json"));
  REQUIRE(host.files.all_closed());
}

TEST_CASE("a packed model through callbacks, by itself and beside its directory", "[files]") {
  const ModelDir dir(small(2));
  Host host;
  REQUIRE_OK(qinfer_model_pack(host.runtime.get(), dir.path().c_str(), nullptr, dir.file("packed").c_str(), &err));
  take_directory(dir, 2, host.files);
  host.files.files["one"] = dir.read("packed");
  const Model from_path = load_model(host.runtime, dir.path());
  for (const bool maps : {false, true})
    for (const bool beside : {false, true}) {
      host.files.maps = maps;
      qinfer_load_options options = host.options();
      if (beside) options.packed_path = "one";
      const char* path = beside ? "models/tiny" : "one";
      const qinfer_memory plan = plan_of(path, options);
      Model model;
      qinfer_error err = {};
      const qinfer_status status = host.load(path, options, model, err);
      INFO(err.message);
      REQUIRE(status == QINFER_OK);
      require_planned(plan, memory_of(model));
      REQUIRE((plan.weights_mapped != 0) == maps);
      REQUIRE(logits_of(model) == logits_of(from_path));
      model.reset();
      REQUIRE(host.files.all_closed());
      REQUIRE_FALSE(host.files.misused);
    }
}

TEST_CASE("a callback that fails at any call of loading a model", "[files]") {
  const ModelDir dir(small(2));
  Host host;
  take_directory(dir, 2, host.files);
  for (const bool maps : {false, true}) {
    host.files.maps = maps;
    fail_every_call(host, "models/tiny", host.options());
  }
  REQUIRE_OK(qinfer_model_pack(host.runtime.get(), dir.path().c_str(), nullptr, dir.file("packed").c_str(), &err));
  host.files.files["one"] = dir.read("packed");
  for (const bool maps : {false, true}) {
    host.files.maps = maps;
    fail_every_call(host, "one", host.options());
    qinfer_load_options options = host.options();
    options.packed_path = "one";
    fail_every_call(host, "models/tiny", options);
  }
}

TEST_CASE("sizes that are not true", "[files]") {
  const ModelDir dir(small(2));
  Host host;
  take_directory(dir, 2, host.files);
  REQUIRE_OK(qinfer_model_pack(host.runtime.get(), dir.path().c_str(), nullptr, dir.file("packed").c_str(), &err));
  host.files.files["one"] = dir.read("packed");
  for (const bool maps : {false, true}) {
    host.files.maps = maps;
    for (const auto& [name, bytes] : host.files.files) {
      const std::uint64_t sizes[] = {0,
                                     1,
                                     bytes.size() / 2,
                                     bytes.size() - 1,
                                     bytes.size() + 1,
                                     std::uint64_t{1} << 40,
                                     INT64_MAX,
                                     std::uint64_t{1} << 63,
                                     UINT64_MAX};
      for (const std::uint64_t said : sizes) {
        host.files.sizes = {{name, said}};
        Model model;
        qinfer_error err = {};
        const qinfer_status status = host.load(name == "one" ? "one" : "models/tiny", host.options(), model, err);
        INFO(name << " of " << bytes.size() << " bytes says " << said << ": " << qinfer_status_name(status) << " "
                  << err.message);
        REQUIRE(status != QINFER_OK);
        REQUIRE(status != QINFER_E_INTERNAL);
        REQUIRE_THAT(std::string(err.message), contains(name.substr(name.rfind('/') + 1)));
        if (said > INT64_MAX) REQUIRE(status == QINFER_E_FORMAT);
        REQUIRE(host.files.all_closed());
        REQUIRE_FALSE(host.files.misused);
      }
    }
  }
  host.files.sizes.clear();
  Model model;
  qinfer_error err = {};
  REQUIRE(host.load("models/tiny", host.options(), model, err) == QINFER_OK);
}

TEST_CASE("maps that are NULL, badly aligned, or end with the file", "[files]") {
  const ModelDir dir(small(1));
  Host host;
  take_directory(dir, 1, host.files);
  host.files.maps = true;
  Model model;
  qinfer_error err = {};
  host.files.maps_null = true;
  REQUIRE(host.load("models/tiny", host.options(), model, err) == QINFER_E_IO);
  REQUIRE_THAT(std::string(err.message), contains("model.safetensors: the host's map gave NULL"));
  REQUIRE(host.files.all_closed());
  host.files.maps_null = false;
  for (const std::size_t by : {1u, 4u, 32u}) {
    host.files.misaligned_by = by;
    REQUIRE(host.load("models/tiny", host.options(), model, err) == QINFER_E_UNSUPPORTED);
    REQUIRE_THAT(std::string(err.message), contains("model.safetensors: the host's map gave an address"));
    REQUIRE(host.files.all_closed());
  }
  host.files.misaligned_by = 0;
  host.files.unmaps = false;
  REQUIRE(host.load("models/tiny", host.options(), model, err) == QINFER_OK);
  REQUIRE(host.files.n_open == 1);
  model.reset();
  REQUIRE(host.files.all_closed());
  REQUIRE_FALSE(host.files.misused);
}

TEST_CASE("what goes with files of a host, and what does not", "[files]") {
  const ModelDir dir(small(1));
  Host host;
  take_directory(dir, 1, host.files);
  qinfer_model* model = nullptr;
  const auto load = [&](const qinfer_load_options& options, qinfer_error* err) {
    return qinfer_model_load(host.runtime.get(), "models/tiny", &options, &model, err);
  };
  host.files.maps = true;
  const qinfer_load_options locked = host.options(QINFER_LOAD_LOCK);
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "QINFER_LOAD_LOCK", load(locked, &err));
  qinfer_files files = *host.files.callbacks();
  auto options = sized<qinfer_load_options>();
  options.files = &files;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "files",
                qinfer_model_pack(host.runtime.get(), "models/tiny", &options, dir.file("out").c_str(), &err));
  files.open = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_files.open", load(options, &err));
  files = *host.files.callbacks();
  files.size = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_files.size", load(options, &err));
  files = *host.files.callbacks();
  files.read_at = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_files.read_at", load(options, &err));
  files = *host.files.callbacks();
  files.close = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_files.close", load(options, &err));
  files = *host.files.callbacks();
  files.map = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_files.unmap", load(options, &err));
  files = *host.files.callbacks();
  files.struct_size = 0;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_files.struct_size", load(options, &err));

  // What is not needed for reading may be absent, as for a client that was built when there was nothing else.
  files = *host.files.callbacks();
  files.struct_size = offsetof(qinfer_files, map);
  REQUIRE_OK(load(options, &err));
  REQUIRE(host.files.n_open == 0);  // not mapped
  qinfer_model_free(model);
  // An older client's struct ends before `files`; what follows it in memory means nothing.
  options.struct_size = offsetof(qinfer_load_options, files);
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "models/tiny", load(options, &err));
}

// ---- snapshots ----

namespace {

/// The same with the C++ classes.
class StringFile : public qi::File {
 public:
  explicit StringFile(std::string& bytes) : bytes_(bytes) {}
  std::uint64_t size() override { return bytes_.size(); }
  void read_at(std::uint64_t offset, void* data, std::size_t n) override {
    if (bytes_.size() < offset + n) throw std::out_of_range("beyond the end");
    std::memcpy(data, bytes_.data() + offset, n);
  }
  const void* map() override {
    copy_.resize(bytes_.size() + 64);
    char* at = copy_.data() + (64 - reinterpret_cast<std::uintptr_t>(copy_.data()) % 64) % 64;
    std::memcpy(at, bytes_.data(), bytes_.size());
    return at;
  }
  void write_at(std::uint64_t offset, const void* data, std::size_t n) override {
    bytes_.resize(std::max<std::size_t>(bytes_.size(), offset + n));
    std::memcpy(bytes_.data() + offset, data, n);
  }
  void sync() override {}
  void truncate(std::uint64_t n) override { bytes_.resize(n); }

 private:
  std::string& bytes_;
  std::vector<char> copy_;
};

}  // namespace

TEST_CASE("files of a host in C++", "[files]") {
  const ModelDir dir(small(1));
  MemoryFiles memory;
  take_directory(dir, 1, memory);
  for (const bool maps : {false, true}) {
    qi::Files files(
        [&](const char* name, std::int32_t mode) -> std::unique_ptr<qi::File> {
          if (mode == QINFER_FILE_WRITE) memory.files[name];
          const auto at = memory.files.find(name);
          return at == memory.files.end() ? nullptr : std::make_unique<StringFile>(at->second);
        },
        maps);
    auto options = qi::options<qinfer_load_options>();
    options.files = files.native();
    const qi::Model model = qi::Model::load("models/tiny", options);
    REQUIRE((model.memory().weights_mapped != 0 || !maps));
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.append(some_tokens(40));
    session.eval();
    auto save = qi::options<qinfer_session_save_options>();
    save.files = files.native();
    session.save("a", save);
    auto load = qi::options<qinfer_session_load_options>();
    load.files = files.native();
    auto found = qi::options<qinfer_session_load_result>();
    qi::Session loaded = qi::Session::load(cache, "a", load, found);
    loaded.eval();
    REQUIRE(loaded.copy_logits() == session.copy_logits());
  }
  // What is thrown becomes a status, and names the file.
  const auto status_of = [](const qi::OpenFile& open) {
    const qi::Files files(open);
    auto options = qi::options<qinfer_load_options>();
    options.files = files.native();
    try {
      qi::Model::load("x", options);
    } catch (const qi::Error& error) {
      REQUIRE_THAT(std::string(error.what()), contains("x"));
      return error.status();
    }
    return qinfer_status{QINFER_OK};
  };
  REQUIRE(status_of([](const char*, std::int32_t) -> std::unique_ptr<qi::File> { throw std::bad_alloc(); }) ==
          QINFER_E_NO_MEMORY);
  REQUIRE(status_of([](const char*, std::int32_t) -> std::unique_ptr<qi::File> { throw 5; }) == QINFER_E_IO);
  REQUIRE(status_of([](const char*, std::int32_t) { return std::unique_ptr<qi::File>(); }) == QINFER_E_NOT_FOUND);
}
