// See template_cache.h.
#include "engine/template_cache.h"

namespace qinfer::engine {

Result<std::shared_ptr<const CompiledTemplate>> CompiledTemplate::compile(std::string_view source) {
  QINFER_ASSIGN(jinja::Template compiled, jinja::Template::compile(source));
  return std::shared_ptr<const CompiledTemplate>(new CompiledTemplate(std::move(compiled), source));
}

Result<std::shared_ptr<const CompiledTemplate>> TemplateCache::get(const source::ChatTemplate& source) {
  const Lock lock(mutex_);
  for (const auto& [known, compiled] : compiled_)
    if (known == &source) return compiled;
  QINFER_ASSIGN(std::shared_ptr<const CompiledTemplate> compiled, CompiledTemplate::compile(source.text));
  compiled_.emplace_back(&source, std::move(compiled));
  return compiled_.back().second;
}

}  // namespace qinfer::engine
