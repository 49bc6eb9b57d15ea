// The fields of config.json about sliding windows -> AttentionSpec::window: the rules that several architectures have.
#pragma once

#include <optional>

#include "source/architecture.h"

namespace qinfer::source {

struct WindowFields {
  std::uint32_t window = 0;  ///< sliding_window; 0 where it is null or absent
  bool absent = false;       ///< it is absent
  std::optional<bool> use;   ///< use_sliding_window
  std::int64_t full = 28;    ///< max_window_layers
};
Result<WindowFields> read_window_fields(const formats::FieldReader& fields);

/// The window of each layer from the list "layer_types" (version 5), if it is there: whether it is.
Result<bool> read_layer_types(const formats::FieldReader& fields, std::uint32_t window, model::ModelSpec& spec);

/// Mistral: in all layers.
Status read_windows_of_all(const formats::FieldReader& fields, const Architecture& architecture,
                           model::ModelSpec& spec);
/// As sliding_window says: in all layers, or in none where it is absent.
Status read_stated_windows(const formats::FieldReader& fields, const Architecture& architecture,
                           model::ModelSpec& spec);
/// In all layers, if use_sliding_window.
Status read_windows_if_used(const formats::FieldReader& fields, const Architecture& architecture,
                            model::ModelSpec& spec);
/// Those from max_window_layers on, if use_sliding_window.
Status read_windows_of_last(const formats::FieldReader& fields, const Architecture& architecture,
                            model::ModelSpec& spec);
/// All but each n-th layer, where layer_types says nothing else. A bidirectional layer sees half of it to each side, so
/// its `window` counts the token itself and the tokens of one side.
Status read_window_pattern(const formats::FieldReader& fields, std::int64_t every, model::ModelSpec& spec);
/// None but by layer_types; use_sliding_window alone is refused, since versions of transformers disagree on which
/// layers it means.
Status read_windows_by_type(const formats::FieldReader& fields, const Architecture& architecture,
                            model::ModelSpec& spec);

}  // namespace qinfer::source
