// A source that has a range of another one's layers: a stage of a model that is evaluated on more than one machine.
#pragma once

#include <cstdint>
#include <memory>

#include "source/model_source.h"

namespace qinfer::source {

/// Layers [first, first + n) of a source; n 0: to the last one. All of them: the source itself. Errors are those of
/// model::keep_layers().
Result<std::unique_ptr<ModelSource>> make_stage_source(std::unique_ptr<ModelSource> source, std::uint32_t first,
                                                       std::uint32_t n);

}  // namespace qinfer::source
