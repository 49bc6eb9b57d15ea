// The source that packing and exporting read: a path's own, or one that quantises its matrices where weight_format asks
// for that.
#pragma once

#include <memory>
#include <string>

#include "engine/options.h"
#include "engine/runtime.h"
#include "source/model_source.h"

namespace qinfer::engine {

struct OpenedSource {
  std::unique_ptr<source::ModelSource> source;
  bool quantises = false;
};

/// Where it quantises, options.weight_format is emptied, so that loading keeps the encodings of the source. A line for
/// each matrix that was read goes to the log of the runtime at level info. `runtime` must outlive the source.
Result<OpenedSource> open_quantised(Runtime& runtime, const std::string& path, LoadOptions& options);

}  // namespace qinfer::engine
