// See builtins.h: the functions that templates find without being given them.
#include <algorithm>

#include "jinja/argument.h"
#include "jinja/compare.h"
#include "jinja/date.h"
#include "jinja/print.h"

namespace qinfer::jinja {
namespace {

struct FunctionRow {
  const char* name;
  Function function;
};
constexpr FunctionRow kFunctions[] = {{"range", Function::range},
                                      {"dict", Function::dict},
                                      {"lipsum", Function::lipsum},
                                      {"cycler", Function::cycler},
                                      {"joiner", Function::joiner},
                                      {"namespace", Function::space},
                                      {"raise_exception", Function::raise_exception},
                                      {"strftime_now", Function::strftime_now}};

Value range(Run& run, const Arguments& arguments) {
  const std::size_t n = arguments.positional.size();
  if (!arguments.named.empty() || n == 0 || n > 3)
    return run.fail(format_text("range takes 1 to 3 arguments, got {}", n + arguments.named.size()));
  std::int64_t parts[3] = {0, 0, 1};
  Marks marks = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Value& value = arguments.positional[i];
    if (value.is_undefined()) return run.fail("'Undefined' object cannot be interpreted as an integer");
    if (!value.is_integral())
      return run.fail(format_text("'{}' object cannot be interpreted as an integer", type_name(value)));
    parts[n == 1 ? 1 : i] = value.as_integer();
    marks = static_cast<Marks>(marks | value.marks);
  }
  const auto [start, stop, step] = parts;
  if (step == 0) return run.fail("range() arg 3 must not be zero");
  // Without signs: the distance may have 64 bits.
  const auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(stop);
  const auto width = static_cast<std::uint64_t>(step);
  std::uint64_t size = 0;
  if (step > 0 && stop > start) size = (to - from - 1) / width + 1;
  if (step < 0 && stop < start) size = (from - to - 1) / (0 - width) + 1;
  if (size > static_cast<std::uint64_t>(kMaxRange))
    return run.fail(format_text("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange),
                    Code::buffer_too_small);
  Value value;
  value.kind = Kind::range;
  value.marks = marks;
  value.range = run.make(Range{start, stop, step, static_cast<std::int64_t>(size)});
  return value;
}

/// dict(mapping or pairs, **named), and namespace() likewise.
Value dict(Run& run, const Arguments& arguments, Kind kind) {
  if (arguments.positional.size() > 1)
    return run.fail(format_text("dict expected at most 1 argument, got {}", arguments.positional.size()));
  Dict* made = run.make(Dict{});
  Marks marks = 0;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    marks = from.marks;
    if (from.is(Kind::dict)) {
      for (const Entry& entry : *from.dict) set(run, *made, entry.key, entry.value);
    } else {
      std::size_t i = 0;
      for (const Value& pair : *elements(run, from)) {
        const List* both = elements(run, pair);
        if (run.failed()) return {};
        if (both->size != 2)
          return run.fail(
              format_text("dictionary update sequence element #{} has length {}; 2 is required", i, both->size));
        set(run, *made, both->items[0], both->items[1]);
        ++i;
      }
    }
  }
  for (const Named& named : arguments.named) set(run, *made, named.name, named.value);
  for (const Entry& entry : *made) {
    if (kind != Kind::space || !entry.key.is_text() || !entry.key.text->view().starts_with('_')) continue;
    return run.fail(
        format_text("Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}. "
                    "Please rename the attribute.",
                    short_repr(entry.key)));
  }
  return dict_value(made, marks, kind);
}

Value dict_from_keys(Run& run, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"iterable", "value"}, 1);
  if (!given) return {};
  Dict* made = run.make(Dict{});
  for (const Value& key : *elements(run, given[0]))
    set(run, *made, key, given.find(1) != nullptr ? given[1] : none_value());
  return dict_value(made, given[0].marks);
}

Value cycler(Run& run, const Arguments& arguments) {
  if (arguments.positional.empty()) return run.fail("at least one item has to be provided");
  Value value;
  value.kind = Kind::cycler;
  value.cycler = run.make(Cycler{*run.list(arguments.positional, 0).list, 0});
  if (value.cycler->items.size == 0) return run.fail("the items of the cycler take too much memory");
  return value;
}

Value joiner(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"sep"}, 0);
  if (!given) return {};
  Value value;
  value.kind = Kind::joiner;
  value.joiner = run.make(Joiner{given.find(0) != nullptr ? given[0] : run.text_in_place(", ", 0), false});
  return value;
}

Value raise_exception(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"message"}, 1);
  if (!given) return {};
  const Value text = to_text(run, given[0]);
  return run.failed() ? Value() : run.raise(std::string(text.text->view()));
}

Value strftime_now(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"format"}, 1);
  if (!given) return {};
  if (!given[0].is_text())
    return run.fail(format_text("strftime() argument 1 must be str, not {}", type_name(given[0])));
  return format_date(run, *run.now(), *given[0].text);
}

}  // namespace

Function find_function(std::string_view name) {
  for (const FunctionRow& row : kFunctions)
    if (name == row.name) return row.function;
  return Function::none;
}

const char* function_name(Function function) {
  for (const FunctionRow& row : kFunctions)
    if (function == row.function) return row.name;
  return "function";
}

Value call_function(Run& run, Function function, const Arguments& arguments) {
  const Arguments named = {function_name(function), arguments.positional, arguments.named};
  switch (function) {
    case Function::range: return range(run, named);
    case Function::dict: return dict(run, named, Kind::dict);
    case Function::space: return dict(run, named, Kind::space);
    case Function::from_keys: return dict_from_keys(run, named);
    case Function::cycler: return cycler(run, named);
    case Function::joiner: return joiner(run, named);
    case Function::raise_exception: return raise_exception(run, named);
    case Function::strftime_now: return strftime_now(run, named);
    default:
      return run.fail(format_text("the function {} is refused: it has no fixed result", named.called),
                      Code::unsupported);
  }
}

}  // namespace qinfer::jinja
