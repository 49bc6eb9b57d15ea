// The tokens of a session: a list in memory that forks share until one of them changes it.
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
  std::size_t size() const { return size_; }
  std::uint64_t bytes() const { return memory_.size(); }
  /// Another number after each change.
  std::uint64_t revision() const { return revision_; }

  /// There must be room for them.
  void append(std::span<const std::int32_t> tokens) {
    memory_.make_own(size_ * sizeof(std::int32_t));
    std::copy(tokens.begin(), tokens.end(), data() + size_);
    size_ += tokens.size();
    ++revision_;
  }
  void truncate(std::size_t size) {
    size_ = size;
    ++revision_;
  }
  /// The tokens of the session that this one is a fork of.
  void share(const SessionTokens& original) {
    memory_ = original.memory_.share(std::move(memory_));
    size_ = original.size_;
  }

 private:
  std::int32_t* data() const { return memory_.as<std::int32_t>(); }
  SharedBuffer memory_;
  std::size_t size_ = 0;
  std::uint64_t revision_ = 0;
};

}  // namespace qinfer::engine
