// See detokenizer.h.
#include "text/detokenizer.h"

#include <algorithm>
#include <cstring>

#include "text/tables.h"
#include "text/utf8.h"

namespace qinfer::text {

/// The caller's buffer.
class Detokenizer::Sink {
 public:
  explicit Sink(std::span<char> out) : out_(out) {}
  void put(std::string_view text) {
    const std::size_t n = std::min(text.size(), out_.size() - size_);
    if (n != 0) std::memcpy(out_.data() + size_, text.data(), n);
    size_ += n;
  }
  std::size_t size() const { return size_; }
  /// Cleans up all that was put so far.
  void clean_up() { size_ = text::clean_up(out_.data(), size_); }

 private:
  std::span<char> out_;
  std::size_t size_ = 0;
};

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool at_start) : tables_(&tokenizer.tables()) { reset(at_start); }

void Detokenizer::reset(bool at_start) {
  held_size_ = 0;
  bad_run_ = held_space_ = false;
  at_start_ = at_start;
  strip_left_ = at_start ? tables_->decoder_rules.strip_count : 0;
}

/// Writes whole characters, less those at the start of the text that are to be stripped.
void Detokenizer::put_text(std::string_view text, Sink& sink) {
  while (strip_left_ != 0 && !text.empty()) {
    const Char c = char_at(text, 0);
    if (c.code != tables_->decoder_rules.strip_character) {
      strip_left_ = 0;
      break;
    }
    --strip_left_;
    text.remove_prefix(c.size);
  }
  sink.put(text);
}

/// What is held back will never be completed. Byte-level text has one U+FFFD for all of it, a byte-fallback run one for
/// each byte.
void Detokenizer::flush(Sink& sink) {
  const bool each = tables_->decoder_rules.bytes == DecoderRules::Bytes::fallback;
  for (int i = 0; i < (each ? held_size_ : std::min<int>(held_size_, 1)); ++i) put_text(kReplacementCharacter, sink);
  held_size_ = 0;
}

void Detokenizer::put_byte(char byte, Sink& sink) {
  const auto value = static_cast<std::uint8_t>(byte);
  const bool fallback = tables_->decoder_rules.bytes == DecoderRules::Bytes::fallback;
  if (held_size_ != 0 && !utf8_continues(static_cast<std::uint8_t>(held_[0]), held_size_, value)) {
    bad_run_ = fallback;
    flush(sink);
  }
  if ((fallback && bad_run_) || (held_size_ == 0 && utf8_length(value) == 0)) {
    bad_run_ = fallback;
    put_text(kReplacementCharacter, sink);
    return;
  }
  held_[held_size_++] = byte;
  if (held_size_ == utf8_length(static_cast<std::uint8_t>(held_[0]))) {
    put_text({held_.data(), held_size_}, sink);
    held_size_ = 0;
  }
}

/// Writes the token that begins a text, of which spaces before it are no part. A token with another form than its
/// content has only the text that it has elsewhere.
void Detokenizer::put_first(TokenId token, Sink& sink) {
  const Vocabulary& vocabulary = tables_->vocabulary;
  const DecoderRules& rules = tables_->decoder_rules;
  const bool has_form = (vocabulary.flags(token) & kTokenForm) != 0;
  const std::string_view bytes = vocabulary.bytes(token), content = vocabulary.content(token);
  if (rules.first_as_written) {
    sink.put(has_form ? bytes.substr(bytes.starts_with(' ') ? 1 : 0) : content);
    if (rules.clean_up) sink.clean_up();
  } else if (rules.dropped_from_first != 0 && !has_form) {
    for (std::size_t i = 0; i < content.size();) {
      const Char c = char_at(content, i);
      if (c.code != rules.dropped_from_first) put_text(content.substr(i, c.size), sink);
      i += c.size;
    }
  } else {
    put_text(bytes, sink);
  }
}

/// Whether the space at the end of its text is that of BPEDecoder.
bool Detokenizer::ends_word(TokenId token) const {
  const Vocabulary& vocabulary = tables_->vocabulary;
  return vocabulary.bytes(token).ends_with(' ') &&
         vocabulary.content(token).ends_with(tables_->decoder_rules.end_of_word);
}

std::size_t Detokenizer::push(TokenId token, std::span<char> out) {
  const Vocabulary& vocabulary = tables_->vocabulary;
  const DecoderRules& rules = tables_->decoder_rules;
  const std::uint8_t flags = vocabulary.flags(token);
  Sink sink(out);
  if (flags == 0) return 0;
  const bool is_fallback_byte = rules.bytes == DecoderRules::Bytes::fallback && (flags & kTokenIsByte) != 0;
  if ((flags & kTokenControl) != 0 || (rules.bytes == DecoderRules::Bytes::fallback && !is_fallback_byte)) {
    flush(sink);
    bad_run_ = false;
  }
  if ((flags & kTokenControl) != 0) return sink.size();

  const bool first = at_start_;
  at_start_ = false;
  if ((rules.separate_by_space && !first) || held_space_) sink.put(" ");
  const std::string_view bytes = vocabulary.bytes(token);
  held_space_ = !rules.end_of_word.empty() && ends_word(token);
  if (held_space_) {
    sink.put(bytes.substr(0, bytes.size() - 1));
  } else if (is_fallback_byte) {
    put_byte(bytes.front(), sink);
  } else if (rules.bytes == DecoderRules::Bytes::byte_level) {
    for (const char byte : bytes) put_byte(byte, sink);
  } else if (first) {
    put_first(token, sink);
  } else {
    put_text(bytes, sink);
  }
  return sink.size();
}

std::size_t Detokenizer::finish(std::span<char> out) {
  Sink sink(out);
  flush(sink);
  reset(true);
  return sink.size();
}

}  // namespace qinfer::text
