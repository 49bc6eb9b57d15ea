// The C ABI in tests: handles that free themselves, structs with their size set, and failures that must give the right
// status and a message that names what is at fault.
#pragma once

#include <qinfer/qinfer.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.h"
#include "support/checkpoint_writer.h"

namespace qinfer::test {

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using Catch::Matchers::ContainsSubstring;
inline auto contains(const std::string& text) { return ContainsSubstring(text); }
#else
inline auto contains(const std::string& text) { return Catch::Contains(text); }
#endif

inline constexpr std::int64_t kAnyDetail = INT64_MIN;

/// Where a call stands in a test, and how it is written there.
struct CallSite {
  const char* file;
  int line;
  const char* call;
};
#define QINFER_CALL_SITE(call) (::qinfer::test::CallSite{__FILE__, __LINE__, #call})

/// The status, that the message contains `text`, and the detail. A function, because assertions are slow to compile.
void require_failure(const CallSite& site, qinfer_status status, std::int64_t detail, const std::string& text,
                     qinfer_status returned, const qinfer_error& err);
void require_ok(const CallSite& site, qinfer_status returned, const qinfer_error& err);

/// Evaluates `call`, which passes &err, and checks the status, that the message contains `text`, and the detail.
#define REQUIRE_FAILS_AT(status, at, text, call)                                                  \
  do {                                                                                            \
    qinfer_error err;                                                                             \
    std::memset(&err, 0x55, sizeof err);                                                          \
    const qinfer_status returned = (call);                                                        \
    ::qinfer::test::require_failure(QINFER_CALL_SITE(call), status, (at), (text), returned, err); \
  } while (0)
#define REQUIRE_FAILS(status, text, call) REQUIRE_FAILS_AT(status, ::qinfer::test::kAnyDetail, text, call)

/// Evaluates `call`, which passes &err, and checks that it succeeds.
#define REQUIRE_OK(call)                                               \
  do {                                                                 \
    qinfer_error err = {};                                             \
    const qinfer_status returned = (call);                             \
    ::qinfer::test::require_ok(QINFER_CALL_SITE(call), returned, err); \
  } while (0)

/// Neither loads nor plans a directory.
#define REQUIRE_LOAD_FAILS(status, text, dir) \
  ::qinfer::test::require_load_fails(QINFER_CALL_SITE(dir), status, text, (dir).path())
void require_load_fails(const CallSite& site, qinfer_status status, const std::string& text, const std::string& path);

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

Runtime make_runtime(std::uint32_t n_threads = 2, const char* cpu_target = nullptr);
Model load_model(const Runtime& runtime, const std::string& path, const qinfer_load_options* options = nullptr);
Cache make_cache(const Model& model, const qinfer_kv_cache_options* options = nullptr);
Session make_session(const Cache& cache, const qinfer_session_options* options = nullptr);
Cancel make_cancel();
void append(const Session& session, const std::vector<qinfer_token>& tokens);
void eval(const Session& session);

/// The logits of the last evaluated token.
std::vector<float> last_logits(const Session& session, std::size_t n_vocab);

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
std::vector<float> logits_of(const ModelDir& dir, const qinfer_load_options* options = nullptr,
                             const char* cpu_target = nullptr);

}  // namespace qinfer::test
