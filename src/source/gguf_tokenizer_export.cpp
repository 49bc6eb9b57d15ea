// See gguf_tokenizer_export.h.
#include "source/gguf_tokenizer_export.h"

#include <algorithm>
#include <string>
#include <vector>

#include "source/gguf_encoder_tokenizer_export.h"
#include "source/gguf_pre_tokenizers.h"
#include "source/gguf_vocabulary.h"
#include "text/pre_tokenizer.h"
#include "text/table_builder.h"
#include "text/tables.h"
#include "text/tokenizer_file.h"

namespace qinfer::source {
namespace {

using text::TokenId;

constexpr std::string_view kSpaceMark = "\u2581";

class Exporter {
 public:
  Exporter(const text::TokenizerFile& file, const model::ModelSpec& spec, const text::Tokenizer& tokenizer,
           formats::GgufWriter& out)
      : root_(file.fields.root()), file_(file), spec_(spec), tokenizer_(tokenizer), out_(out) {}

  /// What llama.cpp's keys cannot say.
  std::string run() {
    ExportedOptions options = find_options();
    if (options.refusal.empty()) options.refusal = check_surroundings();
    if (!options.refusal.empty()) {
      out_.add_text("tokenizer.ggml.model", "none");
      return format_text("it finds no tokenizer, for none of its kinds is this one: {}", options.refusal);
    }
    add_model();
    add_ids();
    if (!joins_) add_note("pairs of texts are joined in another way", options.note);
    if (!is_in_order_)
      add_note(
          "rare words may become other tokens: merges of different tokens come in turns, for which scores have no "
          "words",
          options.note);
    return options.note;
  }

  /// The tokens that end generation, the one that ends texts first.
  std::vector<TokenId> end_tokens() const {
    std::vector<TokenId> ends = spec_.end_tokens;
    const auto found = std::find(ends.begin(), ends.end(), eos_);
    if (found != ends.end()) {
      std::rotate(ends.begin(), found, found + 1);
    } else if (eos_ >= 0) {
      ends.insert(ends.begin(), eos_);
    }
    return ends;
  }
  TokenId begin_token() const { return bos_ >= 0 ? bos_ : spec_.bos_token; }

 private:
  enum class Kind { byte_level, by_score, word_piece, unigram };

  static void add_note(std::string_view note, std::string& notes) {
    if (!notes.empty()) notes += "; ";
    notes += note;
  }

  ExportedOptions find_options() {
    const Json* model = child(&root_, "model");
    switch (tokenizer_.tables().model) {
      case text::TokenizerTables::Model::bpe: break;
      case text::TokenizerTables::Model::word_level: return {"its model is WordLevel", {}};
      case text::TokenizerTables::Model::word_piece:
        kind_ = Kind::word_piece;
        return find_word_piece_options(root_, tokenizer_.tables().templates);
      case text::TokenizerTables::Model::unigram:
        kind_ = Kind::unigram;
        return find_unigram_options(root_, tokenizer_.tables());
    }
    for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_of(model, affix).empty()) return {format_text("it has \"{}\"", affix), {}};
    kind_ = boolean_of(model, "byte_fallback") ? Kind::by_score : Kind::byte_level;
    return {kind_ == Kind::by_score ? find_spaces() : find_pre_tokenizer(), {}};
  }

  void add_model() {
    constexpr std::string_view kNames[] = {"gpt2", "llama", "bert", "t5"};
    out_.add_text("tokenizer.ggml.model", kNames[static_cast<std::size_t>(kind_)]);
    if (kind_ != Kind::by_score) out_.add_text("tokenizer.ggml.pre", pre_);
    if (kind_ == Kind::by_score) out_.add_boolean("tokenizer.ggml.add_space_prefix", adds_space_);
    add_tokens();
    switch (kind_) {
      case Kind::byte_level: return add_merges();
      case Kind::by_score: return add_scores();
      case Kind::word_piece: return add_word_piece_options(root_, out_);
      case Kind::unigram: break;
    }
    std::vector<float> scores(file_.scores.begin(), file_.scores.end());
    scores.resize(tokens_.size());
    out_.add_f32s("tokenizer.ggml.scores", scores);
    add_unigram_options(file_, out_);
  }

  /// The row of gguf_pre_tokenizers.h that splits as the file does.
  std::string find_pre_tokenizer() {
    std::vector<std::string> patterns;
    bool byte_level = false;
    for (const Json* part : parts_of(child(&root_, "pre_tokenizer"), "pretokenizers")) {
      const std::string_view type = text_of(part, "type");
      if (byte_level) return "its pre-tokenizer goes on after ByteLevel";
      if (type == "Split") {
        const std::string_view pattern = text_of(child(part, "pattern"), "Regex");
        if (pattern.empty() || text_of(part, "behavior") != "Isolated" || boolean_of(part, "invert"))
          return "its pre-tokenizer splits in another way than at matches of a pattern";
        patterns.emplace_back(pattern);
      } else if (type == "Digits" && boolean_of(part, "individual_digits")) {
        patterns.emplace_back(R"(\p{N})");
      } else if (type == "ByteLevel" && !boolean_of(part, "add_prefix_space")) {
        byte_level = true;
        const Json* use = child(part, "use_regex");
        if (use == nullptr || use->boolean()) patterns.emplace_back(text::kGpt2Pattern);
      } else {
        return format_text("its pre-tokenizer has a part \"{}\"", type);
      }
    }
    bool nfc = false;
    for (const Json* part : parts_of(child(&root_, "normalizer"), "normalizers")) {
      if (text_of(part, "type") != "NFC") return format_text("it normalises by \"{}\"", text_of(part, "type"));
      nfc = true;
    }
    const GgufPreTokenizer* row =
        byte_level ? find_gguf_pre_tokenizer(patterns, nfc, boolean_of(child(&root_, "model"), "ignore_merges"))
                   : nullptr;
    if (row == nullptr) return "no name of tokenizer.ggml.pre stands for its patterns";
    pre_ = row->name;
    return {};
  }

  /// SentencePiece's: spaces become U+2581, with one before each text or not.
  std::string find_spaces() {
    bool replaces = false;
    for (const Json* part : parts_of(child(&root_, "normalizer"), "normalizers")) {
      const std::string_view type = text_of(part, "type");
      if (type == "Prepend" && text_of(part, "prepend") == kSpaceMark && !replaces) {
        adds_space_ = true;
      } else if (type == "Replace" && text_of(child(part, "pattern"), "String") == " " &&
                 text_of(part, "content") == kSpaceMark) {
        replaces = true;
      } else {
        return format_text("it normalises by \"{}\"", type);
      }
    }
    // Gemma's splits at spaces, of which the normaliser leaves none.
    for (const Json* part : parts_of(child(&root_, "pre_tokenizer"), "pretokenizers"))
      if (text_of(part, "type") != "Split" || text_of(child(part, "pattern"), "String") != " ")
        return format_text("its pre-tokenizer has a part \"{}\"", text_of(part, "type"));
    if (!replaces) return "it does not replace spaces by U+2581";
    for (int byte = 0; byte < 256; ++byte)
      if (!tokenizer_.tables().vocabulary.find_in_model(format_text("<0x{:02X}>", byte)))
        return format_text("it has no token <0x{:02X}>", byte);
    return check_scores();
  }

  /// llama.cpp merges any two tokens that together are one, the ones that make the token of the best score first. That
  /// is what the merges say if they have all such pairs, and those that make one token side by side.
  std::string check_scores() {
    const auto& vocabulary = tokenizer_.tables().vocabulary;
    const auto is_merged = [&](std::string_view content) {
      const auto id = vocabulary.find_in_model(content);
      return id && (vocabulary.flags(*id) & text::kTokenAdded) == 0;
    };
    std::vector<std::uint32_t> merges(vocabulary.size());  // by the token that they make
    std::string_view last;
    for (std::size_t i = 0; i < file_.merges.size(); ++i) {
      const std::string_view both = file_.merges.both(i);
      const auto id = vocabulary.find_in_model(both);
      if (!id) return "a merge makes no token";
      if (merges[static_cast<std::size_t>(*id)]++ != 0 && both != last) is_in_order_ = false;
      last = both;
    }
    for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.size()); ++id) {
      const std::string_view content = vocabulary.content(id);
      if (!is_merged(content)) continue;
      std::uint32_t pairs = 0;
      for (std::size_t i = 1; i < content.size(); ++i)
        if (is_merged(content.substr(0, i)) && is_merged(content.substr(i))) ++pairs;
      if (pairs > merges[static_cast<std::size_t>(id)]) return "it does not merge all tokens that together are one";
    }
    return {};
  }

  /// [bos] A [eos], and of two texts [bos] A [eos] [separator] B [eos].
  std::string check_surroundings() {
    const text::Templates& templates = tokenizer_.tables().templates;
    const auto before = tokens_before(templates.single), after = tokens_after(templates.single);
    const bool is_word_piece = kind_ == Kind::word_piece;
    if (before.size() > 1 || after.size() > 1) return "it puts several tokens before or after a text";
    if (!before.empty()) bos_ = before.front();
    if (!after.empty()) (is_word_piece ? separator_ : eos_) = after.front();
    const auto& ends = spec_.end_tokens;
    const bool is_end = eos_ < 0 || std::find(ends.begin(), ends.end(), eos_) != ends.end();
    if (spec_.gives_logits() && ((bos_ >= 0 && bos_ != spec_.bos_token) || !is_end))
      return "it puts other tokens around a text than those that begin and end texts";
    if (!is_word_piece && eos_ >= 0) joins_ = find_separator(templates.pair);
    return {};
  }

  /// Whether keys say how two texts are joined, the types of tokens included where the model is told them.
  bool find_separator(const text::Template& pair) {
    std::vector<text::TemplatePiece> rest;
    for (const text::TemplatePiece& piece : pair) {
      if (piece.type != 0 && spec_.n_types > 1) return false;
      rest.push_back(piece);
    }
    const auto take = [&rest](text::PieceKind kind, TokenId id) {
      if (rest.empty() || rest.front().kind != kind || rest.front().id != id) return false;
      rest.erase(rest.begin());
      return true;
    };
    using text::PieceKind;
    if (bos_ >= 0 && !take(PieceKind::token, bos_)) return false;
    if (!take(PieceKind::first_text, -1) || !take(PieceKind::token, eos_)) return false;
    if (!rest.empty() && rest.front().kind == PieceKind::token) {
      separator_ = rest.front().id;
      rest.erase(rest.begin());
    }
    return take(PieceKind::second_text, -1) && take(PieceKind::token, eos_) && rest.empty();
  }

  GgufTokenType type_of(TokenId id, std::string_view content) const {
    const auto& vocabulary = tokenizer_.tables().vocabulary;
    const bool has_bytes = kind_ == Kind::by_score || boolean_of(child(&root_, "model"), "byte_fallback");
    if (id == unknown()) return kind_ == Kind::word_piece ? GgufTokenType::control : GgufTokenType::unknown;
    if ((vocabulary.flags(id) & text::kTokenAdded) != 0)
      return special(id) ? GgufTokenType::control : GgufTokenType::user_defined;
    if (kind_ == Kind::unigram && vocabulary.find_in_model(content) != id) return GgufTokenType::unused;
    const bool byte = content.size() == 6 && content.starts_with("<0x") && content.back() == '>';
    return has_bytes && byte ? GgufTokenType::byte : GgufTokenType::normal;
  }

  /// What becomes of a text for which there are no tokens; -1: nothing.
  TokenId unknown() const {
    const text::TokenizerTables& tables = tokenizer_.tables();
    switch (kind_) {
      case Kind::byte_level: break;
      case Kind::word_piece: return tables.word_piece.unknown();
      case Kind::unigram: return tables.unigram.unknown();
      case Kind::by_score: return tokenizer_.find(text_of(child(&root_, "model"), "unk_token")).value_or(-1);
    }
    return -1;
  }

  bool special(TokenId id) const {
    const Json* added = child(&root_, "added_tokens");
    if (added == nullptr) return false;
    for (const Json& token : *added) {
      const Json* number = child(&token, "id");
      if (number != nullptr && number->integer() == id) return boolean_of(&token, "special");
    }
    return false;
  }

  void add_tokens() {
    const auto& vocabulary = tokenizer_.tables().vocabulary;
    std::vector<std::int32_t> types;
    for (TokenId id = 0; id < static_cast<TokenId>(spec_.n_vocab); ++id) {
      const std::string_view content = vocabulary.content(id);
      const bool is_known = vocabulary.flags(id) != 0;
      const GgufTokenType type = is_known ? type_of(id, content) : GgufTokenType::unused;
      std::string name(content);
      if (kind_ == Kind::word_piece && is_known) name = word_piece_in_gguf(content, type);
      const bool has_name = type != GgufTokenType::unused && !name.empty();
      tokens_.push_back(has_name ? std::move(name) : format_text("[PAD{}]", id));
      types.push_back(static_cast<std::int32_t>(has_name ? type : GgufTokenType::unused));
    }
    out_.add_texts(kGgufTokens, tokens_);
    out_.add_i32s("tokenizer.ggml.token_type", types);
  }

  void add_merges() {
    std::vector<std::string> merges;
    for (std::size_t i = 0; i < file_.merges.size(); ++i)
      merges.push_back(format_text("{} {}", file_.merges.left(i), file_.merges.right(i)));
    out_.add_texts("tokenizer.ggml.merges", merges);
  }

  /// The earlier a token is merged, the higher; what no merge makes comes last.
  void add_scores() {
    const auto& vocabulary = tokenizer_.tables().vocabulary;
    std::vector<float> scores(tokens_.size(), -static_cast<float>(file_.merges.size() + 1));
    for (std::size_t i = file_.merges.size(); i-- > 0;) {
      const auto id = vocabulary.find_in_model(file_.merges.both(i));
      if (id && static_cast<std::size_t>(*id) < scores.size())
        scores[static_cast<std::size_t>(*id)] = -static_cast<float>(i);
    }
    out_.add_f32s("tokenizer.ggml.scores", scores);
  }

  void add_ids() {
    const auto add = [this](std::string_view name, TokenId id) {
      if (id >= 0) out_.add_u32(format_text("tokenizer.ggml.{}_token_id", name), static_cast<std::uint32_t>(id));
    };
    add("unknown", unknown());
    if (kind_ == Kind::word_piece) add("cls", bos_);
    add("seperator", separator_);  // as the format spells it
    if (kind_ == Kind::word_piece || kind_ == Kind::unigram) {
      add("padding", find_any({"[PAD]", "<pad>"}));
      add("mask", find_any({"[MASK]", "<mask>"}));
    }
    if (kind_ == Kind::word_piece) return;  // what is around texts follows from the kind
    out_.add_boolean("tokenizer.ggml.add_bos_token", bos_ >= 0);
    out_.add_boolean("tokenizer.ggml.add_eos_token", eos_ >= 0);
    if (eos_ >= 0) out_.add_boolean("tokenizer.ggml.add_sep_token", separator_ >= 0);
  }

  TokenId find_any(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names)
      if (const auto id = tokenizer_.find(name)) return *id;
    return -1;
  }

  const Json& root_;
  const text::TokenizerFile& file_;
  const model::ModelSpec& spec_;
  const text::Tokenizer& tokenizer_;
  formats::GgufWriter& out_;
  Kind kind_ = Kind::byte_level;
  bool adds_space_ = false, is_in_order_ = true, joins_ = true;
  TokenId bos_ = -1, eos_ = -1, separator_ = -1;  // around texts; of word pieces the separator ends them
  std::string_view pre_ = "default";
  std::vector<std::string> tokens_;
};

}  // namespace

Result<std::string> add_gguf_tokenizer(std::string_view json, const model::ModelSpec& spec,
                                       const text::Tokenizer& tokenizer, CancelFlag cancel, formats::GgufWriter& out) {
  QINFER_ASSIGN(const text::TokenizerFile file,
                text::read_tokenizer_file(json, "tokenizer.json", text::kMaxIds, cancel));
  Exporter exporter(file, spec, tokenizer, out);
  std::string note = exporter.run();
  // Numbers of config.json that the tokenizer has no token for stand for none.
  const auto add_id = [&](std::string_view name, TokenId id) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < tokenizer.size())
      out.add_u32(format_text("tokenizer.ggml.{}_token_id", name), static_cast<std::uint32_t>(id));
  };
  add_id("bos", exporter.begin_token());
  // A file has three places for tokens that end a text; this library knows others by their names.
  constexpr std::string_view kEnds[] = {"eos", "eot", "eom"};
  const std::vector<TokenId> ends = exporter.end_tokens();
  for (std::size_t i = 0; i < std::min(std::size(kEnds), ends.size()); ++i) add_id(kEnds[i], ends[i]);
  out.add_text("tokenizer.huggingface.json", json);
  return note;
}

void add_gguf_chat_templates(const ChatTemplates& templates, formats::GgufWriter& out) {
  std::vector<std::string> names;
  for (const ChatTemplate& one : templates.list) {
    if (one.name == kDefaultChatTemplate) {
      out.add_text("tokenizer.chat_template", one.text);
      continue;
    }
    names.push_back(one.name);
    out.add_text("tokenizer.chat_template." + one.name, one.text);
  }
  if (!names.empty()) out.add_texts("tokenizer.chat_templates", names);
}

}  // namespace qinfer::source
