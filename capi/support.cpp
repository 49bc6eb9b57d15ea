// See support.h.
#include "support.h"

#include <algorithm>

#include "text/utf8.h"

namespace qinfer::capi {

static_assert(static_cast<int>(Code::ok) == QINFER_OK && static_cast<int>(Code::internal) == QINFER_E_INTERNAL &&
              static_cast<int>(Code::invalid_argument) == QINFER_E_INVALID_ARGUMENT &&
              static_cast<int>(Code::state) == QINFER_E_STATE &&
              static_cast<int>(Code::unsupported) == QINFER_E_UNSUPPORTED &&
              static_cast<int>(Code::no_memory) == QINFER_E_NO_MEMORY && static_cast<int>(Code::io) == QINFER_E_IO &&
              static_cast<int>(Code::not_found) == QINFER_E_NOT_FOUND &&
              static_cast<int>(Code::format) == QINFER_E_FORMAT &&
              static_cast<int>(Code::buffer_too_small) == QINFER_E_BUFFER_TOO_SMALL &&
              static_cast<int>(Code::kv_full) == QINFER_E_KV_FULL &&
              static_cast<int>(Code::context_full) == QINFER_E_CONTEXT_FULL &&
              static_cast<int>(Code::cancelled) == QINFER_E_CANCELLED &&
              static_cast<int>(Code::numeric) == QINFER_E_NUMERIC);

namespace {

/// Bytes of the printable character that `text` begins with; 0 if it begins with a control character or not with UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text[0]);
  const unsigned n = text::utf8_length(lead);
  if (lead < 0x20 || lead == 0x7F || n > text.size()) return 0;
  for (unsigned i = 1; i < n; ++i)
    if (!text::utf8_continues(lead, i, static_cast<std::uint8_t>(text[i]))) return 0;
  return n;
}

/// Appends as many characters of `text` as leave the line no longer than `most`; its new length. Messages quote paths
/// and files, which may hold any bytes; what the host gets is one line of UTF-8.
std::size_t append_line(std::string_view text, std::size_t most, char* line, std::size_t size) {
  while (!text.empty()) {
    const std::size_t n = character_bytes(text), taken = std::max<std::size_t>(n, 1);
    if (size + taken > most) break;
    if (n == 0) {
      line[size++] = '?';
    } else {
      std::memcpy(line + size, text.data(), n);
      size += n;
    }
    text.remove_prefix(taken);
  }
  return size;
}

/// qinfer_full_error_arg() marks an address in its lowest bit, which no qinfer_error's own address has set: nothing
/// else tells the two apart, since a host need not initialise a qinfer_error.
constexpr std::uintptr_t kFullMark = 1;
static_assert(alignof(qinfer_error) > kFullMark && alignof(qinfer_full_error) > kFullMark);

/// Writes a message and its NUL into `line`, which has room for `room` characters and the NUL. One that is too long
/// loses its middle: it begins with the file at fault, often a long path, and ends with the reason.
void write_line(std::string_view message, char* line, std::size_t room, std::size_t beginning) {
  std::size_t size = append_line(message, message.size() <= room ? room : beginning, line, 0);
  if (message.size() > room) {
    size = append_line("...", room, line, size);
    std::size_t end = message.size() - (room - size);
    while (end < message.size() && text::utf8_is_continuation(static_cast<std::uint8_t>(message[end]))) ++end;
    size = append_line(message.substr(end), room, line, size);
  }
  line[size] = '\0';
}

/// The message into the caller's room, and the frozen struct, which is returned.
qinfer_error* fill_full(qinfer_full_error& full, std::string_view message) {
  full.text_len = message.size();
  if (full.text != nullptr && full.capacity != 0) write_line(message, full.text, full.capacity - 1, full.capacity / 2);
  return &full.error;
}

}  // namespace

qinfer_error* full_error_arg(qinfer_full_error* error) {
  if (error == nullptr || error->struct_size < sizeof(qinfer_full_error)) return nullptr;
  return reinterpret_cast<qinfer_error*>(reinterpret_cast<char*>(error) + kFullMark);
}

void fill_error(qinfer_error* err, Code code, std::int64_t detail, std::string_view message) {
  if (err == nullptr) return;
  if ((reinterpret_cast<std::uintptr_t>(err) & kFullMark) != 0)
    err = fill_full(*reinterpret_cast<qinfer_full_error*>(reinterpret_cast<char*>(err) - kFullMark), message);
  *err = qinfer_error();
  err->code = static_cast<qinfer_status>(code);
  err->detail = detail;
  constexpr std::size_t kBeginning = 80;
  write_line(message, err->message, sizeof err->message - 1, kBeginning);
}

qinfer_status finish(qinfer_error* err, const Status& status) {
  if (status.ok()) return QINFER_OK;
  fill_error(err, status.code(), status.detail(), status.message());
  return static_cast<qinfer_status>(status.code());
}

Result<std::string_view> text_argument(const char* text, std::size_t len, std::string_view name) {
  if (text == nullptr) {
    if (len == 0) return std::string_view();
    return null_argument(name);
  }
  return len == SIZE_MAX ? std::string_view(text) : std::string_view(text, len);
}

Result<engine::Session*> usable(const qinfer_session* session) {
  if (session == nullptr) return null_argument("session");
  QINFER_TRY(session->impl->model().runtime().check_process());
  return session->impl.get();
}

Result<engine::Session*> usable(const qinfer_session* session, const Exclusive& exclusive) {
  QINFER_ASSIGN(engine::Session * impl, usable(session));
  if (!exclusive.granted()) return Exclusive::refused();
  return impl;
}

Result<std::optional<engine::Session::Pooling>> pooling_of(std::int32_t pooling) {
  using Pooling = engine::Session::Pooling;
  switch (pooling) {
    case QINFER_POOL_DEFAULT: return std::optional<Pooling>();
    case QINFER_POOL_LAST: return std::optional(Pooling::last);
    case QINFER_POOL_MEAN: return std::optional(Pooling::mean);
    case QINFER_POOL_FIRST: return std::optional(Pooling::first);
    default: return error(Code::unsupported, "pooling is {}, known are QINFER_POOL_LAST, _MEAN and _FIRST", pooling);
  }
}

std::int32_t pooling_number(engine::Session::Pooling pooling) {
  using Pooling = engine::Session::Pooling;
  if (pooling == Pooling::mean) return QINFER_POOL_MEAN;
  return pooling == Pooling::first ? QINFER_POOL_FIRST : QINFER_POOL_LAST;
}

Result<engine::RuntimeOptions> runtime_options(const qinfer_runtime_options* caller) {
  qinfer_runtime_options options;
  QINFER_TRY(copy_in(caller, options, "qinfer_runtime_options"));
  QINFER_TRY(unknown_flags(options.flags, QINFER_RUNTIME_EXACT | QINFER_RUNTIME_NORMAL_PAGES | QINFER_RUNTIME_NO_TILES,
                           "qinfer_runtime_options.flags"));
  if (options.log_level < 0 || options.log_level > QINFER_LOG_DEBUG)
    return error(Code::invalid_argument, "log_level is {}, expected 0 to {}", options.log_level,
                 static_cast<int>(QINFER_LOG_DEBUG));
  if (options.cpu_ids == nullptr && options.n_cpu_ids != 0) return null_argument("cpu_ids");
  engine::RuntimeOptions out;
  out.n_threads = options.n_threads;
  out.spin_us = options.spin_us;
  if (options.log_level != 0) out.log_level = static_cast<engine::LogLevel>(options.log_level);
  out.log = options.log;
  out.log_user = options.log_user;
  if (options.n_cpu_ids > engine::Runtime::kMaxThreads)
    return error(Code::invalid_argument, "n_cpu_ids is {}, at most {} are accepted", options.n_cpu_ids,
                 engine::Runtime::kMaxThreads);
  if (options.cpu_ids != nullptr) out.cpu_ids.assign(options.cpu_ids, options.cpu_ids + options.n_cpu_ids);
  out.exact = (options.flags & QINFER_RUNTIME_EXACT) != 0;
  out.no_tiles = (options.flags & QINFER_RUNTIME_NO_TILES) != 0;
  if (options.cpu_target != nullptr) out.cpu_target = options.cpu_target;
  if (options.executor != nullptr) {
    qinfer_executor executor;
    QINFER_TRY(copy_in(options.executor, executor, "qinfer_executor"));
    if (executor.run == nullptr) return null_argument("executor.run");
    if (executor.n_tasks == 0 || executor.n_tasks > engine::Runtime::kMaxThreads)
      return error(Code::invalid_argument, "executor.n_tasks is {}, expected 1 to {}", executor.n_tasks,
                   engine::Runtime::kMaxThreads);
    if (options.n_threads != 0 || options.spin_us != 0 || options.cpu_ids != nullptr)
      return error(Code::invalid_argument,
                   "n_threads, spin_us and cpu_ids are of threads of the runtime: with an "
                   "executor leave them 0");
    out.n_threads = executor.n_tasks;
    out.executor = {executor.run, executor.user};
  }
  if (options.allocator != nullptr) {
    qinfer_allocator allocator;
    QINFER_TRY(copy_in(options.allocator, allocator, "qinfer_allocator"));
    if (allocator.alloc == nullptr || allocator.release == nullptr)
      return error(Code::invalid_argument, "qinfer_allocator needs both alloc and release");
    out.allocator = {allocator.alloc, allocator.release, allocator.user};
  }
  out.allocator.normal_pages = (options.flags & QINFER_RUNTIME_NORMAL_PAGES) != 0;
  return out;
}

Result<engine::KvCacheOptions> kv_cache_options(const qinfer_kv_cache_options* caller) {
  qinfer_kv_cache_options options;
  QINFER_TRY(copy_in(caller, options, "qinfer_kv_cache_options"));
  QINFER_TRY(unknown_flags(options.flags, QINFER_CACHE_PREFIX | QINFER_CACHE_COMMIT | QINFER_CACHE_CONTIGUOUS,
                           "qinfer_kv_cache_options.flags"));
  engine::KvCacheOptions out;
  out.prefix = (options.flags & QINFER_CACHE_PREFIX) != 0;
  out.commit = (options.flags & QINFER_CACHE_COMMIT) != 0;
  if ((options.flags & QINFER_CACHE_CONTIGUOUS) != 0) out.storage = kv::Storage::contiguous;
  switch (options.kv_type) {
    case QINFER_KV_DEFAULT: break;
    case QINFER_KV_F32: out.type = DType::f32; break;
    case QINFER_KV_F16: out.type = DType::f16; break;
    case QINFER_KV_BF16: out.type = DType::bf16; break;
    default:
      return error(Code::unsupported, "kv_type is {}, known are QINFER_KV_F32, QINFER_KV_F16 and QINFER_KV_BF16",
                   options.kv_type);
  }
  out.block_tokens = options.block_tokens;
  out.budget_bytes = options.budget_bytes;
  out.budget_blocks = options.budget_blocks;
  return out;
}

Result<engine::SessionOptions> session_options(const qinfer_session_options* caller) {
  qinfer_session_options options;
  QINFER_TRY(copy_in(caller, options, "qinfer_session_options"));
  QINFER_TRY(unknown_flags(options.flags, QINFER_SESSION_EMBEDDINGS, "qinfer_session_options.flags"));
  return engine::SessionOptions{options.max_tokens, options.max_logits,
                                (options.flags & QINFER_SESSION_EMBEDDINGS) != 0, options.max_draft,
                                options.prefix_space};
}

}  // namespace qinfer::capi
