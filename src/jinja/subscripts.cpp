// See operators.h: attributes, elements and slices.
#include <algorithm>

#include "jinja/builtins.h"
#include "jinja/characters.h"
#include "jinja/compare.h"
#include "jinja/machine_values.h"
#include "jinja/operators.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

/// The attributes that all of Python's objects have and that templates must not reach. Those that only some have are
/// not there at all.
bool is_internal(const Value& value, std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__class__",     "__delattr__",      "__dir__",    "__doc__",    "__eq__",           "__format__",
      "__ge__",        "__gt__",           "__hash__",   "__init__",   "__le__",           "__lt__",
      "__ne__",        "__new__",          "__reduce__", "__repr__",   "__getattribute__", "__setattr__",
      "__reduce_ex__", "__subclasshook__", "__str__",    "__sizeof__", "__getstate__"};
  const bool has_length = value.is_undefined() || value.is_text() || value.is(Kind::list) || value.is(Kind::tuple) ||
                          value.is(Kind::dict) || value.is(Kind::range);
  if (has_length && (name == "__len__" || name == "__iter__" || name == "__getitem__")) return true;
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// What changes a list or mapping, which a template must not.
bool changes(const Value& value, std::string_view name) {
  static constexpr std::string_view kOfLists[] = {"append", "clear", "pop",    "reverse",
                                                  "insert", "sort",  "extend", "remove"};
  static constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (value.is(Kind::list)) return std::find(std::begin(kOfLists), std::end(kOfLists), name) != std::end(kOfLists);
  if (value.is(Kind::dict)) return std::find(std::begin(kOfDicts), std::end(kOfDicts), name) != std::end(kOfDicts);
  return false;
}

/// An attribute as Python's getattr() gives it; false if there is none.
bool own_attribute(Run& run, const Value& value, const Value& name, Value& found) {
  const std::string_view text = name.text->view();
  if (value.is(Kind::space)) {
    const Value* there = find(run, *value.dict, name);
    if (there != nullptr) found = *there;
    return there != nullptr;
  }
  if (value.is(Kind::loop)) return loop_attribute(run, *value.loop, text, found);
  if (is_internal(value, text) || changes(value, text)) {
    found = run.undefined(Missing::Reason::unsafe, name, type_name(value));
    return true;
  }
  found = find_method(run, value, text);
  return !found.is_undefined();
}

/// value[key] as Python has it; false where it raises TypeError or LookupError.
bool own_item(Run& run, const Value& value, const Value& key, Value& found) {
  if (value.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict)) return false;
    const Value* there = find(run, *value.dict, key);
    if (there != nullptr) found = *there;
    return there != nullptr;
  }
  if (!key.is_integral()) return false;
  std::int64_t at = key.as_integer();
  if (!value.is_text() && !value.is(Kind::list) && !value.is(Kind::tuple) && !value.is(Kind::range)) return false;
  const std::int64_t size = length(run, value);
  if (at < 0) at += size;
  if (at < 0 || at >= size) return false;
  if (value.is(Kind::range)) {
    found = integer_value(value.range->at(at), value.marks);
  } else if (value.is_text()) {
    const std::size_t offset = char_offset(value.text->view(), static_cast<std::size_t>(at));
    run.charge(offset / 32);
    found = run.part(*value.text, offset, text::utf8_length(static_cast<std::uint8_t>(value.text->data[offset])));
  } else {
    found = value.list->items[at];
  }
  return true;
}

Value missing_of(Run& run, const Value& value, const Value& key) {
  return run.undefined(key.is_text() ? Missing::Reason::attribute : Missing::Reason::element, key, object_name(value));
}

struct Bounds {
  std::int64_t start, stop, step;
};

/// The indices that a slice of `size` elements has, after Python's PySlice_AdjustIndices.
bool slice_bounds(Run& run, std::int64_t size, const Value& start, const Value& stop, const Value& step, Bounds& out) {
  for (const Value* part : {&start, &stop, &step}) {
    if (part->is_none() || part->is_integral()) continue;
    run.fail("slice indices must be integers or None or have an __index__ method");
    return false;
  }
  out.step = step.is_none() ? 1 : step.as_integer();
  if (out.step == 0) {
    run.fail("slice step cannot be zero");
    return false;
  }
  const bool back = out.step < 0;
  const auto clamp = [&](const Value& part, std::int64_t otherwise) {
    if (part.is_none()) return otherwise;
    std::int64_t at = part.as_integer();
    if (at < 0) {
      at = at < -size ? -1 : at + size;
      return at < 0 ? (back ? std::int64_t{-1} : std::int64_t{0}) : at;
    }
    return at >= size ? (back ? size - 1 : size) : at;
  };
  out.start = clamp(start, back ? size - 1 : 0);
  out.stop = clamp(stop, back ? -1 : size);
  out.step = std::clamp<std::int64_t>(out.step, -size - 1, size + 1);
  return true;
}

Value slice_text(Run& run, const Text& text, const Bounds& bounds) {
  const std::string_view view = text.view();
  run.charge(text.size / 32);
  if (bounds.step == 1) {
    if (bounds.start >= bounds.stop) return run.part(text, 0, 0);
    const std::size_t from = char_offset(view, static_cast<std::size_t>(bounds.start));
    return run.part(text, from, char_offset(view.substr(from), static_cast<std::size_t>(bounds.stop - bounds.start)));
  }
  std::vector<std::size_t> offsets;
  OpenBytes open(run);
  if (!open.make_room(offsets, text.size)) return {};
  for (std::size_t i = 0; i < text.size; i += text::utf8_length(static_cast<std::uint8_t>(view[i])))
    offsets.push_back(i);
  TextBuilder out(run);
  for (std::int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop; i += bounds.step) {
    const std::size_t at = offsets[static_cast<std::size_t>(i)];
    if (!run.charge(1)) break;
    out.add(text, at, text::utf8_length(static_cast<std::uint8_t>(view[at])));
  }
  return out.finish(text.markup);
}

}  // namespace

Value dict_attribute(Run& run, const Value& value, const Value& name) {
  Value found;
  own_attribute(run, value, name, found);
  return found;
}

Value attribute(Run& run, const Value& value, const Value& name) {
  if (value.is_undefined()) {
    if (is_internal(value, name.text->view())) return run.undefined(Missing::Reason::unsafe, name, type_name(value));
    return run.fail_undefined(value);
  }
  Value found;
  if (own_attribute(run, value, name, found)) return found;
  if (own_item(run, value, name, found)) return found;
  return missing_of(run, value, name);
}

Value item(Run& run, const Value& value, const Value& key) {
  if (value.is_undefined()) return run.fail_undefined(value);
  Value found;
  if (own_item(run, value, key, found) || run.failed()) return found;
  if (key.is_text() && own_attribute(run, value, key, found)) return found;
  return missing_of(run, value, key);
}

Value slice(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) return run.fail_undefined(value);
  if (value.is(Kind::dict)) return run.fail("unhashable type: 'slice'");
  if (!value.is_text() && !value.is(Kind::list) && !value.is(Kind::tuple) && !value.is(Kind::range))
    return run.fail(format_text("'{}' object is not subscriptable", type_name(value)));
  Bounds bounds = {};
  if (!slice_bounds(run, length(run, value), start, stop, step, bounds)) return {};
  if (value.is_text()) return slice_text(run, *value.text, bounds);
  if (value.is(Kind::range)) {
    const Range& range = *value.range;
    const std::int64_t first = range.at(bounds.start), last = range.at(bounds.stop);
    const std::int64_t wide_step = Range{0, 0, range.step, 0}.at(bounds.step);
    const std::int64_t width = bounds.step > 0 ? bounds.stop - bounds.start : bounds.start - bounds.stop;
    const std::int64_t step_size = bounds.step > 0 ? bounds.step : -bounds.step;
    Value made = value;
    made.range = run.make(Range{first, last, wide_step, width <= 0 ? 0 : (width + step_size - 1) / step_size});
    return made;
  }
  if (bounds.step == 1) {
    const std::int64_t size = std::max<std::int64_t>(0, bounds.stop - bounds.start);
    return list_value(run.make(List{value.list->items + (size > 0 ? bounds.start : 0), static_cast<std::size_t>(size)}),
                      value.marks, value.kind);
  }
  ListBuilder items(run);
  for (std::int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop; i += bounds.step)
    items.add(value.list->items[i]);
  return items.finish(value.marks, value.kind);
}

}  // namespace qinfer::jinja
