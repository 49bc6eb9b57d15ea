// Generation: all in one call, or step by step.
#include <qinfer/qinfer.h>

#include <array>
#include <string>

#include "engine/generate.h"
#include "generation.h"
#include "support.h"

using namespace qinfer;
using capi::guard;
using capi::usable;

namespace qinfer::capi {

inline constexpr std::uint32_t kMaxStops = 256;

/// The stop texts as views into the caller's memory; an array on the stack, since generating allocates nothing.
struct StopTexts {
  std::array<std::string_view, kMaxStops> texts;
  std::uint32_t count = 0;
  std::span<const std::string_view> view() const { return {texts.data(), count}; }
};

qinfer_token_info info_of(const engine::GenerationEvent& event) {
  qinfer_token_info info = {};
  info.struct_size = sizeof info;
  info.token = event.token;
  info.text = event.text.data() != nullptr ? event.text.data() : "";
  info.text_len = event.text.size();
  info.logprob = event.logprob;
  info.n_top = static_cast<std::uint32_t>(event.top_tokens.size());
  info.finish = static_cast<std::int32_t>(event.finish);
  info.top_tokens = event.top_tokens.data();
  info.top_logprobs = event.top_logprobs.data();
  return info;
}

}  // namespace qinfer::capi

namespace {

using capi::info_of, capi::kMaxStops, capi::StopTexts;

Status read_stop_texts(const qinfer_generate_options& options, StopTexts& out) {
  if (options.n_stop > kMaxStops)
    return error(Code::invalid_argument, "n_stop is {}, at most {} are accepted", options.n_stop, kMaxStops);
  if (options.stop == nullptr && options.n_stop != 0) return capi::null_argument("stop");
  for (; out.count < options.n_stop; ++out.count) {
    const std::size_t len = options.stop_lens != nullptr ? options.stop_lens[out.count] : SIZE_MAX;
    QINFER_ASSIGN(out.texts[out.count], capi::text_argument(options.stop[out.count], len, "a stop text"));
  }
  return Status();
}

/// All but the stop texts.
engine::GenerationOptions options_of(const qinfer_generate_options& o) {
  engine::GenerationOptions options;
  options.max_tokens = o.max_tokens;
  options.logprobs = (o.flags & QINFER_GENERATE_LOGPROBS) != 0 || o.on_token_info != nullptr;
  options.n_top = o.n_top;
  if (o.reply != nullptr) options.reply = o.reply->impl.get();
  options.max_reasoning_tokens = o.max_reasoning_tokens;
  return options;
}

struct TokenCallbacks {
  qinfer_token_fn text;
  qinfer_token_info_fn info;
  void* user;
};

bool call_back(const engine::GenerationEvent& event, void* user) {
  const auto* callbacks = static_cast<const TokenCallbacks*>(user);
  bool stops = false;
  if (callbacks->text != nullptr && (!event.is_late || !event.text.empty()))
    stops = callbacks->text(event.text.data() != nullptr ? event.text.data() : "", event.text.size(),
                            event.is_late ? -1 : event.token, callbacks->user) != 0;
  if (callbacks->info == nullptr) return stops;
  const qinfer_token_info info = info_of(event);
  return callbacks->info(&info, callbacks->user) != 0 || stops;
}

qinfer_generate_result result_of(const engine::GenerationCounts& counts, engine::Finish finish) {
  qinfer_generate_result values = {};
  values.finish = static_cast<std::int32_t>(finish);
  values.prompt_tokens = counts.prompt_tokens;
  values.cached_tokens = counts.cached_tokens;
  values.new_tokens = counts.new_tokens;
  values.reasoning_tokens = counts.reasoning_tokens;
  values.flags = counts.in_reasoning ? QINFER_RESULT_IN_REASONING : 0;
  values.prefill_ns = counts.prefill_ns;
  values.decode_ns = counts.decode_ns;
  return values;
}

}  // namespace

extern "C" {

qinfer_status qinfer_generate(qinfer_session* session, const qinfer_generate_options* options,
                              qinfer_generate_result* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    qinfer_generate_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_generate_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, QINFER_GENERATE_LOGPROBS, "qinfer_generate_options.flags"));
    if (out != nullptr) QINFER_TRY(capi::copy_out(qinfer_generate_result{}, out, "qinfer_generate_result"));
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    StopTexts stops;
    QINFER_TRY(read_stop_texts(o, stops));
    engine::GenerationOptions parsed = options_of(o);
    parsed.stop = stops.view();
    TokenCallbacks callbacks{o.on_token, o.on_token_info, o.user};
    engine::GenerationCounts counts;
    engine::Finish finish = engine::Finish::none;
    Status status = engine::generate(*impl, parsed, {call_back, &callbacks, capi::flag_of(o.cancel)}, counts, finish);
    if (out != nullptr) QINFER_TRY(capi::copy_out(result_of(counts, finish), out, "qinfer_generate_result"));
    return status;
  });
}

qinfer_status qinfer_generation_create(qinfer_session* session, const qinfer_generate_options* options,
                                       qinfer_generation** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    qinfer_generate_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_generate_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, QINFER_GENERATE_LOGPROBS, "qinfer_generate_options.flags"));
    if (o.on_token != nullptr || o.on_token_info != nullptr)
      return error(Code::invalid_argument,
                   "on_token and on_token_info are of qinfer_generate: here each step gives "
                   "what they would be told, expected NULL");
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    StopTexts stops;
    QINFER_TRY(read_stop_texts(o, stops));
    auto handle = std::make_unique<qinfer_generation>(session, o.reply, stops.view(), capi::flag_of(o.cancel));
    engine::GenerationOptions parsed = options_of(o);
    parsed.may_take_back = true;
    QINFER_TRY(handle->begin(*impl, parsed));
    *out = handle.release();
    return Status();
  });
}

qinfer_status qinfer_generation_next(qinfer_generation* generation, qinfer_token_info* out, qinfer_error* err) {
  return capi::with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    QINFER_REQUIRE(out);
    QINFER_TRY(capi::copy_out(qinfer_token_info{}, out, "qinfer_token_info"));
    QINFER_TRY(engine::next(impl, generation->cancelled, generation->event));
    return capi::copy_out(info_of(generation->event), out, "qinfer_token_info");
  });
}

qinfer_status qinfer_generation_finish(qinfer_generation* generation, qinfer_token_info* out, qinfer_error* err) {
  return capi::with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    QINFER_REQUIRE(out);
    QINFER_TRY(capi::copy_out(qinfer_token_info{}, out, "qinfer_token_info"));
    generation->event = {};
    impl.end(engine::Finish::callback, generation->event);
    return capi::copy_out(info_of(generation->event), out, "qinfer_token_info");
  });
}

qinfer_status qinfer_generation_take_back(qinfer_generation* generation, size_t n, size_t* out_text_len,
                                          qinfer_error* err) {
  return capi::with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    if (out_text_len != nullptr) *out_text_len = 0;
    QINFER_ASSIGN(const std::size_t kept, impl.take_back(n));
    if (out_text_len != nullptr) *out_text_len = kept;
    return Status();
  });
}

qinfer_status qinfer_generation_get_result(qinfer_generation* generation, qinfer_generate_result* out,
                                           qinfer_error* err) {
  return capi::with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    QINFER_REQUIRE(out);
    return capi::copy_out(result_of(impl.counts(), impl.finish()), out, "qinfer_generate_result");
  });
}

void qinfer_generation_free(qinfer_generation* generation) { capi::release(generation); }

}  // extern "C"
