// Functions of the addon for the library itself and for runtimes.
#include "handles.h"
#include "instance.h"
#include "structs.h"

namespace qinfer_node {
namespace {

napi_value version(const Args& args) { return text(args.env, qinfer_version_string()); }
napi_value build_info(const Args& args) { return text(args.env, qinfer_build_info()); }

/// statusName(status): "QINFER_E_IO"
napi_value status_name(const Args& args) {
  const double status = integer_of(args.env, args[0], "a status", INT32_MIN, INT32_MAX);
  return text(args.env, qinfer_status_name(static_cast<qinfer_status>(status)));
}

napi_value cpu_info(const Args& args) {
  qinfer_cpu_info info = sized<qinfer_cpu_info>();
  call(args.env, [&](qinfer_error* err) { return qinfer_get_cpu_info(&info, err); });
  const napi_value name = read_text(args.env, [](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_cpu_name(data, room, n, err);
  });
  const napi_value features = read_text(args.env, [](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_cpu_features(data, room, n, err);
  });
  return Record(args.env)
      .set("modelName", name)
      .set("features", features)
      .set("target", info.target)
      .set("nPhysicalCores", info.n_physical_cores)
      .set("nLogicalCores", info.n_logical_cores)
      .set("nNumaNodes", info.n_numa_nodes)
      .set("l1dBytes", info.l1d_bytes)
      .set("l2Bytes", info.l2_bytes)
      .set("l3Bytes", info.l3_bytes)
      .object();
}

/// runtimeCreate({threads, cpuTarget, exact, tiles, spinUs})
napi_value runtime_create(const Args& args) {
  const Options options(args.env, args[0]);
  RuntimeArguments runtime(options);
  qinfer_runtime* out = nullptr;
  call(args.env, [&](qinfer_error* err) { return qinfer_runtime_create(&runtime.native, &out, err); });
  return box(args.env, Kind::runtime,
             {out, [](void* data) { qinfer_runtime_free(static_cast<qinfer_runtime*>(data)); }});
}

napi_value runtime_info(const Args& args) {
  const auto runtime = object_of<qinfer_runtime>(args.env, args[0]);
  qinfer_runtime_info info = sized<qinfer_runtime_info>();
  call(args.env, [&](qinfer_error* err) { return qinfer_runtime_get_info(runtime.get(), &info, err); });
  return Record(args.env).set("nThreads", info.n_threads).set("target", info.target).object();
}

napi_value runtime_metrics(const Args& args) {
  const auto runtime = object_of<qinfer_runtime>(args.env, args[0]);
  qinfer_metrics metrics = sized<qinfer_metrics>();
  call(args.env, [&](qinfer_error* err) { return qinfer_runtime_get_metrics(runtime.get(), &metrics, err); });
  return metrics_object(args.env, metrics);
}

}  // namespace

void export_library(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"version", entry<version>},
              {"buildInfo", entry<build_info>},
              {"statusName", entry<status_name>},
              {"cpuInfo", entry<cpu_info>},
              {"runtimeCreate", entry<runtime_create>},
              {"runtimeInfo", entry<runtime_info>},
              {"runtimeMetrics", entry<runtime_metrics>}});
}

}  // namespace qinfer_node
