// The chat templates of a model, each compiled when it is first rendered with, and the forms in which they take
// conversations, found out when they are first asked for.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "jinja/template.h"
#include "openai/conversation.h"
#include "source/model_source.h"

namespace qinfer::engine {

/// Any number of threads may use it at a time.
class CompiledTemplate {
 public:
  static Result<std::shared_ptr<const CompiledTemplate>> compile(std::string_view source);

  const jinja::Template& get() const { return template_; }
  std::string_view source() const { return source_; }
  /// `find` gives a Result<openai::TemplateForms>, which is kept unless it is an error.
  template <typename Find>
  Result<openai::TemplateForms> forms(Find&& find) const {
    const Lock lock(mutex_);
    if (!forms_) {
      QINFER_ASSIGN(forms_, find());
    }
    return *forms_;
  }

 private:
  CompiledTemplate(jinja::Template compiled, std::string_view source)
      : template_(std::move(compiled)), source_(source) {}

  jinja::Template template_;
  std::string source_;
  mutable Mutex mutex_;
  mutable std::optional<openai::TemplateForms> forms_ ABSL_GUARDED_BY(mutex_);
};

/// Of one model, whose templates stay where they are. Any number of threads may ask at a time.
class TemplateCache {
 public:
  /// An error of the template, each time that it is asked for.
  Result<std::shared_ptr<const CompiledTemplate>> get(const source::ChatTemplate& source);

 private:
  Mutex mutex_;
  std::vector<std::pair<const source::ChatTemplate*, std::shared_ptr<const CompiledTemplate>>> compiled_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace qinfer::engine
