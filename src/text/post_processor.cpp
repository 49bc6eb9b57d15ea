// See post_processor.h.
#include "text/post_processor.h"

#include "text/normalizer.h"

namespace qinfer::text {
namespace {

/// Of a template, each of which is looked for among its special tokens.
constexpr std::size_t kMaxPieces = 256;
constexpr std::size_t kMaxIds = 4096;

class PostProcessorReader {
 public:
  PostProcessorReader(std::string_view where, const Vocabulary& vocabulary, std::vector<TokenId>& prefix,
                      std::vector<TokenId>& suffix)
      : where_(where), vocabulary_(vocabulary), prefix_(prefix), suffix_(suffix) {}

  Status add(const Json& value) {
    QINFER_ASSIGN(const std::string kind, component_kind(value, where_));
    if (kind == "ByteLevel")
      return check_fields(value, where_, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (kind == "TemplateProcessing") return add_template(value);
    if (kind == "Sequence") {
      QINFER_TRY(check_fields(value, where_, {"type", "processors"}));
      QINFER_ASSIGN(const Json* list, required_array(value, "processors", where_));
      QINFER_TRY(check_sequences(++depth_, where_));
      for (const Json& item : *list) QINFER_TRY(add(item));
      --depth_;
      return Status();
    }
    return unsupported_kind(where_, kind, "ByteLevel, Sequence and TemplateProcessing");
  }

 private:
  Status add_template(const Json& value) {
    QINFER_TRY(check_fields(value, where_, {"type", "single", "pair", "special_tokens"}));
    if (has_template_) return error(Code::unsupported, "{}: two templates are not supported", where_);
    has_template_ = true;
    QINFER_ASSIGN(const Json* single, required_array(value, "single", where_));
    if (single->size() > kMaxPieces)
      return error(Code::unsupported, "{}: \"single\" has {} pieces, at most {} are supported", where_, single->size(),
                   kMaxPieces);
    bool after_text = false;
    for (const Json& piece : *single) {
      if (const Json* sequence = formats::find_field(piece, "Sequence")) {
        QINFER_ASSIGN(const std::string id, required_string(*sequence, "id", where_));
        if (id != "A" || after_text)
          return malformed("{}: \"single\" does not have the text, {{\"Sequence\": {{\"id\": \"A\"}}}}, exactly once",
                           where_);
        after_text = true;
      } else if (const Json* special = formats::find_field(piece, "SpecialToken")) {
        QINFER_ASSIGN(const std::string id, required_string(*special, "id", where_));
        QINFER_TRY(add_special(value, id, after_text ? suffix_ : prefix_));
      } else {
        return malformed("{}: a part of \"single\" is neither a Sequence nor a SpecialToken", where_);
      }
    }
    if (!after_text)
      return malformed("{}: \"single\" does not have the text, {{\"Sequence\": {{\"id\": \"A\"}}}}, exactly once",
                       where_);
    return Status();
  }

  Status add_special(const Json& value, const std::string& name, std::vector<TokenId>& out) const {
    const Json* specials = formats::find_field(value, "special_tokens");
    const Json* special = specials == nullptr ? nullptr : formats::find_field(*specials, name);
    if (special == nullptr) return malformed("{}: {} is not among its \"special_tokens\"", where_, in_quotes(name));
    QINFER_ASSIGN(const Json* ids, required_array(*special, "ids", where_));
    for (const Json& id : *ids) {
      const std::int64_t number = id.is_integer() ? id.integer() : -1;
      if (number < 0 || number >= vocabulary_.size() || vocabulary_.flags(static_cast<TokenId>(number)) == 0)
        return malformed("{}: the token {} has the id {}, which no token has", where_, in_quotes(name),
                         formats::json_text(id));
      out.push_back(static_cast<TokenId>(number));
      if (prefix_.size() + suffix_.size() > kMaxIds)
        return error(Code::unsupported, "{}: more than {} tokens around a text", where_, kMaxIds);
    }
    return Status();
  }

  std::string where_;
  const Vocabulary& vocabulary_;
  std::vector<TokenId>& prefix_;
  std::vector<TokenId>& suffix_;
  bool has_template_ = false;
  int depth_ = 0;
};

}  // namespace

Status parse_post_processor(const Json* value, std::string_view where, const Vocabulary& vocabulary,
                            std::vector<TokenId>& prefix, std::vector<TokenId>& suffix) {
  if (value == nullptr) return Status();
  QINFER_TRY(PostProcessorReader(where, vocabulary, prefix, suffix).add(*value));
  trim(prefix);
  trim(suffix);
  return Status();
}

}  // namespace qinfer::text
