// Fuzzes a lone config.json with arbitrary bytes: text -> JSON -> model spec -> memory plan. Whatever is accepted must
// give a plan without overflow.
#include <qinfer/qinfer.h>

#include <cstddef>
#include <cstdint>

#include "support/checkpoint_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const qinfer::test::ModelDir folder;
  static const std::string path = folder.file("config.json");
  folder.write("config.json", {reinterpret_cast<const char*>(data), size});
  qinfer_runtime_options runtime = {};
  runtime.struct_size = sizeof runtime;
  runtime.n_threads = 8;
  qinfer_kv_cache_options cache = {};
  cache.struct_size = sizeof cache;
  qinfer_memory m = {};
  m.struct_size = sizeof m;
  qinfer_error err = {};
  if (qinfer_model_plan(path.c_str(), &runtime, nullptr, &cache, nullptr, &m, &err) != QINFER_OK) {
    if (err.message[0] == '\0' || err.code == QINFER_E_INTERNAL) __builtin_trap();
    return 0;
  }
  constexpr std::uint64_t kLimit = UINT64_MAX / 4;
  if (m.total > kLimit || m.load_peak > kLimit || m.per_session > kLimit) __builtin_trap();
  if (m.total != m.weights_mapped + m.weights_private + m.tables + m.scratch + m.kv_cache_bytes + m.kv_lists)
    __builtin_trap();
  return 0;
}
