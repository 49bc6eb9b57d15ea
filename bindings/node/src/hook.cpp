// See hook.h; and the function that sets and clears the hook of a session.
#include "hook.h"

#include <cstring>

#include "instance.h"
#include "job.h"

namespace qinfer_node {

Hook::Hook(napi_env env, Session& session, napi_value functions) : env_(env), session_(session) {
  check(env, napi_create_reference(env, functions, 0, &functions_));
}

Hook::~Hook() {
  if (session_.hook == this) session_.hook = nullptr;
  napi_delete_reference(env_, functions_);
}

void Hook::hold(bool held) {
  std::uint32_t count = 0;
  if (held)
    napi_reference_ref(env_, functions_, &count);
  else
    napi_reference_unref(env_, functions_, &count);
}

napi_value Hook::functions() const {
  napi_value object = nullptr;
  check(env_, napi_get_reference_value(env_, functions_, &object));
  if (object == nullptr) throw_type_error(env_, "the logits hook was collected");
  return object;
}

napi_value Hook::function(const char* name) const {
  napi_value out = nullptr;
  check(env_, napi_get_named_property(env_, functions(), name, &out));
  return out;
}

bool Hook::apply(float* logits, std::uint32_t n_vocab) {
  View<float> view = {nullptr, 0};
  if (array_) view = floats_of(env_, array_.get(), "the logits");
  if (view.size != n_vocab) {  // none yet, or JavaScript detached it
    napi_value buffer = nullptr, array = nullptr;
    void* data = nullptr;
    check(env_, napi_create_arraybuffer(env_, n_vocab * sizeof(float), &data, &buffer));
    check(env_, napi_create_typedarray(env_, napi_float32_array, n_vocab, buffer, 0, &array));
    array_ = Reference(env_, array);
    view = {static_cast<float*>(data), n_vocab};
  }
  std::memcpy(view.data, logits, n_vocab * sizeof(float));
  const bool going = goes_on(env_, call_function(env_, functions(), function("apply"), {array_.get()}), "apply");
  view = floats_of(env_, array_.get(), "the logits");
  if (view.size != n_vocab) throw_type_error(env_, "the logits were detached by the hook");
  std::memcpy(logits, view.data, n_vocab * sizeof(float));
  return going;
}

bool Hook::accept(qinfer_token token) {
  const napi_value accept = function("accept");
  return is_nullish(env_, accept) ||
         goes_on(env_, call_function(env_, functions(), accept, {number(env_, token)}), "accept");
}

bool Hook::rewind(std::size_t n_tokens) {
  const napi_value rewind = function("rewind");
  if (is_nullish(env_, rewind)) return true;
  return goes_on(env_, call_function(env_, functions(), rewind, {number(env_, static_cast<double>(n_tokens))}),
                 "rewind");
}

template <class Work>
std::int32_t Hook::run(const Work& work) {
  if (session_.job != nullptr) return session_.job->on_js_thread(work) ? 0 : 1;
  // A short call on the JavaScript thread: truncate and setTokens take tokens back.
  bool going = false;
  ++session_.in_callback;
  try {
    going = work();
  } catch (const Thrown&) {
    keep_exception(env_, session_.raised);
  }
  --session_.in_callback;
  return going ? 0 : 1;
}

qinfer_logits_hook Hook::native() {
  qinfer_logits_hook native = sized<qinfer_logits_hook>();
  native.user = this;
  native.apply = [](const qinfer_session*, float* logits, std::uint32_t n_vocab, void* user) {
    Hook& hook = *static_cast<Hook*>(user);
    return hook.run([&] { return hook.apply(logits, n_vocab); });
  };
  native.accept = [](qinfer_token token, void* user) {
    Hook& hook = *static_cast<Hook*>(user);
    return hook.run([&] { return hook.accept(token); });
  };
  native.rewind = [](std::size_t n_tokens, void* user) {
    Hook& hook = *static_cast<Hook*>(user);
    return hook.run([&] { return hook.rewind(n_tokens); });
  };
  native.release = [](void* user) { delete static_cast<Hook*>(user); };
  return native;
}

napi_value set_logits_hook(const Args& args) {
  const std::shared_ptr<Session> session = idle_session(args.env, args[0]);
  if (is_nullish(args.env, args[1])) {
    call(args.env, [&](qinfer_error* err) { return qinfer_session_set_logits_hook(session->handle, nullptr, err); });
    session->matcher.reset();
    return nullptr;
  }
  auto hook = std::make_unique<Hook>(args.env, *session, args[1]);
  const qinfer_logits_hook native = hook->native();
  call(args.env, [&](qinfer_error* err) { return qinfer_session_set_logits_hook(session->handle, &native, err); });
  session->hook = hook.release();
  session->matcher.reset();
  return nullptr;
}

}  // namespace qinfer_node
