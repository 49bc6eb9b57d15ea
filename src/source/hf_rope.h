// The fields of config.json about rotary position embedding -> ModelSpec::ropes.
#pragma once

#include "base/status.h"
#include "formats/json.h"
#include "model/spec.h"

namespace qinfer::source {

inline constexpr std::int64_t kMaxContext = 1 << 24;  // the largest contexts published are 10 million tokens

/// What architectures differ in.
struct RopeRules {
  bool partial = false;          ///< partial_rotary_factor is read
  bool default_only = false;     ///< no rope_type but "default" is supported
  double default_theta = 10000;  ///< where no field names one
};

/// One embedding for all layers: rope_theta and rope_scaling (version 4), or rope_parameters (version 5).
Status read_rope(const formats::FieldReader& fields, const RopeRules& rules, model::ModelSpec& spec);

/// Which layers have none: no_rope_layers (a list in which, against its name, 1 is a layer with rope and 0 one without)
/// or, without that, each n-th layer, n being no_rope_layer_interval.
Status read_layers_without_rope(const formats::FieldReader& fields, model::ModelSpec& spec);

/// Gemma 3: one for layers that see everything, with rope_theta and rope_scaling, and one for those with a window, with
/// rope_local_base_freq; in version 5 both are in rope_parameters, by the kind of layer.
Status read_ropes_by_layer_type(const formats::FieldReader& fields, model::ModelSpec& spec);

}  // namespace qinfer::source
