// Snapshots through a host's callbacks: a callback that fails at every call in turn, a saver that is stopped anywhere,
// and files that are damaged.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cstddef>
#include <random>

#include "support/host_files.h"

using namespace qinfer::test;

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

TEST_CASE("saving again through callbacks writes what is new and takes no more room than two", "[files][snapshot]") {
  Saver saver;
  for (const bool truncates : {true, false}) {
    saver.files.truncates = truncates;
    saver.files.files.clear();
    // The session itself goes on: another one with equal tokens may have other paddings in its blocks.
    const Session growing = saver.session_of(70);
    const auto written = [&] {
      std::size_t bytes = 0;
      for (const auto& step : saver.files.steps) bytes += step.bytes.size();
      return bytes;
    };
    saver.must_save(growing);
    const std::size_t first = saver.files.files[kPath].size(), whole = written();
    std::size_t largest = 0;
    append(growing, some_tokens(5));
    eval(growing);
    saver.must_save(growing);
    INFO("written at first " << whole << ", then " << written());
    REQUIRE(written() < first / 2);
    REQUIRE(written() < whole);
    REQUIRE(saver.files.files[kPath].size() == first);  // in place, not beside it
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
  REQUIRE(saver.files.files[kPath][8] == 5);
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
