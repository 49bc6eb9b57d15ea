// See tokenizer_file.h.
#include "text/tokenizer_file.h"

namespace qinfer::text {
namespace {

/// Offsets into the tables are 32 bits wide.
constexpr std::size_t kMaxFileBytes = std::size_t{512} << 20;

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
        if (expect_type_ && value != "BPE")
          return fail(unsupported_kind("model", value, "BPE"));  // now: its vocab may not even be an object
        expect_type_ = false;
        return tree_.on_string(value);
      case Part::merges: return opened_ ? add_merge_line(value) : unexpected("a string");
      case Part::merge_pair: return add_merge_half(value);
      case Part::vocab: break;
    }
    return unexpected("a string");
  }

  bool on_integer(std::int64_t value) override {
    if (part_ == Part::rest) return tree_.on_integer(value);
    if (part_ != Part::vocab || !opened_) return unexpected("a number");
    return fail(file_.vocabulary.add(token_, value, kTokenInModel).with_prefix("model.vocab"));
  }

  bool on_other(const formats::JsonScalar& value) override {
    if (part_ == Part::rest) return tree_.on_other(value);
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
    if (!opened_ && is_object == (part_ == Part::vocab)) {
      opened_ = true;
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
  enum class Part { rest, vocab, merges, merge_pair };
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
    if (part_ == Part::vocab) return fail(malformed("model.vocab is {}, expected an object of token to id", what));
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
  int depth_ = 0, halves_ = 0;
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
