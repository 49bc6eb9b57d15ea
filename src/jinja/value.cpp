// See value.h.
#include "jinja/value.h"

#include "base/format.h"
#include "jinja/print.h"

namespace qinfer::jinja {

bool is_true(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return value.boolean;
    case Kind::integer: return value.integer != 0;
    case Kind::number: return value.number != 0;
    case Kind::text: return value.text->size != 0;
    case Kind::list:
    case Kind::tuple: return value.list->size != 0;
    case Kind::dict: return value.dict->size != 0;
    case Kind::view: return value.view->items.size != 0;
    case Kind::range: return value.range->size != 0;
    default: return true;
  }
}

const char* type_name(const Value& value) {
  switch (value.kind) {
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer:
    case Kind::big_integer: return "int";
    case Kind::number: return "float";
    case Kind::text: return value.text->markup ? "Markup" : "str";
    case Kind::list: return "list";
    case Kind::tuple: return "tuple";
    case Kind::dict: return "dict";
    case Kind::view: return value.view->type;
    case Kind::iterator: return value.iterator->type;
    case Kind::range: return "range";
    case Kind::space: return "TemplateNamespace";
    case Kind::loop: return "LoopContext";
    case Kind::macro: return "Macro";
    case Kind::function:
      return value.function == Function::cycler || value.function == Function::joiner ||
                     value.function == Function::space
                 ? "type"
                 : "function";
    case Kind::method: return "builtin_function_or_method";
    case Kind::cycler: return "Cycler";
    case Kind::joiner: return "Joiner";
  }
  return "object";
}

const char* object_name(const Value& value) {
  switch (value.kind) {
    case Kind::none: return "None";
    case Kind::boolean: return "bool object";
    case Kind::integer:
    case Kind::big_integer: return "int object";
    case Kind::number: return "float object";
    case Kind::text: return value.text->markup ? "markupsafe.Markup object" : "str object";
    case Kind::list: return "list object";
    case Kind::tuple: return "tuple object";
    case Kind::dict: return "dict object";
    case Kind::iterator: return "generator object";
    case Kind::range: return "range object";
    case Kind::space: return "namespace object";
    case Kind::loop: return "jinja2.runtime.LoopContext object";
    case Kind::macro: return "jinja2.runtime.Macro object";
    case Kind::function: return "function object";
    case Kind::method: return "builtin_function_or_method object";
    case Kind::cycler: return "jinja2.utils.Cycler object";
    case Kind::joiner: return "jinja2.utils.Joiner object";
    case Kind::view: {
      const std::string_view type = value.view->type;
      return type == "dict_keys"     ? "dict_keys object"
             : type == "dict_values" ? "dict_values object"
                                     : "dict_items object";
    }
    case Kind::undefined: return "undefined object";
  }
  return "object";
}

std::string undefined_message(const Value& value) {
  if (value.missing == nullptr) return "the value is undefined";
  const Missing& missing = *value.missing;
  std::string name = missing.name.is_text() ? std::string(missing.name.text->view()) : std::string();
  switch (missing.reason) {
    case Missing::Reason::hint: return name;
    case Missing::Reason::variable: return format_text("{} is undefined", short_repr(missing.name));
    case Missing::Reason::unsafe:
      return format_text("access to attribute {} of '{}' object is unsafe.", short_repr(missing.name), missing.object);
    case Missing::Reason::attribute:
      return format_text("'{}' has no attribute {}", missing.object, short_repr(missing.name));
    case Missing::Reason::element: return format_text("{} has no element {}", missing.object, short_repr(missing.name));
  }
  return "the value is undefined";
}

}  // namespace qinfer::jinja
