// See buffer_map.h.
#include "engine/buffer_map.h"

#include "formats/json.h"

namespace qinfer::engine {
namespace {

std::string_view step_name(Step step) {
  constexpr std::string_view kNames[] = {"embed", "qkv", "attention", "output", "ffn", "head"};
  return kNames[static_cast<std::size_t>(step)];
}

formats::Json as_json(const MappedBuffer& buffer, bool is_scratch) {
  formats::Json json = {{"name", buffer.name},   {"offset", buffer.offset}, {"end", buffer.offset + buffer.bytes},
                        {"bytes", buffer.bytes}, {"shape", buffer.shape},   {"dtype", buffer.dtype}};
  if (is_scratch) json["lifetime"] = {step_name(buffer.lifetime.first), step_name(buffer.lifetime.last)};
  return json;
}

}  // namespace

std::string BufferMap::to_json(const model::ModelSpec& spec) const {
  formats::Json list = formats::Json::array();
  for (const MappedRegion& region : regions) {
    formats::Json buffers = formats::Json::array();
    for (const MappedBuffer& buffer : region.buffers) buffers.push_back(as_json(buffer, region.name == "scratch"));
    list.push_back({{"name", region.name},
                    {"belongs_to", region.belongs_to},
                    {"bytes", region.bytes},
                    {"buffers", std::move(buffers)}});
  }
  const formats::Json model = {{"architecture", spec.architecture},
                               {"n_layers", spec.n_layers()},
                               {"n_embd", spec.n_embd},
                               {"n_heads", spec.n_heads},
                               {"n_kv_heads", spec.n_kv_heads},
                               {"head_dim", spec.head_dim},
                               {"n_ffn", spec.n_ffn},
                               {"n_vocab", spec.n_vocab},
                               {"context_tokens", spec.context_tokens}};
  return formats::Json({{"model", model}, {"regions", std::move(list)}})
      .dump(-1, ' ', false, formats::Json::error_handler_t::replace);
}

}  // namespace qinfer::engine
