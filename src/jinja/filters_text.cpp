// See builtins.h: filters of texts.
#include <algorithm>
#include <cmath>

#include "jinja/argument.h"
#include "jinja/attribute_path.h"
#include "jinja/compare.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/text_tools.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

/// The value of a filter as a text, as jinja2's soft_str() makes it.
const Text& soft_text(Run& run, const Value& value) { return *to_text(run, value).text; }

template <Case wanted>
Value change_filter(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"s"}, 1);
  return given ? change_case(run, soft_text(run, given[0]), wanted) : Value();
}

Value title(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"s"}, 1);
  return given ? title_words(run, soft_text(run, given[0])) : Value();
}

Value trim(Run& run, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"value", "chars"}, 1);
  if (!given) return {};
  if (given.is_given(1) && !given[1].is_text())
    return run.fail(format_text("strip arg must be None or str, not {}", type_name(given[1])));
  return strip(run, soft_text(run, given[0]), given.is_given(1) ? given[1].text : nullptr, true, true);
}

Value replace_filter(Run& run, const Arguments& arguments) {
  const Bound<4> given(run, arguments, {"s", "old", "new", "count"}, 3);
  if (!given) return {};
  const std::int64_t n = given.is_given(3) ? given.integer(3, -1) : -1;
  return replace(run, soft_text(run, given[0]), soft_text(run, given[1]), soft_text(run, given[2]), n, false);
}

Value indent_filter(Run& run, const Arguments& arguments) {
  const Bound<4> given(run, arguments, {"s", "width", "first", "blank"}, 1);
  if (!given) return {};
  if (given[0].is_undefined()) return run.fail_undefined(given[0]);
  if (!given[0].is_text()) return binary(run, Binary::add, given[0], run.text_in_place("\n", 0));
  Value indention;
  if (given.find(1) != nullptr && given[1].is_text()) {
    indention = given[1];
  } else {
    TextBuilder blanks(run);
    blanks.pad(static_cast<std::uint64_t>(std::max<std::int64_t>(0, given.integer(1, 4))), " ", given.marks(1));
    indention = blanks.finish();
  }
  return indent(run, *given[0].text, *indention.text, given.truth(2, false), given.truth(3, false));
}

Value center(Run& run, const Arguments& arguments) {
  const Bound<2> given(run, arguments, {"value", "width"}, 1);
  if (!given) return {};
  const Value blank = run.text_in_place(" ", given.marks(1));
  return justify(run, soft_text(run, given[0]), given.integer(1, 80), *blank.text, 0);
}

Value string(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  return given ? to_text(run, given[0]) : Value();
}

Value safe(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  if (!given) return {};
  Text marked = soft_text(run, given[0]);
  marked.markup = true;
  return text_value(run.make(marked));
}

Value escape_filter(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  return given ? escape_html(run, given[0]) : Value();
}

Value join_filter(Run& run, const Arguments& arguments) {
  const Bound<3> given(run, arguments, {"value", "d", "attribute"}, 1);
  if (!given) return {};
  ListBuilder items(run);
  const List* all = elements(run, given[0]);
  for (const Value& value : *all) {
    if (run.failed()) return {};
    items.add(given.is_given(2) ? path_item(run, value, given[2]) : value);
  }
  const Value separator = given.find(1) != nullptr ? to_text(run, given[1]) : run.text_in_place({}, 0);
  return join(run, *separator.text, *items.finish(0).list, true);
}

Value format_filter(Run& run, const Arguments& arguments) {
  if (arguments.positional.empty()) return run.fail("format() missing required argument: 'value'");
  const Text& format = soft_text(run, arguments.positional[0]);
  if (arguments.positional.size() > 1 && !arguments.named.empty())
    return run.fail("can't handle positional and keyword arguments at the same time");
  if (arguments.named.empty())
    return format_percent(run, format, run.list(arguments.positional.subspan(1), 0, Kind::tuple));
  Dict* dict = run.make(Dict{});
  for (const Named& named : arguments.named) set(run, *dict, named.name, named.value);
  return format_percent(run, format, dict_value(dict, 0));
}

Value truncate(Run& run, const Arguments& arguments) {
  const Bound<5> given(run, arguments, {"s", "length", "killwords", "end", "leeway"}, 1);
  if (!given) return {};
  const Value dots = given.find(3) != nullptr ? to_text(run, given[3]) : run.text_in_place("...", 0);
  const std::int64_t most = given.integer(1, 255), leeway = given.is_given(4) ? given.integer(4, 5) : 5;
  const std::int64_t end_size = length(run, dots);
  if (most < end_size) return run.fail(format_text("expected length >= {}, got {}", end_size, most));
  if (leeway < 0) return run.fail(format_text("expected leeway >= 0, got {}", leeway));
  const std::int64_t size = length(run, given[0]);
  if (run.failed() || size <= most || size - most <= leeway) return given[0];
  if (!given[0].is_text()) return run.fail("truncate takes a text");
  const Text& text = *given[0].text;
  Value kept = run.part(text, 0, char_offset(text.view(), static_cast<std::size_t>(most - end_size)));
  if (!given.truth(2, false)) {
    const std::size_t blank = kept.text->view().rfind(' ');
    if (blank != std::string_view::npos) kept = run.part(*kept.text, 0, blank);
  }
  return add_texts(run, *kept.text, *dots.text);
}

Value wordcount(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"s"}, 1);
  if (!given) return {};
  const Text& text = soft_text(run, given[0]);
  std::int64_t n = 0;
  bool in_word = false;
  run.charge(text.size / 8);
  for (std::size_t i = 0; i < text.size && run.goes_on();) {
    const text::Char c = text::char_at(text.view(), i);
    const bool is_word = c.code == '_' || is_alnum(c.code);
    n += is_word && !in_word ? 1 : 0;
    in_word = is_word;
    i += c.size;
  }
  return integer_value(n, text.any);
}

/// Whether a byte may stand in a URL as it is.
bool is_url_safe(char c, bool is_query) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '~' || (c == '/' && !is_query);
}

void quote_url(Run& run, TextBuilder& out, const Value& value, bool is_query) {
  const Value text = to_text(run, value);
  run.charge(text.text->size / 4);
  for (std::size_t i = 0; i < text.text->size && !run.failed(); ++i) {
    const char c = text.text->data[i];
    if (is_url_safe(c, is_query))
      out.add(*text.text, i, 1);
    else if (c == ' ' && is_query)
      out.add("+", text.text->marks_at(i));
    else
      out.add(format_text("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c))), text.text->marks_at(i));
  }
}

Value urlencode(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  if (!given) return {};
  TextBuilder out(run);
  const bool is_plain = given[0].is_text() || given[0].is_numeric() || given[0].is_none();
  if (is_plain) {
    quote_url(run, out, given[0], false);
    return out.finish();
  }
  const bool is_dict = given[0].is(Kind::dict);
  const std::size_t n = is_dict ? given[0].dict->size : 0;
  const List* pairs = is_dict ? nullptr : elements(run, given[0]);
  for (std::size_t i = 0; i < (is_dict ? n : pairs->size) && !run.failed(); ++i) {
    Value key, value;
    if (is_dict) {
      key = given[0].dict->entries[i].key;
      value = given[0].dict->entries[i].value;
    } else {
      const List* pair = elements(run, pairs->items[i]);
      if (pair->size != 2) return run.fail(format_text("not a pair: urlencode takes pairs, got {} values", pair->size));
      key = pair->items[0];
      value = pair->items[1];
    }
    if (i > 0) out.add("&", given[0].marks);
    quote_url(run, out, key, true);
    out.add("=", given[0].marks);
    quote_url(run, out, value, true);
  }
  return out.finish();
}

Value tojson(Run& run, const Arguments& arguments) {
  const Bound<5> given(run, arguments, {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  if (!given) return {};
  JsonStyle style;
  style.ascii = given.truth(1, false);
  style.sort_keys = given.truth(4, false);
  style.has_indent = given.is_given(2);
  const Marks marks = marks_of(given[0]);
  style.item_separator = run.text_in_place(style.has_indent ? "," : ", ", marks);
  style.separator = run.text_in_place(": ", marks);
  if (style.has_indent) {
    TextBuilder blanks(run);
    if (given[2].is_text())
      blanks.add(*given[2].text);
    else
      blanks.pad(static_cast<std::uint64_t>(std::max<std::int64_t>(0, given.integer(2, 0))), " ",
                 static_cast<Marks>(marks | given[2].marks));
    style.indent = blanks.finish();
  }
  if (given.is_given(3)) {
    const List* pair = elements(run, given[3]);
    if (pair->size != 2 || !pair->items[0].is_text() || !pair->items[1].is_text())
      return run.fail("separators are two texts: (item_separator, key_separator)");
    style.item_separator = pair->items[0];
    style.separator = pair->items[1];
  }
  TextBuilder out(run);
  if (!run.failed()) write_json(run, out, given[0], style);
  return out.finish();
}

Value striptags(Run& run, const Arguments& arguments) {
  const Bound<1> given(run, arguments, {"value"}, 1);
  if (!given) return {};
  const Text& text = soft_text(run, given[0]);
  TextBuilder kept(run);
  std::size_t at = 0;
  run.charge(text.size / 4);
  // As markupsafe: comments first, then tags, then the white space between words, then entities.
  const auto without = [&](const Text& from, std::string_view begin, std::string_view end) {
    TextBuilder out(run);
    for (at = 0; at < from.size;) {
      const std::size_t open = from.view().find(begin, at);
      const std::size_t close = open == std::string_view::npos ? open : from.view().find(end, open);
      if (close == std::string_view::npos) break;
      out.add(from, at, open - at);
      at = close + end.size();
    }
    if (at < from.size) out.add(from, at, from.size - at);
    return out.finish();
  };
  const Value plain = without(*without(text, "<!--", "-->").text, "<", ">");
  const Value words = split(run, *plain.text, nullptr, -1, false);
  if (run.failed()) return {};
  const Value blank = run.text_in_place(" ", text.any);
  Value joined = join(run, *blank.text, *words.list, true);
  for (const auto& [entity, character] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&#39;", "'"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}}) {
    const Value from = run.text_in_place(entity, 0), to = run.text_in_place(character, joined.text->any);
    joined = replace(run, *joined.text, *from.text, *to.text, -1, false);
    if (run.failed()) return {};
  }
  return joined;
}

Value refuse(Run& run, const Arguments& arguments) {
  return run.fail(
      format_text("the filter {} is refused: it is for pages of HTML, or has no fixed result", arguments.called),
      Code::unsupported);
}

}  // namespace

std::span<const BuiltinRow> text_filters() {
  static constexpr BuiltinRow kRows[] = {
      {"capitalize", change_filter<Case::capitalized>},
      {"center", center},
      {"e", escape_filter},
      {"escape", escape_filter},
      {"format", format_filter},
      {"indent", indent_filter},
      {"join", join_filter},
      {"lower", change_filter<Case::lower>},
      {"pprint", refuse},
      {"random", refuse},
      {"replace", replace_filter},
      {"safe", safe},
      {"string", string},
      {"striptags", striptags},
      {"title", title},
      {"tojson", tojson},
      {"trim", trim},
      {"truncate", truncate},
      {"upper", change_filter<Case::upper>},
      {"urlencode", urlencode},
      {"urlize", refuse},
      {"wordcount", wordcount},
      {"wordwrap", refuse},
      {"xmlattr", refuse},
  };
  return kRows;
}

}  // namespace qinfer::jinja
