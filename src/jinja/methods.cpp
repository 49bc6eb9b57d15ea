// See builtins.h: the methods of lists, mappings, loops, cyclers and functions, and the table of all methods.
#include <algorithm>
#include <array>
#include <cmath>

#include "jinja/argument.h"
#include "jinja/compare.h"
#include "jinja/machine_values.h"
#include "jinja/operators.h"
#include "jinja/print.h"

namespace qinfer::jinja {
namespace {

Value pairs_of(Run& run, const Value& self, bool with_keys, bool with_values) {
  ListBuilder out(run);
  for (const Entry& entry : *self.dict) {
    const std::array<Value, 2> pair = {entry.key, entry.value};
    out.add(!with_values ? entry.key : !with_keys ? entry.value : run.list(pair, self.marks, Kind::tuple));
  }
  const char* type = !with_values ? "dict_keys" : !with_keys ? "dict_values" : "dict_items";
  return run.view(type, out.items(), self.marks);
}

template <bool with_keys, bool with_values>
Value dict_view(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<0> given(run, arguments, {}, 0);
  return given ? pairs_of(run, self, with_keys, with_values) : Value();
}

Value dict_get(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"key", "default"}, 1);
  if (!given) return {};
  const Value* found = find(run, *self.dict, given[0]);
  if (found != nullptr) return *found;
  return given.find(1) != nullptr ? given[1] : none_value();
}

Value copy(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<0> given(run, arguments, {}, 0);
  if (!given) return {};
  if (!self.is(Kind::dict)) return run.list(std::span<const Value>(self.list->items, self.list->size), self.marks);
  Dict* dict = run.make(Dict{});
  for (const Entry& entry : *self.dict) set(run, *dict, entry.key, entry.value);
  return dict_value(dict, self.marks);
}

Value list_count(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  if (!given) return {};
  std::int64_t n = 0;
  for (const Value& item : *self.list) n += is_equal(run, item, given[0]) ? 1 : 0;
  return integer_value(n, self.marks);
}

Value list_index(Run& run, const Value& self, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "start", "stop"}, 1);
  if (!given) return {};
  const auto size = static_cast<std::int64_t>(self.list->size);
  const auto place = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t at = given.integer(i, otherwise);
    return at < 0 ? std::max<std::int64_t>(0, at < -size ? 0 : at + size) : std::min(at, size);
  };
  const std::int64_t end = place(2, size);
  for (std::int64_t i = place(1, 0); i < end && !run.failed(); ++i)
    if (is_equal(run, self.list->items[i], given[0])) return integer_value(i, self.marks);
  return run.fail(self.is(Kind::tuple) ? "tuple.index(x): x not in tuple"
                                       : format_text("{} is not in list", short_repr(given[0])));
}

Value cycle(Run& run, const Value& self, const Arguments& arguments) {
  return loop_cycle(run, *self.loop, arguments.positional);
}
Value changed(Run& run, const Value& self, const Arguments& arguments) {
  return loop_changed(run, *self.loop, arguments.positional);
}

Value cycler_next(Run&, const Value& self, const Arguments&) {
  Cycler& cycler = *self.cycler;
  const Value current = cycler.items.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size;
  return current;
}
Value cycler_reset(Run&, const Value& self, const Arguments&) {
  self.cycler->position = 0;
  return none_value();
}

Value is_integer_method(Run&, const Value& self, const Arguments&) {
  return boolean_value(std::isfinite(self.number) && std::trunc(self.number) == self.number, self.marks);
}

Value from_keys(Run& run, const Value&, const Arguments& arguments) {
  return call_function(run, Function::from_keys, arguments);
}

struct KindMethod {
  Kind kind;
  const char* name;
  TextMethod call;
};
constexpr KindMethod kMethods[] = {
    {Kind::dict, "copy", copy},
    {Kind::dict, "get", dict_get},
    {Kind::dict, "items", dict_view<true, true>},
    {Kind::dict, "keys", dict_view<true, false>},
    {Kind::dict, "values", dict_view<false, true>},
    {Kind::list, "copy", copy},
    {Kind::list, "count", list_count},
    {Kind::list, "index", list_index},
    {Kind::tuple, "count", list_count},
    {Kind::tuple, "index", list_index},
    {Kind::loop, "cycle", cycle},
    {Kind::loop, "changed", changed},
    {Kind::cycler, "next", cycler_next},
    {Kind::cycler, "reset", cycler_reset},
    {Kind::number, "is_integer", is_integer_method},
    {Kind::function, "fromkeys", from_keys},
};

Value bound_method(Run& run, const Value& self, std::size_t index, const char* name) {
  Value value;
  value.kind = Kind::method;
  value.marks = marks_of(self);
  value.method = run.make(Method{self, static_cast<std::uint16_t>(index), name});
  return value;
}

Value macro_attribute(Run& run, const Macro& macro, std::string_view name) {
  if (name == "name") return macro.name;
  const std::size_t n = macro.code->parameters.size();
  if (name == "arguments") return run.list(std::span<const Value>(macro.parameters, n), 0);
  if (name == "catch_kwargs") return boolean_value(macro.code->has_kwargs);
  if (name == "catch_varargs") return boolean_value(macro.code->has_varargs);
  if (name == "caller") return boolean_value(macro.code->has_caller);
  return {};
}

}  // namespace

Value find_method(Run& run, const Value& self, std::string_view name) {
  const std::span<const MethodRow> texts = text_methods();
  if (self.is_text()) {
    for (std::size_t i = 0; i < texts.size(); ++i)
      if (name == texts[i].name) return bound_method(run, self, i, texts[i].name);
    return {};
  }
  if (self.is(Kind::tuple) && self.list->is_group && (name == "grouper" || name == "list"))
    return self.list->items[name == "list" ? 1 : 0];
  if (self.is(Kind::macro)) return macro_attribute(run, *self.macro, name);
  if (self.is(Kind::cycler) && name == "current") return self.cycler->items.items[self.cycler->position];
  if (self.is(Kind::function) && self.function != Function::dict) return {};
  for (std::size_t i = 0; i < std::size(kMethods); ++i)
    if (kMethods[i].kind == self.kind && name == kMethods[i].name)
      return bound_method(run, self, texts.size() + i, kMethods[i].name);
  return {};
}

Value call_method(Run& run, const Method& method, const Arguments& arguments) {
  const Arguments named = {method.name, arguments.positional, arguments.named};
  const std::span<const MethodRow> texts = text_methods();
  if (method.index < texts.size()) return texts[method.index].call(run, method.self, named);
  return kMethods[method.index - texts.size()].call(run, method.self, named);
}

}  // namespace qinfer::jinja
