// Generation: all in one call, or step by step.
#include <qinfer/qinfer.h>

#include <array>
#include <string>

#include "engine/generate.h"
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

/// What a generation that is made step by step has of its own, so that others with the same session do not disturb it.
struct StepMemory {
  std::vector<char> text;
  std::vector<std::string> stops;
  std::vector<std::string_view> stop_views;
  std::optional<text::Detokenizer> detokenizer;

  StepMemory(const engine::Session& session, const StopTexts& given)
      : text(session.text_buffer().size()),
        stops(given.view().begin(), given.view().end()),
        stop_views(stops.begin(), stops.end()) {
    if (const auto* tokenizer = session.model().tokenizer()) detokenizer.emplace(*tokenizer, false);
  }
};

}  // namespace qinfer::capi

namespace {

using capi::kMaxStops, capi::StopTexts;

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

struct qinfer_generation {
  qinfer_generation(qinfer_session* used, qinfer_reply* parsed, const StopTexts& stops, const std::atomic<bool>* cancel)
      : session(used), reply(parsed), memory(*used->impl, stops), cancelled(cancel) {
    ++session->holders;
    if (reply != nullptr) ++reply->holders;
  }
  qinfer_generation(const qinfer_generation&) = delete;
  qinfer_generation& operator=(const qinfer_generation&) = delete;
  ~qinfer_generation() {
    impl.reset();
    capi::release(reply);
    capi::release(session);
  }

  qinfer_session* session;
  qinfer_reply* reply;
  capi::StepMemory memory;
  const std::atomic<bool>* cancelled;
  std::optional<engine::Generation> impl;
};

namespace {

/// The rules for every call that changes a generation: it uses the session alone.
template <typename Body>
qinfer_status with_generation(qinfer_generation* generation, qinfer_error* err, Body&& body) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(generation);
    const capi::Exclusive exclusive(generation->session);
    auto session = usable(generation->session, exclusive);
    if (!session.ok()) return session.take_status();
    return body(*generation->impl);
  });
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
    auto handle = std::make_unique<qinfer_generation>(session, o.reply, stops, capi::flag_of(o.cancel));
    engine::GenerationOptions parsed = options_of(o);
    parsed.stop = handle->memory.stop_views;
    parsed.may_take_back = true;
    QINFER_TRY(engine::Generation::check(*impl, parsed));
    auto& detokenizer = handle->memory.detokenizer;
    handle->impl.emplace(*impl, parsed, detokenizer ? &*detokenizer : nullptr, handle->memory.text);
    *out = handle.release();
    return Status();
  });
}

qinfer_status qinfer_generation_next(qinfer_generation* generation, qinfer_token_info* out, qinfer_error* err) {
  return with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    QINFER_REQUIRE(out);
    QINFER_TRY(capi::copy_out(qinfer_token_info{}, out, "qinfer_token_info"));
    engine::GenerationEvent event;
    QINFER_TRY(engine::next(impl, generation->cancelled, event));
    return capi::copy_out(info_of(event), out, "qinfer_token_info");
  });
}

qinfer_status qinfer_generation_finish(qinfer_generation* generation, qinfer_token_info* out, qinfer_error* err) {
  return with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    QINFER_REQUIRE(out);
    QINFER_TRY(capi::copy_out(qinfer_token_info{}, out, "qinfer_token_info"));
    engine::GenerationEvent event;
    impl.end(engine::Finish::callback, event);
    return capi::copy_out(info_of(event), out, "qinfer_token_info");
  });
}

qinfer_status qinfer_generation_take_back(qinfer_generation* generation, size_t n, size_t* out_text_len,
                                          qinfer_error* err) {
  return with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    if (out_text_len != nullptr) *out_text_len = 0;
    QINFER_ASSIGN(const std::size_t kept, impl.take_back(n));
    if (out_text_len != nullptr) *out_text_len = kept;
    return Status();
  });
}

qinfer_status qinfer_generation_get_result(qinfer_generation* generation, qinfer_generate_result* out,
                                           qinfer_error* err) {
  return with_generation(generation, err, [&](engine::Generation& impl) -> Status {
    QINFER_REQUIRE(out);
    return capi::copy_out(result_of(impl.counts(), impl.finish()), out, "qinfer_generate_result");
  });
}

void qinfer_generation_free(qinfer_generation* generation) { delete generation; }

}  // extern "C"
