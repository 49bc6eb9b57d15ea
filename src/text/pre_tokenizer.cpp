// See pre_tokenizer.h. Parsing comes first, then the stages.
#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_level.h"
#include "text/library_chars.h"
#include "text/library_scripts.h"
#include "text/normalizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

Result<SplitBehavior> parse_behavior(const Json& value, std::string_view where) {
  QINFER_ASSIGN(const std::string name, required_string(value, "behavior", where));
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  return error(Code::unsupported, "{}: the behavior {} is not supported", where, in_quotes(name));
}

}  // namespace

Result<PreTokenizer> PreTokenizer::parse(const Json* value, std::string_view where) {
  PreTokenizer pre_tokenizer;
  if (value != nullptr) QINFER_TRY(pre_tokenizer.add(*value, where));
  return pre_tokenizer;
}

Result<PreTokenizer> PreTokenizer::byte_level(std::span<const std::string_view> patterns, std::string_view where) {
  PreTokenizer pre_tokenizer;
  for (const std::string_view text : patterns) {
    QINFER_ASSIGN(Regex pattern, Regex::compile(text, where));
    pre_tokenizer.steps_.push_back({.kind = Step::Kind::split, .pattern = std::move(pattern)});
  }
  pre_tokenizer.steps_.push_back({.kind = Step::Kind::byte_level});
  return pre_tokenizer;
}

PreTokenizer PreTokenizer::bert() {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add_bert();
  return pre_tokenizer;
}

void PreTokenizer::add_bert() {
  steps_.push_back(
      {.kind = Step::Kind::characters, .characters = CharacterSet::white_space, .behavior = SplitBehavior::removed});
  steps_.push_back({.kind = Step::Kind::characters, .characters = CharacterSet::punctuation});
}

Status PreTokenizer::add(const Json& value, std::string_view where) {
  QINFER_TRY(check_steps(steps_.size() + 1, where));
  QINFER_ASSIGN(const std::string kind, component_kind(value, where));
  if (kind == "ByteLevel") return add_byte_level(value, where);
  if (kind == "Metaspace") return add_metaspace(value, where);
  if (kind == "Sequence") return add_sequence(value, where);
  if (kind == "Split") return add_split(value, where);
  return add_known(kind, value, where);
}

Status PreTokenizer::add_sequence(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "pretokenizers"}));
  QINFER_ASSIGN(const Json* list, required_array(value, "pretokenizers", where));
  QINFER_TRY(check_sequences(++depth_, where));
  for (const Json& item : *list) QINFER_TRY(add(item, where));
  --depth_;
  return Status();
}

/// Those that split at characters of a set.
Status PreTokenizer::add_known(std::string_view kind, const Json& value, std::string_view where) {
  const auto add_set = [&](CharacterSet set, SplitBehavior behavior, char32_t delimiter = 0) {
    steps_.push_back({.kind = Step::Kind::characters, .characters = set, .delimiter = delimiter, .behavior = behavior});
  };
  if (kind == "Digits") {
    QINFER_TRY(check_fields(value, where, {"type", "individual_digits"}));
    QINFER_ASSIGN(const bool individual, required_boolean(value, "individual_digits", where));
    add_set(CharacterSet::numbers, individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
  } else if (kind == "Punctuation") {
    QINFER_TRY(check_fields(value, where, {"type", "behavior"}));
    SplitBehavior behavior = SplitBehavior::isolated;
    if (formats::find_field(value, "behavior") != nullptr) {
      QINFER_ASSIGN(behavior, parse_behavior(value, where));
    }
    add_set(CharacterSet::punctuation, behavior);
  } else if (kind == "CharDelimiterSplit") {
    QINFER_TRY(check_fields(value, where, {"type", "delimiter"}));
    QINFER_ASSIGN(const char32_t delimiter, required_character(value, "delimiter", where));
    add_set(CharacterSet::delimiter, SplitBehavior::removed, delimiter);
  } else if (kind == "WhitespaceSplit") {
    QINFER_TRY(check_fields(value, where, {"type"}));
    add_set(CharacterSet::white_space, SplitBehavior::removed);
  } else if (kind == "BertPreTokenizer") {
    QINFER_TRY(check_fields(value, where, {"type"}));
    add_bert();
  } else if (kind == "Whitespace") {
    QINFER_TRY(check_fields(value, where, {"type"}));
    steps_.push_back({.kind = Step::Kind::words});
  } else if (kind == "UnicodeScripts") {
    QINFER_TRY(check_fields(value, where, {"type"}));
    steps_.push_back({.kind = Step::Kind::scripts});
  } else if (kind == "FixedLength") {
    constexpr std::int64_t kUsual = 5;
    QINFER_TRY(check_fields(value, where, {"type", "length"}));
    QINFER_ASSIGN(const auto length, FieldReader(value, std::string(where)).integer("length", 1, INT64_MAX));
    steps_.push_back({.kind = Step::Kind::fixed_length, .length = static_cast<std::uint64_t>(length.value_or(kUsual))});
  } else {
    return unsupported_kind(
        where, kind,
        "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence, "
        "Split, UnicodeScripts, Whitespace and WhitespaceSplit");
  }
  return Status();
}

Status PreTokenizer::add_byte_level(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  QINFER_ASSIGN(const bool prefix, required_boolean(value, "add_prefix_space", where));
  QINFER_ASSIGN(const auto use_regex, FieldReader(value, std::string(where)).boolean("use_regex"));
  if (prefix) steps_.push_back({.kind = Step::Kind::prefix_space});
  if (use_regex.value_or(true)) {
    QINFER_ASSIGN(Regex pattern, Regex::compile(kGpt2Pattern, where));
    steps_.push_back({.kind = Step::Kind::split, .pattern = std::move(pattern)});
  }
  steps_.push_back({.kind = Step::Kind::byte_level});
  return Status();
}

Status PreTokenizer::add_split(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "pattern", "behavior", "invert"}));
  QINFER_ASSIGN(Regex pattern, required_pattern(value, where));
  QINFER_ASSIGN(const SplitBehavior behavior, parse_behavior(value, where));
  QINFER_ASSIGN(const bool invert, required_boolean(value, "invert", where));
  steps_.push_back({.kind = Step::Kind::split, .pattern = std::move(pattern), .behavior = behavior, .invert = invert});
  return Status();
}

Status PreTokenizer::add_metaspace(const Json& value, std::string_view where) {
  QINFER_TRY(
      check_fields(value, where, {"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"}));
  QINFER_ASSIGN(const char32_t replacement, required_character(value, "replacement", where));
  const FieldReader fields(value, std::string(where));
  QINFER_ASSIGN(const auto scheme, fields.string("prepend_scheme"));
  QINFER_ASSIGN(const auto add_prefix, fields.boolean("add_prefix_space"));
  QINFER_ASSIGN(const auto split, fields.boolean("split"));

  Step step{.kind = Step::Kind::metaspace};
  append_char(step.replacement, replacement);
  const std::string name = scheme.value_or(add_prefix.value_or(true) ? "always" : "never");
  if (name == "first") {
    step.prepend = Step::Prepend::first;
  } else if (name == "never") {
    step.prepend = Step::Prepend::never;
  } else if (name != "always") {
    return error(Code::unsupported, "{}: the prepend_scheme {} is not supported", where, in_quotes(name));
  }
  if (add_prefix.has_value() && !*add_prefix && step.prepend != Step::Prepend::never)
    return malformed("{}: \"add_prefix_space\" is false, but \"prepend_scheme\" is {}", where, in_quotes(name));
  std::string separator = step.replacement;
  steps_.push_back(std::move(step));
  if (split.value_or(true)) {
    QINFER_ASSIGN(Regex pattern, Regex::literal(separator, where));
    steps_.push_back(
        {.kind = Step::Kind::split, .pattern = std::move(pattern), .behavior = SplitBehavior::merged_with_next});
  }
  return Status();
}

namespace {

/// Turns the matches of one piece into pieces. The spans cover it without gaps.
void add_pieces(const std::vector<Stretch>& spans, SplitBehavior behavior, bool invert, const Piece& piece,
                std::vector<Piece>& out) {
  const std::size_t first = out.size();
  const auto push = [&](std::size_t begin, std::size_t end) {
    out.push_back({piece.begin + begin, piece.begin + end, piece.at_start && begin == 0});
  };
  const bool backwards = behavior == SplitBehavior::merged_with_next;
  const auto join = [&](const Stretch& span) {
    Piece& last = out.back();
    if (!backwards) {
      last.end = piece.begin + span.end;
    } else {
      last.begin = piece.begin + span.begin;
      last.at_start = piece.at_start && span.begin == 0;
    }
  };
  bool previous = false;
  const auto fold = [&](const Stretch& span, bool joins) {
    if (joins && out.size() > first) {
      join(span);
    } else {
      push(span.begin, span.end);
    }
    previous = span.is_match != invert;
  };
  switch (behavior) {
    case SplitBehavior::isolated:
      for (const Stretch& span : spans) push(span.begin, span.end);
      break;
    case SplitBehavior::removed:
      for (const Stretch& span : spans)
        if (span.is_match == invert) push(span.begin, span.end);
      break;
    case SplitBehavior::contiguous:
      for (const Stretch& span : spans) fold(span, (span.is_match != invert) == previous);
      break;
    case SplitBehavior::merged_with_previous:
      for (const Stretch& span : spans) fold(span, span.is_match != invert && !previous);
      break;
    case SplitBehavior::merged_with_next:
      for (auto span = spans.rbegin(); span != spans.rend(); ++span) fold(*span, span->is_match != invert && !previous);
      for (std::size_t i = first, j = out.size(); i + 1 < j; ++i, --j) std::swap(out[i], out[j - 1]);
      break;
  }
  // Matches may be empty; pieces may not.
  std::size_t kept = first;
  for (std::size_t i = first; i < out.size(); ++i)
    if (out[i].begin != out[i].end) out[kept++] = out[i];
  out.resize(kept);
}

/// Makes each character of a set a match. `has(code)` tells which are in it.
template <typename Has>
void find_characters(std::string_view text, std::vector<Stretch>& spans, Has has) {
  spans.clear();
  std::size_t covered = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Char c = char_at(text, i);
    if (has(c.code)) {
      if (covered != i) spans.push_back({{covered, i}, false});
      spans.push_back({{i, i + c.size}, true});
      covered = i + c.size;
    }
    i += c.size;
  }
  if (covered != text.size()) spans.push_back({{covered, text.size()}, false});
}

void find_characters(std::string_view text, CharacterSet set, char32_t delimiter, std::vector<Stretch>& spans) {
  switch (set) {
    case CharacterSet::numbers: return find_characters(text, spans, is_number);
    case CharacterSet::punctuation:
      return find_characters(text, spans, [](char32_t c) { return LibraryChar(c).is_punctuation(); });
    case CharacterSet::white_space: return find_characters(text, spans, is_white_space);
    case CharacterSet::delimiter: return find_characters(text, spans, [&](char32_t c) { return c == delimiter; });
  }
}

/// Cuts a piece into words, and runs of what is neither word nor white space: \w+|[^\w\s]+ without a pattern.
void add_words(std::string_view text, const Piece& piece, std::vector<Piece>& out) {
  enum class Part { space, word, other };
  const auto part_of = [](char32_t c) {
    if (is_word_character(c)) return Part::word;
    return is_white_space(c) ? Part::space : Part::other;
  };
  Part last = Part::space;
  for (std::size_t i = 0; i < text.size();) {
    const Char c = char_at(text, i);
    const Part part = part_of(c.code);
    if (part != Part::space) {
      if (part != last) out.push_back({piece.begin + i, piece.begin + i, piece.at_start && i == 0});
      out.back().end = piece.begin + i + c.size;
    }
    last = part;
    i += c.size;
  }
}

/// Cuts a piece where the script changes. Spaces, and characters of no script, go on with what is before them; at the
/// beginning they are left out, as the library does.
void add_script_runs(std::string_view text, const Piece& piece, std::vector<Piece>& out) {
  std::uint8_t last = kAnyScript;
  for (std::size_t i = 0; i < text.size();) {
    const Char c = char_at(text, i);
    const std::uint8_t script = library_script(c.code);
    if (script != kAnyScript && script != last) {
      out.push_back({piece.begin + i, piece.begin + i, piece.at_start && i == 0});
      last = script;
    }
    i += c.size;
    if (last != kAnyScript) out.back().end = piece.begin + i;
  }
}

/// Cuts a piece into parts of so many characters; the last one may have fewer.
void add_fixed(std::string_view text, std::uint64_t length, const Piece& piece, std::vector<Piece>& out) {
  std::uint64_t n = length;
  for (std::size_t i = 0; i < text.size();) {
    if (n == length) {
      out.push_back({piece.begin + i, piece.begin + i, piece.at_start && i == 0});
      n = 0;
    }
    i += char_at(text, i).size;
    out.back().end = piece.begin + i;
    ++n;
  }
}

/// Rewrites every piece by `append(piece, text of the piece, out)`.
template <typename Append>
Status rewrite(PreTokenizerScratch& s, std::size_t max_bytes, Append append) {
  s.other_text.clear();
  for (Piece& piece : s.pieces) {
    const std::size_t begin = s.other_text.size();
    append(piece, std::string_view(s.text).substr(piece.begin, piece.end - piece.begin), s.other_text);
    QINFER_TRY(check_expanded(s.other_text.size(), max_bytes));
    piece.begin = begin;
    piece.end = s.other_text.size();
  }
  s.text.swap(s.other_text);
  return Status();
}

/// Rewrites every piece as byte-level text, for which room is made once.
Status spell_bytes(PreTokenizerScratch& s, std::size_t max_bytes) {
  s.other_text.resize(2 * s.text.size());
  char* const begin = s.other_text.data();
  char* to = begin;
  for (Piece& piece : s.pieces) {
    const std::string_view text = std::string_view(s.text).substr(piece.begin, piece.end - piece.begin);
    piece.begin = static_cast<std::size_t>(to - begin);
    to = write_byte_level(text, to);
    piece.end = static_cast<std::size_t>(to - begin);
  }
  s.other_text.resize(static_cast<std::size_t>(to - begin));
  QINFER_TRY(check_expanded(s.other_text.size(), max_bytes));
  s.text.swap(s.other_text);
  return Status();
}

void append_metaspace(std::string_view text, std::string_view replacement, bool prepend, std::string& out) {
  const bool has_it = text.starts_with(' ') || text.starts_with(replacement);
  if (prepend && !has_it) out.append(replacement);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t space = std::min(text.find(' ', i), text.size());
    out.append(text.substr(i, space - i));
    if (space < text.size()) out.append(replacement);
    i = space + 1;
  }
}

}  // namespace

Status PreTokenizer::apply_step(const Step& step, std::size_t max_bytes, Work& work, PreTokenizerScratch& s) {
  if (!work.spend(s.text.size() + s.pieces.size())) return work.stopped(0);
  switch (step.kind) {
    case Step::Kind::prefix_space:
      return rewrite(s, max_bytes, [](const Piece&, std::string_view text, std::string& out) {
        if (!text.starts_with(' ')) out.push_back(' ');
        out.append(text);
      });
    case Step::Kind::byte_level: return spell_bytes(s, max_bytes);
    case Step::Kind::metaspace:
      return rewrite(s, max_bytes, [&](const Piece& piece, std::string_view text, std::string& out) {
        const bool prepend =
            step.prepend == Step::Prepend::always || (step.prepend == Step::Prepend::first && piece.at_start);
        append_metaspace(text, step.replacement, prepend, out);
      });
    case Step::Kind::split:
    case Step::Kind::characters:
    case Step::Kind::scripts:
    case Step::Kind::fixed_length:
    case Step::Kind::words: break;
  }
  return split(step, work, s);
}

Status PreTokenizer::split(const Step& step, Work& work, PreTokenizerScratch& s) {
  s.other_pieces.clear();
  for (const Piece& piece : s.pieces) {
    const auto text = std::string_view(s.text).substr(piece.begin, piece.end - piece.begin);
    if (step.kind == Step::Kind::words) {
      add_words(text, piece, s.other_pieces);
      continue;
    }
    if (step.kind == Step::Kind::scripts) {
      add_script_runs(text, piece, s.other_pieces);
      continue;
    }
    if (step.kind == Step::Kind::fixed_length) {
      add_fixed(text, step.length, piece, s.other_pieces);
      continue;
    }
    if (step.pattern) {
      if (Status status = step.pattern->find_all(text, work, s.regex, s.spans); !status.ok())
        return work.stopped(piece.begin + static_cast<std::size_t>(status.detail()));
    } else {
      find_characters(text, step.characters, step.delimiter, s.spans);
    }
    add_pieces(s.spans, step.behavior, step.invert, piece, s.other_pieces);
  }
  s.pieces.swap(s.other_pieces);
  return Status();
}

Status PreTokenizer::apply(bool at_start, std::size_t max_bytes, Work& work, PreTokenizerScratch& scratch) const {
  scratch.pieces.clear();
  if (scratch.text.empty()) return Status();
  scratch.pieces.push_back({0, scratch.text.size(), at_start});
  for (const Step& step : steps_) QINFER_TRY(apply_step(step, max_bytes, work, scratch));
  return Status();
}

}  // namespace qinfer::text
