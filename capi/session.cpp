// KV caches, sessions and evaluation.
#include <qinfer/qinfer.h>

#include <algorithm>
#include <string>
#include <vector>

#include "files.h"
#include "logits_hook.h"
#include "support.h"

using namespace qinfer;
using capi::guard;
using capi::usable;

namespace {

/// Exclusive use of all sessions of a batch; without memory of its own, since evaluating takes none.
class ExclusiveBatch {
 public:
  ExclusiveBatch(qinfer_session* const* sessions, std::size_t n) : sessions_(sessions) {
    while (n_ < n && !sessions_[n_]->busy.exchange(true)) ++n_;
  }
  ExclusiveBatch(const ExclusiveBatch&) = delete;
  ExclusiveBatch& operator=(const ExclusiveBatch&) = delete;
  ~ExclusiveBatch() {
    for (std::size_t i = 0; i < n_; ++i) sessions_[i]->busy.store(false);
  }

  /// After all `n` were asked for.
  Status check(std::size_t n) const {
    if (n_ == n) return Status();
    for (std::size_t i = 0; i < n_; ++i)
      if (sessions_[i] == sessions_[n_])
        return error_at(Code::invalid_argument, static_cast<std::int64_t>(n_), "session {} appears twice", n_);
    return error_at(Code::state, static_cast<std::int64_t>(n_), "sessions[{}]: {}", n_,
                    capi::Exclusive::refused().message());
  }

 private:
  qinfer_session* const* sessions_;
  std::size_t n_ = 0;
};

sampling::SamplerOptions sampler_of(const qinfer_sampler_options& from) {
  sampling::SamplerOptions out;
  out.temperature = from.temperature, out.top_k = from.top_k, out.top_p = from.top_p, out.min_p = from.min_p;
  out.repeat_penalty = from.repeat_penalty;
  out.frequency_penalty = from.frequency_penalty, out.presence_penalty = from.presence_penalty;
  out.penalty_tokens = from.penalty_tokens;
  out.seed = from.seed;
  out.typical_p = from.typical_p, out.top_n_sigma = from.top_n_sigma;
  out.dynatemp_range = from.dynatemp_range, out.dynatemp_exponent = from.dynatemp_exponent;
  out.xtc_probability = from.xtc_probability, out.xtc_threshold = from.xtc_threshold;
  out.dry_multiplier = from.dry_multiplier, out.dry_base = from.dry_base;
  out.dry_allowed_length = from.dry_allowed_length, out.dry_penalty_tokens = from.dry_penalty_tokens;
  out.mirostat = from.mirostat, out.mirostat_tau = from.mirostat_tau, out.mirostat_eta = from.mirostat_eta;
  static_assert(sizeof out.steps == sizeof from.steps);
  std::copy(std::begin(from.steps), std::end(from.steps), out.steps.begin());
  return out;
}

}  // namespace

extern "C" {

qinfer_status qinfer_kv_cache_create(const qinfer_model* model, const qinfer_kv_cache_options* options,
                                     qinfer_kv_cache** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_REQUIRE(model);
    QINFER_TRY(model->impl->runtime().check_process());
    QINFER_ASSIGN(const engine::KvCacheOptions parsed, capi::kv_cache_options(options));
    QINFER_ASSIGN(auto impl, engine::KvCache::create(model->impl, parsed));
    *out = new qinfer_kv_cache{std::move(impl)};
    return Status();
  });
}

void qinfer_kv_cache_free(qinfer_kv_cache* cache) { delete cache; }

qinfer_status qinfer_kv_cache_find(const qinfer_kv_cache* cache, const qinfer_token* tokens, size_t n,
                                   uint32_t prefix_space, size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    QINFER_REQUIRE(cache);
    if (tokens == nullptr && n != 0) return capi::null_argument("tokens");
    QINFER_TRY(cache->impl->model().runtime().check_process());
    *out_n = cache->impl->count_known({tokens, n}, prefix_space);
    return Status();
  });
}

qinfer_status qinfer_kv_cache_get_stats(const qinfer_kv_cache* cache, qinfer_kv_cache_stats* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(cache);
    QINFER_REQUIRE(out);
    QINFER_TRY(cache->impl->model().runtime().check_process());
    const kv::PoolStats stats = cache->impl->stats();
    qinfer_kv_cache_stats values = {};
    values.block_tokens = cache->impl->block_tokens();
    values.blocks_total = stats.blocks_total;
    values.blocks_used = stats.blocks_used;
    values.bytes_reserved = stats.bytes_reserved;
    values.blocks_shared = stats.blocks_shared;
    values.blocks_cached = stats.blocks_cached;
    values.bytes_committed = stats.bytes_committed;
    values.bytes_resident = cache->impl->resident_bytes();
    return capi::copy_out(values, out, "qinfer_kv_cache_stats");
  });
}

qinfer_status qinfer_session_create(qinfer_kv_cache* cache, const qinfer_session_options* options, qinfer_session** out,
                                    qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_REQUIRE(cache);
    QINFER_TRY(cache->impl->model().runtime().check_process());
    QINFER_ASSIGN(const engine::SessionOptions parsed, capi::session_options(options));
    auto handle = std::make_unique<qinfer_session>();
    QINFER_ASSIGN(handle->impl, engine::Session::create(cache->impl, parsed));
    *out = handle.release();
    return Status();
  });
}

qinfer_status qinfer_session_save(const qinfer_session* session, const char* path, qinfer_error* err) {
  return qinfer_session_save_with(session, path, nullptr, err);
}

qinfer_status qinfer_session_save_with(const qinfer_session* session, const char* path,
                                       const qinfer_session_save_options* options, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    QINFER_REQUIRE(path);
    qinfer_session_save_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_session_save_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, 0, "qinfer_session_save_options.flags"));
    QINFER_ASSIGN(const auto files, capi::host_files(o.files, capi::FileUse::write));
    return impl->save(path, files.get());
  });
}

qinfer_status qinfer_session_load(qinfer_kv_cache* cache, const char* path, qinfer_session** out, qinfer_error* err) {
  return qinfer_session_load_with(cache, path, nullptr, out, nullptr, err);
}

qinfer_status qinfer_session_load_with(qinfer_kv_cache* cache, const char* path,
                                       const qinfer_session_load_options* options, qinfer_session** out,
                                       qinfer_session_load_result* result, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    qinfer_session_load_result values = {};
    if (result != nullptr) QINFER_TRY(capi::copy_out(values, result, "qinfer_session_load_result"));
    QINFER_REQUIRE(cache);
    QINFER_REQUIRE(path);
    QINFER_TRY(cache->impl->model().runtime().check_process());
    qinfer_session_load_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_session_load_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, QINFER_SNAPSHOT_ANY_BITS | QINFER_SNAPSHOT_NO_RECOVERY,
                                   "qinfer_session_load_options.flags"));
    QINFER_ASSIGN(auto files, capi::host_files(o.files, capi::FileUse::read));
    auto handle = std::make_unique<qinfer_session>();
    engine::Session::LoadSessionResult loaded;
    QINFER_ASSIGN(handle->impl,
                  engine::Session::load(cache->impl, path,
                                        {(o.flags & QINFER_SNAPSHOT_ANY_BITS) != 0,
                                         (o.flags & QINFER_SNAPSHOT_NO_RECOVERY) != 0, std::move(files), o.max_draft},
                                        loaded));
    values.flags = (loaded.recovered ? std::uint32_t{QINFER_SNAPSHOT_RECOVERED} : 0u) |
                   (loaded.other_bits ? std::uint32_t{QINFER_SNAPSHOT_OTHER_BITS} : 0u);
    values.tokens = loaded.n_tokens;
    values.evaluated_tokens = loaded.n_evaluated;
    if (result != nullptr) QINFER_TRY(capi::copy_out(values, result, "qinfer_session_load_result"));
    *out = handle.release();
    return Status();
  });
}

void qinfer_session_free(qinfer_session* session) { capi::release(session); }

qinfer_status qinfer_session_fork(const qinfer_session* session, qinfer_session** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    auto handle = std::make_unique<qinfer_session>();
    QINFER_ASSIGN(handle->impl, impl->fork());
    if (auto* hook = static_cast<capi::HostHook*>(handle->impl->sampling().hook())) hook->bind(handle.get());
    *out = handle.release();
    return Status();
  });
}

qinfer_status qinfer_session_truncate(qinfer_session* session, size_t n_tokens, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    return impl->truncate(n_tokens);
  });
}

qinfer_status qinfer_session_append(qinfer_session* session, const qinfer_token* tokens, size_t n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    if (tokens == nullptr && n != 0) return capi::null_argument("tokens");
    return impl->append({tokens, n});
  });
}

qinfer_status qinfer_session_set_tokens(qinfer_session* session, const qinfer_token* tokens, size_t n, size_t* out_kept,
                                        qinfer_error* err) {
  return guard(err, [&]() -> Status {
    if (out_kept != nullptr) *out_kept = 0;
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    if (tokens == nullptr && n != 0) return capi::null_argument("tokens");
    QINFER_ASSIGN(const std::size_t n_kept, impl->set_tokens({tokens, n}));
    if (out_kept != nullptr) *out_kept = n_kept;
    return Status();
  });
}

qinfer_status qinfer_session_get_tokens(const qinfer_session* session, qinfer_token* tokens, size_t capacity,
                                        size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    return capi::copy_array<qinfer_token>(impl->tokens(), tokens, capacity, out_n);
  });
}

size_t qinfer_session_length(const qinfer_session* session) { return session == nullptr ? 0 : session->impl->length(); }
size_t qinfer_session_pending(const qinfer_session* session) {
  return session == nullptr ? 0 : session->impl->pending();
}

qinfer_status qinfer_session_set_sampler(qinfer_session* session, const qinfer_sampler_options* options,
                                         qinfer_error* err) {
  return guard(err, [&]() -> Status {
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    qinfer_sampler_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_sampler_options"));
    return impl->set_sampler(sampler_of(o));
  });
}

qinfer_status qinfer_session_set_dry_breakers(qinfer_session* session, const char* const* texts, const size_t* lens,
                                              size_t n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    if (texts == nullptr && n != 0) return capi::null_argument("texts");
    if (n > sampling::kMaxBreakers)
      return error(Code::invalid_argument, "n is {}: more than {} sequence breakers", n, sampling::kMaxBreakers);
    std::vector<std::string> copies;
    for (std::size_t i = 0; i < n; ++i) {
      QINFER_ASSIGN(const std::string_view text,
                    capi::text_argument(texts[i], lens != nullptr ? lens[i] : SIZE_MAX, "a sequence breaker"));
      copies.emplace_back(text);
    }
    return impl->set_dry_breakers(copies);
  });
}

qinfer_status qinfer_session_set_bias(qinfer_session* session, const qinfer_token* tokens, const float* values,
                                      size_t n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    if (tokens == nullptr && n != 0) return capi::null_argument("tokens");
    if (values == nullptr && n != 0) return capi::null_argument("values");
    return impl->sampling().set_bias({tokens, n}, {values, n});
  });
}

qinfer_status qinfer_eval(qinfer_session* const* sessions, size_t n_sessions, const qinfer_eval_options* options,
                          qinfer_error* err) {
  return guard(err, [&]() -> Status {
    if (sessions == nullptr && n_sessions != 0) return capi::null_argument("sessions");
    qinfer_eval_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_eval_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, QINFER_EVAL_NO_LOGITS, "qinfer_eval_options.flags"));
    const bool no_logits = (o.flags & QINFER_EVAL_NO_LOGITS) != 0;
    if (no_logits && o.keep_logits != 0)
      return error(Code::invalid_argument, "keep_logits is {} beside QINFER_EVAL_NO_LOGITS, expected 0", o.keep_logits);
    for (std::size_t i = 0; i < n_sessions; ++i) {
      auto session = usable(sessions[i]);
      if (!session.ok()) return session.take_status().with_prefix(format_text("sessions[{}]", i));
    }
    const ExclusiveBatch exclusive(sessions, n_sessions);
    QINFER_TRY(exclusive.check(n_sessions));
    const auto at = [&](std::size_t i) -> engine::Session& { return *sessions[i]->impl; };
    const auto cancelled = [&](std::size_t i) {
      return o.session_cancels != nullptr && o.session_cancels[i] != nullptr && o.session_cancels[i]->requested.load();
    };
    return engine::eval(engine::SessionList(n_sessions, at, cancelled),
                        {o.max_tokens, no_logits ? 0 : std::max(o.keep_logits, 1u), capi::flag_of(o.cancel), nullptr,
                         o.hidden_in, o.hidden_out});
  });
}

qinfer_status qinfer_session_sample(qinfer_session* session, qinfer_token* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = -1;
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    QINFER_ASSIGN(*out, impl->sample(true));
    return Status();
  });
}

const float* qinfer_session_logits(const qinfer_session* session, size_t back) {
  if (session == nullptr) return nullptr;
  const std::span<const float> row = session->impl->logits(back);
  return row.empty() ? nullptr : row.data();
}

qinfer_status qinfer_session_copy_logits(const qinfer_session* session, size_t back, float* values, size_t capacity,
                                         size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    QINFER_REQUIRE(out_n);
    *out_n = 0;
    const std::span<const float> row = impl->logits(back);
    if (row.empty()) return impl->no_logits(back);
    return capi::copy_array<float>(row, values, capacity, out_n);
  });
}

qinfer_status qinfer_session_logprobs(const qinfer_session* session, size_t back, const qinfer_token* tokens, size_t n,
                                      double* logprobs, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    if (tokens == nullptr && n != 0) return capi::null_argument("tokens");
    if (logprobs == nullptr && n != 0) return capi::null_argument("logprobs");
    return impl->logprobs(back, {tokens, n}, {logprobs, n});
  });
}

qinfer_status qinfer_session_top_logprobs(const qinfer_session* session, size_t back, qinfer_token* tokens,
                                          double* logprobs, size_t n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    if (tokens == nullptr && n != 0) return capi::null_argument("tokens");
    if (logprobs == nullptr && n != 0) return capi::null_argument("logprobs");
    return impl->top_logprobs(back, {tokens, n}, {logprobs, n});
  });
}

qinfer_status qinfer_session_get_memory(const qinfer_session* session, qinfer_session_memory* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    QINFER_REQUIRE(out);
    qinfer_session_memory values = {};
    const engine::SessionKeys::Bytes kv = impl->keys().bytes();
    values.kv_private = kv.own;
    values.kv_shared = kv.shared;
    values.kv_reserved = kv.reserved;
    values.other = impl->other_bytes();
    return capi::copy_out(values, out, "qinfer_session_memory");
  });
}

qinfer_status qinfer_session_get_info(const qinfer_session* session, qinfer_session_info* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    QINFER_REQUIRE(out);
    qinfer_session_info info = {};
    if (impl->has_embeddings()) info.flags |= QINFER_SESSION_EMBEDDINGS;
    info.max_tokens = impl->max_tokens();
    info.max_logits = impl->max_logits();
    info.max_draft = impl->max_draft();
    info.n_tokens = impl->length();
    info.n_evaluated = impl->evaluated();
    info.n_logits = static_cast<std::uint32_t>(impl->n_logits());
    info.n_bias = static_cast<std::uint32_t>(impl->sampling().bias().size());
    info.has_logits_hook = impl->sampling().hook() != nullptr ? 1 : 0;
    return capi::copy_out(info, out, "qinfer_session_info");
  });
}

qinfer_status qinfer_session_get_metrics(const qinfer_session* session, qinfer_metrics* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    QINFER_REQUIRE(out);
    return capi::copy_out(capi::to_c(impl->metrics()), out, "qinfer_metrics");
  });
}

}  // extern "C"
