// See template_cache.h.
#include "engine/template_cache.h"

namespace qinfer::engine {

Result<std::shared_ptr<const jinja::Template>> TemplateCache::get(const source::ChatTemplate& source) {
  const Lock lock(mutex_);
  for (const auto& [known, compiled] : compiled_)
    if (known == &source) return compiled;
  QINFER_ASSIGN(jinja::Template compiled, jinja::Template::compile(source.text));
  compiled_.emplace_back(&source, std::make_shared<const jinja::Template>(std::move(compiled)));
  return compiled_.back().second;
}

}  // namespace qinfer::engine
