// TextOutput: the text of a generation on its way to the host, held back while its end may be the beginning of a stop
// text.
//
// Example: with the stop text "\n\n" a token "end.\n" gives "end." and holds the "\n" back; if the next token is
// "\nNext", that is a stop, and the host gets nothing of it; if it is "Next", the host gets "\nNext".
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "text/detokenizer.h"

namespace qinfer::engine {

class TextOutput {
 public:
  /// `buffer`: kMaxStopBytes and what one token gives at most (Detokenizer::push). Both must outlive the object, and so
  /// must the stop texts, none of which is empty or longer than kMaxStopBytes. `detokenizer` null: tokens have no text.
  TextOutput(text::Detokenizer* detokenizer, std::span<char> buffer, std::span<const std::string_view> stop)
      : detokenizer_(detokenizer), buffer_(buffer), stop_(stop) {}

  struct Piece {
    std::string_view text;  ///< valid until the next call
    bool stops = false;     ///< a stop text begins after it
  };
  /// The text that `token` makes certain.
  Piece push(text::TokenId token);
  /// The same where no stop text is looked for, nor held back for: all that there is.
  std::string_view push_free(text::TokenId token);
  struct Rest {
    std::string_view text;     ///< valid until the next call
    std::size_t n_unfinished;  ///< of these, bytes at the end that stand for the beginning of a character
  };
  /// All that was held back, for no stop text can be in it any more, and what stands for the beginning of a character.
  /// `stays`: the detokenizer has that still, and what follows may complete it.
  Rest flush(bool stays);
  /// As if nothing had been pushed; the detokenizer stays.
  void clear() { given_ = held_ = 0; }

 private:
  void drop_given();
  void add(text::TokenId token);
  std::string_view give(std::size_t n);
  std::string_view held() const { return {buffer_.data(), held_}; }
  std::size_t first_stop() const;
  std::size_t longest_stop_beginning() const;

  text::Detokenizer* detokenizer_;
  std::span<char> buffer_;
  std::span<const std::string_view> stop_;
  std::size_t given_ = 0;  ///< bytes at the beginning of the buffer that the caller has and may still read
  std::size_t held_ = 0;   ///< bytes in the buffer, those included
};

}  // namespace qinfer::engine
