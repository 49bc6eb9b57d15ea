// See decoder.h.
#include "text/decoder.h"

#include <cstring>
#include <optional>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

/// The byte that "<0xAB>" stands for. The library that defines these reads the two digits with a parser that also takes
/// a plus sign.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  for (std::size_t i = token[3] == '+' ? 4 : 3; i < 5; ++i) {
    const char c = token[i];
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<unsigned>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<unsigned>(lower - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return static_cast<char>(value);
}

void strip(char32_t character, std::uint32_t start, std::uint32_t stop, std::string& text) {
  std::size_t begin = 0, end = text.size();
  for (std::uint32_t i = 0; i < start && begin < end && char_at(text, begin).code == character; ++i)
    begin += char_at(text, begin).size;
  for (std::uint32_t i = 0; i < stop && begin < end && char_before(text, end).code == character; ++i)
    end -= char_before(text, end).size;
  text = text.substr(begin, end - begin);
}

/// Replaces `from` by `to`, which is no longer, in place; returns the size.
std::size_t replace_shorter(char* text, std::size_t size, std::string_view from, std::string_view to) {
  const std::string_view all(text, size);
  std::size_t read = 0, written = 0;
  for (std::size_t at = all.find(from); at != all.npos; at = all.find(from, read)) {
    std::memmove(text + written, text + read, at - read);
    written += at - read;
    std::memcpy(text + written, to.data(), to.size());
    written += to.size();
    read = at + from.size();
  }
  std::memmove(text + written, text + read, size - read);
  return written + size - read;
}

}  // namespace

std::size_t clean_up(char* text, std::size_t size) {
  constexpr std::string_view kChanges[][2] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kChanges) size = replace_shorter(text, size, from, to);
  return size;
}

Result<Decoder> Decoder::parse(const Json* value, std::string_view where) {
  Decoder decoder;
  if (value == nullptr) {
    decoder.rules_.separate_by_space = true;
  } else {
    QINFER_TRY(decoder.add(*value, where));
  }
  return decoder;
}

Status Decoder::check_position(std::string_view kind, std::string_view where) const {
  if (!fused_ && rules_.bytes == DecoderRules::Bytes::none) return Status();
  return error(Code::unsupported, "{}: {} is supported only before ByteFallback, ByteLevel and Fuse", where, kind);
}

Status Decoder::set_bytes(DecoderRules::Bytes bytes, std::string_view where) {
  QINFER_TRY(check_position(bytes == DecoderRules::Bytes::byte_level ? "ByteLevel" : "ByteFallback", where));
  rules_.bytes = bytes;
  return Status();
}

Status Decoder::add(const Json& value, std::string_view where) {
  QINFER_TRY(check_steps(steps_.size() + 1, where));
  QINFER_ASSIGN(const std::string kind, component_kind(value, where));
  if (kind == "Sequence") {
    QINFER_TRY(check_fields(value, where, {"type", "decoders"}));
    QINFER_ASSIGN(const Json* list, required_array(value, "decoders", where));
    QINFER_TRY(check_sequences(++depth_, where));
    for (const Json& item : *list) QINFER_TRY(add(item, where));
    --depth_;
    return Status();
  }
  if (kind == "ByteLevel") {
    QINFER_TRY(check_fields(value, where, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    QINFER_TRY(set_bytes(DecoderRules::Bytes::byte_level, where));
    fused_ = true;
    return Status();
  }
  if (kind == "ByteFallback") {
    QINFER_TRY(check_fields(value, where, {"type"}));
    return set_bytes(DecoderRules::Bytes::fallback, where);
  }
  if (kind == "Fuse") {
    QINFER_TRY(check_fields(value, where, {"type"}));
    fused_ = true;
    return Status();
  }
  if (kind == "Replace") {
    QINFER_TRY(check_position(kind, where));
    QINFER_ASSIGN(Replacement replacement, parse_replacement(value, where));
    steps_.emplace_back().replacement.push_back(std::move(replacement));
    return Status();
  }
  if (kind == "Strip") return add_strip(value, where);
  if (kind == "Metaspace") return add_metaspace(value, where);
  if (kind == "WordPiece") return add_word_piece(value, where);
  if (kind == "BPEDecoder") return add_bpe(value, where);
  return unsupported_kind(
      where, kind, "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip and WordPiece");
}

Status Decoder::add_strip(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "content", "start", "stop"}));
  QINFER_ASSIGN(const char32_t character, required_character(value, "content", where));
  const FieldReader fields(value, std::string(where));
  QINFER_ASSIGN(const std::int64_t start, fields.required_integer("start", 0, 1024));
  QINFER_ASSIGN(const std::int64_t stop, fields.required_integer("stop", 0, 1024));
  if (!fused_) {
    QINFER_TRY(check_position("Strip without a Fuse before it", where));
    steps_.push_back({{}, character, static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(stop)});
    return Status();
  }
  if (stop != 0 || (rules_.strip_count != 0 && start != 0))
    return error(Code::unsupported, "{}: after a Fuse only one Strip with \"stop\" 0 is supported", where);
  rules_.strip_character = character;
  rules_.strip_count = static_cast<std::uint32_t>(start);
  return Status();
}

Status Decoder::add_word_piece(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "prefix", "cleanup"}));
  QINFER_TRY(check_position("WordPiece", where));
  if (!steps_.empty()) return error(Code::unsupported, "{}: WordPiece is supported only as the first decoder", where);
  QINFER_ASSIGN(prefix_, required_string(value, "prefix", where));
  QINFER_ASSIGN(rules_.clean_up, required_boolean(value, "cleanup", where));
  rules_.first_as_written = true;
  fused_ = true;
  steps_.emplace_back().word_piece = true;
  return Status();
}

Status Decoder::add_metaspace(const Json& value, std::string_view where) {
  QINFER_TRY(
      check_fields(value, where, {"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"}));
  QINFER_TRY(check_position("Metaspace", where));
  if (!steps_.empty()) return error(Code::unsupported, "{}: Metaspace is supported only as the first decoder", where);
  const FieldReader fields(value, std::string(where));
  QINFER_ASSIGN(const char32_t replacement, required_character(value, "replacement", where));
  QINFER_ASSIGN(const auto scheme, fields.string("prepend_scheme"));
  QINFER_ASSIGN(const auto add_prefix, fields.boolean("add_prefix_space"));
  const std::string name = scheme.value_or(add_prefix.value_or(true) ? "always" : "never");
  if (name != "always" && name != "first" && name != "never")
    return error(Code::unsupported, "{}: the prepend_scheme {} is not supported", where, in_quotes(name));
  if (name != "never") rules_.dropped_from_first = replacement;
  std::string pattern;
  append_char(pattern, replacement);
  QINFER_ASSIGN(Regex regex, Regex::literal(pattern, where));
  steps_.emplace_back().replacement.push_back({std::move(regex), " "});
  return Status();
}

Status Decoder::add_bpe(const Json& value, std::string_view where) {
  QINFER_TRY(check_fields(value, where, {"type", "suffix"}));
  QINFER_TRY(check_position("BPEDecoder", where));
  if (!steps_.empty()) return error(Code::unsupported, "{}: BPEDecoder is supported only as the first decoder", where);
  QINFER_ASSIGN(rules_.end_of_word, required_string(value, "suffix", where));
  if (rules_.end_of_word.empty() || rules_.end_of_word.size() > kMaxAffixBytes)
    return error(Code::unsupported, "{}: the \"suffix\" of BPEDecoder has {} bytes, supported are 1 to {}", where,
                 rules_.end_of_word.size(), kMaxAffixBytes);
  fused_ = true;
  return Status();
}

Status Decoder::decode_token(std::string_view content, Work& work, NormalizerScratch& scratch, Token& out) const {
  out.bytes.assign(content);
  out.is_byte = false;
  for (const Step& step : steps_) {
    if (!work.spend(1 + out.bytes.size())) return work.stopped(0);
    if (step.word_piece) {
      if (content.starts_with(prefix_)) {
        out.bytes.erase(0, prefix_.size());
      } else {
        out.bytes.insert(0, 1, ' ');
      }
      if (rules_.clean_up) out.bytes.resize(clean_up(out.bytes.data(), out.bytes.size()));
      continue;
    }
    if (step.replacement.empty()) {
      strip(step.character, step.start, step.stop, out.bytes);
      continue;
    }
    scratch.other.clear();
    QINFER_TRY(append_replaced(out.bytes, step.replacement.front(), kMaxTokenBytes, work, scratch, scratch.other));
    out.bytes.swap(scratch.other);
  }
  if (const std::size_t at = rules_.end_of_word.empty() ? content.npos : content.find(rules_.end_of_word);
      at != content.npos) {
    // Of the last token it vanishes wherever it is, which is known too late.
    if (at + rules_.end_of_word.size() != content.size())
      return error(Code::unsupported, "{} is inside the token {}, BPEDecoder is supported where it ends tokens",
                   in_quotes(rules_.end_of_word), in_quotes(content));
    out.bytes.replace(at, out.bytes.npos, 1, ' ');
  }
  if (rules_.bytes == DecoderRules::Bytes::byte_level) {
    std::string decoded;
    if (append_byte_level_decoded(out.bytes, decoded)) out.bytes = std::move(decoded);
    out.is_byte = find_invalid_utf8(out.bytes) != out.bytes.size();
  } else if (rules_.bytes == DecoderRules::Bytes::fallback) {
    if (const auto byte = fallback_byte(out.bytes)) {
      out.bytes.assign(1, *byte);
      out.is_byte = true;
    }
  }
  return Status();
}

}  // namespace qinfer::text
