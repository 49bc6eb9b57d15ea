// What the tests of a host's files share: files in memory whose every call can be made to fail, and what the library
// makes of each status. See memory_files.h.
#pragma once

#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cstddef>

#include "support/c_api.h"
#include "support/memory_files.h"

namespace qinfer::test {

/// Every status that a callback can give, and two values that are none.
inline constexpr qinfer_status kStatuses[] = {QINFER_E_INTERNAL,
                                              QINFER_E_INVALID_ARGUMENT,
                                              QINFER_E_STATE,
                                              QINFER_E_UNSUPPORTED,
                                              QINFER_E_NO_MEMORY,
                                              QINFER_E_IO,
                                              QINFER_E_NOT_FOUND,
                                              QINFER_E_FORMAT,
                                              QINFER_E_BUFFER_TOO_SMALL,
                                              QINFER_E_KV_FULL,
                                              QINFER_E_CONTEXT_FULL,
                                              QINFER_E_CANCELLED,
                                              QINFER_E_NUMERIC,
                                              -77,
                                              5};

/// What the library makes of it, unless an open says that a file is not there.
inline qinfer_status returned_for(qinfer_status given) {
  const bool known = given < 0 && given >= QINFER_E_NUMERIC;
  return known && given != QINFER_E_INTERNAL && given != QINFER_E_NOT_FOUND ? given : QINFER_E_IO;
}

inline TinySpec small(std::uint32_t shards) {
  TinySpec spec;
  spec.shards = shards;
  spec.context_tokens = 256;
  return spec;
}

/// Puts a model directory into memory under "models/tiny".
inline void take_directory(const ModelDir& dir, std::uint32_t shards, MemoryFiles& files) {
  std::vector<std::string> names = {"config.json", "tokenizer.json"};
  if (shards == 1) names.push_back("model.safetensors");
  if (shards > 1) names.push_back("model.safetensors.index.json");
  for (std::uint32_t i = 1; i <= shards && shards > 1; ++i)
    names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i, shards));
  for (const std::string& name : names) files.files["models/tiny/" + name] = dir.read(name);
}

struct Host {
  Runtime runtime = make_runtime(2, "reference");
  MemoryFiles files;

  qinfer_load_options options(std::uint32_t flags = 0) {
    auto options = sized<qinfer_load_options>();
    options.flags = flags;
    options.files = files.callbacks();
    return options;
  }
  qinfer_status load(const char* path, const qinfer_load_options& options, Model& out, qinfer_error& err) {
    files.forget();
    qinfer_model* model = reinterpret_cast<qinfer_model*>(1);
    const qinfer_status status = qinfer_model_load(runtime.get(), path, &options, &model, &err);
    REQUIRE((model != nullptr) == (status == QINFER_OK));
    out.reset(model);
    return status;
  }
};

inline std::vector<float> logits_of(const Model& model, std::size_t n = 20) {
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(n, info.n_vocab));
  eval(session);
  return last_logits(session, info.n_vocab);
}

inline qinfer_memory memory_of(const Model& model) {
  auto memory = sized<qinfer_memory>();
  REQUIRE_OK(qinfer_model_get_memory(model.get(), &memory, &err));
  memory.per_session = memory.kv_per_block = memory.kv_per_token = memory.kv_per_session = 0;
  memory.system_limit = memory.system_available = 0;
  return memory;
}

/// The plan of the model alone, as memory_of() gives it before the first session.
inline qinfer_memory plan_of(const char* path, const qinfer_load_options& options) {
  auto runtime = sized<qinfer_runtime_options>();
  runtime.n_threads = 2;
  runtime.cpu_target = "reference";
  auto session = sized<qinfer_session_options>();
  session.max_tokens = 1;
  auto memory = sized<qinfer_memory>();
  REQUIRE_OK(qinfer_model_plan(path, &runtime, &options, nullptr, &session, &memory, &err));
  return memory;
}

inline void require_planned(const qinfer_memory& plan, const qinfer_memory& used) {
  REQUIRE(plan.weights_mapped == used.weights_mapped);
  REQUIRE(plan.weights_private == used.weights_private);
  REQUIRE(plan.scratch == used.scratch);
  REQUIRE(plan.load_peak == used.load_peak);
}

/// Loads with the n-th call failing, for every n and every status.
inline void fail_every_call(Host& host, const char* path, const qinfer_load_options& options) {
  MemoryFiles& files = host.files;
  files.fail_at = SIZE_MAX;
  Model model;
  qinfer_error err = {};
  REQUIRE(host.load(path, options, model, err) == QINFER_OK);
  const std::vector<float> expected = logits_of(model);
  model.reset();
  const std::vector<MemoryFiles::Call> calls = files.calls;
  for (std::size_t n = 0; n < calls.size(); ++n)
    for (const qinfer_status given : kStatuses) {
      files.fail_at = n;
      files.fail_with = given;
      const qinfer_status status = host.load(path, options, model, err);
      INFO("call " << n << " (" << calls[n].what << " of " << calls[n].name << ") gives " << given << ": "
                   << qinfer_status_name(status) << " " << err.message);
      if (calls[n].what == "close") {
        REQUIRE(status == QINFER_OK);
      } else if (calls[n].what == "open" && given == QINFER_E_NOT_FOUND) {
        if (status != QINFER_OK) REQUIRE(std::string(err.message) != "");
      } else {
        REQUIRE(status == returned_for(given));
        REQUIRE_THAT(std::string(err.message), contains(calls[n].name));
        REQUIRE_THAT(std::string(err.message), contains("the host's " + calls[n].what));
      }
      model.reset();
      REQUIRE(files.all_closed());
      REQUIRE_FALSE(files.misused);
    }
  files.fail_at = SIZE_MAX;
  REQUIRE(host.load(path, options, model, err) == QINFER_OK);
  REQUIRE(logits_of(model) == expected);
}

}  // namespace qinfer::test
