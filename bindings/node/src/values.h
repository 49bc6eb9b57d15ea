// Conversions between JavaScript values and the arguments, structs and errors of qinfer.h. A conversion that fails
// leaves a JavaScript exception pending and throws Thrown, which every function that JavaScript calls (entry) turns
// into a return.
#pragma once

#include <node_api.h>
#include <qinfer/qinfer.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace qinfer_node {

/// A JavaScript exception is pending.
struct Thrown {};

/// Throws Thrown unless the status is napi_ok; a JavaScript exception is pending afterwards.
void check(napi_env env, napi_status status);
[[noreturn]] void throw_type_error(napi_env env, const std::string& message);
/// A QinferError.
napi_value error_object(napi_env env, qinfer_status status, const std::string& message, std::int64_t detail);
/// Throws one, with a cause if that is not null.
[[noreturn]] void throw_error(napi_env env, qinfer_status status, const std::string& message, std::int64_t detail,
                              napi_value cause = nullptr);

/// Room for the whole message of a call that fails.
class Failure {
 public:
  qinfer_error* argument();
  std::string message() const { return text_; }
  std::int64_t detail() const { return full_.error.detail; }

 private:
  char text_[16384];
  qinfer_full_error full_;
};

/// Calls function(err), and throws a QinferError if its status is a failure.
template <class Function>
void call(napi_env env, Function function) {
  Failure failure;
  const qinfer_status status = function(failure.argument());
  if (status != QINFER_OK) throw_error(env, status, failure.message(), failure.detail());
}

/// The arguments of a function that JavaScript called; those that are missing are undefined.
class Args {
 public:
  static constexpr std::size_t kMost = 5;
  Args(napi_env env, napi_callback_info info);
  napi_value operator[](std::size_t index) const { return values_[index]; }
  const napi_env env;

 private:
  napi_value values_[kMost];
};

/// Makes a function of the addon out of one that may throw.
template <napi_value (*function)(const Args&)>
napi_value entry(napi_env env, napi_callback_info info) {
  try {
    return function(Args(env, info));
  } catch (const Thrown&) {
  } catch (const std::exception& exception) {
    napi_throw_error(env, nullptr, exception.what());
  }
  return nullptr;
}

napi_valuetype type_of(napi_env env, napi_value value);
bool is_nullish(napi_env env, napi_value value);
bool is_false(napi_env env, napi_value value);
/// Whether a callback wants to go on, by its answer: not false. A promise is a TypeError, because nothing waits for it.
bool goes_on(napi_env env, napi_value answer, const char* callback);
void refuse_promise(napi_env env, napi_value answer, const char* callback);
napi_value undefined(napi_env env);
napi_value number(napi_env env, double value);
napi_value text(napi_env env, const char* data, std::size_t size = NAPI_AUTO_LENGTH);
inline napi_value text(napi_env env, const std::string& value) { return text(env, value.data(), value.size()); }
napi_value int32_array(napi_env env, const std::vector<qinfer_token>& values);

/// `what` names the value in the message of a failure.
std::string text_of(napi_env env, napi_value value, const char* what);
/// For functions that take NUL-terminated text: a NUL inside is QINFER_E_INVALID_ARGUMENT.
std::string c_text_of(napi_env env, napi_value value, const char* what);
double number_of(napi_env env, napi_value value, const char* what);
/// An integer from least to most.
double integer_of(napi_env env, napi_value value, const char* what, double least, double most);
std::uint32_t u32_of(napi_env env, napi_value value, const char* what);
std::size_t size_of(napi_env env, napi_value value, const char* what);
/// A number or a BigInt.
std::uint64_t u64_of(napi_env env, napi_value value, const char* what);
qinfer_token token_of(napi_env env, napi_value value);

/// The memory of a typed array of that kind, which JavaScript may change or detach after the present call.
template <class Element>
struct View {
  Element* data;
  std::size_t size;
};
View<qinfer_token> tokens_of(napi_env env, napi_value value, const char* what);
View<float> floats_of(napi_env env, napi_value value, const char* what);
View<std::uint8_t> bytes_of(napi_env env, napi_value value, const char* what);

/// Members of an object of options, or of none (undefined). What is undefined or null stays as it is.
class Options {
 public:
  Options(napi_env env, napi_value object);
  napi_value get(const char* name) const;  ///< undefined where there is none
  bool has(const char* name) const { return !is_nullish(env_, get(name)); }
  bool truthy(const char* name) const;
  std::optional<std::string> c_text(const char* name) const;
  void read(const char* name, std::uint32_t& out) const;
  void read(const char* name, std::uint64_t& out) const;
  void read(const char* name, float& out) const;
  /// Sets the bit where the member is true; with `when` false, where it is false.
  void flag(const char* name, std::uint32_t& flags, std::uint32_t bit, bool when = true) const;

 private:
  napi_env env_;
  napi_value object_;
};

/// An object that is being made.
class Record {
 public:
  explicit Record(napi_env env);
  Record& set(const char* name, napi_value value);
  Record& set(const char* name, const char* value);  ///< NULL: undefined
  template <class Number>
  std::enable_if_t<std::is_arithmetic_v<Number>, Record&> set(const char* name, Number value) {
    return set(name, number(env_, static_cast<double>(value)));
  }
  Record& set_flag(const char* name, bool value);
  napi_value object() const { return object_; }

 private:
  napi_env env_;
  napi_value object_;
};

/// The room for a call that had too little of it, or throws its error: one that says that less is needed than it had
/// is not tried again.
std::size_t more_room(napi_env env, const Failure& failure, qinfer_status status, std::size_t had, std::size_t needed);

/// What function(text, capacity, out_n, err) writes.
template <class Function>
napi_value read_text(napi_env env, Function function, std::size_t room = 1024) {
  std::string buffer(room, '\0');
  for (;;) {
    std::size_t n = 0;
    Failure failure;
    const qinfer_status status = function(buffer.data(), buffer.size(), &n, failure.argument());
    if (status == QINFER_OK) return text(env, buffer.data(), n);
    buffer.resize(more_room(env, failure, status, buffer.size(), n));
  }
}

/// The tokens that function(tokens, capacity, out_n, err) writes, as an Int32Array.
template <class Function>
napi_value read_tokens(napi_env env, Function function, std::size_t room = 256) {
  std::vector<qinfer_token> buffer(room);
  for (;;) {
    std::size_t n = 0;
    Failure failure;
    const qinfer_status status = function(buffer.data(), buffer.size(), &n, failure.argument());
    buffer.resize(status == QINFER_OK ? n : more_room(env, failure, status, buffer.size(), n));
    if (status == QINFER_OK) return int32_array(env, buffer);
  }
}

/// A struct of qinfer.h with its size filled in and all else zero.
template <class Struct>
Struct sized() {
  Struct value = {};
  value.struct_size = sizeof value;
  return value;
}

/// A strong reference to a value of any type, or to none; for the JavaScript thread only.
class Reference {
 public:
  Reference() = default;
  Reference(napi_env env, napi_value value);
  ~Reference() { reset(); }
  Reference(Reference&& other) noexcept;
  Reference& operator=(Reference&& other) noexcept;
  explicit operator bool() const { return reference_ != nullptr; }
  napi_value get() const;
  void reset();

 private:
  napi_env env_ = nullptr;
  napi_ref reference_ = nullptr;  // of an array that holds the value: only objects can be referred to
};

/// Clears the pending exception, and keeps it in `out` if that is empty.
void keep_exception(napi_env env, Reference& out);

/// Calls a function of JavaScript with `self` as this.
napi_value call_function(napi_env env, napi_value self, napi_value function, const std::vector<napi_value>& arguments);

}  // namespace qinfer_node
