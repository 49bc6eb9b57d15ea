// The "normalizer" of tokenizer.json: what is done to the text before it is split. BertNormalizer, Lowercase, the
// normal forms NFC, NFD, NFKC and NFKD, Nmt, Precompiled, Prepend, Replace, Strip, StripAccents and sequences of these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/charsmap.h"
#include "text/fields.h"
#include "text/letters.h"
#include "text/normal_form.h"
#include "text/regex.h"

namespace qinfer::text {

/// No stage may make a text of n bytes longer than this, whatever the file asks for. (NFC makes it three times as long
/// at most, a replacement of spaces by U+2581 too.)
constexpr std::size_t max_expanded(std::size_t n) { return 32 * n + 4096; }
/// The largest text of one token.
inline constexpr std::size_t kMaxTokenBytes = 65536;
/// How many steps a normaliser, pre-tokenizer or decoder may have.
inline constexpr std::size_t kMaxSteps = 64;
/// How many sequences may be inside each other; reading them is recursive.
inline constexpr int kMaxSequences = 4;
Status check_sequences(int depth, std::string_view where);
Status check_steps(std::size_t n, std::string_view where);
Status check_expanded(std::size_t bytes, std::size_t max_bytes);

/// {"String": "..."} or {"Regex": "..."}, the field "pattern" of `object`.
Result<Regex> required_pattern(const Json& object, std::string_view where);

/// Replaces every match by `content`.
struct Replacement {
  Regex pattern;
  std::string content;
};
Result<Replacement> parse_replacement(const Json& value, std::string_view where);
struct NormalizerScratch {
  std::string other, work_space;
  std::vector<std::int32_t> code_points;
  std::vector<Stretch> spans;
  RegexScratch regex;
};
Status append_replaced(std::string_view text, const Replacement& replacement, std::size_t max_bytes, Work& work,
                       NormalizerScratch& scratch, std::string& out);

/// What SentencePiece does with spaces.
struct SpaceRules {
  bool add_prefix = true;  ///< one before each text
  bool merge = true;       ///< none at the ends, and one instead of several
};

class Normalizer {
 public:
  static Result<Normalizer> parse(const Json* value, std::string_view where);

  static Normalizer bert(const BertLetters& letters);
  /// What SentencePiece does to a text; without a charsmap only with its spaces, which become U+2581.
  static Normalizer sentence_piece(std::optional<Charsmap> charsmap, SpaceRules spaces);

  /// Of the charsmaps.
  std::uint64_t memory_bytes() const;
  void move_to(std::pmr::memory_resource* memory);

  /// Whether apply() copies.
  bool is_identity() const { return steps_.empty(); }
  /// Sets `out` to the normalised form of `text` (valid UTF-8, as is the result). `begins`: what a text begins with is
  /// put before it. Code::unsupported if it grows beyond max_bytes.
  Status apply(std::string_view text, bool begins, std::size_t max_bytes, Work& work, NormalizerScratch& scratch,
               std::string& out) const;

 private:
  struct Step {
    enum class Kind {
      bert,
      byte_level,
      charsmap,
      form,
      lowercase,
      nmt,
      prepend,
      replace,
      sentence_piece,
      strip,
      strip_accents
    } kind;
    std::string prefix = {};
    std::optional<Replacement> replacement = std::nullopt;
    std::optional<Charsmap> charsmap = std::nullopt;
    NormalForm form = NormalForm::c;
    BertLetters letters = {};
    SpaceRules spaces = {};
    bool left = false, right = false;  // strip
  };
  Status add(const Json& value, std::string_view where);
  Status add_sequence(const Json& value, std::string_view where);
  Status add_plain(std::string_view kind, const Json& value, std::string_view where);
  Status add_bert(const Json& value, std::string_view where);
  static Status rewrite(const Step& step, std::string_view text, bool begins, std::size_t max_bytes, Work& work,
                        NormalizerScratch& scratch, std::string& out);
  static Status rewrite_sentence_piece(const Step& step, std::string_view text, bool begins, std::size_t max_bytes,
                                       Work& work, NormalizerScratch& scratch, std::string& out);
  std::vector<Step> steps_;
  int depth_ = 0;  // of sequences, while they are read
};

}  // namespace qinfer::text
