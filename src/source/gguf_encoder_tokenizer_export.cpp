// See gguf_encoder_tokenizer_export.h.
#include "source/gguf_encoder_tokenizer_export.h"

#include "base/format.h"
#include "text/charsmap.h"

namespace qinfer::source {
namespace {

constexpr std::string_view kInsideWord = "##", kWordMark = "\u2581";
constexpr std::int64_t kUsualCharacters = 100;

/// The normaliser that tokenizer.json has; null where it is another kind.
const Json* bert_normalizer(const Json& root) {
  const auto parts = parts_of(child(&root, "normalizer"), "normalizers");
  return parts.size() == 1 && text_of(parts.front(), "type") == "BertNormalizer" ? parts.front() : nullptr;
}

/// [CLS] A [SEP] and [CLS] A [SEP] B [SEP], the last two of the type 1.
bool is_berts(const text::Templates& templates) {
  using text::PieceKind;
  const auto same = [](const text::Template& pieces, std::span<const text::TemplatePiece> want) {
    if (pieces.size() != want.size()) return false;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const text::TemplatePiece &a = pieces[i], &b = want[i];
      if (a.kind != b.kind || a.type != b.type || (a.kind == PieceKind::token && a.id != b.id)) return false;
    }
    return true;
  };
  const auto before = tokens_before(templates.single), after = tokens_after(templates.single);
  if (before.size() != 1 || after.size() != 1) return false;
  const text::TemplatePiece want[] = {{PieceKind::token, 0, before.front()},
                                      {PieceKind::first_text, 0, -1},
                                      {PieceKind::token, 0, after.front()},
                                      {PieceKind::second_text, 1, -1},
                                      {PieceKind::token, 1, after.front()}};
  return same(templates.single, std::span(want).first(3)) && same(templates.pair, want);
}

/// What a Unigram's normaliser and pre-tokenizer do with spaces.
struct Spaces {
  std::string_view charsmap;  ///< in base64
  bool strips_left = false, strips_right = false, collapses = false;
  bool splits = false;  ///< at white space, which goes
  bool marks = false;   ///< there is a Metaspace
  bool cuts = false;    ///< before each U+2581
  std::string_view scheme = "always";
  std::string refusal;
};

void read_normalizer(const Json* part, bool is_first, Spaces& spaces) {
  const std::string_view type = text_of(part, "type");
  const Json* pattern = child(part, "pattern");
  if (type == "Precompiled" && is_first) {
    spaces.charsmap = text_of(part, "precompiled_charsmap");
  } else if (type == "Strip") {
    spaces.strips_left = spaces.strips_left || boolean_of(part, "strip_left");
    spaces.strips_right = spaces.strips_right || boolean_of(part, "strip_right");
  } else if (type == "Replace" && text_of(pattern, "Regex") == " {2,}" &&
             (text_of(part, "content") == " " || text_of(part, "content") == kWordMark)) {
    spaces.collapses = true;
  } else {
    spaces.refusal = format_text("it normalises by \"{}\"", type);
  }
}

void read_pre_tokenizer(const Json* part, Spaces& spaces) {
  const std::string_view type = text_of(part, "type");
  if (type == "WhitespaceSplit" && !spaces.marks) {
    spaces.splits = true;
  } else if (type == "Metaspace" && text_of(part, "replacement") == kWordMark && !spaces.marks) {
    spaces.marks = true;
    const Json *scheme = child(part, "prepend_scheme"), *prefix = child(part, "add_prefix_space");
    if (scheme != nullptr) spaces.scheme = scheme->text();
    if (prefix != nullptr && !prefix->boolean()) spaces.scheme = "never";
    const Json* cuts = child(part, "split");
    spaces.cuts = cuts == nullptr || cuts->boolean();
  } else {
    spaces.refusal = format_text("its pre-tokenizer has a part \"{}\"", type);
  }
}

Spaces read_spaces(const Json& root) {
  Spaces spaces;
  bool is_first = true;
  for (const Json* part : parts_of(child(&root, "normalizer"), "normalizers")) {
    read_normalizer(part, is_first, spaces);
    is_first = false;
  }
  for (const Json* part : parts_of(child(&root, "pre_tokenizer"), "pretokenizers")) read_pre_tokenizer(part, spaces);
  if (!spaces.marks && spaces.refusal.empty()) spaces.refusal = "its pre-tokenizer has no Metaspace";
  return spaces;
}

bool merges_spaces(const Spaces& spaces) { return spaces.splits || spaces.collapses; }

/// Whether a token goes on after a space that it does not begin with.
bool goes_over_words(const text::TokenizerTables& tables) {
  for (std::uint32_t id = 0; id < tables.vocabulary.size(); ++id) {
    const auto token = static_cast<text::TokenId>(id);
    if ((tables.vocabulary.flags(token) & text::kTokenInModel) != 0 &&
        tables.vocabulary.content(token).find(kWordMark, 1) != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace

std::string word_piece_in_gguf(std::string_view content, GgufTokenType type) {
  const bool is_inside = content.starts_with(kInsideWord) && content.size() > kInsideWord.size();
  if (type != GgufTokenType::normal)
    return content.starts_with(kWordMark) ? std::string(kWordMark).append(content) : std::string(content);
  if (!is_inside) return std::string(kWordMark).append(content);
  content.remove_prefix(kInsideWord.size());
  const bool in_brackets = content.starts_with('[') && content.ends_with(']');
  return content.starts_with(kWordMark) || in_brackets ? std::string() : std::string(content);
}

ExportedOptions find_word_piece_options(const Json& root, const text::Templates& templates) {
  const Json *model = child(&root, "model"), *most = child(model, "max_input_chars_per_word");
  const Json* normalizer = bert_normalizer(root);
  const auto parts = parts_of(child(&root, "pre_tokenizer"), "pretokenizers");
  if (normalizer == nullptr) return {"its normaliser is not BertNormalizer", {}};
  if (!boolean_of(normalizer, "clean_text") || !boolean_of(normalizer, "handle_chinese_chars"))
    return {"its normaliser leaves control characters or ideographs as they are", {}};
  if (parts.size() != 1 || text_of(parts.front(), "type") != "BertPreTokenizer")
    return {"its pre-tokenizer is not BertPreTokenizer", {}};
  if (text_of(model, "continuing_subword_prefix") != kInsideWord) return {"tokens inside of words have no \"##\"", {}};
  if (!is_berts(templates)) return {"it does not put [CLS] and [SEP] around texts as BERT does", {}};
  if (most == nullptr || most->integer() != kUsualCharacters)
    return {{}, "words of many characters become other tokens, of which files say nothing"};
  return {};
}

void add_word_piece_options(const Json& root, formats::GgufWriter& out) {
  const Json* normalizer = bert_normalizer(root);
  const bool lowercase = boolean_of(normalizer, "lowercase");
  const Json* accents = child(normalizer, "strip_accents");
  out.add_boolean("tokenizer.ggml.normalizer.lowercase", lowercase);
  out.add_boolean("tokenizer.ggml.normalizer.strip_accents", accents != nullptr ? accents->boolean() : lowercase);
}

namespace {

/// What becomes of spaces at the ends of a text.
ExportedOptions check_ends(const Spaces& spaces) {
  if (spaces.splits || (spaces.collapses && spaces.strips_left && spaces.strips_right)) return {};
  if (spaces.strips_left || (spaces.strips_right && !spaces.collapses))
    return {"it removes spaces at an end of texts and leaves others", {}};
  if (!spaces.collapses && spaces.scheme == "never") return {};
  return {{}, "spaces at the ends of a text may become other tokens"};
}

}  // namespace

ExportedOptions find_unigram_options(const Json& root, const text::TokenizerTables& tables) {
  const Spaces spaces = read_spaces(root);
  if (!spaces.refusal.empty()) return {spaces.refusal, {}};
  if (tables.unigram.unknown() < 0) return {"it has no token for what has none", {}};
  if (spaces.splits && spaces.charsmap.empty())
    return {"it splits at white space, of which no charsmap makes spaces", {}};
  if ((spaces.splits || spaces.cuts) && goes_over_words(tables)) return {"some of its tokens go over words", {}};
  ExportedOptions options = check_ends(spaces);
  if (boolean_of(child(&root, "model"), "byte_fallback")) {
    if (!options.note.empty()) options.note += "; ";
    options.note += "characters without a token become the unknown one, not bytes";
  }
  return options;
}

void add_unigram_options(const text::TokenizerFile& file, formats::GgufWriter& out) {
  const Spaces spaces = read_spaces(file.fields.root());
  out.add_boolean("tokenizer.ggml.add_space_prefix", spaces.scheme != "never");
  out.add_boolean("tokenizer.ggml.remove_extra_whitespaces", merges_spaces(spaces));
  if (const auto charsmap = text::decode_base64(spaces.charsmap); charsmap && !charsmap->empty())
    out.add_u8s("tokenizer.ggml.precompiled_charsmap", std::as_bytes(std::span(*charsmap)));
}

}  // namespace qinfer::source
