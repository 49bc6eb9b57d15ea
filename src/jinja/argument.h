// Arguments of builtins as C++ values: each function takes a default for an argument that was not given, and fails for
// one of another type.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "jinja/builtins.h"

namespace qinfer::jinja {

/// Arguments bound to the names of parameters: `const Bound<2> given(run, arguments, {"value", "width"}, 1)`.
template <std::size_t n>
class Bound {
 public:
  Bound(Run& run, const Arguments& arguments, const std::array<const char*, n>& names, std::size_t n_required)
      : run_(run), names_(names), good_(bind_arguments(run, arguments, names, n_required, values_.data())) {}

  explicit operator bool() const { return good_; }
  /// Null where it was not given.
  const Value* find(std::size_t i) const { return values_[i]; }
  const Value& operator[](std::size_t i) const { return *values_[i]; }
  bool is_given(std::size_t i) const { return values_[i] != nullptr && !values_[i]->is_none(); }
  bool truth(std::size_t i, bool otherwise) const { return values_[i] != nullptr ? is_true(*values_[i]) : otherwise; }
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const {
    if (values_[i] == nullptr) return otherwise;
    if (values_[i]->is_integral()) return values_[i]->as_integer();
    run_.fail(format_text("argument '{}' is {}, expected an integer", names_[i], type_name(*values_[i])));
    return otherwise;
  }
  Marks marks(std::size_t i) const { return values_[i] != nullptr ? marks_of(*values_[i]) : Marks{0}; }

 private:
  Run& run_;
  std::array<const char*, n> names_;
  std::array<const Value*, n> values_ = {};
  bool good_;
};

}  // namespace qinfer::jinja
