// See text_output.h.
#include "engine/text_output.h"

#include <algorithm>
#include <cstring>

namespace qinfer::engine {

TextOutput::Piece TextOutput::push(text::TokenId token) {
  add(token);
  if (const std::size_t stop = first_stop(); stop != std::string_view::npos) {
    const std::string_view text = give(stop);
    given_ = held_;  // the stop text and what follows it is dropped by the next call
    return {text, true};
  }
  return {give(held_ - longest_stop_beginning()), false};
}

std::string_view TextOutput::push_free(text::TokenId token) {
  add(token);
  return give(held_);
}

TextOutput::Rest TextOutput::flush(bool stays) {
  drop_given();
  std::size_t n = 0;
  if (detokenizer_ != nullptr && stays) {
    text::Detokenizer copy = *detokenizer_;
    n = copy.finish(buffer_.subspan(held_));
  } else if (detokenizer_ != nullptr) {
    n = detokenizer_->finish(buffer_.subspan(held_));
  }
  held_ += n;
  return {give(held_), n};
}

void TextOutput::drop_given() {
  if (given_ != 0) std::memmove(buffer_.data(), buffer_.data() + given_, held_ - given_);
  held_ -= given_;
  given_ = 0;
}

void TextOutput::add(text::TokenId token) {
  drop_given();
  if (detokenizer_ != nullptr) held_ += detokenizer_->push(token, buffer_.subspan(held_));
}

std::string_view TextOutput::give(std::size_t n) {
  given_ = n;
  return held().substr(0, n);
}

std::size_t TextOutput::first_stop() const {
  std::size_t first = std::string_view::npos;
  for (const std::string_view stop : stop_) first = std::min(first, held().find(stop));
  return first;
}

/// The longest end of the held text with which some stop text begins.
std::size_t TextOutput::longest_stop_beginning() const {
  std::size_t longest = 0;
  for (const std::string_view stop : stop_) {
    for (std::size_t n = std::min(stop.size() - 1, held_); n > longest; --n)
      if (held().ends_with(stop.substr(0, n))) longest = n;
  }
  return longest;
}

}  // namespace qinfer::engine
