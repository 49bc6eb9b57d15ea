// The C ABI in tests: handles that free themselves, structs with their size set, and failures that must give the right
// status and a message that names what is at fault.
#pragma once

#include <qinfer/qinfer.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "checkpoint_writer.h"

namespace qinfer::test {

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using Catch::Matchers::ContainsSubstring;
inline auto contains(const std::string& text) { return ContainsSubstring(text); }
#else
inline auto contains(const std::string& text) { return Catch::Contains(text); }
#endif

inline constexpr std::int64_t kAnyDetail = INT64_MIN;

/// Evaluates `call`, which passes &err, and checks the status, that the message contains `text`, and the detail.
#define REQUIRE_FAILS_AT(status, at, text, call)                                      \
  do {                                                                                \
    qinfer_error err;                                                                 \
    std::memset(&err, 0x55, sizeof err);                                              \
    const qinfer_status returned = (call);                                            \
    INFO(#call << ": " << (returned == QINFER_OK ? "succeeded" : err.message));       \
    REQUIRE(std::string(qinfer_status_name(returned)) == qinfer_status_name(status)); \
    REQUIRE(err.code == returned);                                                    \
    REQUIRE_THAT(std::string(err.message), ::qinfer::test::contains(text));           \
    const std::int64_t wanted = (at);                                                 \
    if (wanted != ::qinfer::test::kAnyDetail) REQUIRE(err.detail == wanted);          \
  } while (0)
#define REQUIRE_FAILS(status, text, call) REQUIRE_FAILS_AT(status, ::qinfer::test::kAnyDetail, text, call)

/// Evaluates `call`, which passes &err, and checks that it succeeds.
#define REQUIRE_OK(call)                                               \
  do {                                                                 \
    qinfer_error err = {};                                             \
    const qinfer_status returned = (call);                             \
    INFO(#call << ": " << err.message);                                \
    REQUIRE(std::string(qinfer_status_name(returned)) == "QINFER_OK"); \
  } while (0)

/// Neither loads nor plans a directory.
#define REQUIRE_LOAD_FAILS(status, text, dir)                                                                     \
  do {                                                                                                            \
    qinfer_model* refused = reinterpret_cast<qinfer_model*>(1);                                                   \
    REQUIRE_FAILS(status, text, qinfer_model_load(nullptr, (dir).path().c_str(), nullptr, &refused, &err));       \
    REQUIRE(refused == nullptr);                                                                                  \
    auto unplanned = ::qinfer::test::sized<qinfer_memory>();                                                      \
    REQUIRE_FAILS(status, text,                                                                                   \
                  qinfer_model_plan((dir).path().c_str(), nullptr, nullptr, nullptr, nullptr, &unplanned, &err)); \
  } while (0)

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* handle) const {
    Free(handle);
  }
};
using Runtime = std::unique_ptr<qinfer_runtime, Freer<qinfer_runtime_free>>;
using Model = std::unique_ptr<qinfer_model, Freer<qinfer_model_free>>;
using Cache = std::unique_ptr<qinfer_kv_cache, Freer<qinfer_kv_cache_free>>;
using Session = std::unique_ptr<qinfer_session, Freer<qinfer_session_free>>;
using Detok = std::unique_ptr<qinfer_detok, Freer<qinfer_detok_free>>;
using Cancel = std::unique_ptr<qinfer_cancel, Freer<qinfer_cancel_free>>;

/// A zeroed struct that knows its size.
template <typename T>
T sized() {
  T value;
  std::memset(&value, 0, sizeof value);
  value.struct_size = sizeof(T);
  return value;
}

inline Runtime make_runtime(std::uint32_t n_threads = 2, const char* cpu_target = nullptr) {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = n_threads;
  options.cpu_target = cpu_target;
  qinfer_runtime* runtime = nullptr;
  REQUIRE_OK(qinfer_runtime_create(&options, &runtime, &err));
  return Runtime(runtime);
}

inline Model load_model(const Runtime& runtime, const std::string& path, const qinfer_load_options* options = nullptr) {
  qinfer_model* model = nullptr;
  REQUIRE_OK(qinfer_model_load(runtime.get(), path.c_str(), options, &model, &err));
  return Model(model);
}

inline Cache make_cache(const Model& model, const qinfer_kv_cache_options* options = nullptr) {
  qinfer_kv_cache* cache = nullptr;
  REQUIRE_OK(qinfer_kv_cache_create(model.get(), options, &cache, &err));
  return Cache(cache);
}

inline Session make_session(const Cache& cache, const qinfer_session_options* options = nullptr) {
  qinfer_session* session = nullptr;
  REQUIRE_OK(qinfer_session_create(cache.get(), options, &session, &err));
  return Session(session);
}

inline Cancel make_cancel() {
  qinfer_cancel* cancel = nullptr;
  REQUIRE_OK(qinfer_cancel_create(&cancel, &err));
  return Cancel(cancel);
}

inline void append(const Session& session, const std::vector<qinfer_token>& tokens) {
  REQUIRE_OK(qinfer_session_append(session.get(), tokens.data(), tokens.size(), &err));
}

inline void eval(const Session& session) {
  qinfer_session* one = session.get();
  REQUIRE_OK(qinfer_eval(&one, 1, nullptr, &err));
}

/// The logits of the last evaluated token.
inline std::vector<float> last_logits(const Session& session, std::size_t n_vocab) {
  const float* row = qinfer_session_logits(session.get(), 0);
  REQUIRE(row != nullptr);
  return {row, row + n_vocab};
}

/// `n` tokens below `n_vocab`, always the same.
inline std::vector<qinfer_token> some_tokens(std::size_t n, std::uint32_t n_vocab = 256) {
  std::vector<qinfer_token> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<qinfer_token>((i * 37 + 11) % n_vocab);
  return tokens;
}

/// Writes the tensors of `spec` as `change` leaves them.
template <typename Change>
void write_changed(const ModelDir& dir, const TinySpec& spec, Change change) {
  std::vector<TinyTensor> tensors = tiny_tensors(spec);
  change(tensors);
  dir.write_tensors(tensors, spec.shards);
}

/// Loads the directory's model, evaluates 20 tokens and returns the last logits.
inline std::vector<float> logits_of(const ModelDir& dir, const qinfer_load_options* options = nullptr,
                                    const char* cpu_target = nullptr) {
  const Runtime runtime = make_runtime(2, cpu_target);
  const Model model = load_model(runtime, dir.path(), options);
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(20, info.n_vocab));
  eval(session);
  return last_logits(session, info.n_vocab);
}

}  // namespace qinfer::test
