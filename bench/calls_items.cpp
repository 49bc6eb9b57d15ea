// See calls_items.h.
#include "calls_items.h"

#include "statistics.h"

namespace qinfer::bench {
namespace {

constexpr std::uint32_t kPrompt = 8;        // tokens before the first that is sampled
constexpr std::uint32_t kDecoded = 32;      // tokens of a repetition of "decode"
constexpr std::uint32_t kSessions = 8;      // evaluated together
constexpr std::uint32_t kTogether = 16;     // tokens of each of them
constexpr std::uint32_t kSaved = 256;       // tokens of a session that is forked, saved and loaded, at most
constexpr std::uint32_t kMore = 16;         // tokens that it has more when it is saved again
constexpr std::uint32_t kBlock = 32;        // tokens
constexpr double kMeasuredSeconds = 0.02;   // repetitions go on until this much was timed
constexpr double kPatienceSeconds = 0.3;    // or this much time has passed
constexpr std::size_t kFewRepetitions = 3;  // and there are at least this many

}  // namespace

double Subject::text_bytes() const {
  double sum = 0;
  for (const std::string& text : texts) sum += static_cast<double>(text.size());
  return sum;
}

// ---- Contestant ----

Contestant::Contestant(const Library& library, const Subject& subject)
    : library_(library),
      subject_(subject),
      options_(blank<qinfer_runtime_options>()),
      info_(blank<qinfer_model_info>()) {
  options_.n_threads = options_.n_cpu_ids = static_cast<std::uint32_t>(subject.cpus.size());
  options_.cpu_ids = subject.cpus.data();
  runtime_ = library.take<qinfer_runtime>(
      [&](auto** out, auto* error) { return library.call.runtime_create(&options_, out, error); },
      library.call.runtime_free);
  if (!subject.tokenizer.empty()) tokenizer_ = load(subject.tokenizer, QINFER_LOAD_NO_WEIGHTS);
  if (subject.model.empty()) return;
  model_ = load(subject.model, 0);
  qinfer_error error{};
  library.expect(library.call.model_get_info(model_.get(), &info_, &error), error);
  if (!decodes()) return;
  auto options = blank<qinfer_kv_cache_options>();
  options.block_tokens = kBlock;
  options.budget_blocks = 2 * kSessions * (session_tokens() / kBlock + 2);
  cache_ = library.take<qinfer_kv_cache>(
      [&](auto** out, auto* e) { return library.call.kv_cache_create(model_.get(), &options, out, e); },
      library.call.kv_cache_free);
}

bool Contestant::has_tokenizer() const {
  std::size_t n = 0;
  qinfer_error error{};
  const qinfer_status status = library_.call.tokenize(text_model().get(), "a", 1, 0, nullptr, 0, &n, &error);
  return status == QINFER_OK || status == QINFER_E_BUFFER_TOO_SMALL;
}

std::vector<qinfer_token> Contestant::tokenise() const {
  std::vector<qinfer_token> all;
  for (const std::string& text : subject_.texts) {
    std::size_t n = 0;
    qinfer_error error{};
    const qinfer_status status =
        library_.call.tokenize(text_model().get(), text.data(), text.size(), 0, nullptr, 0, &n, &error);
    if (status != QINFER_E_BUFFER_TOO_SMALL) library_.expect(status, error);
    const std::size_t before = all.size();
    all.resize(before + n);
    library_.expect(
        library_.call.tokenize(text_model().get(), text.data(), text.size(), 0, all.data() + before, n, &n, &error),
        error);
  }
  return all;
}

Model Contestant::load(const std::string& path, std::uint32_t flags) const {
  auto options = blank<qinfer_load_options>();
  options.flags = flags;
  return library_.take<qinfer_model>(
      [&](auto** out, auto* error) {
        return library_.call.model_load(runtime_.get(), path.c_str(), &options, out, error);
      },
      library_.call.model_free);
}

Cache Contestant::default_cache(const Model& model) const {
  return library_.take<qinfer_kv_cache>(
      [&](auto** out, auto* error) { return library_.call.kv_cache_create(model.get(), nullptr, out, error); },
      library_.call.kv_cache_free);
}

Session Contestant::create_session(const Cache& cache, std::uint32_t max_tokens) const {
  auto options = blank<qinfer_session_options>();
  options.max_tokens = max_tokens;
  return library_.take<qinfer_session>(
      [&](auto** out, auto* error) { return library_.call.session_create(cache.get(), &options, out, error); },
      library_.call.session_free);
}

Session Contestant::session(std::uint32_t n_tokens, std::uint32_t seed) const {
  Session created = create_session(cache_, session_tokens());
  append(created, n_tokens, seed);
  eval(created);
  return created;
}

Session Contestant::fork(const Session& session) const {
  return library_.take<qinfer_session>(
      [&](auto** out, auto* error) { return library_.call.session_fork(session.get(), out, error); },
      library_.call.session_free);
}

Session Contestant::load_session(const std::string& path) const {
  return library_.take<qinfer_session>(
      [&](auto** out, auto* error) { return library_.call.session_load(cache_.get(), path.c_str(), out, error); },
      library_.call.session_free);
}

void Contestant::save(const Session& session, const std::string& path) const {
  qinfer_error error{};
  library_.expect(library_.call.session_save(session.get(), path.c_str(), &error), error);
}

void Contestant::truncate(const Session& session, std::size_t n_tokens) const {
  qinfer_error error{};
  library_.expect(library_.call.session_truncate(session.get(), n_tokens, &error), error);
}

void Contestant::append(const Session& session, std::uint32_t n_tokens, std::uint32_t seed) const {
  std::vector<qinfer_token> tokens(n_tokens);
  for (std::size_t i = 0; i < n_tokens; ++i) tokens[i] = static_cast<qinfer_token>((i + seed) * 7919 % info_.n_vocab);
  qinfer_error error{};
  library_.expect(library_.call.session_append(session.get(), tokens.data(), tokens.size(), &error), error);
}

void Contestant::eval(const std::vector<qinfer_session*>& sessions) const {
  qinfer_error error{};
  library_.expect(library_.call.eval(sessions.data(), sessions.size(), nullptr, &error), error);
}

void Contestant::sample(qinfer_session* session) const {
  qinfer_token token = 0;
  qinfer_error error{};
  library_.expect(library_.call.session_sample(session, &token, &error), error);
}

// ---- Items ----

namespace {

Repetition prepare_tokenise(const Contestant& c) {
  std::vector<qinfer_token> tokens(c.tokenise().size());
  return [&c, tokens]() mutable {
    const Library& library = c.library();
    qinfer_token* at = tokens.data();
    const Stopwatch watch = c.start();
    for (const std::string& text : c.subject().texts) {
      std::size_t n = 0;
      qinfer_error error{};
      const std::size_t room = static_cast<std::size_t>(tokens.data() + tokens.size() - at);
      library.expect(library.call.tokenize(c.text_model().get(), text.data(), text.size(), 0, at, room, &n, &error),
                     error);
      at += n;
    }
    return watch.seconds();
  };
}

/// A conversation of 21 messages with 5 tools.
std::string conversation() {
  std::string messages = R"({"role": "system", "content": "You are a helpful assistant."})", tools;
  for (int i = 0; i < 10; ++i)
    messages += R"(, {"role": "user", "content": "What is the weather like in Paris on day )" + std::to_string(i) +
                R"(? Please tell me more about it."}, {"role": "assistant", "content": )"
                R"("It is sunny and 21 degrees, with a light wind from the west."})";
  for (int i = 0; i < 5; ++i)
    tools += std::string(i == 0 ? "" : ", ") + R"({"type": "function", "function": {"name": "tool)" +
             std::to_string(i) +
             R"(", "description": "Does something useful, really.", "parameters": {"type": "object", "properties": )"
             R"({"city": {"type": "string", "description": "Where"}, "days": {"type": "integer", "description": )"
             R"("How far"}}, "required": ["city"]}}})";
  return R"({"messages": [)" + messages + R"(], "tools": [)" + tools + "]}";
}

qinfer_status tokenise_chat(const Contestant& c, const std::string& text, std::vector<qinfer_token>& tokens,
                            qinfer_error& error) {
  auto options = blank<qinfer_chat_options>();
  if (!c.subject().chat_template.empty()) options.template_text = c.subject().chat_template.c_str();
  std::size_t n = 0;
  return c.library().call.chat_tokenize(c.text_model().get(), text.data(), text.size(), &options, tokens.data(),
                                        tokens.size(), &n, &error);
}

Repetition prepare_chat(const Contestant& c) {
  return [&c, text = conversation(), tokens = std::vector<qinfer_token>(16384)]() mutable {
    qinfer_error error{};
    const Stopwatch watch = c.start();
    c.library().expect(tokenise_chat(c, text, tokens, error), error);
    return watch.seconds();
  };
}

bool has_chat(const Contestant& c) {
  std::vector<qinfer_token> tokens(16384);
  qinfer_error error{};
  return tokenise_chat(c, conversation(), tokens, error) == QINFER_OK;
}

/// Loading alone; what was loaded is freed after the clock has stopped.
std::function<Repetition(const Contestant&)> loading(const std::string& path, std::uint32_t flags) {
  return [=](const Contestant& c) -> Repetition {
    return [&c, path, flags] {
      const Stopwatch watch = c.start();
      const Model loaded = c.load(path, flags);
      return watch.seconds();
    };
  };
}

Repetition prepare_plan(const Contestant& c) {
  return [&c] {
    auto memory = blank<qinfer_memory>();
    qinfer_error error{};
    const Stopwatch watch = c.start();
    c.library().expect(c.library().call.model_plan(c.subject().model.c_str(), &c.runtime_options(), nullptr, nullptr,
                                                   nullptr, &memory, &error),
                       error);
    return watch.seconds();
  };
}

Repetition prepare_create(const Contestant& c) {
  // Not the contestant's own cache, which is too small for a session with defaults.
  return [&c, cache = c.default_cache(c.model())] {
    const Stopwatch watch = c.start();
    const Session created = c.create_session(cache, 0);
    return watch.seconds();
  };
}

/// From a loaded model to the first token, or with loading. What one build does at load another may do at the first
/// session, so only the two together are a fair comparison of what starting costs.
Repetition prepare_first_token(const Contestant& c, bool with_load) {
  return [&c, with_load] {
    const Stopwatch whole = c.start();
    const Model model = c.load(c.subject().model, 0);
    const Stopwatch after_load = c.start();
    const Cache cache = c.default_cache(model);
    const Session session = c.create_session(cache, 0);
    c.append(session, kPrompt);
    c.eval(session);
    c.sample(session.get());
    return with_load ? whole.seconds() : after_load.seconds();
  };
}

std::uint32_t saved_tokens(const Contestant& c) { return std::min(kSaved, c.session_tokens() / 2); }

Repetition prepare_fork(const Contestant& c) {
  return [&c, session = c.session(saved_tokens(c))] {
    const Stopwatch watch = c.start();
    const Session copy = c.fork(session);
    return watch.seconds();
  };
}

Repetition prepare_save_new(const Contestant& c) {
  return [&c, session = c.session(saved_tokens(c)), path = c.subject().scratch / "session"] {
    std::filesystem::remove(path);
    const Stopwatch watch = c.start();
    c.save(session, path.string());
    return watch.seconds();
  };
}

Repetition prepare_save_more(const Contestant& c) {
  const std::filesystem::path path = c.subject().scratch / "session";
  std::filesystem::remove(path);
  const Session session = c.session(saved_tokens(c));
  c.save(session, path.string());
  return [&c, session, path] {
    if (c.library().call.session_length(session.get()) + kMore > c.session_tokens()) {
      c.truncate(session, saved_tokens(c));
      c.eval(session);
      std::filesystem::remove(path);
      c.save(session, path.string());
    }
    c.append(session, kMore);
    c.eval(session);
    const Stopwatch watch = c.start();
    c.save(session, path.string());
    return watch.seconds();
  };
}

Repetition prepare_load_session(const Contestant& c) {
  const std::filesystem::path path = c.subject().scratch / "session";
  std::filesystem::remove(path);
  c.save(c.session(saved_tokens(c)), path.string());
  return [&c, path] {
    const Stopwatch watch = c.start();
    const Session loaded = c.load_session(path.string());
    return watch.seconds();
  };
}

Repetition prepare_prefill(const Contestant& c, std::uint32_t n_tokens) {
  return [&c, n_tokens, session = c.session(kPrompt)] {
    c.truncate(session, 0);
    c.append(session, n_tokens);
    const Stopwatch watch = c.start();
    c.eval(session);
    return watch.seconds();
  };
}

Repetition prepare_decode(const Contestant& c, std::uint32_t n_sessions, std::uint32_t n_tokens) {
  std::vector<Session> sessions;
  std::vector<qinfer_session*> handles;
  for (std::uint32_t i = 0; i < n_sessions; ++i) {
    sessions.push_back(c.session(kPrompt, i));
    handles.push_back(sessions.back().get());
  }
  return [&c, n_tokens, sessions, handles] {
    for (const Session& session : sessions) {
      c.truncate(session, kPrompt - 1);
      c.append(session, 1);
    }
    c.eval(handles);
    const Stopwatch watch = c.start();
    for (std::uint32_t i = 0; i < n_tokens; ++i) {
      for (qinfer_session* session : handles) c.sample(session);
      c.eval(handles);
    }
    return watch.seconds();
  };
}

void add_model_items(std::vector<Item>& items, const Contestant& c) {
  items.push_back({"load", nullptr, 0, loading(c.subject().model, 0)});
  items.push_back({"load without weights", nullptr, 0, loading(c.subject().model, QINFER_LOAD_NO_WEIGHTS)});
  items.push_back({"plan", nullptr, 0, prepare_plan});
}

void add_session_items(std::vector<Item>& items, const Contestant& c) {
  items.push_back({"session create", nullptr, 0, prepare_create});
  items.push_back(
      {"first token after load", nullptr, 0, [](const Contestant& on) { return prepare_first_token(on, false); }});
  items.push_back(
      {"load to first token", nullptr, 0, [](const Contestant& on) { return prepare_first_token(on, true); }});
  items.push_back({"fork", nullptr, 0, prepare_fork});
  items.push_back({"save, new file", nullptr, 0, prepare_save_new});
  items.push_back({"save, 16 more tokens", nullptr, 0, prepare_save_more});
  items.push_back({"session load", nullptr, 0, prepare_load_session});
  for (const std::uint32_t n : {64u, 512u}) {
    if (n > c.session_tokens()) continue;
    items.push_back({"prefill " + std::to_string(n), "tokens/s", static_cast<double>(n),
                     [n](const Contestant& on) { return prepare_prefill(on, n); }});
  }
  items.push_back({"decode " + std::to_string(kDecoded), "tokens/s", kDecoded,
                   [](const Contestant& on) { return prepare_decode(on, 1, kDecoded); }});
  items.push_back({"decode " + std::to_string(kSessions) + " sessions", "tokens/s", kSessions * kTogether,
                   [](const Contestant& on) { return prepare_decode(on, kSessions, kTogether); }});
}

}  // namespace

std::vector<Item> list_items(const Contestant& contestant) {
  const Subject& subject = contestant.subject();
  std::vector<Item> items;
  if (contestant.has_tokenizer()) items.push_back({"tokenise", "MB/s", subject.text_bytes() / 1e6, prepare_tokenise});
  if (contestant.has_tokenizer() && (!subject.chat_template.empty() || has_chat(contestant)))
    items.push_back({"tokenise chat", nullptr, 0, prepare_chat});
  if (!subject.tokenizer.empty())
    items.push_back({"load tokenizer", nullptr, 0, loading(subject.tokenizer, QINFER_LOAD_NO_WEIGHTS)});
  if (!subject.model.empty()) add_model_items(items, contestant);
  if (contestant.decodes() && contestant.session_tokens() >= 2 * (kPrompt + kDecoded))
    add_session_items(items, contestant);
  return items;
}

double measure(const Item& item, const Contestant& contestant) {
  const Repetition repeat = item.prepare(contestant);
  (void)repeat();
  std::vector<double> seconds;
  double timed = 0;
  const Stopwatch watch(CLOCK_MONOTONIC);
  while ((timed < kMeasuredSeconds || seconds.size() < kFewRepetitions) &&
         (seconds.empty() || watch.seconds() < kPatienceSeconds)) {
    seconds.push_back(repeat());
    timed += seconds.back();
  }
  return quantile(seconds, 0.5);
}

}  // namespace qinfer::bench
