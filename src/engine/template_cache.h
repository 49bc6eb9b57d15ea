// The chat templates of a model, each compiled when it is first rendered with.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "jinja/template.h"
#include "source/model_source.h"

namespace qinfer::engine {

/// Of one model, whose templates stay where they are. Any number of threads may ask at a time.
class TemplateCache {
 public:
  /// An error of the template, each time that it is asked for.
  Result<std::shared_ptr<const jinja::Template>> get(const source::ChatTemplate& source);

 private:
  Mutex mutex_;
  std::vector<std::pair<const source::ChatTemplate*, std::shared_ptr<const jinja::Template>>> compiled_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace qinfer::engine
