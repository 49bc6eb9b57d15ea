// See loader.h. Order matters: added tokens need the normaliser, decoded forms need the added tokens.
#include "text/loader.h"

#include <algorithm>

#include "base/hash.h"
#include "text/fields.h"
#include "text/post_processor.h"
#include "text/tokenizer_file.h"

namespace qinfer::text {
namespace {

/// Arrays are as long as the largest id: without a bound one line of a file could ask for gigabytes.
constexpr std::uint32_t kMaxIds = 1U << 22;
/// The most bytes that the texts of a file may become, for each kind of text: a multiple of the file's size.
constexpr std::size_t most_bytes_of(std::size_t file_size) {
  return std::min(std::size_t{512} << 20, 16 * file_size + (std::size_t{1} << 16));
}
constexpr std::size_t kLookForCancel = 4096;  // tokens or merges between two looks at the flag

/// A text of the file that cannot be processed is the file's fault.
Status of_file(Status status, std::string_view where) {
  if (status.code() == Code::unsupported) return malformed("{}: {}", where, status.message());
  return std::move(status).with_prefix(where);
}

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
  for (std::size_t i = 0; i < file.merges.size(); ++i) mix(hashes[2], file.merges.middle[i]);
  return hash_bytes(std::as_bytes(std::span(hashes)));
}

class Loader {
 public:
  Loader(TokenizerFile file, std::size_t file_size, std::uint32_t id_limit, bool drop_special, CancelFlag cancel)
      : file_(std::move(file)),
        id_limit_(id_limit),
        drop_special_(drop_special),
        cancel_(cancel),
        most_bytes_(most_bytes_of(file_size)),
        work_(Work::default_limit(file_size), cancel),
        tables_(std::make_unique<TokenizerTables>()) {
    tables_->fingerprint = fingerprint_of(file_);
  }

  Status run() {
    QINFER_TRY(check_top_level());
    QINFER_TRY(load_model());
    QINFER_ASSIGN(tables_->normalizer, Normalizer::parse(field("normalizer"), "normalizer"));
    QINFER_ASSIGN(tables_->pre_tokenizer, PreTokenizer::parse(field("pre_tokenizer"), "pre_tokenizer"));
    QINFER_TRY(load_added_tokens());
    QINFER_TRY(parse_post_processor(field("post_processor"), "post_processor", tables_->vocabulary, tables_->prefix,
                                    tables_->suffix));
    return decode_tokens();
  }
  std::unique_ptr<TokenizerTables> take() { return std::move(tables_); }

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

  Status load_model() {
    const Json* model = field("model");
    if (model == nullptr) return malformed("the field \"model\" is missing");
    if (!model->is_object()) return malformed("model is not an object");
    const FieldReader fields(*model, "model");
    QINFER_ASSIGN(const auto kind, fields.string("type"));
    if (kind && *kind != "BPE") return unsupported_kind("model", *kind, "BPE");
    QINFER_TRY(check_fields(*model, "model",
                            {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                             "fuse_unk", "byte_fallback", "ignore_merges"}));
    if (!file_.has_vocab) return malformed("model: the field \"vocab\" is missing");
    if (!file_.has_merges) return malformed("model: the field \"merges\" is missing");
    QINFER_ASSIGN(const auto dropout, fields.number("dropout"));
    if (dropout && *dropout != 0)
      return error(Code::unsupported, "model: \"dropout\" is {}, expected null or 0", *dropout);
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      QINFER_ASSIGN(const auto affix, fields.string(key));
      if (affix && !affix->empty())
        return error(Code::unsupported, "model: \"{}\" is {}, expected null or \"\"", key, in_quotes(*affix));
    }
    return load_bpe(fields);
  }

  Status load_bpe(const FieldReader& fields) {
    tables_->vocabulary = std::move(file_.vocabulary);
    BpeOptions options;
    QINFER_ASSIGN(const auto unknown, fields.string("unk_token"));
    if (unknown && !unknown->empty()) {  // "" is how early files spell null
      const auto id = tables_->vocabulary.find_in_model(*unknown);
      if (!id) return malformed("model: \"unk_token\" is {}, which is not in model.vocab", in_quotes(*unknown));
      options.unknown = *id;
    }
    QINFER_ASSIGN(const auto fuse, fields.boolean("fuse_unk"));
    QINFER_ASSIGN(const auto fallback, fields.boolean("byte_fallback"));
    QINFER_ASSIGN(const auto ignore, fields.boolean("ignore_merges"));
    options.fuse_unknown = fuse.value_or(false);
    options.byte_fallback = fallback.value_or(false);
    options.ignore_merges = ignore.value_or(false);
    MergeTable merges;
    QINFER_TRY(load_merges(merges));
    tables_->bpe.init(options, std::move(merges), tables_->vocabulary);
    return Status();
  }

  Status load_merges(MergeTable& table) {
    const RawMerges& raw = file_.merges;
    table.reserve(raw.size());
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (i % kLookForCancel == 0) QINFER_TRY(cancel_.check("loading a tokenizer"));
      TokenId ids[3];
      const std::string_view contents[3] = {raw.left(i), raw.right(i), raw.both(i)};
      for (int k = 0; k < 3; ++k) {
        const auto id = tables_->vocabulary.find_in_model(contents[k]);
        if (!id)
          return malformed("model.merges: merge {} ({} and {}) needs the token {}, which is not in model.vocab", i,
                           in_quotes(contents[0]), in_quotes(contents[1]), in_quotes(contents[k]));
        ids[k] = *id;
      }
      QINFER_TRY(table.add(ids[0], ids[1], static_cast<std::uint32_t>(i), ids[2]));
    }
    file_.merges = {};
    return table.check();
  }

  Status load_added_tokens() {
    decoded_as_.clear();
    if (field("added_tokens") != nullptr) {
      QINFER_ASSIGN(const Json* list, required_array(root(), "added_tokens", "the file"));
      std::size_t i = 0;
      for (const Json& item : *list) QINFER_TRY(load_added_token(item, fmt::format("added_tokens[{}]", i++)));
    }
    QINFER_TRY(tables_->added_raw.finish());
    return tables_->added_normalized.finish();
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
    if (content.empty()) return malformed("{}: \"content\" is empty", where);

    // The model has no row for it: its name is text then.
    if (drop_special_ && special && id >= id_limit_ && id < kMaxIds) return Status();
    Vocabulary& vocabulary = tables_->vocabulary;
    const std::uint8_t flags = special ? kTokenAdded | kTokenControl : kTokenAdded;
    const auto in_model = vocabulary.find_in_model(content);
    if (in_model && *in_model == id) {
      if ((vocabulary.flags(*in_model) & kTokenAdded) != 0)
        return malformed("{}: the token {} (id {}) appears twice", where, in_quotes(content), id);
      vocabulary.set_flags(*in_model, flags);
    } else {
      QINFER_TRY(vocabulary.add(content, id, flags).with_prefix(where));  // refuses a second id for the content
    }
    const AddedToken token{static_cast<TokenId>(id), lstrip, rstrip, single_word};
    if (!normalized) return tables_->added_raw.add(content, token).with_prefix(where);
    std::string form;
    QINFER_TRY(of_file(tables_->normalizer.apply(content, kMaxTokenBytes, work_, scratch_, form), where));
    forms_ += form.size();
    if (forms_ > most_bytes_)
      return malformed("{}: the added tokens have more than {} bytes when they are normalised", where, most_bytes_);
    if (form.empty()) return malformed("{}: nothing is left of {} when it is normalised", where, in_quotes(content));
    QINFER_TRY(tables_->added_normalized.add(form, token).with_prefix(where));
    if (form != content) decoded_as_.emplace_back(token.id, std::move(form));
    return Status();
  }

  /// A special token is a control token here even where it is matched in another, normalised form. (Hugging Face's
  /// library looks for that form among the special contents, does not find it and keeps it in decoded text.)
  Status decode_tokens() {
    QINFER_ASSIGN(const Decoder decoder, Decoder::parse(field("decoder"), "decoder"));
    tables_->decoder_rules = decoder.rules();
    std::sort(decoded_as_.begin(), decoded_as_.end());
    auto next_form = decoded_as_.begin();
    Vocabulary& vocabulary = tables_->vocabulary;
    Decoder::Token token;
    std::size_t total = 0;
    for (std::uint32_t i = 0; i < vocabulary.size(); ++i) {
      if (i % kLookForCancel == 0) QINFER_TRY(cancel_.check("loading a tokenizer"));
      const auto id = static_cast<TokenId>(i);
      std::string_view content = vocabulary.content(id);
      // An added token that is matched in normalised form is decoded from that form.
      if (next_form != decoded_as_.end() && next_form->first == id) content = (next_form++)->second;
      if ((vocabulary.flags(id) & kTokenControl) != 0) {
        vocabulary.append_bytes(content);  // never part of a text: what it is called
        continue;
      }
      if (content.size() > kMaxTokenBytes)
        return malformed("the token {} (id {}) has {} bytes, at most {} are supported", in_quotes(content), id,
                         content.size(), kMaxTokenBytes);
      if (Status status = decoder.decode_token(content, work_, scratch_, token); !status.ok())
        return of_file(std::move(status), fmt::format("decoder: token {}", id));
      total += token.bytes.size();
      if (total > most_bytes_) return malformed("decoder: the tokens decode to more than {} bytes", most_bytes_);
      vocabulary.append_bytes(token.bytes);
      if (token.is_byte) vocabulary.set_flags(id, kTokenIsByte);
    }
    return vocabulary.finish();
  }

  TokenizerFile file_;
  std::int64_t id_limit_;
  bool drop_special_;  // those beyond the limit
  CancelFlag cancel_;
  std::size_t most_bytes_, forms_ = 0;
  Work work_;
  std::unique_ptr<TokenizerTables> tables_;
  NormalizerScratch scratch_;
  std::vector<std::pair<TokenId, std::string>> decoded_as_;
};

}  // namespace

Result<std::unique_ptr<TokenizerTables>> load_tokenizer(std::string_view text, std::string_view name,
                                                        const TokenizerLimits& limits, CancelFlag cancel) {
  const std::uint32_t id_limit = limits.vocab_size == 0 ? kMaxIds : std::min(limits.vocab_size, kMaxIds);
  QINFER_ASSIGN(TokenizerFile file, read_tokenizer_file(text, name, id_limit, cancel));
  Loader loader(std::move(file), text.size(), id_limit, limits.drop_special_beyond, cancel);
  if (Status status = loader.run(); !status.ok()) return std::move(status).with_prefix(name);
  return loader.take();
}

}  // namespace qinfer::text
