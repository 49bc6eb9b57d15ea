// The fields of config.json about sliding windows -> LayerSpec::window.
#pragma once

#include "base/status.h"
#include "formats/json.h"
#include "model/spec.h"
#include "source/hf_architecture.h"

namespace qinfer::source {

/// Sizes and, where windows depend on it, which layers have rope must be read before.
Status read_windows(const formats::FieldReader& fields, const Architecture& architecture, model::ModelSpec& spec);

}  // namespace qinfer::source
