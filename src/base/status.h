// Status and Result: how every fallible function of qinfer reports failure.
//
// A Status is either ok or an error with one of the codes of qinfer.h, a message that names the
// file, field or value at fault, and a number (`detail`) whose meaning the code defines. Result<T> is a value or a
// Status. Neither throws by itself; std::bad_alloc is the only exception that crosses qinfer's own functions, and the
// C ABI turns it into QINFER_E_NO_MEMORY.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/format.h"

namespace qinfer {

/// The values of the QINFER_E_* constants; capi/ asserts that they agree.
enum class Code : std::int32_t {
  ok = 0,
  internal = -1,
  invalid_argument = -2,
  state = -3,
  unsupported = -4,
  no_memory = -5,
  io = -6,
  not_found = -7,
  format = -8,
  buffer_too_small = -9,
  kv_full = -10,
  context_full = -11,
  cancelled = -12,
  numeric = -13,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, std::int64_t detail = 0)
      : rep_(std::make_unique<Rep>(Rep{code, detail, std::move(message)})) {}

  /// An error with a literal for a message: it allocates nothing.
  static Status fixed(Code code, const char* text) {
    Status status;
    status.fixed_code_ = code;
    status.fixed_text_ = text;
    return status;
  }

  bool ok() const { return rep_ == nullptr && fixed_text_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : fixed_code_; }
  std::int64_t detail() const { return rep_ ? rep_->detail : 0; }
  std::string_view message() const {
    if (rep_) return rep_->message;
    return fixed_text_ != nullptr ? std::string_view(fixed_text_) : std::string_view();
  }

  /// Puts "prefix: " before the message, so that a caller can add which file or tensor it was about.
  Status with_prefix(std::string_view prefix) && {
    if (fixed_text_ != nullptr) return Status(fixed_code_, std::string(prefix) + ": " + fixed_text_);
    if (rep_) rep_->message.insert(0, std::string(prefix) + ": ");
    return std::move(*this);
  }

 private:
  struct Rep {
    Code code;
    std::int64_t detail;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
  Code fixed_code_ = Code::ok;
  const char* fixed_text_ = nullptr;
};

template <typename... Args>
Status error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, format_text(format, std::forward<Args>(args)...));
}

template <typename... Args>
Status error_at(Code code, std::int64_t detail, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, format_text(format, std::forward<Args>(args)...), detail);
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}

  bool ok() const { return state_.index() == 0; }
  Status take_status() { return ok() ? Status() : std::move(*std::get_if<1>(&state_)); }
  /// Only after ok(): there is no check, so that no failing path can end the process.
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }

 private:
  std::variant<T, Status> state_;
};

#define QINFER_CONCAT_INNER(a, b) a##b
#define QINFER_CONCAT(a, b) QINFER_CONCAT_INNER(a, b)

/// Returns the Status of `expression` to the caller if it is an error.
#define QINFER_TRY(expression)                                                                       \
  do {                                                                                               \
    if (::qinfer::Status qinfer_status_ = (expression); !qinfer_status_.ok()) return qinfer_status_; \
  } while (0)

/// `QINFER_ASSIGN(auto x, f())`: declares x from a Result, or returns its Status.
#define QINFER_ASSIGN(declaration, expression)                                                                     \
  auto QINFER_CONCAT(qinfer_result_, __LINE__) = (expression);                                                     \
  if (!QINFER_CONCAT(qinfer_result_, __LINE__).ok()) return QINFER_CONCAT(qinfer_result_, __LINE__).take_status(); \
  declaration = std::move(QINFER_CONCAT(qinfer_result_, __LINE__).value())

}  // namespace qinfer
