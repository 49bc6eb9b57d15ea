// calls_items.h: what `calls` measures, item by item, on one build of the library.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calls_library.h"

namespace qinfer::bench {

class Stopwatch {
 public:
  explicit Stopwatch(clockid_t clock) : clock_(clock), start_(now(clock)) {}
  double seconds() const { return now(clock_) - start_; }

 private:
  static double now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  clockid_t clock_;
  double start_;
};

/// What all libraries are measured on, and with.
struct Subject {
  std::string model;      ///< empty: none, only a tokenizer
  std::string tokenizer;  ///< a folder with config.json and tokenizer.json; empty: the model's
  std::vector<std::string> texts;
  std::string chat_template;  ///< Jinja; empty: the model's, if it has one
  std::vector<std::uint32_t> cpus;
  std::filesystem::path scratch;      ///< for saved sessions
  clockid_t clock = CLOCK_MONOTONIC;  ///< or CLOCK_PROCESS_CPUTIME_ID

  double text_bytes() const;
};

/// One library with a runtime and a model of its own for a turn: a new one is elsewhere in memory, which is not
/// equally fast everywhere, so that turns differ by chance and not by where the first load happened to put the weights.
class Contestant {
 public:
  Contestant(const Library& library, const Subject& subject);

  const Library& library() const { return library_; }
  const Subject& subject() const { return subject_; }
  Stopwatch start() const { return Stopwatch(subject_.clock); }
  const qinfer_runtime_options& runtime_options() const { return options_; }
  const qinfer_model_info& info() const { return info_; }
  bool has_tokenizer() const;
  /// Can prompts be continued with this model?
  bool decodes() const { return model_ != nullptr && (info_.flags & QINFER_MODEL_ENCODER) == 0; }
  /// All texts of the subject. `calls` says so where libraries do not agree on them.
  std::vector<qinfer_token> tokenise() const;
  const Model& model() const { return model_; }
  const Model& text_model() const { return tokenizer_ != nullptr ? tokenizer_ : model_; }
  /// Tokens that sessions other than those with defaults have room for.
  std::uint32_t session_tokens() const { return std::min<std::uint32_t>(info_.context_tokens, 640); }

  Model load(const std::string& path, std::uint32_t flags) const;
  Cache default_cache(const Model& model) const;
  Session create_session(const Cache& cache, std::uint32_t max_tokens) const;
  /// A session in the contestant's own cache, with n_tokens evaluated tokens, other ones for another seed.
  Session session(std::uint32_t n_tokens, std::uint32_t seed = 0) const;
  Session fork(const Session& session) const;
  Session load_session(const std::string& path) const;
  void save(const Session& session, const std::string& path) const;
  void truncate(const Session& session, std::size_t n_tokens) const;
  void append(const Session& session, std::uint32_t n_tokens, std::uint32_t seed = 0) const;
  void eval(const std::vector<qinfer_session*>& sessions) const;
  void eval(const Session& session) const { eval(std::vector<qinfer_session*>{session.get()}); }
  void sample(qinfer_session* session) const;

 private:
  const Library& library_;
  const Subject& subject_;
  qinfer_runtime_options options_;
  qinfer_model_info info_;
  Runtime runtime_;
  Model model_, tokenizer_;
  Cache cache_;
};

/// Does once what an item is about, and says how many seconds that took: without what it needs before and after.
using Repetition = std::function<double()>;

struct Item {
  std::string name;
  const char* unit = nullptr;  ///< of a rate; NULL: seconds are what is reported
  double work = 0;             ///< units of one repetition
  std::function<Repetition(const Contestant&)> prepare;
};

/// Those that make sense for what the contestant has loaded.
std::vector<Item> list_items(const Contestant& contestant);

/// The median of a few repetitions, in seconds. One before them does not count: after another library had its turn,
/// caches hold what that one left, and memory comes from the system with pages that were never touched before (loading
/// 190 MB took whichever library came first twice as long).
double measure(const Item& item, const Contestant& contestant);

}  // namespace qinfer::bench
