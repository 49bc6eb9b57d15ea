// See compare.h.
#include "jinja/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "jinja/characters.h"
#include "jinja/print.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

constexpr std::size_t kLinear = 8;  // entries of a dict that are looked through one by one

bool is_sequence(const Value& value) { return value.is(Kind::list) || value.is(Kind::tuple); }

bool numbers_equal(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
  return a.as_number() == b.as_number();
}

bool equal_lists(Run& run, const List& a, const List& b, int depth) {
  if (a.size != b.size) return false;
  for (std::size_t i = 0; i < a.size; ++i)
    if (!is_equal(run, a.items[i], b.items[i], depth + 1)) return false;
  return true;
}

bool equal_dicts(Run& run, const Dict& a, const Dict& b, int depth) {
  if (a.size != b.size) return false;
  for (const Entry& entry : a) {
    const Value* other = find(run, b, entry.key);
    if (other == nullptr || !is_equal(run, entry.value, *other, depth + 1)) return false;
  }
  return true;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t more) {
  hash = (hash ^ more) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

std::uint64_t hash_text(Run& run, std::string_view text) {
  run.charge(text.size() / 32);
  std::uint64_t hash = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    hash = mix(hash, word);
  }
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

bool less_lists(Run& run, const List& a, const List& b, const char* op, int depth) {
  for (std::size_t i = 0; i < std::min(a.size, b.size); ++i) {
    if (run.failed()) return false;
    if (!is_equal(run, a.items[i], b.items[i], depth + 1)) return is_less(run, a.items[i], b.items[i], op, depth + 1);
  }
  return a.size < b.size;
}

}  // namespace

bool is_equal(Run& run, const Value& a, const Value& b, int depth) {
  if (run.too_deep(depth)) return false;
  if (a.is_numeric() && b.is_numeric()) return numbers_equal(a, b);
  if (is_sequence(a) && a.kind == b.kind) return a.list == b.list || equal_lists(run, *a.list, *b.list, depth);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none: return true;
    case Kind::text: run.charge(a.text->size / 64); return a.text->view() == b.text->view();
    case Kind::big_integer: return a.text->view() == b.text->view();
    case Kind::dict: return a.dict == b.dict || equal_dicts(run, *a.dict, *b.dict, depth);
    case Kind::view: return a.view == b.view || equal_lists(run, a.view->items, b.view->items, depth);
    case Kind::range:
      return a.range->size == b.range->size &&
             (a.range->size == 0 ||
              (a.range->start == b.range->start && (a.range->size == 1 || a.range->step == b.range->step)));
    case Kind::function: return a.function == b.function;
    case Kind::method:
      return a.method->index == b.method->index && is_equal(run, a.method->self, b.method->self, depth + 1);
    default: return a.missing == b.missing;
  }
}

bool is_less(Run& run, const Value& a, const Value& b, const char* op, int depth) {
  if (run.too_deep(depth)) return false;
  if (a.is_undefined() || b.is_undefined()) {
    run.fail_undefined(a.is_undefined() ? a : b);
    return false;
  }
  if (a.is_numeric() && b.is_numeric()) {
    if (a.is_integral() && b.is_integral()) return a.as_integer() < b.as_integer();
    return a.as_number() < b.as_number();
  }
  if (a.is_text() && b.is_text()) {
    run.charge(std::min(a.text->size, b.text->size) / 64);
    return a.text->view() < b.text->view();  // the order of UTF-8 is that of its characters
  }
  if (is_sequence(a) && a.kind == b.kind) return less_lists(run, *a.list, *b.list, op, depth);
  // `a > b` and `a <= b` are asked as b < a.
  const bool is_swapped = std::string_view(op) == ">" || std::string_view(op) == "<=";
  run.fail(format_text("'{}' not supported between instances of '{}' and '{}'", op, type_name(is_swapped ? b : a),
                       type_name(is_swapped ? a : b)));
  return false;
}

bool contains(Run& run, const Value& container, const Value& value) {
  switch (container.kind) {
    case Kind::text:
      if (!value.is_text()) {
        run.fail(format_text("'in <string>' requires string as left operand, not {}", type_name(value)));
        return false;
      }
      return Finder(run, value.text->view()).find(container.text->view(), 0) != std::string_view::npos;
    case Kind::dict: return find(run, *container.dict, value) != nullptr;
    case Kind::range: {
      const Range& range = *container.range;
      if (!value.is_integral()) return false;
      const std::int64_t last = range.at(range.size - 1);
      const std::int64_t number = value.as_integer();
      if (range.size == 0 || number < std::min(range.start, last) || number > std::max(range.start, last)) return false;
      if (range.size == 1) return number == range.start;
      // Without signs, and not by the step, which of a part of a range may have more than 64 bits.
      const auto apart = [](std::int64_t a, std::int64_t b) {
        return static_cast<std::uint64_t>(std::max(a, b)) - static_cast<std::uint64_t>(std::min(a, b));
      };
      const std::uint64_t stride = apart(last, range.start) / static_cast<std::uint64_t>(range.size - 1);
      return stride != 0 && apart(number, range.start) % stride == 0;
    }
    case Kind::undefined:
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
    case Kind::iterator: break;
    default: run.fail(format_text("argument of type '{}' is not iterable", type_name(container))); return false;
  }
  const List* items = elements(run, container);
  return std::any_of(items->begin(), items->end(), [&](const Value& item) { return is_equal(run, item, value); });
}

std::uint64_t hash_of(Run& run, const Value& key, int depth) {
  if (run.too_deep(depth)) return 0;
  switch (key.kind) {
    case Kind::boolean:
    case Kind::integer: return mix(1, static_cast<std::uint64_t>(key.as_integer()));
    case Kind::number: {
      if (std::trunc(key.number) == key.number && std::abs(key.number) < 9e18)
        return mix(1, static_cast<std::uint64_t>(static_cast<std::int64_t>(key.number)));
      std::uint64_t bits = 0;
      std::memcpy(&bits, &key.number, sizeof bits);
      return mix(2, bits);
    }
    case Kind::text:
    case Kind::big_integer: return hash_text(run, key.text->view());
    case Kind::tuple: {
      std::uint64_t hash = key.list->size;
      for (const Value& item : *key.list) hash = mix(hash, hash_of(run, item, depth + 1));
      return hash;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::view: run.fail(format_text("unhashable type: '{}'", type_name(key))); return 0;
    default: return mix(3, static_cast<std::uint64_t>(key.kind));
  }
}

namespace {

const Value* find_hashed(Run& run, const Dict& dict, const Value& key, std::uint64_t hash) {
  if (dict.slots == nullptr) {
    for (const Entry& entry : dict)
      if (entry.hash == hash && is_equal(run, entry.key, key)) return &entry.value;
    return nullptr;
  }
  for (std::size_t at = hash % dict.n_slots; dict.slots[at] != 0 && !run.failed(); at = (at + 1) % dict.n_slots) {
    run.charge(1);
    const Entry& entry = dict.entries[dict.slots[at] - 1];
    if (entry.hash == hash && is_equal(run, entry.key, key)) return &entry.value;
  }
  return nullptr;
}

void add_slot(Dict& dict, std::uint64_t hash, std::size_t entry) {
  std::size_t at = hash % dict.n_slots;
  while (dict.slots[at] != 0) at = (at + 1) % dict.n_slots;
  dict.slots[at] = static_cast<std::uint32_t>(entry + 1);
}

bool grow(Run& run, Dict& dict) {
  const std::size_t capacity = std::max<std::size_t>(4, dict.capacity * 2);
  Entry* entries = run.array<Entry>(capacity);
  if (entries == nullptr || !run.charge(dict.size)) return false;
  std::uninitialized_copy(dict.begin(), dict.end(), entries);
  dict.entries = entries;
  dict.capacity = capacity;
  if (capacity <= kLinear) return true;
  std::uint32_t* slots = run.array<std::uint32_t>(capacity * 2);
  if (slots == nullptr) return false;
  std::fill(slots, slots + capacity * 2, 0U);
  dict.slots = slots;
  dict.n_slots = capacity * 2 - 1;
  for (std::size_t i = 0; i < dict.size; ++i) add_slot(dict, dict.entries[i].hash, i);
  return true;
}

}  // namespace

const Value* find(Run& run, const Dict& dict, const Value& key) {
  const std::uint64_t hash = hash_of(run, key);
  return run.failed() ? nullptr : find_hashed(run, dict, key, hash);
}

const Value* find(Run& run, const Dict& dict, std::string_view key) {
  Text text;
  text.data = key.data();
  text.size = key.size();
  return find(run, dict, text_value(&text));
}

void set(Run& run, Dict& dict, const Value& key, const Value& value) {
  const std::uint64_t hash = hash_of(run, key);
  if (run.failed()) return;
  if (const Value* there = find_hashed(run, dict, key, hash); there != nullptr) {
    *const_cast<Value*>(there) = value;  // of this dict, whose entries are not const
    return;
  }
  if (dict.size == dict.capacity && !grow(run, dict)) return;
  dict.entries[dict.size] = {key, value, hash};
  if (dict.slots != nullptr) add_slot(dict, hash, dict.size);
  ++dict.size;
}

Finder::Finder(Run& run, std::string_view needle) : run_(run), needle_(needle), open_(run) {
  if (needle.size() <= 16 || !run.charge(needle.size()) || !open_.make_room(borders_, needle.size())) return;
  borders_.reserve(needle.size());
  borders_.push_back(0);
  for (std::size_t i = 1, k = 0; i < needle.size() && run.goes_on(); ++i) {
    while (k > 0 && needle[i] != needle[k]) k = borders_[k - 1];
    if (needle[i] == needle[k]) ++k;
    borders_.push_back(k);
  }
  if (run.failed()) borders_.clear();
}

std::size_t Finder::find(std::string_view text, std::size_t from) const {
  if (borders_.empty()) {
    const std::size_t found = needle_.size() > 16 ? text.npos : text.find(needle_, from);
    run_.charge((std::min(found, text.size()) - std::min(from, text.size())) / 16);
    return found;
  }
  std::size_t k = 0;
  for (std::size_t i = from; i < text.size() && run_.goes_on(); ++i) {
    while (k > 0 && text[i] != needle_[k]) k = borders_[k - 1];
    if (text[i] == needle_[k]) ++k;
    if (k == needle_.size()) {
      run_.charge((i - from) / 8);
      return i + 1 - k;
    }
  }
  run_.charge((text.size() - std::min(from, text.size())) / 8);
  return text.npos;
}

namespace {

const List* list_of_chars(Run& run, Text text) {
  text.markup = false;
  ListBuilder chars(run);
  for (std::size_t i = 0; i < text.size && !run.failed();) {
    const std::size_t size = text::utf8_length(static_cast<std::uint8_t>(text.data[i]));
    chars.add(run.part(text, i, size));
    i += size;
  }
  return chars.finish(0).list;
}

}  // namespace

const List* elements(Run& run, const Value& value) {
  static constexpr List kEmpty;
  switch (value.kind) {
    case Kind::undefined: return &kEmpty;
    case Kind::list:
    case Kind::tuple: return value.list;
    case Kind::view: return &value.view->items;
    case Kind::text: return list_of_chars(run, *value.text);
    case Kind::dict: {
      ListBuilder keys(run);
      for (const Entry& entry : *value.dict) keys.add(entry.key);
      return keys.finish(0).list;
    }
    case Kind::iterator: {
      const List& items = value.iterator->items;
      const std::size_t at = std::exchange(value.iterator->position, items.size);
      return run.make(List{items.items + at, items.size - at});
    }
    case Kind::range: {
      ListBuilder numbers(run);
      for (std::int64_t i = 0; i < value.range->size && !run.failed(); ++i)
        numbers.add(integer_value(value.range->at(i), value.marks));
      return numbers.finish(0).list;
    }
    default: run.fail(format_text("'{}' object is not iterable", type_name(value))); return &kEmpty;
  }
}

std::int64_t length(Run& run, const Value& value) {
  switch (value.kind) {
    case Kind::undefined: return 0;
    case Kind::text:
      run.charge(value.text->size / 64);
      return static_cast<std::int64_t>(count_chars(value.text->view()));
    case Kind::list:
    case Kind::tuple: return static_cast<std::int64_t>(value.list->size);
    case Kind::dict: return static_cast<std::int64_t>(value.dict->size);
    case Kind::view: return static_cast<std::int64_t>(value.view->items.size);
    case Kind::range: return value.range->size;
    default: run.fail(format_text("object of type '{}' has no len()", type_name(value))); return 0;
  }
}

}  // namespace qinfer::jinja
