// The addon: what is made when JavaScript loads it, and how it ends with the environment that loaded it.
#include <vector>

#include "engine.h"
#include "instance.h"
#include "job.h"

namespace qinfer_node {
namespace {

/// Runs before the queue of the environment is taken down, and before any handle is freed.
void end_jobs(void* data) {
  Instance& instance = *static_cast<Instance*>(data);
  instance.ending = true;
  const std::vector<std::shared_ptr<Job>> jobs(instance.running.begin(), instance.running.end());
  instance.running.clear();
  for (const auto& job : jobs) job->request_end();
  for (Engine* engine : instance.engines) engine->close();
  for (Engine* engine : instance.engines) {
    engine->wait_for_end();
    engine->forget_instance();
  }
  instance.engines.clear();
  for (const auto& job : jobs) job->wait_for_end();
}

/// setErrorClass(QinferError)
napi_value set_error_class(const Args& args) {
  check(args.env, napi_create_reference(args.env, args[0], 1, &instance_of(args.env).error_class));
  return nullptr;
}

}  // namespace

Instance& instance_of(napi_env env) {
  void* data = nullptr;
  check(env, napi_get_instance_data(env, &data));
  return *static_cast<Instance*>(data);
}

void make_instance(napi_env env) {
  auto* instance = new Instance;
  instance->env = env;
  const auto release = [](napi_env, void* data, void*) { delete static_cast<Instance*>(data); };
  if (napi_set_instance_data(env, instance, release, nullptr) != napi_ok) {
    delete instance;
    check(env, napi_generic_failure);
  }
  check(env, napi_create_threadsafe_function(env, nullptr, nullptr, text(env, "qinfer"), 0, 1, nullptr, nullptr,
                                             nullptr, deliver_message, &instance->wake));
  check(env, napi_unref_threadsafe_function(env, instance->wake));
  // Hooks run in the opposite order, so this one comes before the one of the threadsafe function.
  check(env, napi_add_env_cleanup_hook(env, end_jobs, instance));
}

}  // namespace qinfer_node

NAPI_MODULE_INIT() {
  using namespace qinfer_node;
  try {
    make_instance(env);
    export_all(env, exports, {{"setErrorClass", entry<set_error_class>}});
    for (const auto part : {export_handles, export_job_control, export_library, export_model, export_text, export_reply,
                            export_session, export_store, export_model_jobs, export_session_jobs, export_pieces,
                            export_generate, export_engine, export_request, export_grammar})
      part(env, exports);
  } catch (const Thrown&) {
    return nullptr;
  }
  return exports;
}
