// Detokenizer: turns a stream of token ids into text, whole characters at a time.
//
// A token can end in the middle of a UTF-8 character; the rest is held back until the next tokens complete it or show
// that it cannot be completed, in which case U+FFFD takes its place. What push and finish return, put together, is what
// Hugging Face's decode(ids, skip_special_tokens=True) returns, with one difference that streaming forces: that library
// replaces a run of byte-fallback tokens by U+FFFD as a whole if any part of it is invalid, whereas here the characters
// of the run that were complete before the invalid byte have already been emitted and stay. And a control token always
// ends a character, which only shows where one stands in the middle of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "text/tokenizer.h"

namespace qinfer::text {

class Detokenizer {
 public:
  /// The tokenizer must outlive the object. `at_start`: the first token begins a text, so that the space which
  /// SentencePiece puts before the first word is left out. Nothing is allocated after construction.
  explicit Detokenizer(const Tokenizer& tokenizer, bool at_start = true);

  /// Writes the characters that `token` completes and returns their bytes. `out` needs 3 * max_token_bytes() + 16
  /// bytes; with less, what does not fit is lost. Control tokens emit only what was held back, unknown ids nothing.
  std::size_t push(TokenId token, std::span<char> out);
  /// Writes what is held back, incomplete bytes as U+FFFD, and starts over with at_start = true.
  std::size_t finish(std::span<char> out);
  /// Drops what is held back.
  void reset(bool at_start);

 private:
  class Sink;
  void put_byte(char byte, Sink& sink);
  void put_text(std::string_view text, Sink& sink);
  void put_first(TokenId token, Sink& sink);
  void flush(Sink& sink);
  bool ends_word(TokenId token) const;

  const TokenizerTables* tables_;
  std::array<char, 4> held_{};  // the beginning of a character
  std::uint8_t held_size_ = 0;
  bool bad_run_ = false;          // of byte-fallback tokens: all that follow are invalid too
  bool at_start_ = true;          // no token yet
  bool held_space_ = false;       // of a word's end, which is text only if another token comes
  std::uint32_t strip_left_ = 0;  // leading characters that the decoder's Strip may still remove
};

}  // namespace qinfer::text
