// Structs of qinfer.h that several functions take or give: options with the texts that they point to, and results as
// objects of JavaScript.
#pragma once

#include "handles.h"

namespace qinfer_node {

struct RuntimeArguments {
  explicit RuntimeArguments(const Options& options);
  RuntimeArguments(const RuntimeArguments&) = delete;
  RuntimeArguments& operator=(const RuntimeArguments&) = delete;
  qinfer_runtime_options native;

 private:
  std::optional<std::string> cpu_target_;
};

/// Without progress, cancel and files, which depend on the call.
struct LoadArguments {
  explicit LoadArguments(const Options& options);
  LoadArguments(const LoadArguments&) = delete;
  LoadArguments& operator=(const LoadArguments&) = delete;
  qinfer_load_options native;

 private:
  std::optional<std::string> weight_format_, packed_path_;
};

/// A conversation as JSON, and how a prompt is made of it.
struct ChatArguments {
  ChatArguments(napi_env env, napi_value conversation, napi_value options);
  ChatArguments(const ChatArguments&) = delete;
  ChatArguments& operator=(const ChatArguments&) = delete;
  std::string conversation;
  qinfer_chat_options native;

 private:
  std::optional<std::string> template_, template_name_, now_;
};

qinfer_kv_cache_options cache_options(napi_env env, const Options& options);
qinfer_session_options session_options(const Options& options);

napi_value metrics_object(napi_env env, const qinfer_metrics& metrics);
napi_value memory_object(napi_env env, const qinfer_memory& memory);

}  // namespace qinfer_node
