// See tokenizer_file.h.
#include "text/tokenizer_file.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace qinfer::text {
namespace {

/// Offsets into the tables are 32 bits wide.
constexpr std::size_t kMaxFileBytes = std::size_t{512} << 20;
constexpr std::string_view kKnownModels = "BPE, Unigram, WordLevel and WordPiece";
constexpr std::int64_t kLargestPower = 308;  // of ten, that a double can have

double power_of_ten(std::int64_t exponent) {
  constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (exponent < std::ssize(kPowers)) return kPowers[exponent];
  const std::string text = format_text("1e{}", exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// A score as serde_json reads it by default, which is what Hugging Face's library does: at most 64 bits of digits, and
/// a multiplication or division by a power of ten. The last bit of some differs from the nearest number's, and so may
/// which of two sums is the larger.
double score_of(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  bool fraction = false, full = false;
  std::size_t i = negative ? 1 : 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(text[i] - '0');
    full = full || digits > (UINT64_MAX - digit) / 10;
    if (!full) digits = digits * 10 + digit;
    exponent += (full ? 1 : 0) - (fraction ? 1 : 0);
  }
  std::int64_t written = 0;  // the parser has refused exponents beyond what a double can have
  if (i < text.size()) {
    i += i + 1 < text.size() && text[i + 1] == '+' ? 2 : 1;
    std::from_chars(text.data() + i, text.data() + text.size(), written);
  }
  exponent += written;
  auto value = static_cast<double>(digits);
  for (; exponent < -kLargestPower && value != 0; exponent += kLargestPower) value /= power_of_ten(kLargestPower);
  if (value != 0)
    value = exponent < 0 ? value / power_of_ten(-exponent) : value * power_of_ten(std::min(exponent, kLargestPower));
  return negative ? -value : value;
}

class FileReader final : public formats::JsonEvents {
 public:
  FileReader(TokenizerFile& file) : file_(file) {}

  Status take_failure() {
    if (failure_.ok() && !tree_.failure().empty()) return malformed("{}", tree_.failure());
    return std::move(failure_);
  }
  formats::JsonDocument take_tree() { return tree_.take(); }

  bool on_key(std::string_view key) override {
    if (part_ == Part::vocab) {
      token_.assign(key);
      return true;
    }
    if (part_ != Part::rest) return unexpected("an object");
    if (depth_ == 1) in_model_ = key == "model";
    if (depth_ == 2 && in_model_) {
      if (key == "vocab") return open(Part::vocab, file_.has_vocab, "vocab");
      if (key == "merges") return open(Part::merges, file_.has_merges, "merges");
      expect_type_ = key == "type";
    }
    return tree_.on_key(key);
  }

  bool on_string(std::string_view value) override {
    switch (part_) {
      case Part::rest:
        if (expect_type_ && value != "BPE" && value != "Unigram" && value != "WordLevel" && value != "WordPiece")
          return fail(unsupported_kind("model", value, kKnownModels));  // now: its vocab may be anything
        expect_type_ = false;
        return tree_.on_string(value);
      case Part::merges: return opened_ ? add_merge_line(value) : unexpected("a string");
      case Part::merge_pair: return add_merge_half(value);
      case Part::scored:
        if (!opened_ || n_parts_++ != 0) return unexpected("a string");
        token_.assign(value);
        return true;
      case Part::scores:
      case Part::vocab: break;
    }
    return unexpected("a string");
  }

  bool on_integer(std::int64_t value) override {
    if (part_ == Part::rest) return tree_.on_integer(value);
    if (part_ == Part::scored) return add_score(static_cast<double>(value));
    if (part_ != Part::vocab || !opened_) return unexpected("a number");
    return fail(file_.vocabulary.add(token_, value, kTokenInModel).with_prefix("model.vocab"));
  }

  bool on_other(const formats::JsonScalar& value) override {
    if (part_ == Part::rest) return tree_.on_other(value);
    if (part_ == Part::scored && value.type == formats::JsonType::number) return add_score(score_of(value.text));
    if (part_ == Part::vocab && opened_)
      return fail(malformed("model.vocab: the token {} has the id {}, expected a whole number from 0 on",
                            in_quotes(token_), formats::json_text(value)));
    return unexpected(formats::json_text(value));
  }

  bool on_begin(bool is_object) override {
    if (part_ == Part::rest) {
      ++depth_;
      return tree_.on_begin(is_object);
    }
    if (!opened_ && part_ == Part::vocab && !is_object) {
      part_ = Part::scores;
      file_.has_scores = true;
    }
    if (!opened_ && is_object == (part_ == Part::vocab)) {
      opened_ = true;
      return true;
    }
    if (part_ == Part::scores && !is_object) {
      part_ = Part::scored;
      n_parts_ = 0;
      return true;
    }
    if (part_ == Part::merges && opened_ && !is_object && form_ != Form::lines) {
      form_ = Form::pairs;
      part_ = Part::merge_pair;
      halves_ = 0;
      return true;
    }
    return unexpected(is_object ? "an object" : "an array");
  }

  bool on_end(bool is_object) override {
    if (part_ == Part::scored) {
      if (n_parts_ != 2) return unexpected("no score");
      part_ = Part::scores;
      return true;
    }
    if (part_ == Part::merge_pair) {
      if (halves_ != 2)
        return fail(malformed("model.merges: merge {} has {} parts, expected 2", merges().size(), halves_));
      part_ = Part::merges;
      return true;
    }
    if (part_ != Part::rest) {
      part_ = Part::rest;
      return true;
    }
    --depth_;
    return tree_.on_end(is_object);
  }

 private:
  enum class Part { rest, vocab, scores, scored, merges, merge_pair };  // scored: an element of scores
  enum class Form { unknown, lines, pairs };

  RawMerges& merges() { return file_.merges; }

  /// Keeps an error and stops the parse, or goes on.
  bool fail(Status status) {
    if (status.ok()) return true;
    failure_ = std::move(status);
    return false;
  }

  bool unexpected(std::string_view what) {
    if (part_ == Part::vocab && opened_)
      return fail(malformed("model.vocab: the token {} has {} for an id, expected a number", in_quotes(token_), what));
    if (part_ == Part::vocab)
      return fail(
          malformed("model.vocab is {}, expected an object of token to id or an array of [token, score]", what));
    if (part_ == Part::scores || part_ == Part::scored)
      return fail(malformed("model.vocab: token {} is or has {}, expected [token, score]", file_.scores.size(), what));
    if (!opened_) return fail(malformed("model.merges is {}, expected an array", what));
    return fail(malformed("model.merges: merge {} is or has {}, expected strings \"a b\" or pairs [\"a\", \"b\"] alone",
                          merges().size(), what));
  }

  bool open(Part part, bool& seen, std::string_view name) {
    if (seen) return fail(malformed("model.{} appears twice", name));
    seen = true;
    part_ = part;
    opened_ = false;
    return true;
  }

  bool add_score(double score) {
    if (n_parts_++ != 1) return unexpected("a number");
    const auto id = static_cast<std::int64_t>(file_.scores.size());
    file_.scores.push_back(score);
    // Of tokens that are there twice the last is found.
    return fail(file_.vocabulary.add_instead(token_, id, kTokenInModel).with_prefix("model.vocab"));
  }

  bool add_merge_line(std::string_view line) {
    if (form_ == Form::pairs) return unexpected("a string");
    form_ = Form::lines;
    if (line.starts_with("#version")) return true;  // the first line of merges.txt, kept by some converters
    const std::size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos)
      return fail(malformed("model.merges: merge {} is {}, expected two tokens and one space between them",
                            merges().size(), in_quotes(line)));
    append(line.substr(0, space));
    merges().middle.push_back(static_cast<std::uint32_t>(merges().blob.size()));
    append(line.substr(space + 1));
    merges().end.push_back(static_cast<std::uint32_t>(merges().blob.size()));
    return true;
  }

  bool add_merge_half(std::string_view half) {
    append(half);
    ++halves_;
    const auto at = static_cast<std::uint32_t>(merges().blob.size());
    if (halves_ == 1) merges().middle.push_back(at);
    if (halves_ == 2) merges().end.push_back(at);
    return true;
  }

  void append(std::string_view text) { merges().blob.append(text); }

  TokenizerFile& file_;
  formats::JsonTreeBuilder tree_;
  Status failure_;
  Part part_ = Part::rest;
  Form form_ = Form::unknown;
  bool opened_ = false;  // the object or array of part_ has begun
  bool in_model_ = false, expect_type_ = false;
  int depth_ = 0, halves_ = 0, n_parts_ = 0;
  std::string token_;
};

}  // namespace

Result<TokenizerFile> read_tokenizer_file(std::string_view text, std::string_view name, std::uint32_t id_limit,
                                          CancelFlag cancel) {
  if (text.size() > kMaxFileBytes)
    return malformed("{} has {} bytes, at most {} are read", name, text.size(), kMaxFileBytes);
  TokenizerFile file;
  file.vocabulary = Vocabulary(id_limit);
  FileReader reader(file);
  QINFER_TRY(formats::parse_json_events(text, name, reader, cancel));
  if (Status failure = reader.take_failure(); !failure.ok()) return std::move(failure).with_prefix(name);
  file.fields = reader.take_tree();
  if (!file.fields.root().is_object()) return malformed("{} is not a JSON object", name);
  return file;
}

}  // namespace qinfer::text
