// bodies.h: what the bodies of all requests together may take, from when they are read until they are prepared. A body
// whose length its head says has its part before any of it is read; one in chunks, as it grows. Small ones have no
// part: the bound of connections bounds them, and they pass while large ones fill everything.
#pragma once

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "http.h"
#include "refusal.h"

namespace server {

/// For any thread. Parts end before it.
class BodyBudget {
 public:
  static constexpr std::uint64_t kSmall = 64 << 10;

  explicit BodyBudget(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t taken() const { return taken_; }
  std::uint64_t bytes() const { return bytes_; }

  /// What one body has of it.
  class Part {
   public:
    /// Null: there is no bound.
    explicit Part(BodyBudget* budget) : budget_(budget) {}
    ~Part() {
      if (budget_ != nullptr) budget_->taken_ -= bytes_;
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    /// False, and it stays as it was, where that is more than is left.
    bool grow(std::uint64_t bytes);

   private:
    BodyBudget* budget_;
    std::uint64_t bytes_ = 0;
  };

 private:
  const std::uint64_t bytes_;
  std::atomic<std::uint64_t> taken_{0};
};

/// What a request is told that has no part; `refused`: in OpenAI's form.
Refusal no_part();
Response too_many_bodies();

/// For boost::beast's parser: a text with its part of the bound, which may be null. More than is left is
/// std::errc::not_enough_memory.
struct BoundedBody {
  struct value_type {  // NOLINT(readability-identifier-naming): the names here are Beast's
    std::string bytes;
    std::shared_ptr<BodyBudget::Part> part;
  };
  class reader {  // NOLINT(readability-identifier-naming)
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& length, boost::system::error_code& error);
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      const std::size_t before = body_.bytes.size(), more = boost::asio::buffer_size(buffers);
      if (!make_room(before + more, error)) return 0;
      body_.bytes.resize(before + more);
      return boost::asio::buffer_copy(boost::asio::buffer(body_.bytes) + before, buffers);
    }
    static void finish(boost::system::error_code& error) { error = {}; }

   private:
    bool make_room(std::uint64_t bytes, boost::system::error_code& error);
    value_type& body_;
  };
};

}  // namespace server
