// See post_processor.h.
#include "text/post_processor.h"

#include <algorithm>

#include "text/normalizer.h"

namespace qinfer::text {
namespace {

/// Of a template, each of which is looked for among its special tokens.
constexpr std::size_t kMaxPieces = 256;
constexpr std::size_t kMaxTokensAround = 4096;
constexpr std::int64_t kMaxType = 255;

std::size_t count_pieces(const Template& pieces, PieceKind kind) {
  return static_cast<std::size_t>(
      std::count_if(pieces.begin(), pieces.end(), [&](const TemplatePiece& piece) { return piece.kind == kind; }));
}

class PostProcessorReader {
 public:
  PostProcessorReader(std::string_view where, const Vocabulary& vocabulary) : where_(where), vocabulary_(vocabulary) {}

  Status add(const Json& value) {
    QINFER_ASSIGN(const std::string kind, component_kind(value, where_));
    if (kind == "ByteLevel")
      return check_fields(value, where_, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (kind == "TemplateProcessing") return add_template(value);
    if (kind == "BertProcessing" || kind == "RobertaProcessing") return add_cls_and_sep(value, kind[0] == 'R');
    if (kind == "Sequence") {
      QINFER_TRY(check_fields(value, where_, {"type", "processors"}));
      QINFER_ASSIGN(const Json* list, required_array(value, "processors", where_));
      QINFER_TRY(check_sequences(++depth_, where_));
      for (const Json& item : *list) QINFER_TRY(add(item));
      --depth_;
      return Status();
    }
    return unsupported_kind(where_, kind,
                            "BertProcessing, ByteLevel, RobertaProcessing, Sequence and TemplateProcessing");
  }
  Templates take() { return std::move(templates_); }

 private:
  Status be_the_only() {
    if (has_template_) return error(Code::unsupported, "{}: two templates are not supported", where_);
    has_template_ = true;
    return Status();
  }

  Status add_template(const Json& value) {
    QINFER_TRY(check_fields(value, where_, {"type", "single", "pair", "special_tokens"}));
    QINFER_TRY(be_the_only());
    QINFER_TRY(read_template(value, "single", templates_.single));
    if (count_pieces(templates_.single, PieceKind::first_text) != 1 ||
        count_pieces(templates_.single, PieceKind::second_text) != 0)
      return malformed("{}: \"single\" does not have the text, {{\"Sequence\": {{\"id\": \"A\"}}}}, exactly once",
                       where_);
    if (formats::find_field(value, "pair") == nullptr) {
      templates_.pair.clear();
      return Status();
    }
    QINFER_TRY(read_template(value, "pair", templates_.pair));
    if (count_pieces(templates_.pair, PieceKind::first_text) != 1 ||
        count_pieces(templates_.pair, PieceKind::second_text) != 1)
      templates_.pair.clear();
    return Status();
  }

  Status read_template(const Json& value, std::string_view key, Template& out) {
    QINFER_ASSIGN(const Json* pieces, required_array(value, key, where_));
    if (pieces->size() > kMaxPieces)
      return error(Code::unsupported, "{}: \"{}\" has {} pieces, at most {} are supported", where_, key, pieces->size(),
                   kMaxPieces);
    out.clear();
    for (const Json& piece : *pieces) {
      if (const Json* sequence = formats::find_field(piece, "Sequence")) {
        QINFER_ASSIGN(const std::string id, required_string(*sequence, "id", where_));
        QINFER_ASSIGN(const TypeId type, read_type(*sequence));
        if (id != "A" && id != "B")
          return malformed("{}: a text of \"{}\" is {}, expected \"A\" or \"B\"", where_, key, in_quotes(id));
        out.push_back({id == "A" ? PieceKind::first_text : PieceKind::second_text, type, -1});
      } else if (const Json* special = formats::find_field(piece, "SpecialToken")) {
        QINFER_ASSIGN(const std::string id, required_string(*special, "id", where_));
        QINFER_ASSIGN(const TypeId type, read_type(*special));
        QINFER_TRY(add_special(value, id, type, out));
      } else {
        return malformed("{}: a part of \"{}\" is neither a Sequence nor a SpecialToken", where_, key);
      }
    }
    return Status();
  }

  Result<TypeId> read_type(const Json& piece) const {
    QINFER_ASSIGN(const auto type, FieldReader(piece, where_).integer("type_id", 0, kMaxType));
    return static_cast<TypeId>(type.value_or(0));
  }

  Status add_special(const Json& value, const std::string& name, TypeId type, Template& out) const {
    const Json* specials = formats::find_field(value, "special_tokens");
    const Json* special = specials == nullptr ? nullptr : formats::find_field(*specials, name);
    if (special == nullptr) return malformed("{}: {} is not among its \"special_tokens\"", where_, in_quotes(name));
    QINFER_ASSIGN(const Json* ids, required_array(*special, "ids", where_));
    for (const Json& id : *ids) {
      QINFER_TRY(add_token(name, id, type, out));
      if (count_pieces(out, PieceKind::token) > kMaxTokensAround)
        return error(Code::unsupported, "{}: more than {} tokens around a text", where_, kMaxTokensAround);
    }
    return Status();
  }

  Status add_token(std::string_view name, const Json& id, TypeId type, Template& out) const {
    const std::int64_t number = id.is_integer() ? id.integer() : -1;
    if (number < 0 || number >= vocabulary_.size() || vocabulary_.flags(static_cast<TokenId>(number)) == 0)
      return malformed("{}: the token {} has the id {}, which no token has", where_, in_quotes(name),
                       formats::json_text(id));
    out.push_back({PieceKind::token, type, static_cast<TokenId>(number)});
    return Status();
  }

  /// BERT: cls A sep, and B sep of the type 1; RoBERTa: cls A sep, and sep B sep, all of the type 0.
  Status add_cls_and_sep(const Json& value, bool is_roberta) {
    if (is_roberta) {
      QINFER_TRY(check_fields(value, where_, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}));
    } else {
      QINFER_TRY(check_fields(value, where_, {"type", "sep", "cls"}));
    }
    QINFER_TRY(be_the_only());
    Template& single = templates_.single;
    single.clear();
    QINFER_TRY(add_named(value, "cls", 0, single));
    single.push_back({PieceKind::first_text, 0, -1});
    QINFER_TRY(add_named(value, "sep", 0, single));
    Template& pair = templates_.pair;
    pair = single;
    const TypeId second = is_roberta ? 0 : 1;
    if (is_roberta) pair.push_back(single.back());
    pair.push_back({PieceKind::second_text, second, -1});
    return add_named(value, "sep", second, pair);
  }

  /// A token that is written as ["[SEP]", 102].
  Status add_named(const Json& value, std::string_view key, TypeId type, Template& out) const {
    QINFER_ASSIGN(const Json* parts, required_array(value, key, where_));
    if (parts->size() != 2 || !parts->begin()->is_string())
      return malformed("{}: \"{}\" is {}, expected a token and its id", where_, key, formats::json_text(*parts));
    auto part = parts->begin();
    const std::string_view name = part->text();
    return add_token(name, *++part, type, out);
  }

  std::string where_;
  const Vocabulary& vocabulary_;
  Templates templates_;
  bool has_template_ = false;
  int depth_ = 0;
};

}  // namespace

std::vector<TokenId> tokens_before(const Template& pieces) {
  std::vector<TokenId> ids;
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == PieceKind::first_text) break;
    if (piece.kind == PieceKind::token) ids.push_back(piece.id);
  }
  return ids;
}

std::vector<TokenId> tokens_after(const Template& pieces) {
  std::vector<TokenId> ids;
  bool after = false;
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == PieceKind::first_text) after = true;
    if (after && piece.kind == PieceKind::token) ids.push_back(piece.id);
  }
  return ids;
}

Result<Templates> parse_post_processor(const Json* value, std::string_view where, const Vocabulary& vocabulary) {
  if (value == nullptr) return Templates();
  PostProcessorReader reader(where, vocabulary);
  QINFER_TRY(reader.add(*value));
  return reader.take();
}

}  // namespace qinfer::text
