// Sequences of calls on an encoder, whose tokens all see each other: whatever is appended or cut makes all of them
// pending, and what comes out is an embedding, which must be that of a fresh session, bit for bit.
#include <algorithm>
#include <cstring>
#include <vector>

#include "api_sequence.h"
#include "api_support.h"
#include "choices.h"

namespace qinfer::fuzz {
namespace {

class EncoderSequence {
 public:
  EncoderSequence(const LoadedModel& loaded, Choices& choices, ApiCounts& counts)
      : loaded_(loaded), choices_(choices), counts_(counts) {}

  void run() {
    cache_ = make_cache();
    for (int i = 0; i < 40 && !choices_.done(); ++i) step();
    for (const Twin& twin : twins_) check(twin);
    qinfer_kv_cache_free(cache_);
    for (const Twin& twin : twins_) qinfer_session_free(twin.session);
  }

 private:
  struct Twin {
    qinfer_session* session;
    std::vector<qinfer_token> tokens;
    bool pending;  ///< all of them, or none
  };
  static constexpr std::size_t kMost = 5;

  qinfer_kv_cache* make_cache() const {
    qinfer_kv_cache* cache = nullptr;
    qinfer_error err = {};
    expect("kv_cache_create", qinfer_kv_cache_create(loaded_.model, nullptr, &cache, &err), err);
    return cache;
  }

  static qinfer_session* make_session(qinfer_kv_cache* cache) {
    qinfer_session* session = nullptr;
    auto options = sized<qinfer_session_options>();
    options.max_tokens = kMostTokens;
    qinfer_error err = {};
    expect("session_create", qinfer_session_create(cache, &options, &session, &err), err);
    return session;
  }

  void step() {
    if (twins_.empty()) return twins_.push_back({make_session(cache_), {}, false});
    Twin& twin = twins_[choices_.below(twins_.size())];
    const std::size_t kind = choices_.below(12);
    if (kind < 4) return evaluate();
    if (kind < 7) return append(twin);
    if (kind < 8) return truncate(twin);
    if (kind < 9) return check(twin);
    if (kind < 10) return refuse(twin);
    if (kind < 11 && twins_.size() < kMost) return twins_.push_back({make_session(cache_), {}, false});
    if (twins_.size() < kMost) fork(twin);
  }

  void append(Twin& twin) {
    std::vector<qinfer_token> tokens(1 + choices_.below(12));
    for (qinfer_token& token : tokens) token = static_cast<qinfer_token>(choices_.below(loaded_.n_vocab));
    qinfer_error err = {};
    if (expect("append", qinfer_session_append(twin.session, tokens.data(), tokens.size(), &err), err,
               QINFER_E_CONTEXT_FULL) != QINFER_OK)
      return;
    twin.tokens.insert(twin.tokens.end(), tokens.begin(), tokens.end());
    twin.pending = true;
    check_pending(twin);
  }

  void truncate(Twin& twin) {
    const std::size_t n = choices_.below(twin.tokens.size() + 1);
    qinfer_error err = {};
    expect("truncate", qinfer_session_truncate(twin.session, n, &err), err);
    if (n < twin.tokens.size()) twin.pending = n != 0;
    twin.tokens.resize(n);
    check_pending(twin);
  }

  void fork(const Twin& twin) {
    Twin copy = twin;
    qinfer_error err = {};
    expect("fork", qinfer_session_fork(twin.session, &copy.session, &err), err);
    ++counts_.forks;
    check_pending(copy);
    twins_.push_back(std::move(copy));
  }

  /// Sessions with more tokens than a batch has are refused, with all others of the call.
  void evaluate() {
    std::vector<qinfer_session*> handles;
    bool too_long = false, pending = false;
    for (const Twin& twin : twins_) {
      handles.push_back(twin.session);
      too_long = too_long || (twin.pending && twin.tokens.size() > kBatch);
      pending = pending || twin.pending;
    }
    qinfer_error err = {};
    const qinfer_status status = expect("eval", qinfer_eval(handles.data(), handles.size(), nullptr, &err), err,
                                        QINFER_E_INVALID_ARGUMENT, QINFER_E_STATE);
    ++counts_.evals;
    if ((status == QINFER_OK) != (pending && !too_long)) differs("eval of an encoder: status %d", status);
    for (Twin& twin : twins_) {
      if (status == QINFER_OK) twin.pending = false;
      check_pending(twin);
    }
  }

  void refuse(const Twin& twin) {
    qinfer_token token = 0;
    qinfer_error err = {};
    if (expect("sample", qinfer_session_sample(twin.session, &token, &err), err, QINFER_E_UNSUPPORTED) == QINFER_OK ||
        expect("generate", qinfer_generate(twin.session, nullptr, nullptr, &err), err, QINFER_E_UNSUPPORTED,
               QINFER_E_STATE) == QINFER_OK ||
        qinfer_session_logits(twin.session, 0) != nullptr)
      differs("an encoder gave logits");
    ++counts_.refused;
    check_pending(twin);
  }

  static void check_pending(const Twin& twin) {
    if (qinfer_session_length(twin.session) != twin.tokens.size() ||
        qinfer_session_pending(twin.session) != (twin.pending ? twin.tokens.size() : 0))
      differs("%zu of %zu tokens of an encoder's session are pending, all or none of %zu should be",
              qinfer_session_pending(twin.session), qinfer_session_length(twin.session), twin.tokens.size());
  }

  std::vector<float> embedding(const qinfer_session* session, std::int32_t pooling, bool ready) const {
    std::vector<float> values(4096);
    std::size_t n = 0;
    qinfer_error err = {};
    const qinfer_status status =
        expect("embedding", qinfer_session_embedding(session, pooling, values.data(), values.size(), &n, &err), err,
               QINFER_E_STATE);
    if ((status == QINFER_OK) != ready) differs("embedding: status %d (%s)", status, err.message);
    values.resize(ready ? n : 0);
    return values;
  }

  void check(const Twin& twin) {
    const auto pooling = static_cast<std::int32_t>(choices_.below(4));
    const bool ready = !twin.pending && !twin.tokens.empty();
    const std::vector<float> values = embedding(twin.session, pooling, ready);
    if (!ready) return;
    qinfer_kv_cache* cache = make_cache();
    qinfer_session* fresh = make_session(cache);
    qinfer_error err = {};
    expect("append", qinfer_session_append(fresh, twin.tokens.data(), twin.tokens.size(), &err), err);
    expect("eval", qinfer_eval(&fresh, 1, nullptr, &err), err);
    const std::vector<float> wanted = embedding(fresh, pooling, true);
    qinfer_session_free(fresh);
    qinfer_kv_cache_free(cache);
    ++counts_.compared;
    if (values.size() != wanted.size() || std::memcmp(values.data(), wanted.data(), values.size() * sizeof(float)) != 0)
      differs("the embedding of %zu tokens is another in a fresh session", twin.tokens.size());
  }

  static constexpr std::uint32_t kMostTokens = 40;
  const LoadedModel& loaded_;
  Choices& choices_;
  ApiCounts& counts_;
  qinfer_kv_cache* cache_ = nullptr;
  std::vector<Twin> twins_;
};

}  // namespace

void run_encoder(const LoadedModel& loaded, Choices& choices, ApiCounts& counts) {
  EncoderSequence(loaded, choices, counts).run();
}

}  // namespace qinfer::fuzz
