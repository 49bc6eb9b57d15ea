// Models and snapshots through a host's callbacks: the same bits as from paths, a callback that fails at every call in
// turn, sizes that are not true, and a saver that is stopped anywhere. See memory_files.h.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cstddef>
#include <random>

#include "c_api.h"
#include "memory_files.h"

using namespace qinfer::test;

namespace {

/// Every status that a callback can give, and two values that are none.
constexpr qinfer_status kStatuses[] = {QINFER_E_INTERNAL,
                                       QINFER_E_INVALID_ARGUMENT,
                                       QINFER_E_STATE,
                                       QINFER_E_UNSUPPORTED,
                                       QINFER_E_NO_MEMORY,
                                       QINFER_E_IO,
                                       QINFER_E_NOT_FOUND,
                                       QINFER_E_FORMAT,
                                       QINFER_E_BUFFER_TOO_SMALL,
                                       QINFER_E_KV_FULL,
                                       QINFER_E_CONTEXT_FULL,
                                       QINFER_E_CANCELLED,
                                       QINFER_E_NUMERIC,
                                       -77,
                                       5};

/// What the library makes of it, unless an open says that a file is not there.
qinfer_status returned_for(qinfer_status given) {
  const bool known = given < 0 && given >= QINFER_E_NUMERIC;
  return known && given != QINFER_E_INTERNAL && given != QINFER_E_NOT_FOUND ? given : QINFER_E_IO;
}

TinySpec small(std::uint32_t shards) {
  TinySpec spec;
  spec.shards = shards;
  spec.context_tokens = 256;
  return spec;
}

/// Puts a model directory into memory under "models/tiny".
void take_directory(const ModelDir& dir, std::uint32_t shards, MemoryFiles& files) {
  std::vector<std::string> names = {"config.json", "tokenizer.json"};
  if (shards == 1) names.push_back("model.safetensors");
  if (shards > 1) names.push_back("model.safetensors.index.json");
  for (std::uint32_t i = 1; i <= shards && shards > 1; ++i)
    names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i, shards));
  for (const std::string& name : names) files.files["models/tiny/" + name] = dir.read(name);
}

struct Host {
  Runtime runtime = make_runtime(2, "reference");
  MemoryFiles files;

  qinfer_load_options options(std::uint32_t flags = 0) {
    auto options = sized<qinfer_load_options>();
    options.flags = flags;
    options.files = files.callbacks();
    return options;
  }
  qinfer_status load(const char* path, const qinfer_load_options& options, Model& out, qinfer_error& err) {
    files.forget();
    qinfer_model* model = reinterpret_cast<qinfer_model*>(1);
    const qinfer_status status = qinfer_model_load(runtime.get(), path, &options, &model, &err);
    REQUIRE((model != nullptr) == (status == QINFER_OK));
    out.reset(model);
    return status;
  }
};

std::vector<float> logits_of(const Model& model, std::size_t n = 20) {
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(n, info.n_vocab));
  eval(session);
  return last_logits(session, info.n_vocab);
}

qinfer_memory memory_of(const Model& model) {
  auto memory = sized<qinfer_memory>();
  REQUIRE_OK(qinfer_model_get_memory(model.get(), &memory, &err));
  memory.per_session = memory.kv_per_block = memory.kv_per_token = memory.kv_per_session = 0;
  memory.system_limit = memory.system_available = 0;
  return memory;
}

/// The plan of the model alone, as memory_of() gives it before the first session.
qinfer_memory plan_of(const char* path, const qinfer_load_options& options) {
  auto runtime = sized<qinfer_runtime_options>();
  runtime.n_threads = 2;
  runtime.cpu_target = "reference";
  auto session = sized<qinfer_session_options>();
  session.max_tokens = 1;
  auto memory = sized<qinfer_memory>();
  REQUIRE_OK(qinfer_model_plan(path, &runtime, &options, nullptr, &session, &memory, &err));
  return memory;
}

void require_planned(const qinfer_memory& plan, const qinfer_memory& used) {
  REQUIRE(plan.weights_mapped == used.weights_mapped);
  REQUIRE(plan.weights_private == used.weights_private);
  REQUIRE(plan.scratch == used.scratch);
  REQUIRE(plan.load_peak == used.load_peak);
}

/// Loads with the n-th call failing, for every n and every status.
void fail_every_call(Host& host, const char* path, const qinfer_load_options& options) {
  MemoryFiles& files = host.files;
  files.fail_at = SIZE_MAX;
  Model model;
  qinfer_error err = {};
  REQUIRE(host.load(path, options, model, err) == QINFER_OK);
  const std::vector<float> expected = logits_of(model);
  model.reset();
  const std::vector<MemoryFiles::Call> calls = files.calls;
  for (std::size_t n = 0; n < calls.size(); ++n)
    for (const qinfer_status given : kStatuses) {
      files.fail_at = n;
      files.fail_with = given;
      const qinfer_status status = host.load(path, options, model, err);
      INFO("call " << n << " (" << calls[n].what << " of " << calls[n].name << ") gives " << given << ": "
                   << qinfer_status_name(status) << " " << err.message);
      if (calls[n].what == "close") {
        REQUIRE(status == QINFER_OK);
      } else if (calls[n].what == "open" && given == QINFER_E_NOT_FOUND) {
        if (status != QINFER_OK) REQUIRE(std::string(err.message) != "");
      } else {
        REQUIRE(status == returned_for(given));
        REQUIRE_THAT(std::string(err.message), contains(calls[n].name));
        REQUIRE_THAT(std::string(err.message), contains("the host's " + calls[n].what));
      }
      model.reset();
      REQUIRE(files.all_closed());
      REQUIRE_FALSE(files.misused);
    }
  files.fail_at = SIZE_MAX;
  REQUIRE(host.load(path, options, model, err) == QINFER_OK);
  REQUIRE(logits_of(model) == expected);
}

}  // namespace

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

constexpr const char* kPath = "chats/one";

/// A model from a path, and snapshots in memory.
struct Saver {
  ModelDir dir{small(1)};
  Runtime runtime = make_runtime(1, "reference");
  Model model = load_model(runtime, dir.path());
  Cache cache = make_big_cache();
  MemoryFiles files;
  qinfer_session_load_result found;  ///< by the last load

  Cache make_big_cache() {
    auto options = sized<qinfer_kv_cache_options>();
    options.budget_blocks = 64;
    return make_cache(model, &options);
  }
  /// Evaluates n tokens, each list another.
  Session session_of(std::size_t n, qinfer_token salt = 0, std::uint32_t max_tokens = 0) {
    auto options = sized<qinfer_session_options>();
    options.max_tokens = max_tokens;
    Session session = make_session(cache, &options);
    std::vector<qinfer_token> tokens = some_tokens(n);
    tokens[0] = salt;
    append(session, tokens);
    eval(session);
    return session;
  }
  qinfer_status save(const Session& session, qinfer_error& err, const char* path = kPath) {
    files.forget();
    auto options = sized<qinfer_session_save_options>();
    options.files = files.callbacks();
    return qinfer_session_save_with(session.get(), path, &options, &err);
  }
  void must_save(const Session& session) {
    qinfer_error err = {};
    const qinfer_status status = save(session, err);
    INFO(err.message);
    REQUIRE(status == QINFER_OK);
    REQUIRE(files.all_closed());
    REQUIRE_FALSE(files.misused);
  }
  qinfer_status load(Session& out, qinfer_error& err) {
    files.forget();
    auto options = sized<qinfer_session_load_options>();
    options.files = files.callbacks();
    found = sized<qinfer_session_load_result>();
    qinfer_session* session = reinterpret_cast<qinfer_session*>(1);
    const qinfer_status status = qinfer_session_load_with(cache.get(), kPath, &options, &session, &found, &err);
    REQUIRE((session != nullptr) == (status == QINFER_OK));
    out.reset(session);
    return status;
  }
};

std::vector<qinfer_token> tokens_of(const Session& session) {
  std::vector<qinfer_token> tokens(qinfer_session_length(session.get()));
  std::size_t n = 0;
  REQUIRE_OK(qinfer_session_get_tokens(session.get(), tokens.data(), tokens.size(), &n, &err));
  return tokens;
}

void require_equal(const Session& loaded, const Session& saved) {
  REQUIRE(tokens_of(loaded) == tokens_of(saved));
  eval(loaded);
  REQUIRE(last_logits(loaded, 300) == last_logits(saved, 300));
}

/// A save to go through: what is in the file before it, and the session.
struct Scenario {
  const char* name;
  Session before, after;
  std::string bytes;  ///< with `before` in it; empty where there is no file
};

/// Every way in which a save can meet a file.
std::vector<Scenario> scenarios(Saver& saver) {
  std::vector<Scenario> all;
  const auto add = [&](const char* name, Session before, Session after) {
    all.push_back({name, std::move(before), std::move(after), saver.files.files[kPath]});
    saver.files.files.clear();
  };
  add("a new file", nullptr, saver.session_of(70));
  Session first = saver.session_of(70);
  saver.must_save(first);
  add("what is new", std::move(first), saver.session_of(110));
  first = saver.session_of(70);
  saver.must_save(first);
  add("another way, after the present one", std::move(first), saver.session_of(80, 1));
  // Where the third one goes there is the first one, saved twice.
  saver.must_save(saver.session_of(70));
  saver.must_save(saver.session_of(110));
  Session second = saver.session_of(80, 1);
  saver.must_save(second);
  add("another way, before the present one", std::move(second), saver.session_of(60, 2));
  first = saver.session_of(70);
  saver.must_save(first);
  add("other sizes", std::move(first), saver.session_of(80, 0, 128));
  // A file that was saved to a path.
  first = saver.session_of(70);
  REQUIRE_OK(qinfer_session_save(first.get(), saver.dir.file("plain").c_str(), &err));
  saver.files.files[kPath] = saver.dir.read("plain");
  add("what is new, after a save to a path", std::move(first), saver.session_of(110));
  first = saver.session_of(70);
  saver.files.files[kPath] = saver.dir.read("plain");
  add("another way, after a save to a path", std::move(first), saver.session_of(60, 2));
  return all;
}

/// Puts a scenario's file back.
void restore(Saver& saver, const Scenario& scenario) {
  saver.files.files.clear();
  if (!scenario.bytes.empty()) saver.files.files[kPath] = scenario.bytes;
}

/// What is in the file is the old state or the new one, and it can be saved to.
void require_old_or_new(Saver& saver, const Scenario& scenario) {
  Session loaded;
  qinfer_error err = {};
  saver.files.fail_at = SIZE_MAX;
  const qinfer_status status = saver.load(loaded, err);
  INFO("loading: " << qinfer_status_name(status) << " " << err.message);
  if (status == QINFER_E_NOT_FOUND) {
    REQUIRE(scenario.bytes.empty());
  } else {
    REQUIRE(status == QINFER_OK);
    const auto tokens = tokens_of(loaded);
    const bool is_new = tokens == tokens_of(scenario.after);
    if (!is_new) REQUIRE(scenario.before != nullptr);
    require_equal(loaded, is_new ? scenario.after : scenario.before);
  }
  saver.must_save(scenario.after);
  REQUIRE(saver.load(loaded, err) == QINFER_OK);
  REQUIRE(saver.found.flags == 0);  // whatever was damaged before is mended
  require_equal(loaded, scenario.after);
}

}  // namespace

TEST_CASE("a snapshot through callbacks comes back, whatever was in the file", "[files][snapshot]") {
  Saver saver;
  for (const bool truncates : {true, false}) {
    saver.files.truncates = truncates;
    for (const Scenario& scenario : scenarios(saver)) {
      INFO(scenario.name);
      restore(saver, scenario);
      saver.must_save(scenario.after);
      Session loaded;
      qinfer_error err = {};
      REQUIRE(saver.load(loaded, err) == QINFER_OK);
      REQUIRE(saver.found.flags == 0);
      REQUIRE(saver.files.all_closed());
      require_equal(loaded, scenario.after);
      // The same bytes at a path, where it is saved to as well.
      saver.dir.write("copy", saver.files.files[kPath]);
      const std::string copy = saver.dir.file("copy");
      for (const std::size_t more : {0u, 40u}) {
        qinfer_session* taken = nullptr;
        REQUIRE_OK(qinfer_session_load(saver.cache.get(), copy.c_str(), &taken, &err));
        const Session session(taken);
        if (more == 0) require_equal(session, scenario.after);
        REQUIRE_OK(qinfer_session_save(session.get(), copy.c_str(), &err));
      }
    }
  }
}

TEST_CASE("saving again through callbacks writes what is new, and no more room than two", "[files][snapshot]") {
  Saver saver;
  for (const bool truncates : {true, false}) {
    saver.files.truncates = truncates;
    saver.files.files.clear();
    saver.must_save(saver.session_of(70));
    const std::size_t first = saver.files.files[kPath].size();
    std::size_t written = 0, largest = 0;
    saver.must_save(saver.session_of(75));
    for (const auto& step : saver.files.steps) written += step.bytes.size();
    REQUIRE(written < first / 2);
    for (qinfer_token salt = 1; salt < 12; ++salt) {
      saver.must_save(saver.session_of(70, salt));
      const std::size_t now = saver.files.files[kPath].size();
      largest = std::max(largest, now);
      if (truncates && salt % 2 == 0) REQUIRE(now < first + 4096);
    }
    REQUIRE(largest < 2 * first + 2 * 4096);
  }
}

TEST_CASE("a callback that fails at any call of saving leaves the old state or the new one", "[files][snapshot]") {
  Saver saver;
  for (const Scenario& scenario : scenarios(saver)) {
    restore(saver, scenario);
    saver.must_save(scenario.after);
    const std::vector<MemoryFiles::Call> calls = saver.files.calls;
    for (std::size_t n = 0; n < calls.size(); ++n)
      for (const qinfer_status given : kStatuses) {
        restore(saver, scenario);
        saver.files.fail_at = n;
        saver.files.fail_with = given;
        qinfer_error err = {};
        const qinfer_status status = saver.save(scenario.after, err);
        INFO(scenario.name << ", call " << n << " of " << calls.size() << " (" << calls[n].what << ") gives " << given
                           << ": " << qinfer_status_name(status) << " " << err.message);
        const bool said_missing = calls[n].what == "open" && given == QINFER_E_NOT_FOUND;
        REQUIRE(status == (said_missing ? QINFER_E_NOT_FOUND : returned_for(given)));
        REQUIRE_THAT(std::string(err.message), contains(kPath));
        REQUIRE(saver.files.all_closed());
        REQUIRE_FALSE(saver.files.misused);
        saver.files.fail_at = SIZE_MAX;
        if (given == QINFER_E_IO || given == QINFER_E_FORMAT) require_old_or_new(saver, scenario);
      }
  }
}

TEST_CASE("a callback that fails at any call of loading a snapshot", "[files][snapshot]") {
  Saver saver;
  for (const Scenario& scenario : scenarios(saver)) {
    restore(saver, scenario);
    saver.must_save(scenario.after);
    Session loaded;
    qinfer_error err = {};
    REQUIRE(saver.load(loaded, err) == QINFER_OK);
    const std::vector<MemoryFiles::Call> calls = saver.files.calls;
    for (std::size_t n = 0; n < calls.size(); ++n)
      for (const qinfer_status given : kStatuses) {
        saver.files.fail_at = n;
        saver.files.fail_with = given;
        const qinfer_status status = saver.load(loaded, err);
        INFO(scenario.name << ", call " << n << " of " << calls.size() << " (" << calls[n].what << ") gives " << given
                           << ": " << qinfer_status_name(status) << " " << err.message);
        if (calls[n].what == "close") {
          REQUIRE(status == QINFER_OK);
        } else {
          const bool said_missing = calls[n].what == "open" && given == QINFER_E_NOT_FOUND;
          REQUIRE(status == (said_missing ? QINFER_E_NOT_FOUND : returned_for(given)));
          REQUIRE_THAT(std::string(err.message), contains(kPath));
        }
        REQUIRE(saver.files.all_closed());
        REQUIRE_FALSE(saver.files.misused);
      }
    saver.files.fail_at = SIZE_MAX;
  }
}

TEST_CASE("a saver that is stopped anywhere leaves the old state or the new one", "[files][snapshot]") {
  Saver saver;
  std::mt19937 random(18);
  for (const Scenario& scenario : scenarios(saver)) {
    restore(saver, scenario);
    saver.must_save(scenario.after);
    const std::vector<MemoryFiles::Step> steps = saver.files.steps;
    for (std::size_t stop = 0; stop <= steps.size(); ++stop)
      for (int attempt = 0; attempt < 6; ++attempt) {
        // What was synced is there; of what came after it any part.
        std::size_t synced = 0;
        for (std::size_t i = 0; i < stop; ++i)
          if (steps[i].is_sync) synced = i + 1;
        std::string bytes = scenario.bytes;
        for (std::size_t i = 0; i < synced; ++i) MemoryFiles::apply(steps[i], bytes);
        std::vector<MemoryFiles::Step> loose(steps.begin() + static_cast<std::ptrdiff_t>(synced),
                                             steps.begin() + static_cast<std::ptrdiff_t>(stop));
        if (attempt > 1) std::shuffle(loose.begin(), loose.end(), random);
        for (MemoryFiles::Step& step : loose) {
          if (attempt > 0 && random() % 3 == 0) continue;
          if (attempt > 2 && !step.bytes.empty() && random() % 2 == 0) step.bytes.resize(random() % step.bytes.size());
          MemoryFiles::apply(step, bytes);
        }
        saver.files.files.clear();
        if (!bytes.empty()) saver.files.files[kPath] = bytes;
        INFO(scenario.name << ", stopped after " << stop << " of " << steps.size() << " steps, attempt " << attempt);
        require_old_or_new(saver, scenario);
      }
  }
}

TEST_CASE("a file that is not a snapshot, or is a damaged one, through callbacks", "[files][snapshot]") {
  Saver saver;
  const Session session = saver.session_of(70);
  qinfer_error err = {};
  for (const std::string& bytes : {std::string("hello"), std::string(5000, 'x'), std::string(5000, '\0')}) {
    saver.files.files[kPath] = bytes;
    REQUIRE(saver.save(session, err) == QINFER_E_FORMAT);
    REQUIRE_THAT(std::string(err.message), contains("not overwritten"));
    REQUIRE(saver.files.files[kPath] == bytes);
  }
  saver.files.files[kPath] = "";
  Session loaded;
  REQUIRE(saver.load(loaded, err) == QINFER_E_NOT_FOUND);
  saver.must_save(session);
  const std::string whole = saver.files.files[kPath];
  // One record of the root is enough, but it may not be the last one.
  for (const std::size_t at : {1024u, 2048u}) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    saver.files.files[kPath] = bytes;
    REQUIRE(saver.load(loaded, err) == QINFER_OK);
    require_equal(loaded, session);
    auto options = sized<qinfer_session_load_options>();
    options.files = saver.files.callbacks();
    options.flags = QINFER_SNAPSHOT_NO_RECOVERY;
    qinfer_session* refused = nullptr;
    REQUIRE_FAILS(QINFER_E_FORMAT, kPath,
                  qinfer_session_load_with(saver.cache.get(), kPath, &options, &refused, nullptr, &err));
  }
  std::string bytes = whole;
  bytes[1024] = bytes[2048] = 77;
  saver.files.files[kPath] = bytes;
  REQUIRE(saver.load(loaded, err) == QINFER_E_FORMAT);
  REQUIRE_THAT(std::string(err.message), contains(kPath));
  saver.must_save(session);
  REQUIRE(saver.load(loaded, err) == QINFER_OK);
  // A library that knows no roots must see that it cannot read this.
  REQUIRE(saver.files.files[kPath][8] == 3);
  // Callbacks that only read are enough for loading, and not for saving.
  qinfer_files files = *saver.files.callbacks();
  files.struct_size = offsetof(qinfer_files, map);
  auto options = sized<qinfer_session_save_options>();
  options.files = &files;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_files.write_at",
                qinfer_session_save_with(session.get(), kPath, &options, &err));
  options.flags = 1;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "qinfer_session_save_options.flags",
                qinfer_session_save_with(session.get(), kPath, &options, &err));
}

TEST_CASE("every altered byte and every cut of a host's snapshot is noticed or harmless", "[files][snapshot]") {
  Saver saver;
  std::vector<Session> states;
  for (const std::size_t n : {40u, 70u}) states.push_back(saver.session_of(n));
  for (const qinfer_token salt : {1, 2}) states.push_back(saver.session_of(50, salt));
  for (const Session& state : states) saver.must_save(state);
  const std::string good = saver.files.files[kPath];
  const auto check = [&](const std::string& bytes, std::size_t at) {
    saver.files.files[kPath] = bytes;
    Session loaded;
    qinfer_error err = {};
    const qinfer_status status = saver.load(loaded, err);
    if (status == QINFER_E_FORMAT || status == QINFER_E_UNSUPPORTED) return;
    // A root without records is that of a file to which no save was completed.
    if (status == QINFER_E_NOT_FOUND && bytes.size() <= 1024) return;
    INFO("byte " << at << " of " << good.size() << ": " << qinfer_status_name(status) << " " << err.message);
    REQUIRE(status == QINFER_OK);
    const auto same = [&](const Session& state) { return tokens_of(state) == tokens_of(loaded); };
    const auto state = std::find_if(states.begin(), states.end(), same);
    REQUIRE(state != states.end());
    if (state + 1 != states.end()) REQUIRE(saver.found.flags == QINFER_SNAPSHOT_RECOVERED);
    require_equal(loaded, *state);
  };
  for (std::size_t at = 0; at < good.size(); at += at < 4096 ? 1 : 97) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    check(bytes, at);
  }
  for (std::size_t size = 0; size < good.size(); size += size < 4096 ? 64 : 971) check(good.substr(0, size), size);
}

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
