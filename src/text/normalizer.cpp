// See normalizer.h.
#include "text/normalizer.h"

#include "text/nfc.h"

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

Status Normalizer::add(const Json& value, std::string_view where) {
  QINFER_TRY(check_steps(steps_.size() + 1, where));
  QINFER_ASSIGN(const std::string kind, component_kind(value, where));
  if (kind == "Sequence") {
    QINFER_TRY(check_fields(value, where, {"type", "normalizers"}));
    QINFER_ASSIGN(const Json* list, required_array(value, "normalizers", where));
    QINFER_TRY(check_sequences(++depth_, where));
    for (const Json& item : *list) QINFER_TRY(add(item, where));
    --depth_;
    return Status();
  }
  if (kind == "NFC") {
    QINFER_TRY(check_fields(value, where, {"type"}));
    steps_.push_back({Step::Kind::nfc, {}, std::nullopt});
    return Status();
  }
  if (kind == "Prepend") {
    QINFER_TRY(check_fields(value, where, {"type", "prepend"}));
    QINFER_ASSIGN(std::string prefix, required_string(value, "prepend", where));
    steps_.push_back({Step::Kind::prepend, std::move(prefix), std::nullopt});
    return Status();
  }
  if (kind == "Replace") {
    QINFER_ASSIGN(Replacement replacement, parse_replacement(value, where));
    steps_.push_back({Step::Kind::replace, {}, std::move(replacement)});
    return Status();
  }
  return unsupported_kind(where, kind, "NFC, Prepend, Replace and Sequence");
}

Status Normalizer::apply(std::string_view text, bool begins, std::size_t max_bytes, Work& work,
                         NormalizerScratch& scratch, std::string& out) const {
  out.assign(text);
  for (const Step& step : steps_) {
    if (out.empty()) return Status();
    if (!work.spend(out.size())) return work.stopped(0);
    switch (step.kind) {
      case Step::Kind::nfc:
        if (is_trivially_nfc(out)) break;
        scratch.other.clear();
        QINFER_TRY(append_nfc(out, scratch.code_points, scratch.other));
        QINFER_TRY(check_expanded(scratch.other.size(), max_bytes));
        out.swap(scratch.other);
        break;
      case Step::Kind::prepend:
        if (!begins) break;
        QINFER_TRY(check_expanded(out.size() + step.prefix.size(), max_bytes));
        out.insert(0, step.prefix);
        break;
      case Step::Kind::replace:
        scratch.other.clear();
        QINFER_TRY(append_replaced(out, *step.replacement, max_bytes, work, scratch, scratch.other));
        out.swap(scratch.other);
        break;
    }
  }
  return Status();
}

}  // namespace qinfer::text
