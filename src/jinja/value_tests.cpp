// See builtins.h: what follows `is`.
#include "jinja/argument.h"
#include "jinja/compare.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/text_tools.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

using Test = bool (*)(Run& run, const Value& value, const Value& other);
struct TestRow {
  const char* name;
  bool has_other;  ///< takes an argument
  Test test;
};

template <Kind kind>
bool is_kind(Run&, const Value& value, const Value&) {
  return value.is(kind);
}
template <bool wanted>
bool is_bool(Run&, const Value& value, const Value&) {
  return value.is(Kind::boolean) && value.boolean == wanted;
}
template <Compare op>
bool is_compared(Run& run, const Value& value, const Value& other) {
  return compare(run, op, value, other);
}

bool leaves(Run& run, const Value& value, const Value& divisor, std::int64_t rest) {
  return is_equal(run, binary(run, Binary::modulo, value, divisor), integer_value(rest));
}
bool is_odd(Run& run, const Value& value, const Value&) { return leaves(run, value, integer_value(2), 1); }
bool is_even(Run& run, const Value& value, const Value&) { return leaves(run, value, integer_value(2), 0); }
bool is_divisible(Run& run, const Value& value, const Value& by) { return leaves(run, value, by, 0); }
bool is_defined(Run&, const Value& value, const Value&) { return !value.is_undefined(); }
bool is_integer(Run&, const Value& value, const Value&) {
  return value.is(Kind::integer) || value.is(Kind::big_integer);
}
bool is_number(Run&, const Value& value, const Value&) { return value.is_numeric() || value.is(Kind::big_integer); }
bool is_filter(Run& run, const Value& value, const Value&) {
  hash_of(run, value);
  return value.is_text() && find_filter(value.text->view()) >= 0;
}
bool is_test(Run& run, const Value& value, const Value&) {
  hash_of(run, value);
  return value.is_text() && find_test(value.text->view()) >= 0;
}

bool is_sequence(Run&, const Value& value, const Value&) {
  // What has a length and elements by key; Python says so of mappings and undefined values too.
  return value.is_text() || value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::dict) ||
         value.is(Kind::range);
}
bool is_iterable(Run&, const Value& value, const Value&) {
  return value.is_text() || value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::dict) ||
         value.is(Kind::range) || value.is(Kind::view) || value.is(Kind::iterator) || value.is_undefined() ||
         value.is(Kind::loop);
}
bool is_callable(Run&, const Value& value, const Value&) {
  return value.is(Kind::macro) || value.is(Kind::function) || value.is(Kind::method) || value.is(Kind::loop) ||
         value.is(Kind::joiner) || value.is_undefined();
}
bool is_escaped(Run&, const Value& value, const Value&) { return value.is_text() && value.text->markup; }

template <bool upper>
bool has_case(Run& run, const Value& value, const Value&) {
  const Value text = to_text(run, value);
  run.charge(text.text->size / 8);
  bool found = false;
  for (std::size_t i = 0; i < text.text->size && run.goes_on();) {
    const text::Char c = text::char_at(text.text->view(), i);
    if (is_title(c.code) || (upper ? is_lower(c.code) : is_upper(c.code))) return false;
    found = found || (upper ? is_upper(c.code) : is_lower(c.code));
    i += c.size;
  }
  return found;
}

/// `is` of Python. Small integers and short texts are one object there; lists and mappings are where they are the same.
bool is_same(Run& run, const Value& value, const Value& other) {
  if (value.kind != other.kind) return false;
  if (value.is(Kind::list) || value.is(Kind::tuple)) return value.list == other.list;
  if (value.is(Kind::dict)) return value.dict == other.dict;
  return is_equal(run, value, other);
}

constexpr TestRow kTests[] = {
    {"!=", true, is_compared<Compare::not_equal>},
    {"<", true, is_compared<Compare::less>},
    {"<=", true, is_compared<Compare::less_equal>},
    {"==", true, is_compared<Compare::equal>},
    {">", true, is_compared<Compare::greater>},
    {">=", true, is_compared<Compare::greater_equal>},
    {"boolean", false, is_kind<Kind::boolean>},
    {"callable", false, is_callable},
    {"defined", false, is_defined},
    {"divisibleby", true, is_divisible},
    {"eq", true, is_compared<Compare::equal>},
    {"equalto", true, is_compared<Compare::equal>},
    {"escaped", false, is_escaped},
    {"even", false, is_even},
    {"false", false, is_bool<false>},
    {"filter", false, is_filter},
    {"float", false, is_kind<Kind::number>},
    {"ge", true, is_compared<Compare::greater_equal>},
    {"greaterthan", true, is_compared<Compare::greater>},
    {"gt", true, is_compared<Compare::greater>},
    {"in", true, is_compared<Compare::in>},
    {"integer", false, is_integer},
    {"iterable", false, is_iterable},
    {"le", true, is_compared<Compare::less_equal>},
    {"lessthan", true, is_compared<Compare::less>},
    {"lower", false, has_case<false>},
    {"lt", true, is_compared<Compare::less>},
    {"mapping", false, is_kind<Kind::dict>},
    {"ne", true, is_compared<Compare::not_equal>},
    {"none", false, is_kind<Kind::none>},
    {"number", false, is_number},
    {"odd", false, is_odd},
    {"sameas", true, is_same},
    {"sequence", false, is_sequence},
    {"string", false, is_kind<Kind::text>},
    {"test", false, is_test},
    {"true", false, is_bool<true>},
    {"undefined", false, is_kind<Kind::undefined>},
    {"upper", false, has_case<true>},
};

}  // namespace

int find_test(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kTests); ++i)
    if (name == kTests[i].name) return static_cast<int>(i);
  return -1;
}

Value call_test(Run& run, int index, const Arguments& arguments) {
  const TestRow& row = kTests[index];
  const std::size_t n = arguments.positional.size() + arguments.named.size();
  const std::size_t wanted = row.has_other ? 2 : 1;
  if (n != wanted || arguments.positional.empty()) {
    return run.fail(format_text("the test {} takes {} argument{}, but {} {} given", row.name, wanted - 1,
                                wanted == 2 ? "" : "s", n == 0 ? 0 : n - 1, n == 2 ? "was" : "were"));
  }
  const Value& value = arguments.positional[0];
  const Value other = !row.has_other                     ? Value()
                      : arguments.positional.size() == 2 ? arguments.positional[1]
                                                         : arguments.named[0].value;
  const bool result = row.test(run, value, other);
  return boolean_value(result, static_cast<Marks>(marks_of(value) | (row.has_other ? marks_of(other) : 0)));
}

}  // namespace qinfer::jinja
