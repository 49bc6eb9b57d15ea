// See print.h: JSON.
#include <algorithm>
#include <cmath>
#include <vector>

#include "jinja/compare.h"
#include "jinja/print.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

/// How a character of a string is written; empty where it stays.
std::string escape_char(char32_t c, bool ascii) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: break;
  }
  if (c >= 0x20 && (c < 0x7F || !ascii)) return {};
  if (c < 0x10000) return format_text("\\u{:04x}", static_cast<unsigned>(c));
  const auto high = static_cast<unsigned>(0xD800 + ((c - 0x10000) >> 10));
  const auto low = static_cast<unsigned>(0xDC00 + ((c - 0x10000) & 0x3FF));
  return format_text("\\u{:04x}\\u{:04x}", high, low);
}

[[gnu::noinline]] void write_string(Run& run, TextBuilder& out, const Text& text, bool ascii) {
  run.charge(text.size / 8);
  out.add("\"", text.any);
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size && run.goes_on();) {
    const text::Char c = text::char_at(text.view(), i);
    if (const std::string escaped = escape_char(c.code, ascii); !escaped.empty()) {
      out.add(text, plain, i - plain);
      out.add(escaped, text.marks_at(i));
      plain = i + c.size;
    }
    i += c.size;
  }
  out.add(text, plain, text.size - plain);
  out.add("\"", text.any);
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return float_repr(value);
}

[[gnu::noinline]] void write_key(Run& run, TextBuilder& out, const Value& key, bool ascii) {
  if (key.is_text()) return write_string(run, out, *key.text, ascii);
  std::string text;
  switch (key.kind) {
    case Kind::boolean: text = key.boolean ? "true" : "false"; break;
    case Kind::none: text = "null"; break;
    case Kind::integer: text = format_text("{}", key.integer); break;
    case Kind::big_integer: text = key.text->view(); break;
    case Kind::number: text = json_number(key.number); break;
    default: run.fail(format_text("keys must be str, int, float, bool or None, not {}", type_name(key))); return;
  }
  out.add("\"" + text + "\"", key.marks);
}

void write_break(TextBuilder& out, const JsonStyle& style, int depth, Marks marks) {
  if (!style.has_indent) return;
  out.add("\n", marks);
  for (int i = 0; i < depth; ++i) out.add(*style.indent.text);
}

void write_array(Run& run, TextBuilder& out, const Value& value, const JsonStyle& style, int depth) {
  out.add("[", value.marks);
  for (std::size_t i = 0; i < value.list->size && !run.failed(); ++i) {
    if (i > 0) out.add(*style.item_separator.text, value.marks);
    write_break(out, style, depth + 1, value.marks);
    write_json(run, out, value.list->items[i], style, depth + 1);
  }
  if (value.list->size > 0) write_break(out, style, depth, value.marks);
  out.add("]", value.marks);
}

[[gnu::noinline]] std::vector<const Entry*> ordered_entries(Run& run, const Dict& dict, bool sort_keys) {
  std::vector<const Entry*> entries;
  for (const Entry& entry : dict) entries.push_back(&entry);
  if (sort_keys) {
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const Entry* a, const Entry* b) { return !run.failed() && is_less(run, a->key, b->key); });
  }
  return entries;
}

void write_object(Run& run, TextBuilder& out, const Value& value, const JsonStyle& style, int depth) {
  out.add("{", value.marks);
  bool first = true;
  for (const Entry* entry : ordered_entries(run, *value.dict, style.sort_keys)) {
    if (run.failed()) return;
    if (!first) out.add(*style.item_separator.text, value.marks);
    first = false;
    write_break(out, style, depth + 1, value.marks);
    write_key(run, out, entry->key, style.ascii);
    out.add(*style.separator.text, value.marks);
    write_json(run, out, entry->value, style, depth + 1);
  }
  if (value.dict->size > 0) write_break(out, style, depth, value.marks);
  out.add("}", value.marks);
}

}  // namespace

void write_json(Run& run, TextBuilder& out, const Value& value, const JsonStyle& style, int depth) {
  if (depth >= kMaxValueDepth) {
    run.fail(format_text("lists and mappings are inside each other deeper than {} levels, which is the most",
                         kMaxValueDepth),
             Code::buffer_too_small);
    return;
  }
  if (!run.charge(1)) return;
  switch (value.kind) {
    case Kind::none: return out.add("null", value.marks);
    case Kind::boolean: return out.add(value.boolean ? "true" : "false", value.marks);
    case Kind::integer: return out.add(format_text("{}", value.integer), value.marks);
    case Kind::big_integer: return out.add(value.text->view(), value.marks);
    case Kind::number: return out.add(json_number(value.number), value.marks);
    case Kind::text: return write_string(run, out, *value.text, style.ascii);
    case Kind::list:
    case Kind::tuple: return write_array(run, out, value, style, depth);
    case Kind::dict: return write_object(run, out, value, style, depth);
    default: run.fail(format_text("Object of type {} is not JSON serializable", type_name(value)));
  }
}

}  // namespace qinfer::jinja
