// See values.h.
#include "values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "instance.h"

namespace qinfer_node {
namespace {

constexpr double kLargestInteger = 9007199254740991.0;  // Number.MAX_SAFE_INTEGER

std::string named(const char* what, const char* rest) { return std::string(what) + " must be " + rest; }

template <class Element>
View<Element> view_of(napi_env env, napi_value value, napi_typedarray_type wanted, const char* what, const char* name) {
  bool is_typed = false;
  napi_typedarray_type type = napi_int8_array;
  std::size_t length = 0;
  void* data = nullptr;
  check(env, napi_is_typedarray(env, value, &is_typed));
  if (is_typed) check(env, napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr));
  if (!is_typed || type != wanted) throw_type_error(env, named(what, name));
  return {static_cast<Element*>(data), length};
}

}  // namespace

void check(napi_env env, napi_status status) {
  if (status == napi_ok) return;
  const napi_extended_error_info* info = nullptr;
  napi_get_last_error_info(env, &info);
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  const char* message = info != nullptr && info->error_message != nullptr ? info->error_message : "Node-API failed";
  const bool wrong_type = status == napi_array_expected || status == napi_object_expected;
  if (!pending) (wrong_type ? napi_throw_type_error : napi_throw_error)(env, nullptr, message);
  throw Thrown();
}

void throw_type_error(napi_env env, const std::string& message) {
  napi_throw_type_error(env, nullptr, message.c_str());
  throw Thrown();
}

napi_value error_object(napi_env env, qinfer_status status, const std::string& message, std::int64_t detail) {
  napi_value type = nullptr, error = nullptr;
  check(env, napi_get_reference_value(env, instance_of(env).error_class, &type));
  napi_value arguments[] = {number(env, status), text(env, message), number(env, static_cast<double>(detail))};
  check(env, napi_new_instance(env, type, 3, arguments, &error));
  return error;
}

void throw_error(napi_env env, qinfer_status status, const std::string& message, std::int64_t detail,
                 napi_value cause) {
  const napi_value error = error_object(env, status, message, detail);
  if (cause != nullptr) check(env, napi_set_named_property(env, error, "cause", cause));
  check(env, napi_throw(env, error));
  throw Thrown();
}

qinfer_error* Failure::argument() {
  text_[0] = '\0';
  full_ = sized<qinfer_full_error>();
  full_.text = text_;
  full_.capacity = sizeof text_;
  return qinfer_full_error_arg(&full_);
}

Args::Args(napi_env environment, napi_callback_info info) : env(environment) {
  std::size_t n = kMost;
  check(env, napi_get_cb_info(env, info, &n, values_, nullptr, nullptr));
}

napi_valuetype type_of(napi_env env, napi_value value) {
  napi_valuetype type = napi_undefined;
  check(env, napi_typeof(env, value, &type));
  return type;
}

bool is_nullish(napi_env env, napi_value value) {
  const napi_valuetype type = type_of(env, value);
  return type == napi_undefined || type == napi_null;
}

bool is_false(napi_env env, napi_value value) {
  bool is_true = true;
  if (type_of(env, value) == napi_boolean) check(env, napi_get_value_bool(env, value, &is_true));
  return !is_true;
}

void refuse_promise(napi_env env, napi_value answer, const char* callback) {
  bool is_promise = false;
  check(env, napi_is_promise(env, answer, &is_promise));
  if (is_promise) throw_type_error(env, std::string(callback) + " gave a promise, and must answer at once");
}

bool goes_on(napi_env env, napi_value answer, const char* callback) {
  refuse_promise(env, answer, callback);
  return !is_false(env, answer);
}

napi_value undefined(napi_env env) {
  napi_value value = nullptr;
  check(env, napi_get_undefined(env, &value));
  return value;
}

napi_value number(napi_env env, double value) {
  napi_value out = nullptr;
  check(env, napi_create_double(env, value, &out));
  return out;
}

napi_value text(napi_env env, const char* data, std::size_t size) {
  napi_value out = nullptr;
  check(env, napi_create_string_utf8(env, data, size, &out));
  return out;
}

napi_value int32_array(napi_env env, const std::vector<qinfer_token>& values) {
  void* data = nullptr;
  napi_value buffer = nullptr, array = nullptr;
  check(env, napi_create_arraybuffer(env, values.size() * sizeof(qinfer_token), &data, &buffer));
  for (std::size_t i = 0; i < values.size(); ++i) static_cast<qinfer_token*>(data)[i] = values[i];
  check(env, napi_create_typedarray(env, napi_int32_array, values.size(), buffer, 0, &array));
  return array;
}

std::string text_of(napi_env env, napi_value value, const char* what) {
  if (type_of(env, value) != napi_string) throw_type_error(env, named(what, "a string"));
  std::size_t size = 0;
  check(env, napi_get_value_string_utf8(env, value, nullptr, 0, &size));
  std::string out(size, '\0');
  // The data of a std::string has room for the NUL that Node-API writes.
  check(env, napi_get_value_string_utf8(env, value, out.data(), size + 1, &size));
  return out;
}

std::string c_text_of(napi_env env, napi_value value, const char* what) {
  std::string out = text_of(env, value, what);
  if (out.find('\0') != std::string::npos)
    throw_error(env, QINFER_E_INVALID_ARGUMENT, std::string(what) + " holds a NUL character", 0);
  return out;
}

double number_of(napi_env env, napi_value value, const char* what) {
  double out = 0;
  if (type_of(env, value) != napi_number) throw_type_error(env, named(what, "a number"));
  check(env, napi_get_value_double(env, value, &out));
  return out;
}

double integer_of(napi_env env, napi_value value, const char* what, double least, double most) {
  const double out = number_of(env, value, what);
  if (out != std::trunc(out) || out < least || out > most) {
    const std::string range = "an integer from " + std::to_string(static_cast<std::int64_t>(least)) + " to " +
                              std::to_string(static_cast<std::int64_t>(most));
    throw_type_error(env, named(what, range.c_str()));
  }
  return out;
}

std::uint32_t u32_of(napi_env env, napi_value value, const char* what) {
  return static_cast<std::uint32_t>(integer_of(env, value, what, 0, UINT32_MAX));
}

std::size_t size_of(napi_env env, napi_value value, const char* what) {
  return static_cast<std::size_t>(integer_of(env, value, what, 0, kLargestInteger));
}

std::uint64_t u64_of(napi_env env, napi_value value, const char* what) {
  if (type_of(env, value) != napi_bigint)
    return static_cast<std::uint64_t>(integer_of(env, value, what, 0, kLargestInteger));
  std::uint64_t out = 0;
  bool lossless = false;
  check(env, napi_get_value_bigint_uint64(env, value, &out, &lossless));
  if (!lossless) throw_type_error(env, named(what, "below 2^64"));
  return out;
}

qinfer_token token_of(napi_env env, napi_value value) {
  return static_cast<qinfer_token>(integer_of(env, value, "a token", INT32_MIN, INT32_MAX));
}

View<qinfer_token> tokens_of(napi_env env, napi_value value, const char* what) {
  return view_of<qinfer_token>(env, value, napi_int32_array, what, "an Int32Array");
}

View<float> floats_of(napi_env env, napi_value value, const char* what) {
  return view_of<float>(env, value, napi_float32_array, what, "a Float32Array");
}

View<std::uint8_t> bytes_of(napi_env env, napi_value value, const char* what) {
  return view_of<std::uint8_t>(env, value, napi_uint8_array, what, "a Uint8Array");
}

Options::Options(napi_env env, napi_value object) : env_(env), object_(object) {
  const napi_valuetype type = type_of(env, object);
  if (type == napi_undefined || type == napi_null) object_ = nullptr;
  if (object_ != nullptr && type != napi_object) throw_type_error(env, "options must be an object");
}

napi_value Options::get(const char* name) const {
  if (object_ == nullptr) return undefined(env_);
  napi_value value = nullptr;
  check(env_, napi_get_named_property(env_, object_, name, &value));
  return value;
}

bool Options::truthy(const char* name) const {
  napi_value value = nullptr;
  bool out = false;
  check(env_, napi_coerce_to_bool(env_, get(name), &value));
  check(env_, napi_get_value_bool(env_, value, &out));
  return out;
}

std::optional<std::string> Options::c_text(const char* name) const {
  const napi_value value = get(name);
  if (is_nullish(env_, value)) return std::nullopt;
  return c_text_of(env_, value, name);
}

void Options::read(const char* name, std::uint32_t& out) const {
  if (const napi_value value = get(name); !is_nullish(env_, value)) out = u32_of(env_, value, name);
}

void Options::read(const char* name, std::uint64_t& out) const {
  if (const napi_value value = get(name); !is_nullish(env_, value)) out = u64_of(env_, value, name);
}

void Options::read(const char* name, float& out) const {
  if (const napi_value value = get(name); !is_nullish(env_, value))
    out = static_cast<float>(number_of(env_, value, name));
}

void Options::flag(const char* name, std::uint32_t& flags, std::uint32_t bit, bool when) const {
  if (has(name) && truthy(name) == when) flags |= bit;
}

Record::Record(napi_env env) : env_(env), object_(nullptr) { check(env, napi_create_object(env, &object_)); }

Record& Record::set(const char* name, napi_value value) {
  check(env_, napi_set_named_property(env_, object_, name, value));
  return *this;
}

Record& Record::set(const char* name, const char* value) {
  return set(name, value == nullptr ? undefined(env_) : text(env_, value));
}

Record& Record::set_flag(const char* name, bool value) {
  napi_value out = nullptr;
  check(env_, napi_get_boolean(env_, value, &out));
  return set(name, out);
}

Reference::Reference(napi_env env, napi_value value) : env_(env) {
  napi_value holder = nullptr;
  check(env, napi_create_array_with_length(env, 1, &holder));
  check(env, napi_set_element(env, holder, 0, value));
  check(env, napi_create_reference(env, holder, 1, &reference_));
}

Reference::Reference(Reference&& other) noexcept
    : env_(other.env_), reference_(std::exchange(other.reference_, nullptr)) {}

Reference& Reference::operator=(Reference&& other) noexcept {
  reset();
  env_ = other.env_;
  reference_ = std::exchange(other.reference_, nullptr);
  return *this;
}

napi_value Reference::get() const {
  napi_value holder = nullptr, value = nullptr;
  check(env_, napi_get_reference_value(env_, reference_, &holder));
  check(env_, napi_get_element(env_, holder, 0, &value));
  return value;
}

void Reference::reset() {
  if (reference_ != nullptr) napi_delete_reference(env_, std::exchange(reference_, nullptr));
}

std::size_t more_room(napi_env env, const Failure& failure, qinfer_status status, std::size_t had, std::size_t needed) {
  if (status != QINFER_E_BUFFER_TOO_SMALL || needed <= had)
    throw_error(env, status, failure.message(), failure.detail());
  return std::max(needed, 2 * had);
}

void keep_exception(napi_env env, Reference& out) {
  bool pending = false;
  napi_value raised = nullptr;
  if (napi_is_exception_pending(env, &pending) != napi_ok || !pending) return;
  if (napi_get_and_clear_last_exception(env, &raised) != napi_ok || out) return;
  try {
    out = Reference(env, raised);
  } catch (const Thrown&) {
    // JavaScript is being terminated: there is no caller to be told.
  }
}

napi_value call_function(napi_env env, napi_value self, napi_value function, const std::vector<napi_value>& arguments) {
  if (type_of(env, function) != napi_function) throw_type_error(env, "a callback is not a function");
  napi_value out = nullptr;
  check(env, napi_call_function(env, self, function, arguments.size(), arguments.data(), &out));
  return out;
}

}  // namespace qinfer_node
