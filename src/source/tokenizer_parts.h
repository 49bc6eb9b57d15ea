// Fields of a tokenizer.json that was read, as far as its parts are known to be well formed.
#pragma once

#include <string_view>
#include <vector>

#include "formats/json.h"

namespace qinfer::source {

using formats::Json;

/// A field of `object`, which may be null; null if it is not there.
inline const Json* child(const Json* object, std::string_view key) {
  return object != nullptr ? formats::find_field(*object, key) : nullptr;
}
/// Empty if it is not there.
inline std::string_view text_of(const Json* object, std::string_view key) {
  const Json* value = child(object, key);
  return value != nullptr ? value->text() : std::string_view();
}
/// False if it is not there.
inline bool boolean_of(const Json* object, std::string_view key) {
  const Json* value = child(object, key);
  return value != nullptr && value->boolean();
}
/// The parts of a sequence, or the one part that it is instead.
inline std::vector<const Json*> parts_of(const Json* component, std::string_view list) {
  std::vector<const Json*> parts;
  if (component == nullptr) return parts;
  const Json* items = text_of(component, "type") == "Sequence" ? child(component, list) : nullptr;
  if (items == nullptr) return {component};
  for (const Json& item : *items) {
    const auto inner = parts_of(&item, list);
    parts.insert(parts.end(), inner.begin(), inner.end());
  }
  return parts;
}

}  // namespace qinfer::source
