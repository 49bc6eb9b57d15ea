// See plan_buffers.h.
#include "engine/plan_buffers.h"

#include <iterator>
#include <utility>

#include "base/format.h"
#include "engine/inspect.h"
#include "formats/json.h"

namespace qinfer::engine {
namespace {

std::string_view step_name(Step step) {
  constexpr std::string_view kNames[] = {"embed", "qkv", "attention", "output", "ffn", "head"};
  return kNames[static_cast<std::size_t>(step)];
}

void append_member(std::string_view key, std::string_view value, std::string& out) {
  append_text(out, "\"{}\":", key);
  formats::append_json_string(value, out);
}

void append_buffer(const PlannedBuffer& buffer, bool is_scratch, std::string& out) {
  append_text(out, "{{\"bytes\":{},", buffer.bytes);
  append_member("dtype", buffer.dtype, out);
  append_text(out, ",\"end\":{},", buffer.offset + buffer.bytes);
  if (is_scratch)
    append_text(out, "\"lifetime\":[\"{}\",\"{}\"],", step_name(buffer.lifetime.first),
                step_name(buffer.lifetime.last));
  append_member("name", buffer.name, out);
  append_text(out, ",\"offset\":{},\"shape\":[{}]}}", buffer.offset, join_texts(buffer.shape, ","));
}

}  // namespace

std::string PlannedRegions::to_json(const model::ModelSpec& spec) const {
  std::string out = "{\"model\":{";
  append_member("architecture", spec.architecture, out);
  const Mixtures mixtures = mixtures_of(spec);
  const model::AttentionSpec attention = spec.largest_attention();
  const std::pair<std::string_view, std::uint32_t> sizes[] = {
      {"context_tokens", spec.context_tokens}, {"expert_ffn", mixtures.width}, {"head_dim", attention.head_dim},
      {"n_active_experts", mixtures.n_active}, {"n_embd", spec.n_embd},        {"n_expert_layers", mixtures.n_layers},
      {"n_experts", mixtures.n_experts},       {"n_ffn", spec.ffn_width()},    {"n_heads", attention.n_heads},
      {"n_kv_heads", attention.n_kv_heads},    {"n_layers", spec.n_layers()},  {"n_vocab", spec.n_vocab},
      {"shared_ffn", mixtures.shared_width}};
  for (const auto& [name, size] : sizes) append_text(out, ",\"{}\":{}", name, size);
  out += "},\"regions\":";
  char separator = '[';
  for (const PlannedRegion& region : regions) {
    out += separator;
    separator = ',';
    out += '{';
    append_member("belongs_to", region.belongs_to, out);
    out += ",\"buffers\":[";
    for (std::size_t i = 0; i < region.buffers.size(); ++i) {
      if (i != 0) out += ',';
      append_buffer(region.buffers[i], region.name == "scratch", out);
    }
    append_text(out, "],\"bytes\":{},", region.bytes);
    append_member("name", region.name, out);
    out += '}';
  }
  return out + "]}";
}

}  // namespace qinfer::engine
