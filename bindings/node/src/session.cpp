// Functions of the addon for KV caches and for what takes no time with a session: tokens, samplers, logits, counts.
#include <algorithm>
#include <string>
#include <vector>

#include "grammar.h"
#include "hook.h"
#include "instance.h"
#include "structs.h"

namespace qinfer_node {
namespace {

/// cacheCreate(model, options)
napi_value cache_create(const Args& args) {
  const auto model = object_of<qinfer_model>(args.env, args[0]);
  const qinfer_kv_cache_options options = cache_options(args.env, Options(args.env, args[1]));
  qinfer_kv_cache* out = nullptr;
  call(args.env, [&](qinfer_error* err) { return qinfer_kv_cache_create(model.get(), &options, &out, err); });
  return box(args.env, Kind::cache, std::shared_ptr<qinfer_kv_cache>(out, qinfer_kv_cache_free));
}

napi_value cache_stats(const Args& args) {
  const auto cache = object_of<qinfer_kv_cache>(args.env, args[0]);
  qinfer_kv_cache_stats stats = sized<qinfer_kv_cache_stats>();
  call(args.env, [&](qinfer_error* err) { return qinfer_kv_cache_get_stats(cache.get(), &stats, err); });
  return Record(args.env)
      .set("blockTokens", stats.block_tokens)
      .set("blocksTotal", stats.blocks_total)
      .set("blocksUsed", stats.blocks_used)
      .set("blocksShared", stats.blocks_shared)
      .set("blocksCached", stats.blocks_cached)
      .set("bytesReserved", stats.bytes_reserved)
      .set("bytesCommitted", stats.bytes_committed)
      .set("bytesResident", stats.bytes_resident)
      .object();
}

/// sessionCreate(cache, options)
napi_value session_create(const Args& args) {
  const auto cache = object_of<qinfer_kv_cache>(args.env, args[0]);
  const qinfer_session_options options = session_options(Options(args.env, args[1]));
  auto session = std::make_shared<Session>();
  call(args.env,
       [&](qinfer_error* err) { return qinfer_session_create(cache.get(), &options, &session->handle, err); });
  return box(args.env, Kind::session, session);
}

napi_value session_fork(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  auto fork = std::make_shared<Session>();
  call(args.env, [&](qinfer_error* err) { return qinfer_session_fork(session->handle, &fork->handle, err); });
  fork_matcher(args.env, *session, *fork);
  return box(args.env, Kind::session, fork);
}

/// Tokens of an Int32Array. A copy: a callback could detach the array, and another thread may write where it is shared.
std::vector<qinfer_token> copied_tokens(napi_env env, napi_value array) {
  const View<qinfer_token> view = tokens_of(env, array, "tokens");
  return std::vector<qinfer_token>(view.data, view.data + view.size);
}

napi_value session_append(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  const std::vector<qinfer_token> tokens = copied_tokens(args.env, args[1]);
  call(args.env,
       [&](qinfer_error* err) { return qinfer_session_append(session->handle, tokens.data(), tokens.size(), err); });
  return nullptr;
}

/// A call that may take tokens back, which the rewind function of a hook is told. What it throws comes out of the call.
template <class Function>
void call_with_rewind(napi_env env, Session& session, const Function& function) {
  Hook* const hook = session.hook;
  session.raised.reset();
  if (hook != nullptr) hook->hold(true);
  Failure failure;
  const qinfer_status status = function(failure.argument());
  if (hook != nullptr) hook->hold(false);
  if (session.raised) {
    const Reference raised = std::move(session.raised);
    check(env, napi_throw(env, raised.get()));
    throw Thrown();
  }
  if (status != QINFER_OK) throw_error(env, status, failure.message(), failure.detail());
}

/// sessionSetTokens(session, Int32Array): how many are kept
napi_value session_set_tokens(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  const std::vector<qinfer_token> tokens = copied_tokens(args.env, args[1]);
  std::size_t kept = 0;
  call_with_rewind(args.env, *session, [&](qinfer_error* err) {
    return qinfer_session_set_tokens(session->handle, tokens.data(), tokens.size(), &kept, err);
  });
  return number(args.env, static_cast<double>(kept));
}

napi_value session_truncate(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  const std::size_t n_tokens = size_of(args.env, args[1], "nTokens");
  call_with_rewind(args.env, *session,
                   [&](qinfer_error* err) { return qinfer_session_truncate(session->handle, n_tokens, err); });
  return nullptr;
}

napi_value session_tokens(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  const auto read = [&](qinfer_token* tokens, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_session_get_tokens(session->handle, tokens, room, n, err);
  };
  return read_tokens(args.env, read, qinfer_session_length(session->handle) + 1);
}

napi_value session_length(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  return number(args.env, static_cast<double>(qinfer_session_length(session->handle)));
}

napi_value session_pending(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  return number(args.env, static_cast<double>(qinfer_session_pending(session->handle)));
}

napi_value session_info(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  qinfer_session_info info = sized<qinfer_session_info>();
  call(args.env, [&](qinfer_error* err) { return qinfer_session_get_info(session->handle, &info, err); });
  return Record(args.env)
      .set("maxTokens", info.max_tokens)
      .set("maxLogits", info.max_logits)
      .set("maxDraft", info.max_draft)
      .set("nTokens", info.n_tokens)
      .set("nEvaluated", info.n_evaluated)
      .set("nLogits", info.n_logits)
      .set("nBias", info.n_bias)
      .set_flag("embeddings", (info.flags & QINFER_SESSION_EMBEDDINGS) != 0)
      .set_flag("hasLogitsHook", info.has_logits_hook != 0)
      .object();
}

napi_value session_memory(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  qinfer_session_memory memory = sized<qinfer_session_memory>();
  call(args.env, [&](qinfer_error* err) { return qinfer_session_get_memory(session->handle, &memory, err); });
  return Record(args.env)
      .set("kvPrivate", memory.kv_private)
      .set("kvShared", memory.kv_shared)
      .set("kvReserved", memory.kv_reserved)
      .set("other", memory.other)
      .object();
}

napi_value session_metrics(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  qinfer_metrics metrics = sized<qinfer_metrics>();
  call(args.env, [&](qinfer_error* err) { return qinfer_session_get_metrics(session->handle, &metrics, err); });
  return metrics_object(args.env, metrics);
}

napi_value session_set_sampler(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  const Options options(args.env, args[1]);
  qinfer_sampler_options sampler = sized<qinfer_sampler_options>();
  options.read("temperature", sampler.temperature);
  options.read("topK", sampler.top_k);
  options.read("topP", sampler.top_p);
  options.read("minP", sampler.min_p);
  options.read("repeatPenalty", sampler.repeat_penalty);
  options.read("frequencyPenalty", sampler.frequency_penalty);
  options.read("presencePenalty", sampler.presence_penalty);
  options.read("penaltyTokens", sampler.penalty_tokens);
  options.read("seed", sampler.seed);
  options.read("typicalP", sampler.typical_p);
  options.read("topNSigma", sampler.top_n_sigma);
  options.read("dynatempRange", sampler.dynatemp_range);
  options.read("dynatempExponent", sampler.dynatemp_exponent);
  options.read("xtcProbability", sampler.xtc_probability);
  options.read("xtcThreshold", sampler.xtc_threshold);
  options.read("dryMultiplier", sampler.dry_multiplier);
  options.read("dryBase", sampler.dry_base);
  options.read("dryAllowedLength", sampler.dry_allowed_length);
  options.read("dryPenaltyTokens", sampler.dry_penalty_tokens);
  options.read("mirostat", sampler.mirostat);
  options.read("mirostatTau", sampler.mirostat_tau);
  options.read("mirostatEta", sampler.mirostat_eta);
  if (options.has("steps")) {
    const std::string steps = c_text_of(args.env, options.get("steps"), "steps");
    // Without a NUL at the end, which the library refuses, where there are too many.
    std::copy_n(steps.data(), std::min(steps.size(), sizeof sampler.steps), sampler.steps);
  }
  call(args.env, [&](qinfer_error* err) { return qinfer_session_set_sampler(session->handle, &sampler, err); });
  return nullptr;
}

/// sessionSetDryBreakers(session, array of texts)
napi_value session_set_dry_breakers(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  std::uint32_t n = 0;
  check(args.env, napi_get_array_length(args.env, args[1], &n));
  std::vector<std::string> texts;
  for (std::uint32_t i = 0; i < n; ++i) {
    napi_value each = nullptr;
    check(args.env, napi_get_element(args.env, args[1], i, &each));
    texts.push_back(text_of(args.env, each, "a sequence breaker"));
  }
  std::vector<const char*> data;
  std::vector<std::size_t> lens;
  for (const std::string& text : texts) data.push_back(text.data()), lens.push_back(text.size());
  call(args.env, [&](qinfer_error* err) {
    return qinfer_session_set_dry_breakers(session->handle, data.data(), lens.data(), n, err);
  });
  return nullptr;
}

/// sessionSetBias(session, Int32Array, Float32Array of as many values)
napi_value session_set_bias(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  const View<qinfer_token> tokens = tokens_of(args.env, args[1], "tokens");
  const View<float> values = floats_of(args.env, args[2], "values");
  if (tokens.size != values.size) throw_type_error(args.env, "as many tokens as values are expected");
  call(args.env, [&](qinfer_error* err) {
    return qinfer_session_set_bias(session->handle, tokens.data, values.data, tokens.size, err);
  });
  return nullptr;
}

/// copyLogits(session, back, Float32Array): how many were copied
napi_value copy_logits(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  const std::size_t back = size_of(args.env, args[1], "back");
  const View<float> room = floats_of(args.env, args[2], "values");
  std::size_t n = 0;
  call(args.env, [&](qinfer_error* err) {
    return qinfer_session_copy_logits(session->handle, back, room.data, room.size, &n, err);
  });
  return number(args.env, static_cast<double>(n));
}

napi_value doubles(napi_env env, const std::vector<double>& values) {
  napi_value array = nullptr;
  check(env, napi_create_array_with_length(env, values.size(), &array));
  for (std::size_t i = 0; i < values.size(); ++i)
    check(env, napi_set_element(env, array, static_cast<std::uint32_t>(i), number(env, values[i])));
  return array;
}

/// logprobs(session, Int32Array, back)
napi_value logprobs(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  const std::vector<qinfer_token> tokens = copied_tokens(args.env, args[1]);
  const std::size_t back = size_of(args.env, args[2], "back");
  std::vector<double> values(tokens.size());
  call(args.env, [&](qinfer_error* err) {
    return qinfer_session_logprobs(session->handle, back, tokens.data(), tokens.size(), values.data(), err);
  });
  return doubles(args.env, values);
}

/// topLogprobs(session, n, back): {tokens, logprobs}
napi_value top_logprobs(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  const std::size_t n = u32_of(args.env, args[1], "n");
  const std::size_t back = size_of(args.env, args[2], "back");
  // The library refuses an n beyond the vocabulary; this keeps one from asking for that much memory first.
  const std::size_t room = n < (std::size_t{1} << 24) ? n : 0;
  std::vector<qinfer_token> tokens(room);
  std::vector<double> values(room);
  call(args.env, [&](qinfer_error* err) {
    return qinfer_session_top_logprobs(session->handle, back, tokens.data(), values.data(), n, err);
  });
  return Record(args.env)
      .set("tokens", int32_array(args.env, tokens))
      .set("logprobs", doubles(args.env, values))
      .object();
}

/// embedding(session, pooling: QINFER_POOL_*, Float32Array, {scaled, dims})
napi_value embedding(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  qinfer_embedding_options native = sized<qinfer_embedding_options>();
  native.pooling = static_cast<std::int32_t>(integer_of(args.env, args[1], "pooling", INT32_MIN, INT32_MAX));
  const View<float> room = floats_of(args.env, args[2], "values");
  const Options options(args.env, args[3]);
  options.read("dims", native.dims);
  if (options.has("scaled")) options.flag("scaled", native.flags, QINFER_EMBEDDING_UNSCALED, false);
  std::size_t n = 0;
  call(args.env, [&](qinfer_error* err) {
    return qinfer_session_embedding_with(session->handle, &native, room.data, room.size, &n, err);
  });
  return nullptr;
}

/// Options of a pair of texts, and the texts that they point to.
struct ScoreArguments {
  ScoreArguments(napi_env env, napi_value object) {
    const Options options(env, object);
    const auto keep = [&](const char* name, std::optional<std::string>& text) {
      text = options.c_text(name);
      return text ? text->c_str() : nullptr;
    };
    native.template_name = keep("template", template_name);
    native.template_text = keep("templateText", template_text);
    native.instruction = keep("instruction", instruction);
    native.yes = keep("yes", yes);
    native.no = keep("no", no);
    options.flag("truncate", native.flags, QINFER_SCORE_TRUNCATE);
    options.flag("raw", native.flags, QINFER_SCORE_RAW);
    options.read("maxTokens", native.max_tokens);
  }

  std::optional<std::string> template_name, template_text, instruction, yes, no;
  qinfer_score_options native = sized<qinfer_score_options>();
};

/// setPair(session, query, document, options): how many tokens were cut off
napi_value set_pair(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  const std::string query = text_of(args.env, args[1], "query"), document = text_of(args.env, args[2], "document");
  const ScoreArguments with(args.env, args[3]);
  std::uint64_t cut = 0;
  call_with_rewind(args.env, *session, [&](qinfer_error* err) {
    return qinfer_session_set_pair(session->handle, query.data(), query.size(), document.data(), document.size(),
                                   &with.native, &cut, err);
  });
  return number(args.env, static_cast<double>(cut));
}

/// score(session, options)
napi_value score(const Args& args) {
  const auto session = readable_session(args.env, args[0]);
  const ScoreArguments with(args.env, args[1]);
  float value = 0;
  call(args.env, [&](qinfer_error* err) { return qinfer_session_score(session->handle, &with.native, &value, err); });
  return number(args.env, static_cast<double>(value));
}

}  // namespace

void export_session(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"cacheCreate", entry<cache_create>},
              {"cacheStats", entry<cache_stats>},
              {"sessionCreate", entry<session_create>},
              {"sessionFork", entry<session_fork>},
              {"sessionAppend", entry<session_append>},
              {"sessionSetTokens", entry<session_set_tokens>},
              {"sessionTruncate", entry<session_truncate>},
              {"sessionTokens", entry<session_tokens>},
              {"sessionLength", entry<session_length>},
              {"sessionPending", entry<session_pending>},
              {"sessionInfo", entry<session_info>},
              {"sessionMemory", entry<session_memory>},
              {"sessionMetrics", entry<session_metrics>},
              {"sessionSetSampler", entry<session_set_sampler>},
              {"sessionSetDryBreakers", entry<session_set_dry_breakers>},
              {"sessionSetBias", entry<session_set_bias>},
              {"setLogitsHook", entry<set_logits_hook>},
              {"copyLogits", entry<copy_logits>},
              {"logprobs", entry<logprobs>},
              {"topLogprobs", entry<top_logprobs>},
              {"embedding", entry<embedding>},
              {"setPair", entry<set_pair>},
              {"score", entry<score>}});
}

}  // namespace qinfer_node
