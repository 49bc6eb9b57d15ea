// See gguf_tokenizer_export.h.
#include "source/gguf_tokenizer_export.h"

#include <algorithm>
#include <string>
#include <vector>

#include "source/gguf_pre_tokenizers.h"
#include "source/gguf_vocabulary.h"
#include "text/pre_tokenizer.h"
#include "text/table_builder.h"
#include "text/tables.h"
#include "text/tokenizer_file.h"

namespace qinfer::source {
namespace {

using formats::Json;
using text::TokenId;

std::string_view text_of(const Json* object, std::string_view key) {
  const Json* value = object != nullptr ? formats::find_field(*object, key) : nullptr;
  return value != nullptr ? value->text() : std::string_view();
}
bool boolean_of(const Json* object, std::string_view key) {
  const Json* value = object != nullptr ? formats::find_field(*object, key) : nullptr;
  return value != nullptr && value->boolean();
}
const Json* child(const Json* object, std::string_view key) {
  return object != nullptr ? formats::find_field(*object, key) : nullptr;
}
/// The parts of a sequence, or the one part that it is instead.
std::vector<const Json*> parts_of(const Json* component, std::string_view list) {
  std::vector<const Json*> parts;
  if (component == nullptr) return parts;
  const Json* items = text_of(component, "type") == "Sequence" ? child(component, list) : nullptr;
  if (items == nullptr) return {component};
  for (const Json& item : *items) parts.push_back(&item);
  return parts;
}

constexpr std::string_view kSpaceMark = "\u2581";

class Exporter {
 public:
  Exporter(const text::TokenizerFile& file, const model::ModelSpec& spec, const text::Tokenizer& tokenizer,
           formats::GgufWriter& out)
      : root_(file.fields.root()), file_(file), spec_(spec), tokenizer_(tokenizer), out_(out) {}

  /// What llama.cpp's keys cannot say.
  std::string run() {
    const Json* model = child(&root_, "model");
    if (text_of(model, "type") != "BPE" && !text_of(model, "type").empty()) return no_tokenizer("its model is not BPE");
    is_llama_ = boolean_of(model, "byte_fallback");
    std::string why = is_llama_ ? find_spaces() : find_pre_tokenizer();
    if (why.empty()) why = check_surroundings();
    if (!why.empty()) return no_tokenizer(why);
    out_.add_text("tokenizer.ggml.model", is_llama_ ? "llama" : "gpt2");
    if (!is_llama_) out_.add_text("tokenizer.ggml.pre", pre_);
    if (is_llama_) out_.add_boolean("tokenizer.ggml.add_space_prefix", adds_space_);
    add_tokens();
    if (is_llama_) {
      add_scores();
    } else {
      add_merges();
    }
    add_ids();
    if (is_in_order_) return {};
    return "rare words may become other tokens: merges of different tokens come in turns, for which scores have no "
           "words";
  }

 private:
  std::string no_tokenizer(std::string_view why) {
    out_.add_text("tokenizer.ggml.model", "none");
    return format_text("it finds no tokenizer, for none of its kinds is this one: {}", why);
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

  std::string check_surroundings() const {
    const auto& tables = tokenizer_.tables();
    const auto before = tokens_before(tables.templates.single);
    const bool plain =
        tokens_after(tables.templates.single).empty() && (before.empty() || before == std::vector{spec_.bos_token});
    return plain ? std::string() : "it puts other tokens around a text than the one that begins texts";
  }

  GgufTokenType type_of(TokenId id, std::string_view content) const {
    const auto& vocabulary = tokenizer_.tables().vocabulary;
    if (is_llama_ && content == text_of(child(&root_, "model"), "unk_token")) return GgufTokenType::unknown;
    if ((vocabulary.flags(id) & text::kTokenAdded) != 0)
      return special(id) ? GgufTokenType::control : GgufTokenType::user_defined;
    const bool byte = content.size() == 6 && content.starts_with("<0x") && content.back() == '>';
    return is_llama_ && byte ? GgufTokenType::byte : GgufTokenType::normal;
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
      const bool defined = vocabulary.flags(id) != 0;
      tokens_.push_back(defined ? std::string(vocabulary.content(id)) : format_text("[PAD{}]", id));
      types.push_back(static_cast<std::int32_t>(defined ? type_of(id, tokens_.back()) : GgufTokenType::unused));
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
    const bool adds_bos = !tokens_before(tokenizer_.tables().templates.single).empty();
    if (is_llama_) {
      const auto unknown = tokenizer_.find(text_of(child(&root_, "model"), "unk_token"));
      if (unknown) out_.add_u32("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(*unknown));
    }
    out_.add_boolean("tokenizer.ggml.add_bos_token", adds_bos);
    out_.add_boolean("tokenizer.ggml.add_eos_token", false);
  }

  const Json& root_;
  const text::TokenizerFile& file_;
  const model::ModelSpec& spec_;
  const text::Tokenizer& tokenizer_;
  formats::GgufWriter& out_;
  bool is_llama_ = false, adds_space_ = false, is_in_order_ = true;
  std::string_view pre_;
  std::vector<std::string> tokens_;
};

}  // namespace

Result<std::string> add_gguf_tokenizer(std::string_view json, const model::ModelSpec& spec,
                                       const text::Tokenizer& tokenizer, CancelFlag cancel, formats::GgufWriter& out) {
  QINFER_ASSIGN(const text::TokenizerFile file,
                text::read_tokenizer_file(json, "tokenizer.json", text::kMaxIds, cancel));
  std::string note = Exporter(file, spec, tokenizer, out).run();
  // Numbers of config.json that the tokenizer has no token for stand for none.
  const auto add_id = [&](std::string_view name, TokenId id) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < tokenizer.size())
      out.add_u32(format_text("tokenizer.ggml.{}_token_id", name), static_cast<std::uint32_t>(id));
  };
  add_id("bos", spec.bos_token);
  // A file has three places for tokens that end a text; this library knows others by their names.
  constexpr std::string_view kEnds[] = {"eos", "eot", "eom"};
  for (std::size_t i = 0; i < std::min(std::size(kEnds), spec.end_tokens.size()); ++i)
    add_id(kEnds[i], spec.end_tokens[i]);
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
