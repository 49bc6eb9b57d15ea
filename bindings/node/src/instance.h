// What the addon keeps for each JavaScript environment that loads it: the main thread has one, and so has every worker
// thread. There is no other state, so that environments know nothing of each other.
#pragma once

#include <memory>
#include <set>

#include "values.h"

namespace qinfer_node {

class Engine;
class Job;

struct Instance {
  napi_env env = nullptr;
  napi_ref error_class = nullptr;           ///< QinferError
  napi_threadsafe_function wake = nullptr;  ///< takes Job::Message
  std::set<std::shared_ptr<Job>> running;   ///< jobs with a separate thread
  std::set<Engine*> engines;                ///< those that were not freed
  std::size_t held = 0;                     ///< jobs that keep the process alive
  bool ending = false;                      ///< the environment is being taken down
};

Instance& instance_of(napi_env env);

/// Makes the instance of an environment, and arranges that its threads end before it does.
void make_instance(napi_env env);

/// Each part adds its functions to `exports`.
void export_handles(napi_env env, napi_value exports);
void export_job_control(napi_env env, napi_value exports);
void export_library(napi_env env, napi_value exports);
void export_model(napi_env env, napi_value exports);
void export_text(napi_env env, napi_value exports);
void export_reply(napi_env env, napi_value exports);
void export_session(napi_env env, napi_value exports);
void export_store(napi_env env, napi_value exports);
void export_model_jobs(napi_env env, napi_value exports);
void export_session_jobs(napi_env env, napi_value exports);
void export_pieces(napi_env env, napi_value exports);
void export_generate(napi_env env, napi_value exports);
void export_engine(napi_env env, napi_value exports);
void export_request(napi_env env, napi_value exports);
void export_grammar(napi_env env, napi_value exports);

struct Exported {
  const char* name;
  napi_callback function;
};
template <std::size_t n>
void export_all(napi_env env, napi_value exports, const Exported (&functions)[n]) {
  for (const Exported& exported : functions) {
    napi_value function = nullptr;
    check(env, napi_create_function(env, exported.name, NAPI_AUTO_LENGTH, exported.function, nullptr, &function));
    check(env, napi_set_named_property(env, exports, exported.name, function));
  }
}

}  // namespace qinfer_node
