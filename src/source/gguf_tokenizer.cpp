// See gguf_tokenizer.h.
#include "source/gguf_tokenizer.h"

#include <algorithm>
#include <string>

#include "base/hash.h"
#include "source/chat_tokens.h"
#include "source/gguf_encoder_tokenizers.h"
#include "source/gguf_pre_tokenizers.h"
#include "source/gguf_vocabulary.h"
#include "text/fields.h"
#include "text/table_builder.h"
#include "text/utf8.h"

namespace qinfer::source {
namespace {

using formats::GgufMetadata;
using text::in_quotes;
using text::malformed;
using text::TokenId;

/// gemma4: merges as tokenizer.json lists them, of texts as SentencePiece writes them, and bytes for the rest.
enum class Kind { byte_level, by_score, word_piece, unigram, gemma4 };
constexpr std::pair<std::string_view, Kind> kKinds[] = {{"gpt2", Kind::byte_level},
                                                        {"llama", Kind::by_score},
                                                        {"bert", Kind::word_piece},
                                                        {"t5", Kind::unigram},
                                                        {"gemma4", Kind::gemma4}};
constexpr std::string_view kKnownModels = "\"gpt2\", \"llama\", \"bert\", \"t5\" and \"gemma4\"";
constexpr std::string_view kModel = "tokenizer.ggml.model", kPre = "tokenizer.ggml.pre",
                           kWholeFile = "tokenizer.huggingface.json";

// As tokenizer.json would say it. SentencePiece writes a space as U+2581, and puts one before each text.
constexpr std::string_view kNfcNormalizer = R"({"type": "NFC"})";
constexpr std::string_view kSpaces = R"({"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})";
constexpr std::string_view kPrefixAndSpaces = R"({"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "\u2581"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})";
constexpr std::string_view kByteLevelDecoder =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false})";
constexpr std::string_view kWordPieceDecoder = R"({"type": "WordPiece", "prefix": "##", "cleanup": true})";
constexpr std::string_view kSpacesDecoder = R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]})";
constexpr std::string_view kPrefixAndSpacesDecoder = R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";

Result<text::Normalizer> make_normalizer(std::string_view json) {
  if (json.empty()) return text::Normalizer();
  QINFER_ASSIGN(const formats::JsonDocument document, formats::parse_json(json, "normalizer"));
  return text::Normalizer::parse(&document.root(), "normalizer");
}

Result<text::Decoder> make_decoder(std::string_view json) {
  QINFER_ASSIGN(const formats::JsonDocument document, formats::parse_json(json, "decoder"));
  return text::Decoder::parse(&document.root(), "decoder");
}

class Reader {
 public:
  Reader(const GgufMetadata& metadata, const text::TokenizerLimits& limits, CancelFlag cancel)
      : metadata_(metadata), limits_(limits), cancel_(cancel) {}

  Result<GgufTokenizer> run() {
    QINFER_TRY(read_model());
    QINFER_ASSIGN(const auto whole, metadata_.string(kWholeFile));
    if (whole) {
      QINFER_TRY(read_whole_file(*whole));
    } else {
      const bool may_have_bytes = kind_ == Kind::by_score || kind_ == Kind::unigram || kind_ == Kind::gemma4;
      QINFER_ASSIGN(vocabulary_, read_gguf_vocabulary(metadata_, limits_, may_have_bytes, usual_ids().unknown));
      if (kind_ == Kind::word_piece) restore_word_pieces(vocabulary_, names_);
      QINFER_TRY(read_ids(vocabulary_.tokens.size()));
      QINFER_TRY(build());
    }
    QINFER_TRY(mark_control());
    return std::move(out_);
  }

 private:
  Status read_model() {
    QINFER_ASSIGN(const auto model, metadata_.string(kModel));
    if (!model) {
      if (metadata_.has(kWholeFile)) return Status();
      return malformed("{}: the key \"{}\" is missing, expected {}", metadata_.file(), kModel, kKnownModels);
    }
    for (const auto& [name, kind] : kKinds) {
      if (*model != name) continue;
      kind_ = kind;
      QINFER_ASSIGN(const auto pre, metadata_.string(kPre));
      const bool names_gemma4 = pre == "gemma4" || pre == "granite-embed-multi-311m";
      if (kind == Kind::byte_level && names_gemma4) kind_ = Kind::gemma4;  // as files of other models say it
      return Status();
    }
    if (metadata_.has(kWholeFile)) return Status();
    return error(Code::unsupported, "{}: {} is {}, supported are {}", metadata_.file(), kModel, in_quotes(*model),
                 kKnownModels);
  }

  Status read_whole_file(std::string_view json) {
    const std::string name = metadata_.file() + ": " + std::string(kWholeFile);
    QINFER_ASSIGN(out_.tokenizer, text::Tokenizer::from_json(json, name, limits_, cancel_));
    kind_ = Kind::byte_level;  // no ids are assumed
    is_whole_file_ = true;
    return read_ids(out_.tokenizer->size());
  }

  /// The id of `key`; -1 where there is none, which files also say as -1 in 32 bits.
  Status read_id(std::string_view key, std::size_t count, TokenId otherwise, TokenId& out) const {
    QINFER_ASSIGN(const auto id, metadata_.integer(key, -1, UINT32_MAX));
    if (!id) {
      out = static_cast<std::size_t>(otherwise) < count ? otherwise : -1;
    } else if (*id == -1 || *id == UINT32_MAX) {
      out = -1;
    } else if (static_cast<std::uint64_t>(*id) < count) {
      out = static_cast<TokenId>(*id);
    } else {  // never drawn, and not found in a text
      out = -1;
      if (limits_.notes != nullptr)
        limits_.notes->add("key \"{}\" is {}, but there are only ids below {}: it is passed over", key, *id, count);
    }
    return Status();
  }

  struct Ids {
    TokenId bos = -1, eos = -1, unknown = -1, separator = -1;
  };
  /// Where keys are absent.
  Ids usual_ids() const {
    switch (kind_) {
      case Kind::byte_level:
      case Kind::gemma4: break;
      case Kind::by_score: return {.bos = 1, .eos = 2, .unknown = 0};
      case Kind::word_piece: return {.bos = 101, .unknown = 100, .separator = 102};
      case Kind::unigram: return {.eos = 1, .unknown = 2};
    }
    return {};
  }

  Status read_ids(std::size_t count) {
    const TokenId none = -1;
    const Ids usual = usual_ids();
    TokenId first = usual.bos;  // BERT's has two names
    if (kind_ == Kind::word_piece) QINFER_TRY(read_id("tokenizer.ggml.cls_token_id", count, usual.bos, first));
    QINFER_TRY(read_id("tokenizer.ggml.bos_token_id", count, first, out_.bos));
    QINFER_TRY(read_id("tokenizer.ggml.eos_token_id", count, usual.eos, out_.eos));
    QINFER_TRY(read_id("tokenizer.ggml.unknown_token_id", count, usual.unknown, out_.unknown));
    QINFER_TRY(read_id("tokenizer.ggml.seperator_token_id", count, usual.separator, separator_));
    QINFER_TRY(read_id("tokenizer.ggml.eot_token_id", count, none, out_.eot));
    QINFER_TRY(read_id("tokenizer.ggml.eom_token_id", count, none, out_.eom));
    return read_id("tokenizer.ggml.padding_token_id", count, none, out_.padding);
  }

  Status build() {
    text::TableBuilder builder(vocabulary_.bytes, cancel_, limits_.notes);
    text::TokenizerTables& tables = builder.tables();
    tables.vocabulary = text::Vocabulary(text::kMaxIds);
    QINFER_ASSIGN(const bool strip_after, strips_after_added_tokens());
    QINFER_TRY(
        add_gguf_tokens(vocabulary_, strip_after, cancel_, builder, limits_.notes).with_prefix(metadata_.file()));
    QINFER_TRY(build_model(tables));
    tables.fingerprint = fingerprint(tables);
    QINFER_ASSIGN(const text::Decoder decoder, make_decoder(decoder_));
    QINFER_TRY(builder.finish(decoder, true).with_prefix(metadata_.file()));
    out_.tokenizer = text::Tokenizer::from_tables(builder.take());
    return Status();
  }

  Status build_model(text::TokenizerTables& tables) {
    switch (kind_) {
      case Kind::byte_level: {
        QINFER_ASSIGN(const GgufPreTokenizer* pre, build_byte_level(tables));
        return read_surroundings({.bos = pre->add_bos, .separator = pre->add_separator}, tables);
      }
      case Kind::by_score: QINFER_TRY(build_by_score(tables)); return read_surroundings({.bos = true}, tables);
      case Kind::word_piece:
        QINFER_TRY(build_gguf_word_piece(metadata_, out_.unknown, cancel_, tables, lists_hash_));
        decoder_ = kWordPieceDecoder;
        return surround_word_pieces(tables);
      case Kind::gemma4: QINFER_TRY(build_gemma4(tables)); return read_surroundings({.bos = true}, tables);
      case Kind::unigram: break;
    }
    QINFER_TRY(build_gguf_unigram(metadata_, vocabulary_, out_.unknown, cancel_, tables, lists_hash_));
    QINFER_ASSIGN(const auto prefix, metadata_.boolean("tokenizer.ggml.add_space_prefix"));
    adds_space_ = prefix.value_or(true);
    decoder_ = adds_space_ ? kPrefixAndSpacesDecoder : kSpacesDecoder;
    return read_surroundings({.eos = true}, tables);
  }

  Result<const GgufPreTokenizer*> build_byte_level(text::TokenizerTables& tables) {
    QINFER_ASSIGN(const auto name, metadata_.string(kPre));
    pre_ = name.value_or("default");
    const GgufPreTokenizer* pre = find_gguf_pre_tokenizer(pre_);
    if (pre == nullptr)
      return error(Code::unsupported, "{}: {} is {}, supported are {}", metadata_.file(), kPre, in_quotes(pre_),
                   gguf_pre_tokenizer_names());
    QINFER_ASSIGN(tables.normalizer, make_normalizer(pre->nfc ? kNfcNormalizer : ""));
    QINFER_ASSIGN(tables.pre_tokenizer, text::PreTokenizer::byte_level(pre->patterns, kPre));
    decoder_ = kByteLevelDecoder;
    text::BpeOptions options;
    options.ignore_merges = pre->ignore_merges;
    text::MergeTable merges;
    QINFER_TRY(read_gguf_merges(metadata_, tables.vocabulary, cancel_, merges, lists_hash_));
    tables.bpe.init(options, std::move(merges), tables.vocabulary);
    return pre;
  }

  Status build_by_score(text::TokenizerTables& tables) {
    QINFER_ASSIGN(const auto prefix, metadata_.boolean("tokenizer.ggml.add_space_prefix"));
    QINFER_ASSIGN(const auto remove, metadata_.boolean("tokenizer.ggml.remove_extra_whitespaces"));
    if (remove.value_or(false))
      return error(Code::unsupported,
                   "{}: key \"tokenizer.ggml.remove_extra_whitespaces\" is true, which is not supported",
                   metadata_.file());
    adds_space_ = prefix.value_or(true);
    QINFER_ASSIGN(tables.normalizer, make_normalizer(adds_space_ ? kPrefixAndSpaces : kSpaces));
    decoder_ = adds_space_ ? kPrefixAndSpacesDecoder : kSpacesDecoder;
    text::BpeOptions options;
    options.byte_fallback = true;
    options.unknown = out_.unknown;
    QINFER_ASSIGN(auto ranks, read_gguf_ranks(metadata_, vocabulary_, lists_hash_));
    tables.bpe.init_by_score(options, std::move(ranks), tables.vocabulary);
    return Status();
  }

  Status build_gemma4(text::TokenizerTables& tables) {
    QINFER_ASSIGN(tables.normalizer, make_normalizer(kSpaces));
    decoder_ = kSpacesDecoder;
    text::BpeOptions options;
    options.byte_fallback = options.fuse_unknown = true;
    options.unknown = out_.unknown;
    text::MergeTable merges;
    QINFER_TRY(read_gguf_merges(metadata_, tables.vocabulary, cancel_, merges, lists_hash_));
    tables.bpe.init(options, std::move(merges), tables.vocabulary);
    return Status();
  }

  struct Added {
    bool bos = false, eos = false, separator = false;
  };

  /// The tokens before and after a text, and what joins two: [bos] A [eos] [separator] B [eos]. How two texts are
  /// joined is known only of models that end texts. `added`: where keys do not say.
  Status read_surroundings(Added added, text::TokenizerTables& tables) const {
    QINFER_ASSIGN(const auto bos, metadata_.boolean("tokenizer.ggml.add_bos_token"));
    QINFER_ASSIGN(const auto eos, metadata_.boolean("tokenizer.ggml.add_eos_token"));
    QINFER_ASSIGN(const auto separator, metadata_.boolean("tokenizer.ggml.add_sep_token"));
    text::Template& single = tables.templates.single;
    text::Template& pair = tables.templates.pair;
    pair.clear();
    // The first files with Gemma 4's say that no token is put before a text, which is a mistake.
    if (kind_ == Kind::gemma4 || bos.value_or(added.bos)) {
      if (out_.bos < 0) return no_id("bos");
      single.insert(single.begin(), token_piece(out_.bos));
    }
    if (!eos.value_or(added.eos)) return Status();
    if (out_.eos < 0) return no_id("eos");
    single.push_back(token_piece(out_.eos));
    pair = single;
    if (separator.value_or(added.separator)) {
      if (separator_ < 0) return no_id("sep", "seperator");
      pair.push_back(token_piece(separator_));
    }
    pair.push_back({text::PieceKind::second_text, 0, -1});
    pair.push_back(token_piece(out_.eos));
    return Status();
  }

  /// [CLS] A [SEP] B [SEP], the last two of the type 1.
  Status surround_word_pieces(text::TokenizerTables& tables) const {
    if (out_.bos < 0) return no_id("bos");
    if (separator_ < 0) return no_id("sep", "seperator");
    text::Template& single = tables.templates.single;
    single.insert(single.begin(), token_piece(out_.bos));
    single.push_back(token_piece(separator_));
    tables.templates.pair = single;
    tables.templates.pair.push_back({text::PieceKind::second_text, 1, -1});
    tables.templates.pair.push_back(token_piece(separator_, 1));
    return Status();
  }

  static text::TemplatePiece token_piece(TokenId id, text::TypeId type = 0) {
    return {text::PieceKind::token, type, id};
  }

  Status no_id(std::string_view added, std::string_view name) const {
    return malformed(
        "{}: the key \"tokenizer.ggml.{}_token_id\" is missing, which \"tokenizer.ggml.add_{}_token\" or the "
        "kind of the tokenizer needs",
        metadata_.file(), name, added);
  }

  Status no_id(std::string_view name) const {
    return malformed(
        "{}: the key \"tokenizer.ggml.{}_token_id\" is missing: expected it, or \"tokenizer.ggml.add_{}_token\" false",
        metadata_.file(), name, name);
  }

  /// Phi-3's tokenizer.json says of its added tokens, all but three, that they take the white space after them.
  Result<bool> strips_after_added_tokens() const {
    if (kind_ != Kind::by_score) return false;
    QINFER_ASSIGN(const auto architecture, metadata_.string("general.architecture"));
    QINFER_ASSIGN(const auto name, metadata_.string("general.name"));
    std::string lower(name.value_or(""));
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return architecture == "phi3" || lower.find("phi-3") != lower.npos || lower.find("phi3") != lower.npos;
  }

  /// Of all that the tables are made from.
  std::uint64_t fingerprint(const text::TokenizerTables& tables) const {
    std::vector<std::uint64_t> parts = {lists_hash_, hash_text(pre_), static_cast<std::uint64_t>(kind_),
                                        adds_space_ ? 1U : 0U, static_cast<std::uint64_t>(out_.unknown)};
    for (const std::string_view token : vocabulary_.tokens) parts.push_back(hash_text(token));
    parts.push_back(hash_bytes(std::as_bytes(std::span(vocabulary_.types))));
    for (const auto& ids : {tokens_before(tables.templates.single), tokens_after(tables.templates.single)})
      parts.push_back(hash_bytes(std::as_bytes(std::span(ids))));
    return hash_bytes(std::as_bytes(std::span(parts)));
  }

  /// A marker that the file names by its id is found as a whole in a text, whatever its type. What else is named, a
  /// line end say, stays part of ordinary text; a tokenizer.json is followed to the letter.
  Status mark_control() {
    for (const TokenId id : {out_.bos, out_.eos, out_.eot, out_.eom}) {
      if (id < 0) continue;
      const std::string_view content = out_.tokenizer->content(id);
      if (!is_whole_file_ && has_marker_shape(content) && out_.tokenizer->find(content) == id) {
        QINFER_TRY(out_.tokenizer->make_added(id));
      } else {
        out_.tokenizer->mark_control(id);
      }
    }
    return Status();
  }

  const GgufMetadata& metadata_;
  const text::TokenizerLimits limits_;
  CancelFlag cancel_;
  Kind kind_ = Kind::byte_level;
  TokenId separator_ = -1;
  std::vector<std::string> names_;  // of word pieces
  bool adds_space_ = false, is_whole_file_ = false;
  std::string pre_;
  std::string_view decoder_;
  GgufVocabulary vocabulary_;
  std::uint64_t lists_hash_ = 0;
  GgufTokenizer out_;
};

Status add_template(const GgufMetadata& metadata, const std::string& key, std::string name,
                    std::vector<ChatTemplate>& out) {
  QINFER_ASSIGN(const auto text, metadata.string(key));
  if (!text)
    return malformed("{}: the key \"{}\" is missing, which tokenizer.chat_templates names", metadata.file(), key);
  if (text::find_invalid_utf8(*text) != text->size())
    return malformed("{}: key \"{}\" is not valid UTF-8", metadata.file(), key);
  out.push_back({std::move(name), std::string(*text)});
  return Status();
}

Status read_templates(const GgufMetadata& metadata, std::vector<ChatTemplate>& out) {
  const std::string key = "tokenizer.chat_template";
  if (metadata.has(key)) QINFER_TRY(add_template(metadata, key, std::string(kDefaultChatTemplate), out));
  QINFER_ASSIGN(auto names, metadata.strings("tokenizer.chat_templates"));
  if (!names) return Status();
  // A name that is there a million times must not take its template as often.
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
  for (const std::string_view name : *names) {
    if (name.empty() || name.find('\0') != name.npos || text::find_invalid_utf8(name) != name.size())
      return malformed("{}: key \"tokenizer.chat_templates\" has the name {}, expected text", metadata.file(),
                       in_quotes(name));
    QINFER_TRY(add_template(metadata, format_text("{}.{}", key, name), std::string(name), out));
  }
  return Status();
}

}  // namespace

Result<GgufTokenizer> read_gguf_tokenizer(const GgufMetadata& metadata, const text::TokenizerLimits& limits,
                                          CancelFlag cancel) {
  return Reader(metadata, limits, cancel).run();
}

ChatTemplates read_gguf_chat_templates(const GgufMetadata& metadata) {
  ChatTemplates out;
  const auto id_of = [&](std::string_view key) {
    const auto id = metadata.integer(key, -1, INT32_MAX);
    return id.ok() && id.value() ? static_cast<std::int32_t>(*id.value()) : -1;
  };
  out.bos_id = id_of("tokenizer.ggml.bos_token_id");
  out.eos_id = id_of("tokenizer.ggml.eos_token_id");
  out.status = read_templates(metadata, out.list);
  if (!out.status.ok()) out.list.clear();
  std::stable_sort(out.list.begin(), out.list.end(),
                   [](const ChatTemplate& a, const ChatTemplate& b) { return a.name < b.name; });
  const auto same = [](const ChatTemplate& a, const ChatTemplate& b) { return a.name == b.name; };
  out.list.erase(std::unique(out.list.begin(), out.list.end(), same), out.list.end());
  return out;
}

bool has_gguf_tokenizer(const formats::GgufMetadata& metadata) {
  const formats::GgufValue* model = metadata.find(kModel);
  return metadata.has(kWholeFile) || (model != nullptr && model->text() != "none" && model->text() != "no_vocab");
}

void take_end_tokens(const GgufTokenizer& tokenizer, model::ModelSpec& spec) {
  if (tokenizer.bos >= 0) spec.bos_token = tokenizer.bos;
  for (const text::TokenId token : {tokenizer.eos, tokenizer.eot, tokenizer.eom})
    if (token >= 0 && std::find(spec.end_tokens.begin(), spec.end_tokens.end(), token) == spec.end_tokens.end())
      spec.end_tokens.push_back(token);
}

}  // namespace qinfer::source
