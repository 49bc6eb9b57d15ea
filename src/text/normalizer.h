// The "normalizer" of tokenizer.json: what is done to the text before it is split. NFC, Prepend, Replace and sequences
// of these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/fields.h"
#include "text/regex.h"

namespace qinfer::text {

/// No stage may blow a text up beyond this, whatever the file asks for.
inline constexpr std::size_t kMaxExpandedBytes = std::size_t{3} << 30;
/// The same for the text of one token.
inline constexpr std::size_t kMaxTokenBytes = 65536;
Status check_expanded(std::size_t bytes, std::size_t max_bytes = kMaxExpandedBytes);

/// {"String": "..."} or {"Regex": "..."}, the field "pattern" of `object`.
Result<Regex> required_pattern(const Json& object, std::string_view where);

/// Replaces every match by `content`.
struct Replacement {
  Regex pattern;
  std::string content;
};
Result<Replacement> parse_replacement(const Json& value, std::string_view where);
Status append_replaced(std::string_view text, const Replacement& replacement, std::size_t max_bytes,
                       RegexScratch& scratch, std::vector<Span>& spans, std::string& out);

struct NormalizerScratch {
  std::string other;
  std::vector<std::int32_t> code_points;
  std::vector<Span> spans;
};

class Normalizer {
 public:
  static Result<Normalizer> parse(const Json* value, std::string_view where);

  /// Whether apply() copies.
  bool is_identity() const { return steps_.empty(); }
  /// Sets `out` to the normalised form of `text` (valid UTF-8, as is the result). Code::invalid_argument if it grows
  /// beyond max_bytes.
  Status apply(std::string_view text, std::size_t max_bytes, RegexScratch& regex_scratch, NormalizerScratch& scratch,
               std::string& out) const;

 private:
  struct Step {
    enum class Kind { nfc, prepend, replace } kind;
    std::string prefix;
    std::optional<Replacement> replacement;
  };
  Status add(const Json& value, std::string_view where);
  std::vector<Step> steps_;
};

}  // namespace qinfer::text
