// The fields of config.json about mixtures of experts -> the FfnSpec of each layer.
#pragma once

#include "source/architecture.h"

namespace qinfer::source {

/// Experts that a layer may have, and all layers together: a config.json of a few bytes must not ask for millions of
/// tensors.
inline constexpr std::int64_t kMaxExperts = 4096, kMaxExpertsOfModel = 65536;

/// Layers have the width of intermediate_size already; those that are mixtures get what their fields say.
Status read_experts(const formats::FieldReader& fields, const ExpertRules& rules, model::ModelSpec& spec);

}  // namespace qinfer::source
