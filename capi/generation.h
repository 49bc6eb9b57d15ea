// The handle of a generation that is made step by step.
#pragma once

#include <qinfer/qinfer.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "engine/openai.h"
#include "support.h"

struct qinfer_generation {
  /// `parsed` may be null. `of`: the request whose choice it draws, or null.
  qinfer_generation(qinfer_session* used, qinfer_reply* parsed, std::span<const std::string_view> stop,
                    const std::atomic<bool>* cancel, std::shared_ptr<const qinfer::engine::OpenAiRequest> of = nullptr,
                    std::size_t choice_of = 0)
      : session(used),
        reply(parsed),
        cancelled(cancel),
        text(used->impl->text_buffer().size()),
        stops(stop.begin(), stop.end()),
        stop_views(stops.begin(), stops.end()),
        request(std::move(of)),
        choice(choice_of) {
    if (const auto* tokenizer = session->impl->model().tokenizer()) detokenizer.emplace(*tokenizer, false);
    // Last, for the destructor of what has failed to be made does not run.
    ++session->holders;
    if (reply != nullptr) ++reply->holders;
  }
  qinfer_generation(const qinfer_generation&) = delete;
  qinfer_generation& operator=(const qinfer_generation&) = delete;
  ~qinfer_generation() {
    impl.reset();
    qinfer::capi::release(reply);
    qinfer::capi::release(session);
  }

  /// `options` without stop texts and reply, which are here.
  qinfer::Status begin(qinfer::engine::Session& used, qinfer::engine::GenerationOptions options) {
    options.stop = stop_views;
    options.reply = reply != nullptr ? reply->impl.get() : nullptr;
    QINFER_TRY(qinfer::engine::Generation::check(used, options));
    impl.emplace(used, options, detokenizer ? &*detokenizer : nullptr, text);
    return qinfer::Status();
  }

  std::atomic<std::uint32_t> holders{1};  ///< the host, and requests
  qinfer_session* session;
  qinfer_reply* reply;
  const std::atomic<bool>* cancelled;
  // Its own, so that others with the same session do not disturb it.
  std::vector<char> text;
  std::vector<std::string> stops;
  std::vector<std::string_view> stop_views;
  std::optional<qinfer::text::Detokenizer> detokenizer;
  std::optional<qinfer::engine::Generation> impl;
  qinfer::engine::GenerationEvent event;  ///< the last one
  std::shared_ptr<const qinfer::engine::OpenAiRequest> request;
  std::size_t choice;
};

namespace qinfer::capi {

qinfer_token_info info_of(const engine::GenerationEvent& event);

/// The rules for every call that uses a generation: it uses the session alone.
template <typename Body>
qinfer_status with_generation(qinfer_generation* generation, qinfer_error* err, Body&& body) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(generation);
    const Exclusive exclusive(generation->session);
    auto session = usable(generation->session, exclusive);
    if (!session.ok()) return session.take_status();
    return body(*generation->impl);
  });
}

}  // namespace qinfer::capi
