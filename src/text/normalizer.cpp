// See normalizer.h.
#include "text/normalizer.h"

#include <algorithm>
#include <utility>

#include "text/byte_level.h"

namespace qinfer::text {

Status check_expanded(std::size_t bytes, std::size_t max_bytes) {
  if (bytes <= max_bytes) return Status();
  return error(Code::unsupported, "the text grows beyond {} bytes when it is normalised", max_bytes);
}

Status check_steps(std::size_t n, std::string_view where) {
  if (n <= kMaxSteps) return Status();
  return error(Code::unsupported, "{}: more than {} steps", where, kMaxSteps);
}

Status check_sequences(int depth, std::string_view where) {
  if (depth <= kMaxSequences) return Status();
  return error(Code::unsupported, "{}: more than {} sequences inside each other", where, kMaxSequences);
}

Result<Regex> required_pattern(const Json& object, std::string_view where) {
  const Json* pattern = formats::find_field(object, "pattern");
  if (pattern == nullptr) return malformed("{}: the field \"pattern\" is missing", where);
  if (pattern->is_object() && pattern->size() == 1 && pattern->begin()->is_string()) {
    const Json& kind = *pattern->begin();
    if (kind.key() == "String") return Regex::literal(kind.text(), where);
    if (kind.key() == "Regex") return Regex::compile(kind.text(), where);
  }
  return malformed("{}: \"pattern\" is neither {{\"String\": ...}} nor {{\"Regex\": ...}}", where);
}

Result<Replacement> parse_replacement(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "pattern", "content"}));
  QINFER_ASSIGN(Regex pattern, required_pattern(value, where));
  QINFER_ASSIGN(std::string content, required_string(value, "content", where));
  return Replacement{std::move(pattern), std::move(content)};
}

Status append_replaced(std::string_view text, const Replacement& replacement, std::size_t max_bytes, Work& work,
                       NormalizerScratch& scratch, std::string& out) {
  if (text.empty()) return Status();
  QINFER_TRY(replacement.pattern.find_all(text, work, scratch.regex, scratch.spans));
  for (const Stretch& span : scratch.spans) {
    if (span.is_match) {
      QINFER_TRY(check_expanded(out.size() + replacement.content.size(), max_bytes));
      if (!work.spend(replacement.content.size())) return work.stopped(span.begin);
      out.append(replacement.content);
    } else {
      out.append(text.substr(span.begin, span.end - span.begin));
    }
  }
  return Status();
}

Result<Normalizer> Normalizer::parse(const Json* value, std::string_view where) {
  Normalizer normalizer;
  if (value != nullptr) QINFER_TRY(normalizer.add(*value, where));
  return normalizer;
}

Status Normalizer::add_sequence(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "normalizers"}));
  QINFER_ASSIGN(const Json* list, required_array(value, "normalizers", where));
  QINFER_TRY(check_sequences(++depth_, where));
  for (const Json& item : *list) QINFER_TRY(add(item, where));
  --depth_;
  return Status();
}

/// Those that nothing more is said of.
Status Normalizer::add_plain(std::string_view kind, const Json& value, std::string_view where) {
  using Kind = Step::Kind;
  const std::pair<std::string_view, Step> kinds[] = {
      {"ByteLevel", {.kind = Kind::byte_level}},
      {"NFC", {.kind = Kind::form, .form = NormalForm::c}},
      {"NFD", {.kind = Kind::form, .form = NormalForm::d}},
      {"NFKC", {.kind = Kind::form, .form = NormalForm::kc}},
      {"NFKD", {.kind = Kind::form, .form = NormalForm::kd}},
      {"Lowercase", {.kind = Kind::lowercase}},
      {"Nmt", {.kind = Kind::nmt}},
      {"StripAccents", {.kind = Kind::strip_accents}},
  };
  for (const auto& [name, step] : kinds) {
    if (name != kind) continue;
    QINFER_TRY(check_fields(value, where, {"type"}));
    steps_.push_back(step);
    return Status();
  }
  return unsupported_kind(
      where, kind,
      "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, "
      "Sequence, Strip and StripAccents");
}

Status Normalizer::add_bert(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
  Step step{.kind = Step::Kind::bert};
  QINFER_ASSIGN(step.letters.clean_text, required_boolean(value, "clean_text", where));
  QINFER_ASSIGN(step.letters.handle_chinese_chars, required_boolean(value, "handle_chinese_chars", where));
  QINFER_ASSIGN(step.letters.lowercase, required_boolean(value, "lowercase", where));
  QINFER_ASSIGN(const auto accents, FieldReader(value, std::string(where)).boolean("strip_accents"));
  step.letters.strip_accents = accents.value_or(step.letters.lowercase);
  steps_.push_back(std::move(step));
  return Status();
}

Status Normalizer::add(const Json& value, std::string_view where) {
  QINFER_TRY(check_steps(steps_.size() + 1, where));
  QINFER_ASSIGN(const std::string kind, component_kind(value, where));
  if (kind == "Sequence") return add_sequence(value, where);
  if (kind == "BertNormalizer") return add_bert(value, where);
  if (kind == "Prepend") {
    QINFER_TRY(check_fields(value, where, {"type", "prepend"}));
    QINFER_ASSIGN(std::string prefix, required_string(value, "prepend", where));
    steps_.push_back({.kind = Step::Kind::prepend, .prefix = std::move(prefix)});
    return Status();
  }
  if (kind == "Replace") {
    QINFER_ASSIGN(Replacement replacement, parse_replacement(value, where));
    steps_.push_back({.kind = Step::Kind::replace, .replacement = std::move(replacement)});
    return Status();
  }
  if (kind == "Precompiled") {
    QINFER_TRY(check_fields(value, where, {"type", "precompiled_charsmap"}));
    QINFER_ASSIGN(const std::string base64, required_string(value, "precompiled_charsmap", where));
    QINFER_ASSIGN(Charsmap charsmap, Charsmap::parse_base64(base64, where));
    steps_.push_back({.kind = Step::Kind::charsmap, .charsmap = std::move(charsmap)});
    return Status();
  }
  if (kind == "Strip") {
    QINFER_TRY(check_fields(value, where, {"type", "strip_left", "strip_right"}));
    Step step{.kind = Step::Kind::strip};
    QINFER_ASSIGN(step.left, required_boolean(value, "strip_left", where));
    QINFER_ASSIGN(step.right, required_boolean(value, "strip_right", where));
    steps_.push_back(std::move(step));
    return Status();
  }
  return add_plain(kind, value, where);
}

Normalizer Normalizer::bert(const BertLetters& letters) {
  Normalizer normalizer;
  normalizer.steps_.push_back({.kind = Step::Kind::bert, .letters = letters});
  return normalizer;
}

Normalizer Normalizer::sentence_piece(std::optional<Charsmap> charsmap, SpaceRules spaces) {
  Normalizer normalizer;
  normalizer.steps_.push_back({.kind = Step::Kind::sentence_piece, .charsmap = std::move(charsmap), .spaces = spaces});
  return normalizer;
}

namespace {

constexpr std::string_view kSpaceMark = "\u2581";

/// Appends `text` with U+2581 for its spaces. The prefix comes before all, but not where nothing but spaces that are to
/// go was there.
void append_spaced(std::string_view text, SpaceRules spaces, std::string& out) {
  if (spaces.merge) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) return;
  }
  const std::size_t begin = out.size();
  if (spaces.add_prefix) out += kSpaceMark;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ' ') {
      out.push_back(text[i]);
    } else if (!spaces.merge || (i > 0 && text[i - 1] != ' ')) {
      out += kSpaceMark;
    }
  }
  while (spaces.merge && std::string_view(out).substr(begin).ends_with(kSpaceMark))
    out.resize(out.size() - kSpaceMark.size());
}

}  // namespace

Status Normalizer::rewrite_sentence_piece(const Step& step, std::string_view text, bool begins, std::size_t max_bytes,
                                          Work& work, NormalizerScratch& scratch, std::string& out) {
  const SpaceRules spaces{.add_prefix = step.spaces.add_prefix && begins, .merge = step.spaces.merge};
  if (!step.charsmap) {
    append_spaced(text, spaces, out);
    return Status();
  }
  scratch.work_space.clear();
  QINFER_TRY(step.charsmap->append_by_prefix(text, max_bytes, work, scratch.work_space));
  append_spaced(scratch.work_space, spaces, out);
  return Status();
}

/// Appends what a step makes of `text` to `out`.
Status Normalizer::rewrite(const Step& step, std::string_view text, bool begins, std::size_t max_bytes, Work& work,
                           NormalizerScratch& scratch, std::string& out) {
  switch (step.kind) {
    case Step::Kind::bert: return append_bert(step.letters, text, scratch.work_space, scratch.code_points, out);
    case Step::Kind::byte_level: append_byte_level(text, out); break;
    case Step::Kind::charsmap: return step.charsmap->append_by_cluster(text, max_bytes, work, out);
    case Step::Kind::form: return append_normal_form(step.form, text, scratch.code_points, out);
    case Step::Kind::replace: return append_replaced(text, *step.replacement, max_bytes, work, scratch, out);
    case Step::Kind::lowercase: append_lower_case(text, out); break;
    case Step::Kind::nmt: append_nmt(text, out); break;
    case Step::Kind::sentence_piece: return rewrite_sentence_piece(step, text, begins, max_bytes, work, scratch, out);
    case Step::Kind::strip_accents: append_without_marks(text, out); break;
    case Step::Kind::strip: out += without_space(text, step.left, step.right); break;
    case Step::Kind::prepend: out.append(begins ? step.prefix : "").append(text); break;
  }
  return Status();
}

std::uint64_t Normalizer::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const Step& step : steps_) bytes += step.charsmap ? step.charsmap->memory_bytes() : 0;
  return bytes;
}

void Normalizer::move_to(std::pmr::memory_resource* memory) {
  for (Step& step : steps_)
    if (step.charsmap) step.charsmap->move_to(memory);
}

Status Normalizer::apply(std::string_view text, bool begins, std::size_t max_bytes, Work& work,
                         NormalizerScratch& scratch, std::string& out) const {
  out.assign(text);
  for (const Step& step : steps_) {
    if (out.empty()) return Status();
    if (!work.spend(out.size())) return work.stopped(0);
    if (step.kind == Step::Kind::form && is_trivially_normal(step.form, out)) continue;
    scratch.other.clear();
    QINFER_TRY(rewrite(step, out, begins, max_bytes, work, scratch, scratch.other));
    QINFER_TRY(check_expanded(scratch.other.size(), max_bytes));
    out.swap(scratch.other);
  }
  return Status();
}

}  // namespace qinfer::text
