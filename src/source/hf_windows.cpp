// See hf_windows.h. What a missing field means is that of transformers' configuration classes.
#include "source/hf_windows.h"

#include <optional>

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::find_field;
using formats::Json;
using model::AttentionSpec;
using model::ModelSpec;

/// The window of each layer from "layer_types" (version 5), which wins over the older rules.
Status read_layer_types(const FieldReader& fields, const Json& types, std::uint32_t window, ModelSpec& spec) {
  if (!types.is_array() || types.size() != spec.layers.size())
    return error_at(Code::format, -1, "{}: \"layer_types\" must list {} layers", fields.where(), spec.layers.size());
  auto layer = spec.layers.begin();
  for (const Json& item : types) {
    AttentionSpec& of_type = *(layer++)->attention();
    const std::string_view type = item.is_string() ? item.text() : formats::type_name(item.type());
    if (type == "full_attention") continue;
    if (type != "sliding_attention")
      return error(Code::unsupported,
                   "{}: \"layer_types\" holds \"{}\", known are full_attention and sliding_attention", fields.where(),
                   type);
    if (window == 0)
      return error_at(Code::format, -1, "{}: \"layer_types\" has sliding_attention but \"sliding_window\" is not set",
                      fields.where());
    of_type.window = window;
  }
  return Status();
}

/// Layers without rotary embedding have a window, or those that "layer_types" names. transformers applies the latter
/// without use_sliding_window in some of its attention functions and not in others, so that is refused.
Status read_windows_without_rope(const FieldReader& fields, std::uint32_t window, bool use, ModelSpec& spec) {
  if (const Json* types = find_field(fields.object(), "layer_types")) {
    QINFER_TRY(read_layer_types(fields, *types, window, spec));
    if (spec.largest_attention().window != 0 && !use)
      return error_at(Code::format, -1,
                      "{}: \"layer_types\" has sliding_attention but \"use_sliding_window\" is not true",
                      fields.where());
    return Status();
  }
  if (use && window == 0 && fields.has("sliding_window"))
    return error_at(Code::format, -1, "{}: \"sliding_window\" is 0, expected a positive number, or null",
                    fields.where());
  spec.each_attention([&](AttentionSpec& layer) { layer.window = use && layer.no_rope ? window : 0; });
  return Status();
}

/// All but each n-th layer have a window. A bidirectional layer sees half of it to each side, so its `window` counts
/// the token itself and the tokens of one side.
Status read_window_pattern(const FieldReader& fields, const Architecture& architecture, std::uint32_t window,
                           ModelSpec& spec) {
  if (fields.object().find("sliding_window") == nullptr) window = 4096;
  if (!architecture.causal && window != 0) window = window / 2 + 1;
  if (const Json* types = find_field(fields.object(), "layer_types"))
    return read_layer_types(fields, *types, window, spec);
  std::int64_t every = architecture.full_layer_every;
  if (architecture.pattern_field) {
    QINFER_ASSIGN(const auto stated, fields.integer("sliding_window_pattern", 1, kMaxLayers));
    every = stated.value_or(every);
  }
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % every == 0) continue;
    if (window == 0)
      return error_at(Code::format, -1, "{}: \"sliding_window\" is not set, layer {} has one", fields.where(), i);
    spec.layers[i].attention()->window = window;
  }
  return Status();
}

/// sliding_window alone says which window all layers have; files in which other fields, which transformers does not
/// read for these models, say something else are refused. A window of the whole context is none.
Status read_stated_window(const FieldReader& fields, std::optional<bool> use, std::uint32_t window, ModelSpec& spec) {
  if (use && *use != (window != 0))
    return error(Code::unsupported, "{}: \"use_sliding_window\" is {}, but \"sliding_window\" is {}", fields.where(),
                 *use, window);
  if (const Json* types = find_field(fields.object(), "layer_types")) {
    QINFER_TRY(read_layer_types(fields, *types, window, spec));
    for (std::size_t i = 0; i < spec.layers.size(); ++i)
      if (spec.layers[i].attention()->window != window)
        return error(Code::unsupported,
                     "{}: \"layer_types\" has full_attention in layer {}, but \"sliding_window\" is {} for all layers",
                     fields.where(), i, window);
  }
  spec.each_attention([&](AttentionSpec& layer) { layer.window = window < spec.context_tokens ? window : 0; });
  return Status();
}

/// An architecture without windows has full attention in every layer.
Status refuse_layer_types(const FieldReader& fields, const Architecture& architecture) {
  const Json* types = find_field(fields.object(), "layer_types");
  if (types == nullptr) return Status();
  if (!types->is_array())
    return error_at(Code::format, -1, "{}: \"layer_types\" must be a list, not {}", fields.where(),
                    formats::type_name(types->type()));
  for (const Json& item : *types)
    if (!item.is_string() || item.text() != "full_attention")
      return error(Code::unsupported, "{}: \"layer_types\" holds {}, {} has full_attention only", fields.where(),
                   formats::json_text(item), architecture.name);
  return Status();
}

}  // namespace

Status read_windows(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_ASSIGN(const auto size, fields.integer("sliding_window", 0, kMaxContext));
  QINFER_ASSIGN(const auto use, fields.boolean("use_sliding_window"));
  QINFER_ASSIGN(const auto first, fields.integer("max_window_layers", 0, kMaxDim));
  std::uint32_t window = static_cast<std::uint32_t>(size.value_or(0));
  if (architecture.windows == Windows::none) {
    if (use.value_or(false))
      return error(Code::unsupported, "{}: \"use_sliding_window\" is true, which {} does not have", fields.where(),
                   architecture.name);
    return refuse_layer_types(fields, architecture);
  }
  if (architecture.windows == Windows::by_type_only) {
    const Json* types = find_field(fields.object(), "layer_types");
    if (types != nullptr) return read_layer_types(fields, *types, use.value_or(false) ? window : 0, spec);
    if (!use.value_or(false)) return Status();
    return error(Code::unsupported, "{}: \"use_sliding_window\" is true, which {} supports only with \"layer_types\"",
                 fields.where(), architecture.name);
  }
  if (architecture.windows == Windows::pattern) return read_window_pattern(fields, architecture, window, spec);
  if (architecture.windows == Windows::without_rope)
    return read_windows_without_rope(fields, window, use.value_or(false), spec);
  if (architecture.windows == Windows::as_stated) return read_stated_window(fields, use, window, spec);
  if (architecture.windows == Windows::all_if_used) {
    const std::uint32_t used = fields.object().find("sliding_window") != nullptr ? window : 4096;
    return read_stated_window(fields, std::nullopt, use.value_or(false) ? used : 0, spec);
  }
  // Released Qwen2.5 files name a window that use_sliding_window switches off; Mistral has no such switch, and 4096 is
  // what transformers assumes where an (old) Mistral file has no field at all.
  if (architecture.windows == Windows::qwen && !use.value_or(false)) window = 0;
  const bool absent = fields.object().find("sliding_window") == nullptr;
  if (absent && (architecture.windows == Windows::all_layers || use.value_or(false))) window = 4096;
  if (const Json* types = find_field(fields.object(), "layer_types"))
    return read_layer_types(fields, *types, window, spec);
  const std::size_t full = architecture.windows == Windows::qwen ? static_cast<std::size_t>(first.value_or(28)) : 0;
  for (std::size_t i = full; i < spec.layers.size(); ++i) spec.layers[i].attention()->window = window;
  return Status();
}

}  // namespace qinfer::source
