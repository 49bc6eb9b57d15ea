// See hf_windows.h. What a missing field means is that of transformers' configuration classes.
#include "source/hf_windows.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::find_field;
using formats::Json;
using model::AttentionSpec;
using model::ModelSpec;

/// What transformers assumes where a file has no such field.
constexpr std::uint32_t kUsualWindow = 4096;

/// sliding_window alone says which window all layers have; files in which other fields, which transformers does not
/// read for these models, say something else are refused. A window of the whole context is none.
Status set_windows(const FieldReader& fields, std::optional<bool> use, std::uint32_t window, ModelSpec& spec) {
  if (use && *use != (window != 0))
    return error(Code::unsupported, "{}: \"use_sliding_window\" is {}, but \"sliding_window\" is {}", fields.where(),
                 *use, window);
  QINFER_ASSIGN(const bool by_type, read_layer_types(fields, window, spec));
  for (std::size_t i = 0; by_type && i < spec.layers.size(); ++i)
    if (spec.layers[i].attention()->window != window)
      return error(Code::unsupported,
                   "{}: \"layer_types\" has full_attention in layer {}, but \"sliding_window\" is {} for all layers",
                   fields.where(), i, window);
  spec.each_attention([&](AttentionSpec& layer) { layer.window = window < spec.context_tokens ? window : 0; });
  return Status();
}

/// From layer `first` on, where layer_types says nothing else.
Status set_windows_from(const FieldReader& fields, std::int64_t first, std::uint32_t window, ModelSpec& spec) {
  QINFER_ASSIGN(const bool by_type, read_layer_types(fields, window, spec));
  if (by_type) return Status();
  for (auto i = static_cast<std::size_t>(first); i < spec.layers.size(); ++i)
    spec.layers[i].attention()->window = window;
  return Status();
}

}  // namespace

Result<WindowFields> read_window_fields(const FieldReader& fields) {
  WindowFields out;
  QINFER_ASSIGN(const auto size, fields.integer("sliding_window", 0, kMaxContext));
  QINFER_ASSIGN(out.use, fields.boolean("use_sliding_window"));
  QINFER_ASSIGN(const auto first, fields.integer("max_window_layers", 0, kMaxDim));
  out.window = static_cast<std::uint32_t>(size.value_or(0));
  out.absent = fields.object().find("sliding_window") == nullptr;
  out.full = first.value_or(out.full);
  return out;
}

Result<bool> read_layer_types(const FieldReader& fields, std::uint32_t window, ModelSpec& spec) {
  const Json* types = find_field(fields.object(), "layer_types");
  if (types == nullptr) return false;
  if (!types->is_array() || types->size() != spec.layers.size())
    return error_at(Code::format, -1, "{}: \"layer_types\" must list {} layers", fields.where(), spec.layers.size());
  auto layer = spec.layers.begin();
  for (const Json& item : *types) {
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
  return true;
}

Status refuse_windows(const FieldReader& fields, const Architecture& architecture, ModelSpec&) {
  QINFER_ASSIGN(const WindowFields found, read_window_fields(fields));
  if (found.use.value_or(false))
    return error(Code::unsupported, "{}: \"use_sliding_window\" is true, which {} does not have", fields.where(),
                 architecture.name);
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

/// Mistral has no such switch as use_sliding_window.
Status read_windows_of_all(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const WindowFields found, read_window_fields(fields));
  return set_windows_from(fields, 0, found.absent ? kUsualWindow : found.window, spec);
}

Status read_stated_windows(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const WindowFields found, read_window_fields(fields));
  return set_windows(fields, found.use, found.window, spec);
}

Status read_windows_if_used(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const WindowFields found, read_window_fields(fields));
  const std::uint32_t window = found.absent ? kUsualWindow : found.window;
  return set_windows(fields, std::nullopt, found.use.value_or(false) ? window : 0, spec);
}

/// Released Qwen2.5 files name a window that use_sliding_window switches off.
Status read_windows_of_last(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  QINFER_ASSIGN(const WindowFields found, read_window_fields(fields));
  const std::uint32_t window = found.absent ? kUsualWindow : found.window;
  return set_windows_from(fields, found.full, found.use.value_or(false) ? window : 0, spec);
}

Status read_window_pattern(const FieldReader& fields, std::int64_t every, ModelSpec& spec) {
  QINFER_ASSIGN(const WindowFields found, read_window_fields(fields));
  std::uint32_t window = found.absent ? kUsualWindow : found.window;
  if (!spec.causal && window != 0) window = window / 2 + 1;
  QINFER_ASSIGN(const bool by_type, read_layer_types(fields, window, spec));
  if (by_type) return Status();
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % every == 0) continue;
    if (window == 0)
      return error_at(Code::format, -1, "{}: \"sliding_window\" is not set, layer {} has one", fields.where(), i);
    spec.layers[i].attention()->window = window;
  }
  return Status();
}

Status read_windows_by_type(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_ASSIGN(const WindowFields found, read_window_fields(fields));
  const bool use = found.use.value_or(false);
  QINFER_ASSIGN(const bool by_type, read_layer_types(fields, use ? found.window : 0, spec));
  if (by_type || !use) return Status();
  return error(Code::unsupported, "{}: \"use_sliding_window\" is true, which {} supports only with \"layer_types\"",
               fields.where(), architecture.name);
}

}  // namespace qinfer::source
