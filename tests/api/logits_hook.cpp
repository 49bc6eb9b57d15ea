// The logits hook: what it may change and refuse, which tokens it is told about, forks, and who frees it when.
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>

#include <qinfer/qinfer.hpp>

#include "kv/support.h"
#include "support/c_api.h"

using namespace qinfer::test;

namespace {

/// A model whose first tokens never end a generation.
TinySpec endless() {
  TinySpec spec;
  spec.seed = 3;
  return spec;
}

/// The host's side of a hook; what it is told is written down here.
struct Recorder {
  std::vector<qinfer_token> accepted;
  std::set<qinfer_token> allowed;  ///< empty: all
  std::vector<std::size_t> rewound;
  int applied = 0, cloned = 0, released = 0;
  int cancel_apply = 0, cancel_accept = 0, cancel_rewind = 0, cancel_clone = 0;  ///< what the callbacks return
  float poison = 0;                                                              ///< written for token 7, if not 0
  Recorder* clone = nullptr;                                                     ///< the user of forks
  std::vector<float> seen;                                                       ///< by the last apply
  std::string failure;
  void (*inside)(const qinfer_session*, Recorder&) = nullptr;

  static std::int32_t on_apply(const qinfer_session* session, float* logits, std::uint32_t n_vocab, void* user) {
    auto& self = *static_cast<Recorder*>(user);
    ++self.applied;
    self.seen.assign(logits, logits + n_vocab);
    if (!self.allowed.empty())
      for (std::uint32_t i = 0; i < n_vocab; ++i)
        if (self.allowed.count(static_cast<qinfer_token>(i)) == 0) logits[i] = -INFINITY;
    if (self.poison != 0) logits[7] = self.poison;
    if (self.inside != nullptr) self.inside(session, self);
    return self.cancel_apply;
  }
  static std::int32_t on_accept(qinfer_token token, void* user) {
    auto& self = *static_cast<Recorder*>(user);
    if (self.cancel_accept == 0) self.accepted.push_back(token);
    return self.cancel_accept;
  }
  static std::int32_t on_rewind(std::size_t n, void* user) {
    auto& self = *static_cast<Recorder*>(user);
    if (self.cancel_rewind != 0) return self.cancel_rewind;
    self.rewound.push_back(n);
    if (n > self.accepted.size()) {
      self.failure += "rewound further than accepted; ";
      return 0;
    }
    self.accepted.resize(self.accepted.size() - n);
    return 0;
  }
  static std::int32_t on_clone(void* user, void** out) {
    auto& self = *static_cast<Recorder*>(user);
    if (self.cancel_clone != 0) return self.cancel_clone;
    ++self.cloned;
    self.clone->accepted = self.accepted;
    *out = self.clone;
    return 0;
  }
  static void on_release(void* user) { ++static_cast<Recorder*>(user)->released; }

  qinfer_logits_hook hook() {
    auto hook = sized<qinfer_logits_hook>();
    hook.apply = on_apply;
    hook.accept = on_accept;
    hook.rewind = on_rewind;
    hook.clone = on_clone;
    hook.release = on_release;
    hook.user = this;
    return hook;
  }
  void set(const Session& session) {
    const qinfer_logits_hook set = hook();
    REQUIRE_OK(qinfer_session_set_logits_hook(session.get(), &set, &err));
  }
};

std::vector<qinfer_token> tokens_in(const Session& session) {
  std::vector<qinfer_token> tokens(qinfer_session_length(session.get()));
  std::size_t n = 0;
  REQUIRE_OK(qinfer_session_get_tokens(session.get(), tokens.data(), tokens.size(), &n, &err));
  return tokens;
}

qinfer_token sample(const Session& session) {
  qinfer_token token = -1;
  REQUIRE_OK(qinfer_session_sample(session.get(), &token, &err));
  return token;
}

struct Loaded {
  ModelDir dir{endless()};
  Runtime runtime = make_runtime(1);
  Model model = load_model(runtime, dir.path());
  Cache cache = make_cache(model);
  std::uint32_t n_vocab = 0;

  Loaded() {
    auto info = sized<qinfer_model_info>();
    REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
    n_vocab = info.n_vocab;
  }
  /// With five evaluated tokens.
  Session session() const {
    Session session = make_session(cache);
    append(session, some_tokens(5));
    eval(session);
    return session;
  }
};

}  // namespace

TEST_CASE("A mask inside qinfer_generate decides what is drawn, greedy and drawn alike", "[api][hook]") {
  const Loaded loaded;
  for (const float temperature : {0.0f, 5.0f}) {
    Recorder recorder;
    recorder.allowed = {40, 41, 42};
    const Session session = loaded.session();
    auto sampler = sized<qinfer_sampler_options>();
    sampler.temperature = temperature;
    sampler.top_k = 50;
    sampler.repeat_penalty = 1.2f;
    REQUIRE_OK(qinfer_session_set_sampler(session.get(), &sampler, &err));
    recorder.set(session);
    auto options = sized<qinfer_generate_options>();
    options.max_tokens = 20;
    auto result = sized<qinfer_generate_result>();
    REQUIRE_OK(qinfer_generate(session.get(), &options, &result, &err));
    REQUIRE(result.new_tokens == 20);
    const std::vector<qinfer_token> tokens = tokens_in(session);
    REQUIRE(std::vector<qinfer_token>(tokens.begin() + 5, tokens.end()) == recorder.accepted);
    for (const qinfer_token token : recorder.accepted) CHECK(recorder.allowed.count(token) == 1);
    REQUIRE(recorder.applied == 20);
    REQUIRE(recorder.released == 0);
  }
}

TEST_CASE("A hook that changes nothing changes no draw, and sees the raw logits", "[api][hook]") {
  const Loaded loaded;
  const Session plain = loaded.session(), hooked = loaded.session();
  auto sampler = sized<qinfer_sampler_options>();
  sampler.temperature = 3;
  sampler.top_p = 0.9f;
  sampler.frequency_penalty = 0.5f;
  sampler.seed = 12;
  const qinfer_token biased[] = {3};
  const float bias[] = {4};
  for (const Session* session : {&plain, &hooked}) {
    REQUIRE_OK(qinfer_session_set_sampler(session->get(), &sampler, &err));
    REQUIRE_OK(qinfer_session_set_bias(session->get(), biased, bias, 1, &err));
  }
  Recorder recorder;
  recorder.set(hooked);
  for (int i = 0; i < 30; ++i) {
    const std::vector<float> raw = last_logits(hooked, loaded.n_vocab);
    REQUIRE(sample(plain) == sample(hooked));
    REQUIRE(same_bits(recorder.seen, raw));
    REQUIRE(same_bits(last_logits(hooked, loaded.n_vocab), raw));
    eval(plain);
    eval(hooked);
  }
  REQUIRE(recorder.applied == 30);
}

TEST_CASE("What the hook writes does not reach the session's own logits", "[api][hook]") {
  const Loaded loaded;
  const Session session = loaded.session();
  const std::vector<float> raw = last_logits(session, loaded.n_vocab);
  Recorder recorder;
  recorder.allowed = {100};
  recorder.set(session);
  REQUIRE(sample(session) == 100);
  REQUIRE(same_bits(last_logits(session, loaded.n_vocab), raw));
}

TEST_CASE("A hook that leaves nothing, or no number, is QINFER_E_NUMERIC and changes nothing", "[api][hook]") {
  const Loaded loaded;
  const Session session = loaded.session();
  Recorder recorder;
  recorder.set(session);
  const std::vector<qinfer_token> before = tokens_in(session);
  qinfer_token token = 0;
  const auto refused = [&](const char* text) {
    REQUIRE_FAILS(QINFER_E_NUMERIC, text, qinfer_session_sample(session.get(), &token, &err));
    REQUIRE(token == -1);
    auto result = sized<qinfer_generate_result>();
    REQUIRE_FAILS(QINFER_E_NUMERIC, text, qinfer_generate(session.get(), nullptr, &result, &err));
    REQUIRE(result.new_tokens == 0);
    REQUIRE(tokens_in(session) == before);
    REQUIRE(qinfer_session_pending(session.get()) == 0);
    REQUIRE(recorder.accepted.empty());
  };
  recorder.allowed = {-1};
  refused("forbids every token");
  recorder.allowed = {};
  recorder.poison = std::numeric_limits<float>::quiet_NaN();
  refused("wrote nan for token 7");
  recorder.poison = INFINITY;
  refused("wrote inf for token 7");
  recorder.poison = 0;
  const Session same = loaded.session();
  REQUIRE(sample(session) == sample(same));
}

TEST_CASE("A callback that returns nonzero cancels, and the session is as before", "[api][hook]") {
  const Loaded loaded;
  const Session session = loaded.session();
  Recorder recorder, of_fork;
  recorder.clone = &of_fork;
  recorder.set(session);
  const std::vector<qinfer_token> before = tokens_in(session);
  qinfer_token token = 0;
  recorder.cancel_apply = -3;
  REQUIRE_FAILS(QINFER_E_CANCELLED, "apply function", qinfer_session_sample(session.get(), &token, &err));
  REQUIRE_FAILS(QINFER_E_CANCELLED, "apply function", qinfer_generate(session.get(), nullptr, nullptr, &err));
  recorder.cancel_apply = 0;
  recorder.cancel_accept = 1;
  REQUIRE_FAILS(QINFER_E_CANCELLED, "accept function", qinfer_session_sample(session.get(), &token, &err));
  REQUIRE_FAILS(QINFER_E_CANCELLED, "accept function", qinfer_generate(session.get(), nullptr, nullptr, &err));
  REQUIRE(token == -1);
  recorder.cancel_accept = 0;
  REQUIRE(tokens_in(session) == before);
  REQUIRE(qinfer_session_pending(session.get()) == 0);
  const Session same = loaded.session();
  REQUIRE(sample(session) == sample(same));

  recorder.cancel_rewind = 1;
  REQUIRE_FAILS(QINFER_E_CANCELLED, "rewind function", qinfer_session_truncate(session.get(), 5, &err));
  REQUIRE(qinfer_session_length(session.get()) == 6);
  REQUIRE(qinfer_session_pending(session.get()) == 1);
  recorder.cancel_clone = 1;
  qinfer_session* copy = reinterpret_cast<qinfer_session*>(1);
  REQUIRE_FAILS(QINFER_E_CANCELLED, "clone function", qinfer_session_fork(session.get(), &copy, &err));
  REQUIRE(copy == nullptr);
  recorder.cancel_rewind = recorder.cancel_clone = 0;
  REQUIRE_OK(qinfer_session_truncate(session.get(), 5, &err));
  REQUIRE(recorder.rewound == std::vector<std::size_t>{1});  // the refused accepts were never counted
  REQUIRE(recorder.failure.empty());
  REQUIRE(recorder.released == 0);
  REQUIRE(of_fork.released == 0);
}

TEST_CASE("A cancelled generation keeps and counts the tokens that were accepted", "[api][hook]") {
  const Loaded loaded;
  const Session session = loaded.session();
  Recorder recorder;
  recorder.inside = [](const qinfer_session*, Recorder& self) { self.cancel_apply = self.applied > 4; };
  recorder.set(session);
  auto result = sized<qinfer_generate_result>();
  REQUIRE_FAILS(QINFER_E_CANCELLED, "apply function", qinfer_generate(session.get(), nullptr, &result, &err));
  REQUIRE(result.new_tokens == 4);
  REQUIRE(result.finish == 0);
  REQUIRE(recorder.accepted.size() == 4);
  REQUIRE(qinfer_session_length(session.get()) == 9);
}

TEST_CASE("Rewinding counts accepted tokens only, across the host's own", "[api][hook]") {
  const Loaded loaded;
  const Session session = loaded.session();
  REQUIRE(sample(session) >= 0);  // before there was a hook
  eval(session);
  Recorder recorder;
  recorder.set(session);
  // Accepted: 70 in a row, 3 of the host, then 2 more.
  auto options = sized<qinfer_generate_options>();
  options.max_tokens = 70;
  recorder.allowed = {40, 41};
  REQUIRE_OK(qinfer_generate(session.get(), &options, nullptr, &err));
  append(session, {1, 2, 3});
  options.max_tokens = 2;
  REQUIRE_OK(qinfer_generate(session.get(), &options, nullptr, &err));
  REQUIRE(qinfer_session_length(session.get()) == 81);
  REQUIRE(recorder.accepted.size() == 72);

  REQUIRE_OK(qinfer_session_truncate(session.get(), 80, &err));
  REQUIRE_OK(qinfer_session_truncate(session.get(), 80, &err));  // nothing goes
  REQUIRE_OK(qinfer_session_truncate(session.get(), 77, &err));  // one of them and two of the host's
  REQUIRE_OK(qinfer_session_truncate(session.get(), 76, &err));  // the host's
  REQUIRE_OK(qinfer_session_truncate(session.get(), 64, &err));
  REQUIRE(recorder.rewound == std::vector<std::size_t>{1, 1, 12});
  append(session, some_tokens(12));  // in the places of accepted ones
  eval(session);
  REQUIRE_OK(qinfer_session_truncate(session.get(), 65, &err));
  REQUIRE(recorder.rewound.size() == 3);
  REQUIRE_OK(qinfer_session_truncate(session.get(), 0, &err));
  REQUIRE(recorder.rewound == std::vector<std::size_t>{1, 1, 12, 58});
  REQUIRE(recorder.accepted.empty());
  REQUIRE(recorder.failure.empty());
}

TEST_CASE("A fork has a clone of the hook, or none", "[api][hook]") {
  const Loaded loaded;
  Recorder recorder, of_fork;
  recorder.allowed = {40};
  of_fork.allowed = {50};
  recorder.clone = &of_fork;
  {
    const Session session = loaded.session();
    recorder.set(session);
    REQUIRE(sample(session) == 40);
    eval(session);
    of_fork.inside = [](const qinfer_session* seen, Recorder& self) {
      if (qinfer_session_length(seen) != 6) self.failure += "apply was called with another session; ";
    };
    qinfer_session* created = nullptr;
    REQUIRE_OK(qinfer_session_fork(session.get(), &created, &err));
    Session copy(created);
    REQUIRE(recorder.cloned == 1);
    append(session, {1, 2});
    eval(session);
    REQUIRE(sample(copy) == 50);
    REQUIRE(of_fork.failure.empty());
    REQUIRE(of_fork.accepted == std::vector<qinfer_token>{40, 50});
    REQUIRE_OK(qinfer_session_truncate(copy.get(), 5, &err));  // both of them: the one before the fork, too
    REQUIRE(of_fork.rewound == std::vector<std::size_t>{2});
    REQUIRE(recorder.accepted == std::vector<qinfer_token>{40});
    copy.reset();
    REQUIRE(of_fork.released == 1);
    REQUIRE(recorder.released == 0);

    qinfer_logits_hook lone = recorder.hook();
    lone.clone = nullptr;
    REQUIRE_OK(qinfer_session_set_logits_hook(session.get(), &lone, &err));
    REQUIRE(recorder.released == 1);
    REQUIRE_OK(qinfer_session_fork(session.get(), &created, &err));
    copy.reset(created);
    const int applied = recorder.applied + of_fork.applied;
    sample(copy);
    REQUIRE(recorder.applied + of_fork.applied == applied);
  }
  REQUIRE(recorder.released == 2);
  REQUIRE(of_fork.released == 1);
}

TEST_CASE("Replacing, clearing and freeing release a hook once, and a refused one stays the host's", "[api][hook]") {
  const Loaded loaded;
  Recorder first, second, refused;
  {
    const Session session = loaded.session();
    first.set(session);
    second.set(session);
    REQUIRE(first.released == 1);
    qinfer_logits_hook bad = refused.hook();
    bad.apply = nullptr;
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "apply is NULL",
                  qinfer_session_set_logits_hook(session.get(), &bad, &err));
    bad = refused.hook();
    bad.struct_size = 2;
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "struct_size", qinfer_session_set_logits_hook(session.get(), &bad, &err));
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "session is NULL", qinfer_session_set_logits_hook(nullptr, &bad, &err));
    sample(session);
    REQUIRE(second.applied == 1);  // it is still there
    REQUIRE_OK(qinfer_session_set_logits_hook(session.get(), nullptr, &err));
    REQUIRE(second.released == 1);
    REQUIRE_OK(qinfer_session_set_logits_hook(session.get(), nullptr, &err));
    eval(session);
    sample(session);
    REQUIRE(second.applied == 1);
    REQUIRE_OK(qinfer_session_truncate(session.get(), 3, &err));
    REQUIRE(second.rewound.empty());
  }
  REQUIRE(first.released + second.released == 2);
  REQUIRE(refused.released == 0);
}

TEST_CASE("Inside the callbacks a session answers, and takes no changes", "[api][hook]") {
  const Loaded loaded;
  const Session session = loaded.session(), undisturbed = loaded.session();
  Recorder recorder, of_fork;
  recorder.clone = &of_fork;
  recorder.inside = [](const qinfer_session* seen, Recorder& self) {
    auto* session = const_cast<qinfer_session*>(seen);
    const qinfer_token token = 1;
    const float value = 1;
    qinfer_token out = 0;
    const auto refused = [&](const char* call, qinfer_status status) {
      if (status != QINFER_E_STATE) self.failure += std::string(call) + " gave " + qinfer_status_name(status) + "; ";
    };
    refused("append", qinfer_session_append(session, &token, 1, nullptr));
    refused("truncate", qinfer_session_truncate(session, 1, nullptr));
    refused("sample", qinfer_session_sample(session, &out, nullptr));
    refused("set_bias", qinfer_session_set_bias(session, &token, &value, 1, nullptr));
    refused("set_logits_hook", qinfer_session_set_logits_hook(session, nullptr, nullptr));
    refused("eval", qinfer_eval(&session, 1, nullptr, nullptr));
    refused("generate", qinfer_generate(session, nullptr, nullptr, nullptr));
    qinfer_session* copy = nullptr;
    if (qinfer_session_fork(seen, &copy, nullptr) != QINFER_OK) self.failure += "it cannot be forked; ";
    if (qinfer_session_length(copy) != qinfer_session_length(seen)) self.failure += "the fork has another length; ";
    qinfer_session_free(copy);
    if (qinfer_session_logits(seen, 0) == nullptr) self.failure += "it has no logits; ";
  };
  recorder.set(session);
  auto options = sized<qinfer_generate_options>();
  options.max_tokens = 6;
  REQUIRE_OK(qinfer_generate(session.get(), &options, nullptr, &err));
  REQUIRE_OK(qinfer_generate(undisturbed.get(), &options, nullptr, &err));
  INFO(recorder.failure);
  REQUIRE(recorder.failure.empty());
  REQUIRE(recorder.applied == 6);
  REQUIRE(of_fork.released == 6);
  REQUIRE(tokens_in(session) == tokens_in(undisturbed));
  append(session, {1});  // and it is free again
}

TEST_CASE("A snapshot holds no hook", "[api][hook]") {
  const Loaded loaded;
  const Session session = loaded.session();
  Recorder recorder;
  recorder.allowed = {40};
  recorder.set(session);
  sample(session);
  const std::string path = loaded.dir.file("session");
  REQUIRE_OK(qinfer_session_save(session.get(), path.c_str(), &err));
  qinfer_session* created = nullptr;
  REQUIRE_OK(qinfer_session_load(loaded.cache.get(), path.c_str(), &created, &err));
  const Session copy(created);
  eval(copy);
  sample(copy);
  REQUIRE(recorder.applied == 1);
  REQUIRE_OK(qinfer_session_truncate(copy.get(), 2, &err));
  REQUIRE(recorder.rewound.empty());
}

TEST_CASE("The hook of the C++ host: members, clones, and exceptions that cancel", "[api][hook]") {
  struct Only final : qi::LogitsHook {
    explicit Only(qi::Token token) : token(token) {}
    bool apply(float* logits, std::uint32_t n_vocab) override {
      if (token < 0) throw std::runtime_error("no token");
      for (std::uint32_t i = 0; i < n_vocab; ++i)
        if (static_cast<qi::Token>(i) != token) logits[i] = -INFINITY;
      return true;
    }
    std::unique_ptr<qi::LogitsHook> clone() const override {
      return token == 9 ? nullptr : std::make_unique<Only>(token + 1);
    }
    qi::Token token;
  };
  const ModelDir dir{endless()};
  const qi::Model model = qi::Model::load(dir.path());
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(some_tokens(5));
  session.eval();
  session.set_logits_hook(std::make_unique<Only>(20));
  qi::Session copy = session.fork();
  REQUIRE(session.sample() == 20);
  REQUIRE(copy.sample() == 21);
  session.set_logits_hook(std::make_unique<Only>(9));
  session.eval();
  qi::Session without = session.fork();
  session.set_logits_hook(nullptr);
  REQUIRE(without.sample() == session.sample());
  copy.set_logits_hook(std::make_unique<Only>(-1));
  copy.eval();
  try {
    copy.sample();
    FAIL("the exception was lost");
  } catch (const qi::Error& error) {
    REQUIRE(error.status() == QINFER_E_CANCELLED);
  }
}
