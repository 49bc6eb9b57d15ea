// The tokens of a session: a list in memory that forks share until one of them changes it. After the last one there may
// be drafts (schedule/drafts.h): guesses of the next ones, which are evaluated but not the session's until they are
// drawn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/shared_buffer.h"

namespace qinfer::engine {

class SessionTokens {
 public:
  /// `bytes`: for max_tokens of them.
  static Result<SessionTokens> create(const platform::Allocator& allocator, std::uint64_t bytes) {
    SessionTokens tokens;
    QINFER_ASSIGN(tokens.memory_, SharedBuffer::create(allocator, bytes, "a session's tokens"));
    return tokens;
  }

  std::span<const std::int32_t> all() const { return {data(), size_}; }
  std::span<const std::int32_t> with_drafts() const { return {data(), size_ + n_drafts_}; }
  std::size_t size() const { return size_; }
  std::uint64_t bytes() const { return memory_.size(); }
  /// Another number after each change.
  std::uint64_t revision() const { return revision_; }

  /// Where those of type 1 begin, up to the last one; SIZE_MAX: all are of type 0.
  std::size_t second_text() const { return second_text_; }

  /// There must be room for them. `type`: 0 or 1, and not 0 after 1.
  void append(std::span<const std::int32_t> tokens, std::uint32_t type = 0) {
    memory_.make_own(size_ * sizeof(std::int32_t));
    std::copy(tokens.begin(), tokens.end(), data() + size_);
    if (type != 0) second_text_ = std::min(second_text_, size_);
    set_size(size_ + tokens.size(), 0);
  }
  void truncate(std::size_t size) { set_size(size, 0); }
  /// In place of all drafts. There must be room for them.
  void draft(std::span<const std::int32_t> tokens) {
    memory_.make_own(size_ * sizeof(std::int32_t));
    std::copy(tokens.begin(), tokens.end(), data() + size_);
    n_drafts_ = tokens.size();
  }
  void drop_drafts() { n_drafts_ = 0; }
  /// Makes the next draft a token, if it is this one.
  bool accept_draft(std::int32_t token) {
    if (n_drafts_ == 0 || data()[size_] != token) return false;
    set_size(size_ + 1, n_drafts_ - 1);
    return true;
  }
  /// Takes back the last token, as if it had not been there: it was a draft before, or appended.
  void undo_last(bool was_draft, std::uint64_t revision) {
    set_size(size_ - 1, was_draft ? n_drafts_ + 1 : 0);
    revision_ = revision;
  }
  /// The tokens of the session that this one is a fork of.
  void share(const SessionTokens& original) {
    second_text_ = original.second_text_;
    memory_ = original.memory_.share(std::move(memory_));
    size_ = original.size_;
    n_drafts_ = original.n_drafts_;
  }

 private:
  std::int32_t* data() const { return memory_.as<std::int32_t>(); }
  void set_size(std::size_t size, std::size_t n_drafts) {
    size_ = size;
    n_drafts_ = n_drafts;
    if (size <= second_text_) second_text_ = SIZE_MAX;
    ++revision_;
  }
  SharedBuffer memory_;
  std::size_t size_ = 0, n_drafts_ = 0, second_text_ = SIZE_MAX;
  std::uint64_t revision_ = 0;
};

}  // namespace qinfer::engine
