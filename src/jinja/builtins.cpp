// See builtins.h: the tables, and how arguments find their parameters.
#include "jinja/builtins.h"

#include <algorithm>
#include <array>

#include "jinja/print.h"

namespace qinfer::jinja {
namespace {

/// The three parts of the table of filters, one after another.
const BuiltinRow* filter_row(std::size_t index) {
  for (const std::span<const BuiltinRow> part : {text_filters(), list_filters(), other_filters()}) {
    if (index < part.size()) return &part[index];
    index -= part.size();
  }
  return nullptr;
}

std::size_t find_parameter(std::span<const char* const> names, std::string_view name) {
  std::size_t i = 0;
  while (i < names.size() && name != names[i]) ++i;
  return i;
}

}  // namespace

int find_filter(std::string_view name) {
  for (std::size_t i = 0; filter_row(i) != nullptr; ++i)
    if (name == filter_row(i)->name) return static_cast<int>(i);
  return -1;
}

Value call_filter(Run& run, int index, const Arguments& arguments) {
  const BuiltinRow* row = filter_row(static_cast<std::size_t>(index));
  return row->call(run, {row->name, arguments.positional, arguments.named});
}

bool bind_arguments(Run& run, const Arguments& arguments, std::span<const char* const> names, std::size_t n_required,
                    const Value** bound) {
  std::fill_n(bound, names.size(), nullptr);
  if (arguments.positional.size() > names.size()) {
    run.fail(format_text("{}() takes {} positional arguments at most but {} were given", arguments.called, names.size(),
                         arguments.positional.size()));
    return false;
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const Named& named : arguments.named) {
    const std::size_t at = find_parameter(names, named.name.text->view());
    if (at == names.size()) {
      run.fail(format_text("{}() got an unexpected keyword argument {}", arguments.called, short_repr(named.name)));
      return false;
    }
    if (bound[at] != nullptr) {
      run.fail(format_text("{}() got multiple values for argument {}", arguments.called, short_repr(named.name)));
      return false;
    }
    bound[at] = &named.value;
  }
  for (std::size_t i = 0; i < n_required; ++i) {
    if (bound[i] != nullptr) continue;
    run.fail(format_text("{}() missing required argument: '{}'", arguments.called, names[i]));
    return false;
  }
  return true;
}

}  // namespace qinfer::jinja
