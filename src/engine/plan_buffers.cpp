// See plan_buffers.h.
#include "engine/plan_buffers.h"

#include <fmt/ranges.h>

#include <iterator>
#include <utility>

#include "engine/inspect.h"
#include "formats/json.h"

namespace qinfer::engine {
namespace {

std::string_view step_name(Step step) {
  constexpr std::string_view kNames[] = {"embed", "qkv", "attention", "output", "ffn", "head"};
  return kNames[static_cast<std::size_t>(step)];
}

void append_text(std::string_view key, std::string_view value, std::string& out) {
  fmt::format_to(std::back_inserter(out), "\"{}\":", key);
  formats::append_json_string(value, out);
}

void append_buffer(const PlannedBuffer& buffer, bool is_scratch, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{{\"bytes\":{},", buffer.bytes);
  append_text("dtype", buffer.dtype, out);
  fmt::format_to(std::back_inserter(out), ",\"end\":{},", buffer.offset + buffer.bytes);
  if (is_scratch)
    fmt::format_to(std::back_inserter(out), "\"lifetime\":[\"{}\",\"{}\"],", step_name(buffer.lifetime.first),
                   step_name(buffer.lifetime.last));
  append_text("name", buffer.name, out);
  fmt::format_to(std::back_inserter(out), ",\"offset\":{},\"shape\":[{}]}}", buffer.offset,
                 fmt::join(buffer.shape, ","));
}

}  // namespace

std::string PlannedRegions::to_json(const model::ModelSpec& spec) const {
  std::string out = "{\"model\":{";
  append_text("architecture", spec.architecture, out);
  const Mixtures mixtures = mixtures_of(spec);
  const std::pair<std::string_view, std::uint32_t> sizes[] = {
      {"context_tokens", spec.context_tokens}, {"expert_ffn", mixtures.width}, {"head_dim", spec.head_dim},
      {"n_active_experts", mixtures.n_active}, {"n_embd", spec.n_embd},        {"n_expert_layers", mixtures.n_layers},
      {"n_experts", mixtures.n_experts},       {"n_ffn", spec.ffn_width()},    {"n_heads", spec.n_heads},
      {"n_kv_heads", spec.n_kv_heads},         {"n_layers", spec.n_layers()},  {"n_vocab", spec.n_vocab},
      {"shared_ffn", mixtures.shared_width}};
  for (const auto& [name, size] : sizes) fmt::format_to(std::back_inserter(out), ",\"{}\":{}", name, size);
  out += "},\"regions\":";
  char separator = '[';
  for (const PlannedRegion& region : regions) {
    out += separator;
    separator = ',';
    out += '{';
    append_text("belongs_to", region.belongs_to, out);
    out += ",\"buffers\":[";
    for (std::size_t i = 0; i < region.buffers.size(); ++i) {
      if (i != 0) out += ',';
      append_buffer(region.buffers[i], region.name == "scratch", out);
    }
    fmt::format_to(std::back_inserter(out), "],\"bytes\":{},", region.bytes);
    append_text("name", region.name, out);
    out += '}';
  }
  return out + "]}";
}

}  // namespace qinfer::engine
