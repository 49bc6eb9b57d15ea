// A reply that is taken apart. It belongs to the JavaScript thread. A generation, which may run on another one and is
// ahead of its reader, has a copy; the reply itself gets each token when the program does.
#pragma once

#include "structs.h"

namespace qinfer_node {

class Reply {
 public:
  /// (model, conversation as JSON, options of the prompt and of the reply)
  explicit Reply(const Args& args);

  void push(napi_env env, qinfer_token token);
  void finish(napi_env env);
  /// Another one with the same tokens. QINFER_E_STATE if it is finished.
  std::shared_ptr<qinfer_reply> copy(napi_env env) const;
  qinfer_reply* native() const { return native_.get(); }

 private:
  std::shared_ptr<qinfer_reply> make(napi_env env) const;

  const std::shared_ptr<qinfer_model> model_;
  const ChatArguments chat_;
  std::uint32_t flags_ = 0;
  std::vector<qinfer_token> tokens_;
  bool finished_ = false;
  std::shared_ptr<qinfer_reply> native_;
};

}  // namespace qinfer_node
