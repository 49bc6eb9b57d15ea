// See loader.h.
#include "text/loader.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "text/fields.h"
#include "text/post_processor.h"
#include "text/table_builder.h"
#include "text/tokenizer_file.h"

namespace qinfer::text {
namespace {

/// A hash of the whole file, however its values are set out.
std::uint64_t fingerprint_of(const TokenizerFile& file) {
  std::uint64_t hashes[3] = {hash_text(formats::json_text(file.fields.root())), 0, hash_text(file.merges.blob)};
  const auto mix = [](std::uint64_t& hash, std::uint64_t more) {
    const std::uint64_t both[2] = {hash, more};
    hash = hash_bytes(std::as_bytes(std::span(both)));
  };
  const Vocabulary& vocabulary = file.vocabulary;
  for (std::uint32_t i = 0; i < vocabulary.size(); ++i)
    mix(hashes[1], hash_text(vocabulary.content(static_cast<TokenId>(i))));
  if (file.has_scores) mix(hashes[1], hash_bytes(std::as_bytes(std::span(file.scores))));
  for (std::size_t i = 0; i < file.merges.size(); ++i) mix(hashes[2], file.merges.middle[i]);
  return hash_bytes(std::as_bytes(std::span(hashes)));
}

class Loader {
 public:
  Loader(TokenizerFile file, std::size_t file_size, std::uint32_t id_limit, Notes* notes, CancelFlag cancel)
      : file_(std::move(file)),
        id_limit_(id_limit),
        notes_(notes),
        cancel_(cancel),
        builder_(file_size, cancel, notes),
        tables_(&builder_.tables()) {
    tables_->fingerprint = fingerprint_of(file_);
  }

  Status run() {
    QINFER_TRY(check_top_level());
    QINFER_TRY(load_model());
    QINFER_ASSIGN(tables_->normalizer, Normalizer::parse(field("normalizer"), "normalizer"));
    QINFER_ASSIGN(tables_->pre_tokenizer, PreTokenizer::parse(field("pre_tokenizer"), "pre_tokenizer"));
    QINFER_TRY(load_added_tokens());
    QINFER_ASSIGN(tables_->templates,
                  parse_post_processor(field("post_processor"), "post_processor", tables_->vocabulary));
    QINFER_TRY(load_max_length());
    QINFER_ASSIGN(const Decoder decoder, Decoder::parse(field("decoder"), "decoder"));
    return builder_.finish(decoder, false);
  }
  std::unique_ptr<TokenizerTables> take() { return builder_.take(); }

 private:
  const Json& root() const { return file_.fields.root(); }
  const Json* field(std::string_view key) const { return formats::find_field(root(), key); }

  Status check_top_level() const {
    QINFER_TRY(check_fields(root(), "the file",
                            {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                             "post_processor", "decoder", "model"}));
    QINFER_ASSIGN(const auto version, FieldReader(root(), "the file").string("version"));
    if (version && *version != "1.0")
      return error(Code::unsupported, "the version {} is not supported, expected \"1.0\"", in_quotes(*version));
    return Status();
  }

  /// Texts are not cut, nor padded: who wants that finds the number in max_length.
  Status load_max_length() {
    const Json* truncation = field("truncation");
    if (truncation == nullptr) return Status();
    if (!truncation->is_object()) return malformed("truncation is not an object");
    QINFER_ASSIGN(const auto length, FieldReader(*truncation, "truncation").integer("max_length", 0, INT64_MAX));
    tables_->max_length = static_cast<std::uint32_t>(std::min<std::int64_t>(length.value_or(0), UINT32_MAX));
    return Status();
  }

  Status load_model() {
    const Json* model = field("model");
    if (model == nullptr) return malformed("the field \"model\" is missing");
    if (!model->is_object()) return malformed("model is not an object");
    const FieldReader fields(*model, "model");
    QINFER_ASSIGN(const auto kind, fields.string("type"));
    if (!file_.has_vocab) return malformed("model: the field \"vocab\" is missing");
    const std::string name = kind.value_or(file_.has_scores ? "Unigram" : "BPE");
    if (file_.has_scores != (name == "Unigram"))
      return malformed("model.vocab is {}, expected {} where the type is {}",
                       file_.has_scores ? "an array" : "an object",
                       file_.has_scores ? "an object of token to id" : "an array of [token, score]", in_quotes(name));
    if (file_.has_merges && name != "BPE")
      return error(Code::unsupported, "model: the field \"merges\" is not supported where the type is {}",
                   in_quotes(name));
    tables_->vocabulary = std::move(file_.vocabulary);
    if (name == "BPE") return load_bpe(*model, fields);
    if (name == "WordLevel") return load_word_level(*model);
    if (name == "WordPiece") return load_word_piece(*model, fields);
    return load_unigram(*model, fields);
  }

  /// A word without a token is an error where the unknown one has none.
  Status load_word_level(const Json& model) {
    QINFER_TRY(check_fields(model, "model", {"type", "unk_token"}));
    QINFER_ASSIGN(const std::string unknown, required_string(model, "unk_token", "model"));
    tables_->model = TokenizerTables::Model::word_level;
    tables_->word_level.init(tables_->vocabulary.find_in_model(unknown).value_or(-1), tables_->vocabulary);
    return Status();
  }

  Status load_word_piece(const Json& model, const FieldReader& fields) {
    QINFER_TRY(
        check_fields(model, "model", {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}));
    QINFER_ASSIGN(const std::string unknown, required_string(model, "unk_token", "model"));
    QINFER_ASSIGN(const std::string prefix, required_string(model, "continuing_subword_prefix", "model"));
    QINFER_ASSIGN(const std::int64_t most, fields.required_integer("max_input_chars_per_word", 0, INT64_MAX));
    WordPieceOptions options;
    QINFER_ASSIGN(options.unknown, find_unknown(unknown));
    options.max_characters = static_cast<std::uint64_t>(most);
    tables_->model = TokenizerTables::Model::word_piece;
    return tables_->word_piece.init(options, prefix, tables_->vocabulary, cancel_);
  }

  Status load_unigram(const Json& model, const FieldReader& fields) {
    QINFER_TRY(check_fields(model, "model", {"type", "unk_id", "byte_fallback"}));
    UnigramOptions options;
    const auto count = static_cast<std::int64_t>(file_.scores.size());
    QINFER_ASSIGN(const auto unknown, fields.integer("unk_id", 0, INT64_MAX));
    if (unknown && *unknown >= count)
      return malformed("model: \"unk_id\" is {}, but model.vocab has {} tokens", *unknown, count);
    QINFER_ASSIGN(const auto fallback, fields.boolean("byte_fallback"));
    options.unknown = static_cast<TokenId>(unknown.value_or(-1));
    options.byte_fallback = fallback.value_or(false);
    double lowest = std::numeric_limits<double>::infinity();
    for (const double score : file_.scores) lowest = std::min(lowest, score);
    tables_->model = TokenizerTables::Model::unigram;
    return tables_->unigram.init(options, {file_.scores.begin(), file_.scores.end(), heap_memory()}, lowest,
                                 tables_->vocabulary, cancel_);
  }

  Result<TokenId> find_unknown(std::string_view name) const {
    const auto id = tables_->vocabulary.find_in_model(name);
    if (!id) return malformed("model: \"unk_token\" is {}, which is not in model.vocab", in_quotes(name));
    return *id;
  }

  Status load_bpe(const Json& model, const FieldReader& fields) {
    QINFER_TRY(check_fields(model, "model",
                            {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                             "fuse_unk", "byte_fallback", "ignore_merges"}));
    if (!file_.has_merges) return malformed("model: the field \"merges\" is missing");
    QINFER_ASSIGN(const auto dropout, fields.number("dropout"));
    if (dropout && *dropout != 0)
      return error(Code::unsupported, "model: \"dropout\" is {}, expected null or 0", *dropout);
    BpeOptions options;
    for (const auto& [name, affix] : {std::pair("continuing_subword_prefix", &options.inside),
                                      std::pair("end_of_word_suffix", &options.end_of_word)}) {
      QINFER_ASSIGN(const auto stated, fields.string(name));
      *affix = stated.value_or("");
      if (affix->size() > kMaxAffixBytes)
        return error(Code::unsupported, "model: \"{}\" has {} bytes, at most {} are supported", name, affix->size(),
                     kMaxAffixBytes);
    }
    // The library counts its characters, and takes as many bytes off.
    if (!std::all_of(options.inside.begin(), options.inside.end(), [](char c) { return (c & 0x80) == 0; }))
      return error(Code::unsupported, "model: \"continuing_subword_prefix\" is {}, supported is ASCII",
                   in_quotes(options.inside));
    QINFER_ASSIGN(const auto unknown, fields.string("unk_token"));
    if (unknown && !unknown->empty()) {  // "" is how early files spell null
      QINFER_ASSIGN(options.unknown, find_unknown(*unknown));
    }
    QINFER_ASSIGN(const auto fuse, fields.boolean("fuse_unk"));
    QINFER_ASSIGN(const auto fallback, fields.boolean("byte_fallback"));
    QINFER_ASSIGN(const auto ignore, fields.boolean("ignore_merges"));
    options.fuse_unknown = fuse.value_or(false);
    options.byte_fallback = fallback.value_or(false);
    options.ignore_merges = ignore.value_or(false);
    MergeTable merges;
    QINFER_TRY(load_merges(options.inside, merges));
    tables_->bpe.init(options, std::move(merges), tables_->vocabulary);
    return Status();
  }

  /// `inside`: of what is merged the second part begins with it, and loses it.
  Status load_merges(std::string_view inside, MergeTable& table) {
    const RawMerges& raw = file_.merges;
    table.reserve(raw.size());
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (i % kLookForCancel == 0) QINFER_TRY(cancel_.check("loading a tokenizer"));
      MergeRow row{raw.left(i), raw.right(i), raw.both(i)};
      std::string both;
      if (!inside.empty()) {
        if (!row.right.starts_with(inside))
          return malformed("model.merges[{}]: {} does not begin with \"continuing_subword_prefix\", {}", i,
                           in_quotes(row.right), in_quotes(inside));
        row.both = both.append(row.left).append(row.right.substr(inside.size()));
      }
      QINFER_TRY(
          add_merge(row, static_cast<std::uint32_t>(i), tables_->vocabulary, "model.merges", "model.vocab", table));
    }
    file_.merges = {};
    return table.check().with_prefix("model.merges");
  }

  Status load_added_tokens() {
    if (field("added_tokens") != nullptr) {
      QINFER_ASSIGN(const Json* list, required_array(root(), "added_tokens", "the file"));
      std::size_t i = 0;
      for (const Json& item : *list) QINFER_TRY(load_added_token(item, format_text("added_tokens[{}]", i++)));
    }
    builder_.finish_added();
    return Status();
  }

  Status load_added_token(const Json& item, const std::string& where) {
    if (!item.is_object()) return malformed("{} is not an object", where);
    QINFER_TRY(
        check_fields(item, where, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
    QINFER_ASSIGN(const std::string content, required_string(item, "content", where));
    QINFER_ASSIGN(const std::int64_t id, FieldReader(item, where).required_integer("id", INT64_MIN, INT64_MAX));
    QINFER_ASSIGN(const bool single_word, required_boolean(item, "single_word", where));
    QINFER_ASSIGN(const bool lstrip, required_boolean(item, "lstrip", where));
    QINFER_ASSIGN(const bool rstrip, required_boolean(item, "rstrip", where));
    QINFER_ASSIGN(const bool normalized, required_boolean(item, "normalized", where));
    QINFER_ASSIGN(const bool special, required_boolean(item, "special", where));

    if (id < 0)
      return malformed("{}: the token {} has the id {}, expected 0 to {}", where, in_quotes(content), id,
                       id_limit_ - 1);
    // The model has no row for it and never draws it: its name is text then.
    if (id >= id_limit_ && !content.empty()) {
      if (notes_ != nullptr)
        notes_->add("{}: the token {} has the id {}, but the model only ids below {}: it is passed over", where,
                    in_quotes(content), id, id_limit_);
      return Status();
    }
    return builder_.add({content, id, lstrip, rstrip, single_word, normalized, special}, where);
  }

  TokenizerFile file_;
  std::int64_t id_limit_;
  Notes* notes_;
  CancelFlag cancel_;
  TableBuilder builder_;
  TokenizerTables* tables_;  // the builder's
};

}  // namespace

Result<std::unique_ptr<TokenizerTables>> load_tokenizer(std::string_view text, std::string_view name,
                                                        const TokenizerLimits& limits, CancelFlag cancel) {
  const std::uint32_t id_limit = limits.vocab_size == 0 ? kMaxIds : std::min(limits.vocab_size, kMaxIds);
  QINFER_ASSIGN(TokenizerFile file, read_tokenizer_file(text, name, id_limit, cancel));
  Loader loader(std::move(file), text.size(), id_limit, limits.notes, cancel);
  if (Status status = loader.run(); !status.ok()) return std::move(status).with_prefix(name);
  return loader.take();
}

}  // namespace qinfer::text
