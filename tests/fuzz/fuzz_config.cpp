// Fuzzes config.json: text -> JSON -> model spec -> memory plan. Whatever is accepted must give a plan without
// overflow, and no RoPE frequency table may crash.
#include <cstddef>
#include <cstdint>

#include "engine/plan.h"
#include "formats/json.h"
#include "model/hf_config.h"
#include "model/rope.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto json = qinfer::formats::parse_json(text, "config.json");
  if (!json.ok()) return 0;
  auto parsed = qinfer::model::parse_hf_config(json.value(), "config.json");
  if (!parsed.ok()) return 0;
  qinfer::engine::ModelFiles files;
  files.spec = std::move(parsed.value().spec);
  files.spec.tied_embeddings = parsed.value().tied == qinfer::model::Tied::yes;
  if (!qinfer::model::apply_generation_config(json.value(), "generation_config.json", files.spec).ok())
    __builtin_trap();  // the same fields were accepted before
  if (qinfer::model::rope_frequencies(files.spec.rope, files.spec.head_dim).size() != files.spec.head_dim / 2)
    __builtin_trap();
  qinfer::engine::RuntimeOptions runtime;
  runtime.n_threads = 8;
  qinfer::engine::KvCacheOptions cache;
  const qinfer::engine::SessionOptions session;
  auto plan = qinfer::engine::plan_memory(files, runtime, {}, &cache, &session);
  if (!plan.ok()) return 0;
  const auto& totals = plan.value();
  constexpr std::uint64_t kLimit = UINT64_MAX / 4;
  if (totals.total > kLimit || totals.load_peak > kLimit || totals.per_session > kLimit) __builtin_trap();
  if (totals.total !=
      totals.weights_mapped + totals.weights_private + totals.tables + totals.scratch + totals.kv_cache_bytes)
    __builtin_trap();
  return 0;
}
