// See logits_hook.h; and the functions of the C ABI that set and clear a hook.
#include "logits_hook.h"

#include "support.h"

namespace qinfer::capi {

HostHook::~HostHook() {
  if (hook_.release != nullptr) hook_.release(hook_.user);
}

bool HostHook::apply(std::span<float> logits) {
  return hook_.apply(session_, logits.data(), static_cast<std::uint32_t>(logits.size()), hook_.user) == 0;
}

bool HostHook::accept(std::int32_t token) { return hook_.accept == nullptr || hook_.accept(token, hook_.user) == 0; }

bool HostHook::rewind(std::size_t n_tokens) {
  return hook_.rewind == nullptr || hook_.rewind(n_tokens, hook_.user) == 0;
}

Result<std::unique_ptr<engine::LogitsHook>> HostHook::clone() const {
  if (hook_.clone == nullptr) return std::unique_ptr<engine::LogitsHook>();
  auto copy = std::make_unique<HostHook>(nullptr);  // first, so that nothing can fail once the host has cloned
  qinfer_logits_hook hook = hook_;
  hook.user = nullptr;
  if (hook_.clone(hook_.user, &hook.user) != 0)
    return Status::fixed(Code::cancelled,
                         "the clone function of the session's logits hook refused: nothing was forked");
  copy->adopt(hook);
  return std::unique_ptr<engine::LogitsHook>(std::move(copy));
}

}  // namespace qinfer::capi

using namespace qinfer;

extern "C" {

qinfer_status qinfer_session_set_logits_hook(qinfer_session* session, const qinfer_logits_hook* hook,
                                             qinfer_error* err) {
  return capi::guard(err, [&]() -> Status {
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, capi::usable(session, exclusive));
    if (hook == nullptr) {
      impl->sampling().set_hook(nullptr);
      return Status();
    }
    qinfer_logits_hook copied;
    QINFER_TRY(capi::copy_in(hook, copied, "qinfer_logits_hook"));
    if (copied.apply == nullptr) return capi::null_argument("qinfer_logits_hook.apply");
    QINFER_TRY(impl->check_samples());
    auto owned = std::make_unique<capi::HostHook>(session);
    owned->adopt(copied);  // from here on nothing fails: after a failure the host still owns its user
    impl->sampling().set_hook(std::move(owned));
    return Status();
  });
}

}  // extern "C"
