// SmolLM3: some layers have no rotary embedding, and these may have a window.
#include "source/architectures/rows.h"
#include "source/hf_windows.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::find_field;
using formats::Json;
using model::AttentionSpec;
using model::ModelSpec;

/// Which layers have none: no_rope_layers (a list in which, against its name, 1 is a layer with rope and 0 one without)
/// or, without that, each n-th layer, n being no_rope_layer_interval.
Status read_layers_without_rope(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  constexpr std::int64_t kEvery = 4, kMaxEvery = 1 << 20;
  const Json* list = find_field(fields.object(), "no_rope_layers");
  if (list == nullptr) {
    const Json* stated = fields.object().find("no_rope_layer_interval");
    if (stated != nullptr && stated->is_null())
      return error_at(Code::format, -1, "{}: \"no_rope_layer_interval\" is null, expected 1 to {}, or no field",
                      fields.where(), kMaxEvery);
    QINFER_ASSIGN(const auto every, fields.integer("no_rope_layer_interval", 1, kMaxEvery));
    for (std::size_t i = 0; i < spec.layers.size(); ++i)
      spec.layers[i].attention()->no_rope = (static_cast<std::int64_t>(i) + 1) % every.value_or(kEvery) == 0;
    return Status();
  }
  if (!list->is_array() || list->size() < spec.layers.size())
    return error_at(Code::format, -1, "{}: \"no_rope_layers\" must list at least {} layers", fields.where(),
                    spec.layers.size());
  std::size_t i = 0;
  for (const Json& item : *list) {
    if (!item.is_integer() || item.integer() < 0 || item.integer() > 1)
      return error_at(Code::format, -1, "{}: \"no_rope_layers\" holds {}, expected 1 (with rope) or 0 (without)",
                      fields.where(), formats::json_text(item));
    if (i < spec.layers.size()) spec.layers[i++].attention()->no_rope = item.integer() == 0;
  }
  return Status();
}

/// Layers without rotary embedding have a window, or those that "layer_types" names. transformers applies the latter
/// without use_sliding_window in some of its attention functions and not in others, so that is refused.
Status read_windows_without_rope(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const WindowFields found, read_window_fields(fields));
  const bool use = found.use.value_or(false);
  QINFER_ASSIGN(const bool by_type, read_layer_types(fields, found.window, spec));
  if (by_type) {
    if (spec.largest_attention().window != 0 && !use)
      return error_at(Code::format, -1,
                      "{}: \"layer_types\" has sliding_attention but \"use_sliding_window\" is not true",
                      fields.where());
    return Status();
  }
  if (use && found.window == 0 && fields.has("sliding_window"))
    return error_at(Code::format, -1, "{}: \"sliding_window\" is 0, expected a positive number, or null",
                    fields.where());
  spec.each_attention([&](AttentionSpec& layer) { layer.window = use && layer.no_rope ? found.window : 0; });
  return Status();
}

}  // namespace

constexpr Architecture kSmolLM3{.name = "SmolLM3ForCausalLM",
                                .attention_bias = true,
                                .mlp_bias = true,
                                .default_kv_heads = 4,
                                .rope = {.default_theta = 2e6},
                                .tied_by_default = true,
                                .read_own = read_layers_without_rope,
                                .read_windows = read_windows_without_rope};

constexpr GgufArchitecture kGgufSmolLM3{.name = "smollm3", .hugging_face = "SmolLM3ForCausalLM", .interleaved = true};

}  // namespace qinfer::source
