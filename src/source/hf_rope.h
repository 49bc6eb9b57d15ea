// The fields of config.json about rotary position embedding -> ModelSpec::ropes.
#pragma once

#include <optional>

#include "source/architecture.h"

namespace qinfer::source {

/// A positive number of the object of a rotary embedding; `fallback` if it is absent.
Result<double> rope_number(const formats::FieldReader& rope, std::string_view key, std::optional<double> fallback);

/// One for layers that see everything, with rope_theta and rope_scaling, and one for those with a window, with
/// rope_local_base_freq; in version 5 both are in rope_parameters, by the kind of layer.
struct RopeBases {
  double full, local;  ///< where files do not state them
};
Status read_ropes_by_layer_type(const formats::FieldReader& fields, const Architecture& architecture,
                                const RopeBases& bases, model::ModelSpec& spec);

}  // namespace qinfer::source
