// bodies.cpp: see bodies.h.
#include "bodies.h"

#include <algorithm>

namespace server {
namespace {

/// Seconds: bodies are prepared within some.
constexpr int kRetryAfter = 2;

}  // namespace

bool BodyBudget::Part::grow(std::uint64_t bytes) {
  if (budget_ == nullptr || bytes <= std::max(bytes_, kSmall)) return true;
  std::uint64_t taken = budget_->taken_;
  do {
    if (taken - bytes_ + bytes > budget_->bytes_) return false;
  } while (!budget_->taken_.compare_exchange_weak(taken, taken - bytes_ + bytes));
  bytes_ = bytes;
  return true;
}

Refusal no_part() {
  return refusal(503, "overloaded_error",
                 "The bodies of other requests take all the room there is: send it again later");
}

Response too_many_bodies() {
  return {503, "application/json", no_part().json, "Retry-After: " + std::to_string(kRetryAfter) + "\r\n"};
}

void BoundedBody::reader::init(const boost::optional<std::uint64_t>& length, boost::system::error_code& error) {
  if (make_room(length.value_or(0), error) && length) body_.bytes.reserve(*length);
}

bool BoundedBody::reader::make_room(std::uint64_t bytes, boost::system::error_code& error) {
  error = {};
  if (body_.part == nullptr || body_.part->grow(bytes)) return true;
  error = boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
  return false;
}

}  // namespace server
