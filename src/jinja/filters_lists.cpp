// See builtins.h: filters of lists and mappings.
#include <algorithm>
#include <array>

#include "jinja/argument.h"
#include "jinja/attribute_path.h"
#include "jinja/compare.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/text_tools.h"

namespace qinfer::jinja {

Value path_item(Run& run, const Value& value, const Value& path, const Value* otherwise) {
  if (path.is_none()) return value;
  Value at = value;
  const auto go = [&](const Value& key) {
    at = item(run, at, key);
    if (otherwise != nullptr && !otherwise->is_none() && at.is_undefined()) at = *otherwise;
  };
  if (!path.is_text()) {
    go(path);
    return at;
  }
  const std::string_view text = path.text->view();
  if (!run.charge_bytes(text.size())) return at;
  for (std::size_t begin = 0; begin <= text.size() && run.charge(1);) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const bool is_index = !part.empty() && part.size() < 18 &&
                          std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    go(is_index ? integer_value(parse_integer(run, part, 10).value_or(0)) : run.part(*path.text, begin, end - begin));
    begin = end + 1;
  }
  return at;
}

Value without_case(Run& run, const Value& value) {
  return value.is_text() ? change_case(run, *value.text, Case::lower) : value;
}

namespace {

/// An element and what it is ordered or told apart by.
struct Keyed {
  Value key, value;
};

class KeyedList {
 public:
  explicit KeyedList(Run& run) : run_(run), open_(run) {}
  bool add(const Value& key, const Value& value) {
    if (!run_.charge(1) || !open_.make_room(items_, 1)) return false;
    items_.push_back({key, value});
    return true;
  }
  const std::vector<Keyed>& items() const { return items_; }
  /// In the order of the keys, equal ones as they are.
  void sort(bool reverse) {
    if (!run_.can_take(items_.size() * sizeof(Keyed))) return;  // for a while as many again
    const auto before = [&](const Keyed& a, const Keyed& b) {
      return !run_.failed() && (reverse ? is_less(run_, b.key, a.key) : is_less(run_, a.key, b.key));
    };
    std::stable_sort(items_.begin(), items_.end(), before);
  }

 private:
  Run& run_;
  OpenBytes open_;
  std::vector<Keyed> items_;
};

KeyedList keyed(Run& run, const List& items, const Value* path, bool case_sensitive, const Value* otherwise = nullptr) {
  KeyedList out(run);
  for (const Value& value : items) {
    const Value key = path != nullptr ? path_item(run, value, *path, otherwise) : value;
    if (!out.add(case_sensitive ? key : without_case(run, key), value)) break;
  }
  return out;
}

Value length_filter(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"obj"}, 1);
  return given ? integer_value(length(run, given[0]), given.marks(0)) : Value();
}

Value list(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  if (!given) return {};
  return list_value(elements(run, given[0]), given.marks(0));
}

Value first(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"seq"}, 1);
  if (!given) return {};
  if (given[0].is(Kind::iterator)) {
    Iterator& iterator = *given[0].iterator;
    if (iterator.position < iterator.items.size) return iterator.items.items[iterator.position++];
    return run.undefined_hint("No first item, sequence was empty.");
  }
  const List* items = elements(run, given[0]);
  return items->size > 0 ? items->items[0] : run.undefined_hint("No first item, sequence was empty.");
}

Value last(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"seq"}, 1);
  if (!given) return {};
  if (given[0].is(Kind::iterator)) return run.fail(format_text("'{}' object is not reversible", type_name(given[0])));
  const List* items = elements(run, given[0]);
  return items->size > 0 ? items->items[items->size - 1] : run.undefined_hint("No last item, sequence was empty.");
}

Value reverse(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  if (!given) return {};
  if (given[0].is_text()) return slice(run, given[0], none_value(), none_value(), integer_value(-1));
  const Value& value = given[0];
  ListBuilder items(run);
  const List* all = elements(run, value);
  if (run.failed()) return {};
  for (std::size_t i = all->size; i > 0; --i) items.add(all->items[i - 1]);
  if (value.is(Kind::iterator) || value.is_undefined()) return items.finish(value.marks);
  const char* type = value.is(Kind::list)    ? "list_reverseiterator"
                     : value.is(Kind::dict)  ? "dict_reversekeyiterator"
                     : value.is(Kind::range) ? "range_iterator"
                                             : "reversed";
  return run.iterator(type, "", items.items(), value.marks);
}

Value sort(Run& run, const Arguments& arguments) {
  const Bound<4> given(run, arguments, {"value", "reverse", "case_sensitive", "attribute"}, 1);
  if (!given) return {};
  const List* items = elements(run, given[0]);
  const bool case_sensitive = given.truth(2, false);
  KeyedList sorted = keyed(run, given.is_given(3) ? List{} : *items, nullptr, case_sensitive);
  if (given.is_given(3)) {
    // The keys are lists, one element for each path: undefined ones are equal, where they alone have no order.
    const Value comma = run.text_in_place(",", 0);
    const Value paths = given[3].is_text() ? split(run, *given[3].text, comma.text, -1, false)
                                           : run.list(std::span<const Value>(&given[3], 1), 0);
    for (const Value& value : *items) {
      ListBuilder keys(run);
      for (const Value& path : *paths.list) {
        const Value key = path_item(run, value, path);
        keys.add(case_sensitive ? key : without_case(run, key));
      }
      if (!sorted.add(keys.finish(0), value)) return {};
    }
  }
  sorted.sort(given.truth(1, false));
  ListBuilder out(run);
  for (const Keyed& entry : sorted.items()) out.add(entry.value);
  return out.finish(given.marks(0));
}

Value dictsort(Run& run, const Arguments& arguments) {
  const Bound<4> given(run, arguments, {"value", "case_sensitive", "by", "reverse"}, 1);
  if (!given) return {};
  if (given[0].is_undefined()) return run.fail_undefined(given[0]);
  if (!given[0].is(Kind::dict))
    return run.fail(format_text("'{}' object has no attribute 'items'", type_name(given[0])));
  bool by_value = false;
  if (given.find(2) != nullptr) {
    const std::string_view by = given[2].is_text() ? given[2].text->view() : std::string_view();
    if (by != "key" && by != "value") return run.fail("You can only sort by either \"key\" or \"value\"");
    by_value = by == "value";
  }
  KeyedList sorted(run);
  for (const Entry& entry : *given[0].dict) {
    const std::array<Value, 2> pair = {entry.key, entry.value};
    const Value& key = by_value ? entry.value : entry.key;
    const Value tuple = run.list(pair, given[0].marks, Kind::tuple);
    if (!sorted.add(given.truth(1, false) ? key : without_case(run, key), tuple)) return {};
  }
  sorted.sort(given.truth(3, false));
  ListBuilder out(run);
  for (const Keyed& entry : sorted.items()) out.add(entry.value);
  return out.finish(given.marks(0));
}

Value unique(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "case_sensitive", "attribute"}, 1);
  if (!given) return {};
  ListBuilder out(run);
  Dict seen;
  const KeyedList list = keyed(run, *elements(run, given[0]), given.find(2), given.truth(1, false));
  for (const Keyed& entry : list.items()) {
    const std::size_t before = seen.size;
    set(run, seen, entry.key, none_value());
    if (seen.size > before) out.add(entry.value);
  }
  return out.generator("sync_do_unique", given.marks(0));
}

template <bool is_max>
Value extreme(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "case_sensitive", "attribute"}, 1);
  if (!given) return {};
  const KeyedList list = keyed(run, *elements(run, given[0]), given.find(2), given.truth(1, false));
  const std::vector<Keyed>& items = list.items();
  if (items.empty()) return run.undefined_hint("No aggregated item, sequence was empty.");
  const Keyed* best = items.data();
  for (const Keyed& entry : items) {
    if (run.failed()) return {};
    if (&entry != items.data() &&
        (is_max ? is_less(run, best->key, entry.key, ">") : is_less(run, entry.key, best->key)))
      best = &entry;
  }
  return best->value;
}

Value sum(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"iterable", "attribute", "start"}, 1);
  if (!given) return {};
  Value total = given.find(2) != nullptr ? given[2] : integer_value(0);
  if (total.is_text()) return run.fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& value : *elements(run, given[0])) {
    if (!run.charge(1)) return {};
    total = binary(run, Binary::add, total, given.is_given(1) ? path_item(run, value, given[1]) : value);
  }
  return total;
}

Value batch(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "linecount", "fill_with"}, 2);
  if (!given) return {};
  const std::int64_t n = given.integer(1, 0);
  ListBuilder lines(run), line(run);
  for (const Value& value : *elements(run, given[0])) {
    if (static_cast<std::int64_t>(line.items().size()) == n) {
      lines.add(line.finish(given.marks(0)));
      line.items().clear();
    }
    line.add(value);
    if (run.failed()) return {};
  }
  if (!line.items().empty()) {
    while (given.is_given(2) && static_cast<std::int64_t>(line.items().size()) < n && !run.failed()) line.add(given[2]);
    lines.add(line.finish(given.marks(0)));
  }
  return lines.generator("do_batch", given.marks(0));
}

Value slice_filter(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "slices", "fill_with"}, 2);
  if (!given) return {};
  const std::int64_t n = given.integer(1, 1);
  const List* items = elements(run, given[0]);
  if (n == 0) return run.fail("integer division or modulo by zero");
  if (n < 0) return run.iterator("generator", "sync_do_slice", {}, given.marks(0));
  const auto size = static_cast<std::int64_t>(items->size);
  ListBuilder out(run);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < n && run.charge(1); ++i) {
    const bool has_extra = i < size % n;
    ListBuilder part(run);
    for (std::int64_t k = 0; k < size / n + (has_extra ? 1 : 0); ++k) part.add(items->items[at++]);
    if (given.is_given(2) && !has_extra) part.add(given[2]);
    out.add(part.finish(given.marks(0)));
  }
  return out.generator("sync_do_slice", given.marks(0));
}

Value groupby(Run& run, const Arguments& arguments) {
  const Bound<4> given(run, arguments, {"value", "attribute", "default", "case_sensitive"}, 2);
  if (!given) return {};
  const bool case_sensitive = given.truth(3, false);
  KeyedList list = keyed(run, *elements(run, given[0]), given.find(1), case_sensitive, given.find(2));
  list.sort(false);
  const std::vector<Keyed>& items = list.items();
  ListBuilder groups(run), group(run);
  for (std::size_t i = 0; i < items.size() && !run.failed(); ++i) {
    group.add(items[i].value);
    if (i + 1 < items.size() && is_equal(run, items[i].key, items[i + 1].key)) continue;
    const Value key = case_sensitive ? items[i].key : path_item(run, group.items().front(), given[1], given.find(2));
    const std::array<Value, 2> pair = {key, group.finish(given.marks(0))};
    List made = *run.list(pair, 0).list;
    made.is_group = made.size == 2;
    groups.add(list_value(run.make(made), given.marks(0), Kind::tuple));
    group.items().clear();
  }
  return groups.finish(given.marks(0));
}

/// What `map` and its like are told: the name of a filter or test, and its arguments.
struct Inner {
  int index = -1;
  std::vector<Value> positional;
  std::span<const Named> named;
  Arguments with(const Value& value) {
    positional[0] = value;
    return {{}, positional, named};
  }
};

Value map_attribute(Run& run, const Arguments& arguments) {
  const Value* path = nullptr;
  const Value* otherwise = nullptr;
  for (const Named& named : arguments.named) {
    if (named.name.text->view() == "attribute")
      path = &named.value;
    else if (named.name.text->view() == "default")
      otherwise = &named.value;
    else
      return run.fail(format_text("Unexpected keyword argument {}", short_repr(named.name)));
  }
  if (path == nullptr) return run.fail("map requires a filter argument");
  ListBuilder out(run);
  for (const Value& value : *elements(run, arguments.positional[0])) out.add(path_item(run, value, *path, otherwise));
  return out.generator("sync_do_map", marks_of(arguments.positional[0]));
}

/// A filter that calls filters names them again: map('map', ...). Each level takes an argument of the outermost one.
constexpr std::size_t kMostInner = 8;

Value map(Run& run, const Arguments& arguments) {
  if (arguments.positional.empty()) return run.fail("map() missing required argument: 'value'");
  const Value& value = arguments.positional[0];
  if (!is_true(value)) return run.iterator("generator", "sync_do_map", {}, marks_of(value));
  if (arguments.positional.size() == 1) return map_attribute(run, arguments);
  const Value& name = arguments.positional[1];
  const List* items = elements(run, value);
  if (run.failed()) return {};
  Inner inner;
  inner.index = name.is_text() ? find_filter(name.text->view()) : -1;
  if (inner.index < 0) return run.fail(format_text("No filter named {}.", short_repr(name)));
  if (arguments.positional.size() > kMostInner) return run.fail("map() is given too many arguments", Code::unsupported);
  inner.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  inner.named = arguments.named;
  ListBuilder out(run);
  for (const Value& element : *items) {
    if (run.failed()) return {};
    out.add(call_filter(run, inner.index, inner.with(element)));
  }
  return out.generator("sync_do_map", marks_of(value));
}

/// select, reject, and with `has_path` selectattr and rejectattr.
Value choose(Run& run, const Arguments& arguments, bool wanted, bool has_path) {
  if (arguments.positional.empty()) return run.fail("the filter is given no value");
  const Value& value = arguments.positional[0];
  const std::size_t offset = has_path ? 2 : 1;
  if (!is_true(value)) return run.iterator("generator", "select_or_reject", {}, marks_of(value));
  if (has_path && arguments.positional.size() < 2) return run.fail("Missing parameter for attribute name");
  const List* items = elements(run, value);
  if (run.failed()) return {};
  Inner inner;
  const bool has_test = arguments.positional.size() > offset;
  if (has_test) {
    const Value& name = arguments.positional[offset];
    inner.index = name.is_text() ? find_test(name.text->view()) : -1;
    if (inner.index < 0) return run.fail(format_text("No test named {}.", short_repr(name)));
    inner.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(offset),
                            arguments.positional.end());
    inner.named = arguments.named;
  }
  ListBuilder out(run);
  for (const Value& element : *items) {
    if (!run.charge(1)) return {};
    const Value asked = has_path ? path_item(run, element, arguments.positional[1]) : element;
    const bool is_good = is_true(has_test ? call_test(run, inner.index, inner.with(asked)) : asked);
    if (is_good == wanted) out.add(element);
  }
  return out.generator("select_or_reject", marks_of(value));
}

Value select(Run& run, const Arguments& arguments) { return choose(run, arguments, true, false); }
Value reject(Run& run, const Arguments& arguments) { return choose(run, arguments, false, false); }
Value selectattr(Run& run, const Arguments& arguments) { return choose(run, arguments, true, true); }
Value rejectattr(Run& run, const Arguments& arguments) { return choose(run, arguments, false, true); }

Value items_filter(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  if (!given) return {};
  if (given[0].is_undefined()) return run.iterator("generator", "do_items", {}, 0);
  if (!given[0].is(Kind::dict)) return run.fail("Can only get item pairs from a mapping.");
  ListBuilder out(run);
  for (const Entry& entry : *given[0].dict) {
    const std::array<Value, 2> pair = {entry.key, entry.value};
    out.add(run.list(pair, given[0].marks, Kind::tuple));
  }
  return out.generator("do_items", given[0].marks);
}

}  // namespace

std::span<const BuiltinRow> list_filters() {
  static constexpr BuiltinRow kRows[] = {
      {"batch", batch},
      {"count", length_filter},
      {"dictsort", dictsort},
      {"first", first},
      {"groupby", groupby},
      {"items", items_filter},
      {"last", last},
      {"length", length_filter},
      {"list", list},
      {"map", map},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reject", reject},
      {"rejectattr", rejectattr},
      {"reverse", reverse},
      {"select", select},
      {"selectattr", selectattr},
      {"slice", slice_filter},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  return kRows;
}

}  // namespace qinfer::jinja
