// Where the parts of a JSON text are, as it was written: the end of a value that may not be complete yet, and the
// members of an object. Values themselves are checked by formats/json.h.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace qinfer::reply {

inline constexpr std::string_view kSpace = " \t\r\n";
/// More white space than this is part of no call, and no place to wait for one.
inline constexpr std::size_t kMaxSpaceBytes = 256;

/// Finds the end of the object or array that a text begins with, in pieces: a search goes on where it stopped.
class JsonEnd {
 public:
  /// `text` is the same as before, perhaps longer. The size of the value once its last bracket is there.
  std::optional<std::size_t> find(std::string_view text);
  /// Whether what was found is no JSON: markers, outside of texts.
  bool failed() const { return failed_; }
  std::size_t looked_at() const { return at_; }

 private:
  bool failed_ = false;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

struct JsonMember {
  std::string_view key;    ///< as written between its quotation marks
  std::string_view value;  ///< as written
};

/// The members of a JSON object that formats::parse_json has accepted.
std::vector<JsonMember> json_members(std::string_view object);
/// The elements of an array, likewise.
std::vector<std::string_view> json_elements(std::string_view array);

std::string_view trim_space(std::string_view text);

}  // namespace qinfer::reply
