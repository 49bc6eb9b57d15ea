// See plan_buffers.h.
#include "engine/plan_buffers.h"

#include <fmt/ranges.h>

#include <iterator>

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
  fmt::format_to(std::back_inserter(out),
                 ",\"context_tokens\":{},\"head_dim\":{},\"n_embd\":{},\"n_ffn\":{},\"n_heads\":{},\"n_kv_heads\":{},"
                 "\"n_layers\":{},\"n_vocab\":{}}},\"regions\":",
                 spec.context_tokens, spec.head_dim, spec.n_embd, spec.ffn_width(), spec.n_heads, spec.n_kv_heads,
                 spec.n_layers(), spec.n_vocab);
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
