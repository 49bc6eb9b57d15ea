// Sessions in the wrong hands: snapshots that other options computed or whose newest state is damaged, calls on a
// session that another call is changing, and options structs of other versions.
#include <atomic>
#include <cmath>
#include <thread>

#include "kv/support.h"
#include "support/c_api.h"
#include "support/skip.h"
#include "support/targets.h"

using namespace qinfer::test;

namespace {

TinySpec tied_f32() {
  TinySpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.tied = true;
  spec.context_tokens = 512;
  return spec;
}

/// A tied f32 checkpoint whose values no shorter type holds, so that every option that changes bits does.
struct Checkpoint {
  ModelDir dir;
  Checkpoint() {
    const TinySpec spec = tied_f32();
    dir.write("config.json", tiny_config(spec).dump());
    dir.write("tokenizer.json", tiny_tokenizer());
    write_changed(dir, spec, [](std::vector<TinyTensor>& tensors) {
      for (TinyTensor& tensor : tensors)
        for (std::size_t at = 0; at < tensor.data.size(); at += sizeof(float)) {
          float value = 0;
          std::memcpy(&value, tensor.data.data() + at, sizeof value);
          value *= 1.0f / 3;
          std::memcpy(tensor.data.data() + at, &value, sizeof value);
        }
    });
  }
};

/// How a model is loaded, as far as it changes bits.
struct Way {
  std::string target;
  const char* weight_format = nullptr;
  std::uint32_t load_flags = 0, runtime_flags = 0;

  std::string text() const {
    return fmt::format("{} {} load flags {} runtime flags {}", target, weight_format == nullptr ? "-" : weight_format,
                       load_flags, runtime_flags);
  }
};

struct Loaded {
  Runtime runtime;
  Model model;
  Cache cache;

  Loaded(const ModelDir& dir, const Way& way) {
    auto options = sized<qinfer_runtime_options>();
    options.n_threads = 1;
    options.cpu_target = way.target.c_str();
    options.flags = way.runtime_flags;
    qinfer_runtime* created = nullptr;
    REQUIRE_OK(qinfer_runtime_create(&options, &created, &err));
    runtime = Runtime(created);
    auto load = sized<qinfer_load_options>();
    load.weight_format = way.weight_format;
    load.flags = way.load_flags;
    model = load_model(runtime, dir.path(), &load);
    auto kv = sized<qinfer_kv_cache_options>();
    kv.kv_type = QINFER_KV_F32;
    cache = make_cache(model, &kv);
  }
  Session session(std::size_t n) const {
    Session made = make_session(cache);
    append(made, some_tokens(n));
    eval(made);
    return made;
  }
};

struct Outcome {
  Session session;
  qinfer_session_load_result result;
};

Outcome load_session(const Loaded& into, const std::string& path, std::uint32_t flags) {
  auto options = sized<qinfer_session_load_options>();
  options.flags = flags;
  auto result = sized<qinfer_session_load_result>();
  qinfer_session* session = nullptr;
  REQUIRE_OK(qinfer_session_load_with(into.cache.get(), path.c_str(), &options, &session, &result, &err));
  return {Session(session), result};
}

/// Saved one way: the same way it comes back bit for bit, another way it is refused unless any bits will do.
void check_ways(const ModelDir& dir, const Way& one, const Way& other, const std::string& said_of_one,
                const std::string& said_of_other) {
  INFO("saved with " << one.text() << ", loaded with " << other.text());
  const ModelDir place;
  const std::string path = place.file("session");
  const Loaded writer(dir, one), reader(dir, other);
  const Session session = writer.session(70);
  REQUIRE_OK(qinfer_session_save(session.get(), path.c_str(), &err));
  const std::vector<float> at_save = last_logits(session, 300);
  REQUIRE_FALSE(same_bits(last_logits(reader.session(70), 300), at_save));  // otherwise there is nothing to refuse

  const Loaded again(dir, one);
  const Outcome same = load_session(again, path, 0);
  REQUIRE(same.result.flags == 0);
  REQUIRE(same.result.tokens == 70);
  REQUIRE(same.result.evaluated_tokens == 70);
  eval(same.session);
  REQUIRE(same_bits(last_logits(same.session, 300), at_save));

  qinfer_session* refused = reinterpret_cast<qinfer_session*>(1);
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, said_of_one,
                qinfer_session_load(reader.cache.get(), path.c_str(), &refused, &err));
  REQUIRE(refused == nullptr);
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, said_of_other,
                qinfer_session_load_with(reader.cache.get(), path.c_str(), nullptr, &refused, nullptr, &err));
  const Outcome any = load_session(reader, path, QINFER_SNAPSHOT_ANY_BITS);
  REQUIRE(any.result.flags == QINFER_SNAPSHOT_OTHER_BITS);
  REQUIRE(any.result.tokens == 70);
  eval(any.session);
  float largest = 0, apart = 0;
  const std::vector<float> logits = last_logits(any.session, 300);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    largest = std::max(largest, std::fabs(at_save[i]));
    apart = std::max(apart, std::fabs(at_save[i] - logits[i]));
  }
  INFO("the logits are " << apart << " apart, the largest is " << largest);
  REQUIRE(apart <= 0.02f * largest);
}

/// A kernel set that by itself has an LM head of f32 weights in f16, but not a table of embeddings; empty if this CPU
/// has none.
std::string short_head() {
  for (const std::string& target : usable_targets())
    if (target == "avx512" || target == "avx2" || target == "neon") return target;
  return "";
}

std::string name_of(const Way& way) {
  const std::string format = way.weight_format != nullptr                        ? way.weight_format
                             : is_portable(way.target) || way.runtime_flags != 0 ? "f32"
                                                                                 : "f16";
  return way.target + "/" + format + (way.load_flags != 0 ? "+rows" : "") + (way.runtime_flags != 0 ? "/exact" : "");
}

}  // namespace

TEST_CASE("A snapshot is refused where QINFER_LOAD_EMBED_ROWS makes other bits", "[hostile][snapshot]") {
  SKIP_UNLESS_CPU_HAS(!short_head().empty(), "avx512, avx2 or neon");
  const Checkpoint checkpoint;
  const Way plain{short_head()};
  Way rows = plain;
  rows.load_flags = QINFER_LOAD_EMBED_ROWS;
  check_ways(checkpoint.dir, rows, plain, "saved with " + name_of(rows), "the model has " + name_of(plain));
  check_ways(checkpoint.dir, plain, rows, "saved with " + name_of(plain), "the model has " + name_of(rows));
}

TEST_CASE("A snapshot is refused where weight_format or QINFER_RUNTIME_EXACT makes other bits", "[hostile][snapshot]") {
  const Checkpoint checkpoint;
  for (const std::string& target : usable_targets(true)) {
    const Way plain{target, "bf16"}, other{target, "f32"}, exact{target, nullptr, 0, QINFER_RUNTIME_EXACT};
    for (const Way& way : {other, exact}) {
      check_ways(checkpoint.dir, way, plain, "saved with " + name_of(way), "the model has " + name_of(plain));
      check_ways(checkpoint.dir, plain, way, "saved with " + name_of(plain), "the model has " + name_of(way));
    }
  }
}

TEST_CASE("A snapshot of another kernel set is taken, and said to be one", "[hostile][snapshot]") {
  SKIP_UNLESS_CPU_HAS(usable_targets(true).size() > 1, "second exact kernel set");
  const Checkpoint checkpoint;
  const ModelDir place;
  const Loaded writer(checkpoint.dir, {usable_targets(true).front()}), reader(checkpoint.dir, {"reference"});
  REQUIRE_OK(qinfer_session_save(writer.session(40).get(), place.file("session").c_str(), &err));
  REQUIRE(load_session(reader, place.file("session"), 0).result.flags == QINFER_SNAPSHOT_OTHER_BITS);
}

TEST_CASE("A session taken with QINFER_SNAPSHOT_ANY_BITS does not become the model's own by being saved",
          "[hostile][snapshot]") {
  const Checkpoint checkpoint;
  const ModelDir place;
  const std::string path = place.file("session"), second = place.file("second");
  const Loaded one(checkpoint.dir, {"reference", "f32"}), other(checkpoint.dir, {"reference", "bf16"});
  REQUIRE_OK(qinfer_session_save(one.session(40).get(), path.c_str(), &err));
  const Outcome taken = load_session(other, path, QINFER_SNAPSHOT_ANY_BITS);
  REQUIRE_OK(qinfer_session_save(taken.session.get(), second.c_str(), &err));
  qinfer_session* refused = nullptr;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "saved with reference/f32",
                qinfer_session_load(other.cache.get(), second.c_str(), &refused, &err));
}

namespace {

/// A file that a session of 40, 70 and, as often as asked, 30 tokens more was saved to.
struct Saved {
  Checkpoint checkpoint;
  Loaded loaded{checkpoint.dir, {"reference"}};
  Session session = make_session(loaded.cache);
  std::string path = checkpoint.dir.file("session");
  std::size_t tokens = 40;

  explicit Saved(int saves) {
    for (int i = 0; i < saves; ++i) {
      if (i != 0) tokens += 30;
      append(session, some_tokens(i == 0 ? 40 : 30));
      eval(session);
      REQUIRE_OK(qinfer_session_save(session.get(), path.c_str(), &err));
    }
  }
  /// Where the newer of the two states is.
  std::size_t newer() const {
    const std::string bytes = checkpoint.dir.read("session");
    std::uint64_t sequence[2];
    std::memcpy(&sequence[0], bytes.data() + 4096, 8);
    std::memcpy(&sequence[1], bytes.data() + 8192, 8);
    return sequence[1] > sequence[0] ? 8192 : 4096;
  }
  void damage(std::size_t at) const {
    std::string bytes = checkpoint.dir.read("session");
    REQUIRE(at < bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    checkpoint.dir.write("session", bytes);
  }
};

}  // namespace

TEST_CASE("Where the newer state of a snapshot is damaged the older one is loaded, and said so",
          "[hostile][snapshot]") {
  for (const int saves : {2, 3, 4}) {
    const Saved saved(saves);
    const Outcome whole = load_session(saved.loaded, saved.path, QINFER_SNAPSHOT_NO_RECOVERY);
    INFO(saves << " saves, " << saved.tokens << " tokens, the newer state is at " << saved.newer());
    REQUIRE(whole.result.flags == 0);
    REQUIRE(whole.result.tokens == saved.tokens);
    REQUIRE(whole.result.evaluated_tokens == saved.tokens);
    for (const std::size_t byte : {0, 8, 16, 60, 79}) {
      const Saved hurt(saves);
      INFO("byte " << byte << " of the record is damaged");
      hurt.damage(hurt.newer() + byte);
      qinfer_session* session = nullptr;
      REQUIRE_OK(qinfer_session_load(hurt.loaded.cache.get(), hurt.path.c_str(), &session, &err));
      const Session plain(session);
      REQUIRE(qinfer_session_length(session) == hurt.tokens - 30);
      const Outcome older = load_session(hurt.loaded, hurt.path, 0);
      REQUIRE(older.result.flags == QINFER_SNAPSHOT_RECOVERED);
      REQUIRE(older.result.tokens == hurt.tokens - 30);
      REQUIRE(older.result.evaluated_tokens == hurt.tokens - 30);
      auto options = sized<qinfer_session_load_options>();
      options.flags = QINFER_SNAPSHOT_NO_RECOVERY;
      session = reinterpret_cast<qinfer_session*>(1);
      REQUIRE_FAILS(
          QINFER_E_FORMAT, fmt::format("the state before it has {} tokens", hurt.tokens - 30),
          qinfer_session_load_with(hurt.loaded.cache.get(), hurt.path.c_str(), &options, &session, nullptr, &err));
      REQUIRE(session == nullptr);
    }
  }
}

TEST_CASE("After a recovery the session goes on, and what it saves is whole", "[hostile][snapshot]") {
  const Saved saved(3);
  saved.damage(saved.newer() + 8);
  const Outcome older = load_session(saved.loaded, saved.path, 0);
  append(older.session, some_tokens(30));
  eval(older.session);
  REQUIRE(same_bits(last_logits(older.session, 300), last_logits(saved.session, 300)));
  REQUIRE_OK(qinfer_session_save(older.session.get(), saved.path.c_str(), &err));
  const Outcome again = load_session(saved.loaded, saved.path, QINFER_SNAPSHOT_NO_RECOVERY);
  REQUIRE(again.result.flags == 0);
  REQUIRE(again.result.tokens == 100);
  eval(again.session);
  REQUIRE(same_bits(last_logits(again.session, 300), last_logits(saved.session, 300)));
}

namespace {

std::vector<qinfer_token> tokens_in(qinfer_session* session) {
  std::vector<qinfer_token> tokens(qinfer_session_length(session));
  std::size_t n = 0;
  if (qinfer_session_get_tokens(session, tokens.data(), tokens.size(), &n, nullptr) != QINFER_OK) tokens.clear();
  return tokens;
}

/// Tries in on_token what changes the session, and what does not.
struct Intruder {
  qinfer_session* session = nullptr;
  std::string path, failure;  ///< what went other than it should
  int calls = 0;

  void refused(const char* call, qinfer_status status, const qinfer_error& err) {
    if (status != QINFER_E_STATE || std::strstr(err.message, "the session is in use") == nullptr)
      failure += fmt::format("{} in call {} gave {} \"{}\"; ", call, calls, qinfer_status_name(status), err.message);
  }
  void allowed(const char* call, qinfer_status status, const qinfer_error& err) {
    if (status != QINFER_OK)
      failure += fmt::format("{} in call {} gave {} \"{}\"; ", call, calls, qinfer_status_name(status), err.message);
  }
  void change() {
    qinfer_error err = {};
    qinfer_token token = 1;
    const float value = 5;
    auto sampler = sized<qinfer_sampler_options>();
    sampler.temperature = 2;
    refused("append", qinfer_session_append(session, &token, 1, &err), err);
    refused("truncate", qinfer_session_truncate(session, 1, &err), err);
    refused("sample", qinfer_session_sample(session, &token, &err), err);
    refused("set_sampler", qinfer_session_set_sampler(session, &sampler, &err), err);
    refused("set_bias", qinfer_session_set_bias(session, &token, &value, 1, &err), err);
    refused("eval", qinfer_eval(&session, 1, nullptr, &err), err);
    refused("generate", qinfer_generate(session, nullptr, nullptr, &err), err);
  }
  void look(qinfer_token last) {
    qinfer_error err = {};
    const std::vector<qinfer_token> tokens = tokens_in(session);
    if (tokens.size() != qinfer_session_length(session) || tokens.empty() || tokens.back() != last)
      failure += fmt::format("in call {} the session does not end with the token {}; ", calls, last);
    if (qinfer_session_pending(session) != 1)
      failure += fmt::format("{} tokens are pending; ", qinfer_session_pending(session));
    auto metrics = sized<qinfer_metrics>();
    auto memory = sized<qinfer_session_memory>();
    allowed("get_metrics", qinfer_session_get_metrics(session, &metrics, &err), err);
    allowed("get_memory", qinfer_session_get_memory(session, &memory, &err), err);
    qinfer_session* copy = nullptr;
    allowed("fork", qinfer_session_fork(session, &copy, &err), err);
    allowed("append to a fork", qinfer_session_append(copy, &last, 1, &err), err);
    qinfer_session_free(copy);
    allowed("save", qinfer_session_save(session, path.c_str(), &err), err);
  }
  static std::int32_t on_token(const char*, std::size_t, qinfer_token token, void* user) {
    auto& self = *static_cast<Intruder*>(user);
    ++self.calls;
    self.change();
    self.look(token);
    return 0;
  }
};

/// A model whose first tokens never end a generation.
TinySpec endless() {
  TinySpec spec;
  spec.seed = 3;
  return spec;
}

struct Generation {
  ModelDir dir{endless()};
  Runtime runtime = make_runtime(1);
  Model model = load_model(runtime, dir.path());
  Cache cache = make_cache(model);
  Session session = make_session(cache);
  qinfer_generate_options options = sized<qinfer_generate_options>();
  std::vector<qinfer_token> expected;

  Generation() {
    const Session undisturbed = make_session(cache);
    append(undisturbed, some_tokens(5));
    options.max_tokens = 12;
    REQUIRE_OK(qinfer_generate(undisturbed.get(), &options, nullptr, &err));
    expected = tokens_in(undisturbed.get());
    REQUIRE(expected.size() == 17);
    append(session, some_tokens(5));
  }
};

}  // namespace

TEST_CASE("In on_token the session takes no changes, answers, and generates as if undisturbed", "[hostile][busy]") {
  Generation g;
  Intruder intruder;
  intruder.session = g.session.get();
  intruder.path = g.dir.file("session");
  g.options.on_token = Intruder::on_token;
  g.options.user = &intruder;
  REQUIRE_OK(qinfer_generate(g.session.get(), &g.options, nullptr, &err));
  INFO(intruder.failure);
  REQUIRE(intruder.failure.empty());
  REQUIRE(intruder.calls == 12);
  REQUIRE(tokens_in(g.session.get()) == g.expected);
  append(g.session, {1});  // and afterwards it is free again
  eval(g.session);
  // The last one was saved in the last call.
  qinfer_session* loaded = nullptr;
  REQUIRE_OK(qinfer_session_load(g.cache.get(), intruder.path.c_str(), &loaded, &err));
  const Session last(loaded);
  REQUIRE(tokens_in(loaded) == g.expected);
}

TEST_CASE("A batch with a session that is in use names it, and the others stay free", "[hostile][busy]") {
  Generation g;
  struct Other {
    Session session;
    qinfer_session* batch[2];
    qinfer_status status;
    qinfer_error err;
  } other{make_session(g.cache), {}, QINFER_OK, {}};
  append(other.session, {1, 2, 3});
  other.batch[0] = other.session.get();
  other.batch[1] = g.session.get();
  g.options.max_tokens = 1;
  g.options.user = &other;
  g.options.on_token = [](const char*, std::size_t, qinfer_token, void* user) {
    auto& state = *static_cast<Other*>(user);
    state.status = qinfer_eval(state.batch, 2, nullptr, &state.err);
    return std::int32_t{0};
  };
  REQUIRE_OK(qinfer_generate(g.session.get(), &g.options, nullptr, &err));
  INFO(qinfer_status_name(other.status) << ": " << other.err.message);
  REQUIRE(other.status == QINFER_E_STATE);
  REQUIRE(other.err.detail == 1);
  REQUIRE_THAT(std::string(other.err.message), contains("sessions[1]: the session is in use"));
  REQUIRE(qinfer_session_pending(other.session.get()) == 3);
  REQUIRE_OK(qinfer_eval(other.batch, 2, nullptr, &err));
}

TEST_CASE("A second thread's append during a generation is refused, and taken afterwards", "[hostile][busy][threads]") {
  Generation g;
  struct Second {
    std::atomic<int> refused{0}, others{0};
    std::atomic<bool> begun{false};
    qinfer_error err = {};
  } second;
  g.options.user = &second;
  g.options.on_token = [](const char*, std::size_t, qinfer_token, void* user) {
    auto& state = *static_cast<Second*>(user);
    state.begun = true;
    while (state.refused == 0 && state.others == 0) std::this_thread::yield();  // until it has tried once
    return std::int32_t{0};
  };
  std::thread thread([&] {
    while (!second.begun) std::this_thread::yield();
    const qinfer_token token = 9;
    for (;;) {
      qinfer_error err = {};
      const qinfer_status status = qinfer_session_append(g.session.get(), &token, 1, &err);
      if (status == QINFER_OK) break;
      second.err = err;
      ++(status == QINFER_E_STATE ? second.refused : second.others);
      if (status != QINFER_E_STATE) break;
      std::this_thread::yield();
    }
    if (second.refused == 0) ++second.others;  // taken at once
  });
  qinfer_error err = {};
  const qinfer_status status = qinfer_generate(g.session.get(), &g.options, nullptr, &err);
  thread.join();
  INFO("generate: " << qinfer_status_name(status) << " " << err.message << "; append: refused " << second.refused
                    << " times, the last time with \"" << second.err.message << "\"");
  REQUIRE(status == QINFER_OK);
  REQUIRE(second.others == 0);
  REQUIRE(second.refused > 0);
  std::vector<qinfer_token> expected = g.expected;
  expected.push_back(9);
  REQUIRE(tokens_in(g.session.get()) == expected);
}

TEST_CASE("A generation cancelled after some tokens does not say that it had not begun", "[hostile][busy]") {
  for (const int at : {0, 1, 4, 11}) {
    Generation g;
    const Cancel cancel = make_cancel();
    struct State {
      qinfer_cancel* cancel;
      int calls, at;
    } state{cancel.get(), 0, at};
    g.options.cancel = cancel.get();
    g.options.user = &state;
    g.options.on_token = [](const char*, std::size_t, qinfer_token, void* user) {
      auto& self = *static_cast<State*>(user);
      if (++self.calls == self.at) qinfer_cancel_request(self.cancel);
      return std::int32_t{0};
    };
    if (at == 0) qinfer_cancel_request(cancel.get());
    auto result = sized<qinfer_generate_result>();
    qinfer_error err = {};
    const qinfer_status status = qinfer_generate(g.session.get(), &g.options, &result, &err);
    INFO("cancelled after " << at << " tokens: " << qinfer_status_name(status) << ", " << err.message);
    REQUIRE(status == QINFER_E_CANCELLED);
    REQUIRE(result.new_tokens == static_cast<std::uint32_t>(at));
    REQUIRE(std::string(err.message) == "the generation was cancelled: the tokens made so far stay");
    qinfer_cancel_reset(cancel.get());
    g.options.max_tokens = static_cast<std::uint32_t>(12 - at);
    state.at = -1;
    REQUIRE_OK(qinfer_generate(g.session.get(), &g.options, nullptr, &err));
    REQUIRE(tokens_in(g.session.get()) == g.expected);
  }
}

namespace {

/// A struct as a later version of the library has it.
template <typename T>
struct Longer {
  T known;
  std::uint32_t tail[4];
};

template <typename T>
Longer<T> longer() {
  Longer<T> value;
  std::memset(&value, 0, sizeof value);
  value.known.struct_size = sizeof value;
  return value;
}

}  // namespace

TEST_CASE("qinfer_session_load_options of other versions", "[hostile][structs]") {
  const Saved saved(2);
  saved.damage(saved.newer() + 8);
  const auto load = [&](const qinfer_session_load_options* options, qinfer_error* err) {
    qinfer_session* session = nullptr;
    const qinfer_status status =
        qinfer_session_load_with(saved.loaded.cache.get(), saved.path.c_str(), options, &session, nullptr, err);
    qinfer_session_free(session);
    return status;
  };
  auto options = longer<qinfer_session_load_options>();
  REQUIRE_OK(load(&options.known, &err));
  options.known.flags = QINFER_SNAPSHOT_NO_RECOVERY;
  REQUIRE_FAILS(QINFER_E_FORMAT, "damaged", load(&options.known, &err));
  options.known.struct_size = sizeof options.known.struct_size;  // without the flags
  REQUIRE_OK(load(&options.known, &err));
  options = longer<qinfer_session_load_options>();
  for (std::uint32_t& member : options.tail) {
    member = 1;
    REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "qinfer_session_load_options", load(&options.known, &err));
    member = 0;
  }
  for (const std::uint32_t size : {0u, 3u, 5000u}) {
    options.known.struct_size = size;
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_session_load_options.struct_size", load(&options.known, &err));
  }
  auto unknown = sized<qinfer_session_load_options>();
  unknown.flags = 4;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "qinfer_session_load_options.flags", load(&unknown, &err));
  REQUIRE_OK(load(nullptr, &err));
}

TEST_CASE("qinfer_session_load_result of other versions", "[hostile][structs]") {
  const Saved saved(2);
  saved.damage(saved.newer() + 8);
  const auto load = [&](qinfer_session_load_result* result, qinfer_error* err) {
    qinfer_session* session = nullptr;
    const qinfer_status status =
        qinfer_session_load_with(saved.loaded.cache.get(), saved.path.c_str(), nullptr, &session, result, err);
    qinfer_session_free(session);
    return status;
  };
  Longer<qinfer_session_load_result> result;
  std::memset(&result, 0x55, sizeof result);
  result.known.struct_size = sizeof result;
  REQUIRE_OK(load(&result.known, &err));
  REQUIRE(result.known.struct_size == sizeof result);
  REQUIRE(result.known.flags == QINFER_SNAPSHOT_RECOVERED);
  REQUIRE(result.known.tokens == 40);
  REQUIRE(result.known.evaluated_tokens == 40);
  for (const std::uint32_t member : result.tail) REQUIRE(member == 0);
  std::memset(&result, 0x55, sizeof result);
  result.known.struct_size = 8;  // the flags only
  REQUIRE_OK(load(&result.known, &err));
  REQUIRE(result.known.struct_size == 8);
  REQUIRE(result.known.flags == QINFER_SNAPSHOT_RECOVERED);
  REQUIRE(result.known.tokens == 0x5555555555555555);
  for (const std::uint32_t member : result.tail) REQUIRE(member == 0x55555555);
  for (const std::uint32_t size : {0u, 3u, 5000u}) {
    result.known.struct_size = size;
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "qinfer_session_load_result.struct_size", load(&result.known, &err));
  }
}
