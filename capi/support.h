// What every function of the C ABI shares: the guard that turns Status and exceptions into a qinfer_status, the rule of
// size-first structs, output arrays, and the objects that the opaque handles point to.
#pragma once

#include <qinfer/qinfer.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/chat_prompt.h"
#include "engine/eval.h"
#include "engine/generate.h"
#include "engine/model.h"
#include "engine/runtime.h"
#include "engine/session.h"
#include "platform/thread.h"
#include "text/detokenizer.h"

struct qinfer_runtime {
  std::shared_ptr<qinfer::engine::Runtime> impl;
};

struct qinfer_model {
  std::shared_ptr<const qinfer::engine::Model> impl;
};

struct qinfer_detok {
  std::shared_ptr<const qinfer::engine::Model> model;
  qinfer::text::Detokenizer impl;
  std::vector<char> text;  ///< what one token can complete at most
};

struct qinfer_kv_cache {
  std::shared_ptr<qinfer::engine::KvCache> impl;
};

struct qinfer_session {
  /// The host, and the generations that use it.
  std::atomic<std::uint32_t> holders{1};
  std::unique_ptr<qinfer::engine::Session> impl;
  /// Set during a call that changes the session.
  std::atomic<bool> busy{false};
};

struct qinfer_reply {
  std::atomic<std::uint32_t> holders{1};  ///< as of a session
  std::shared_ptr<const qinfer::engine::Model> model;
  std::unique_ptr<qinfer::engine::ChatReply> impl;
  qinfer::reply::Part part;  ///< that the host was given last
};

struct qinfer_cancel {
  std::atomic<bool> requested{false};
};

namespace qinfer::capi {

/// Writes a failure into the caller's struct; `err` may be null, or marked by full_error_arg().
void fill_error(qinfer_error* err, Code code, std::int64_t detail, std::string_view message);
/// What qinfer_full_error_arg() gives, which only fill_error() may take apart.
qinfer_error* full_error_arg(qinfer_full_error* error);
qinfer_status finish(qinfer_error* err, const Status& status);

/// The body of every exported function that can fail: nothing but a qinfer_status leaves it.
template <typename Body>
qinfer_status guard(qinfer_error* err, Body&& body) {
  const platform::ScopedNoCancel no_cancel;
  try {
    return finish(err, body());
  } catch (const std::bad_alloc&) {
    fill_error(err, Code::no_memory, 0, "out of memory");
    return QINFER_E_NO_MEMORY;
  } catch (...) {
    fill_error(err, Code::internal, 0, "an unexpected exception; the objects involved can only be freed");
    return QINFER_E_INTERNAL;
  }
}

inline Status null_argument(std::string_view name) { return error(Code::invalid_argument, "{} is NULL", name); }

#define QINFER_REQUIRE(pointer) \
  if ((pointer) == nullptr) return ::qinfer::capi::null_argument(#pointer)

/// Far above any version's structs: a size that was never set must not lead the library through foreign memory.
inline constexpr std::uint32_t kMaxStructSize = 4096;

inline Status check_struct_size(std::uint32_t size, std::string_view name) {
  if (size >= sizeof size && size <= kMaxStructSize) return Status();
  return error(Code::invalid_argument, "{}.struct_size is {}, expected sizeof({})", name, size, name);
}

/// Copies a caller's struct: what it does not have reads as zero, what this library does not know must be zero.
template <typename T>
Status copy_in(const T* caller, T& out, std::string_view name) {
  out = T();
  out.struct_size = sizeof(T);
  if (caller == nullptr) return Status();
  std::uint32_t size = 0;
  std::memcpy(&size, caller, sizeof size);
  QINFER_TRY(check_struct_size(size, name));
  const auto* bytes = reinterpret_cast<const unsigned char*>(caller);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return error(Code::unsupported, "{} has {} bytes and sets an option after the {} that this version knows", name,
                   size, sizeof(T));
  std::memcpy(&out, caller, size < sizeof(T) ? size : sizeof(T));
  out.struct_size = sizeof(T);
  return Status();
}

/// Writes `value` into a caller's struct up to its struct_size, zeros beyond what this library knows.
template <typename T>
Status copy_out(const T& value, T* caller, std::string_view name) {
  std::uint32_t size = 0;
  std::memcpy(&size, caller, sizeof size);
  QINFER_TRY(check_struct_size(size, name));
  T copy = value;
  copy.struct_size = size;
  auto* bytes = reinterpret_cast<unsigned char*>(caller);
  std::memcpy(bytes, &copy, size < sizeof(T) ? size : sizeof(T));
  if (size > sizeof(T)) std::memset(bytes + sizeof(T), 0, size - sizeof(T));
  return Status();
}

/// The rule of output arrays: *out_n is always the number of elements needed; too small a capacity has no other effect.
inline Status check_capacity(std::size_t needed, const void* out, std::size_t capacity, std::size_t* out_n) {
  if (out_n == nullptr) return null_argument("out_n");
  *out_n = needed;
  if (needed > capacity || (out == nullptr && needed != 0))
    return error_at(Code::buffer_too_small, static_cast<std::int64_t>(needed),
                    "{} elements are needed, the buffer has room for {}", needed, out == nullptr ? 0 : capacity);
  return Status();
}

template <typename T>
Status copy_array(std::span<const T> values, T* out, std::size_t capacity, std::size_t* out_n) {
  QINFER_TRY(check_capacity(values.size(), out, capacity, out_n));
  if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
  return Status();
}

/// (text, len), len SIZE_MAX meaning NUL-terminated.
Result<std::string_view> text_argument(const char* text, std::size_t len, std::string_view name);

inline Status unknown_flags(std::uint32_t flags, std::uint32_t known, std::string_view name) {
  if ((flags & ~known) == 0) return Status();
  return error(Code::unsupported, "{} has unknown bits: {:#x}", name, flags & ~known);
}

/// Gives up one hold on a session or a reply; null is nothing.
template <typename T>
void release(T* handle) {
  if (handle != nullptr && handle->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete handle;
}

/// Exclusive use of a session while a call changes it: a second call at the same time, from another thread or from a
/// callback of the first, is refused instead of ruining both.
class Exclusive {
 public:
  explicit Exclusive(qinfer_session* session)
      : session_(session != nullptr && !session->busy.exchange(true) ? session : nullptr) {}
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;
  ~Exclusive() {
    if (session_ != nullptr) session_->busy.store(false);
  }
  bool granted() const { return session_ != nullptr; }
  static Status refused() {
    return Status::fixed(Code::state,
                         "the session is in use by a call that has not returned: by another thread, or this "
                         "call was made inside a callback");
  }

 private:
  qinfer_session* session_;
};

/// The session of a handle, usable in this process.
Result<engine::Session*> usable(const qinfer_session* session);
/// The same for a call that changes the session, whose exclusive use it needs.
Result<engine::Session*> usable(const qinfer_session* session, const Exclusive& exclusive);

inline const std::atomic<bool>* flag_of(const qinfer_cancel* cancel) {
  return cancel == nullptr ? nullptr : &cancel->requested;
}

inline qinfer_metrics to_c(const engine::Metrics& m) {
  qinfer_metrics out = {sizeof out,   0,           m.prefill_tokens, m.decode_tokens, m.evals, m.cached_tokens,
                        m.prefill_ns, m.decode_ns, m.sample_ns,      m.wait_ns,       {},      {}};
  std::copy(m.drafted.begin(), m.drafted.end(), out.drafted);
  std::copy(m.accepted.begin(), m.accepted.end(), out.accepted);
  return out;
}

Result<engine::RuntimeOptions> runtime_options(const qinfer_runtime_options* options);
Result<engine::KvCacheOptions> kv_cache_options(const qinfer_kv_cache_options* options);
Result<engine::SessionOptions> session_options(const qinfer_session_options* options);
/// QINFER_POOL_*; absent is the model's.
Result<std::optional<engine::Session::Pooling>> pooling_of(std::int32_t pooling);
std::int32_t pooling_number(engine::Session::Pooling pooling);
Result<engine::ChatOptions> chat_options(const qinfer_chat_options* options);

}  // namespace qinfer::capi
