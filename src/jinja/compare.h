// Equality, order and hashes of values, as Python has them, and mappings by them.
#pragma once

#include <cstdint>
#include <string_view>

#include "jinja/run.h"

namespace qinfer::jinja {

bool is_equal(Run& run, const Value& a, const Value& b, int depth = 0);
/// a < b; TypeError's message where Python does not order them. `op` is how messages name the comparison.
bool is_less(Run& run, const Value& a, const Value& b, const char* op = "<", int depth = 0);
/// `value in container`
bool contains(Run& run, const Value& container, const Value& value);

/// Fails for what cannot be a key.
std::uint64_t hash_of(Run& run, const Value& key, int depth = 0);
/// Null if there is none.
const Value* find(Run& run, const Dict& dict, const Value& key);
const Value* find(Run& run, const Dict& dict, std::string_view key);
/// Sets a key. Only the maker of a dict does this, and namespaces.
void set(Run& run, Dict& dict, const Value& key, const Value& value);

/// Finds a text in others in linear time, whatever they are.
class Finder {
 public:
  /// The needle stays valid while this is used.
  Finder(Run& run, std::string_view needle);
  /// The first place at `from` or after; npos if there is none.
  std::size_t find(std::string_view text, std::size_t from) const;

 private:
  Run& run_;
  std::string_view needle_;
  OpenBytes open_;
  std::vector<std::size_t> borders_;  // of the needle's beginnings; empty for short needles
};

/// The elements that iterating over a value gives; `run` fails if it cannot be. An iterator is used up by it.
const List* elements(Run& run, const Value& value);
/// len(); `run` fails if it has none.
std::int64_t length(Run& run, const Value& value);

}  // namespace qinfer::jinja
