// A logits hook whose functions are JavaScript's.
//
// The functions are members of an object that only the JavaScript session refers to: a reference of ours would keep a
// session alive for ever whose hook refers to it. Ours is weak, and strong while a call runs.
#pragma once

#include "handles.h"

namespace qinfer_node {

class Hook {
 public:
  /// functions: {apply(logits), accept?(token), rewind?(n)}.
  Hook(napi_env env, Session& session, napi_value functions);
  ~Hook();
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

  /// A call on the session begins (true) or is over.
  void hold(bool held);

  /// As the library takes it; releasing it deletes this object.
  qinfer_logits_hook native();

 private:
  bool apply(float* logits, std::uint32_t n_vocab);
  bool accept(qinfer_token token);
  bool rewind(std::size_t n_tokens);
  template <class Work>
  std::int32_t run(const Work& work);
  napi_value functions() const;
  napi_value function(const char* name) const;

  const napi_env env_;
  Session& session_;
  napi_ref functions_ = nullptr;
  Reference array_;  ///< the Float32Array of the last call, for the next one
};

/// setLogitsHook(session, functions or undefined)
napi_value set_logits_hook(const Args& args);

}  // namespace qinfer_node
