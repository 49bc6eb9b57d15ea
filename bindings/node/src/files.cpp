// See files.h.
#include "files.h"

#include <cstring>

namespace qinfer_node {
namespace {

Files& self(void* user) { return *static_cast<Files*>(user); }

}  // namespace

Files::Files(napi_env env, Job& job, napi_value open) : env_(env), job_(job), open_(env, open) {
  native_ = sized<qinfer_files>();
  native_.user = this;
  native_.open = [](const char* name, std::int32_t mode, void** out, void* user) {
    return self(user).run([&] { return self(user).open(name, mode, out); });
  };
  native_.size = [](void* file, std::uint64_t* out, void* user) {
    return self(user).run([&] { return self(user).size(file, out); });
  };
  native_.read_at = [](void* file, std::uint64_t offset, void* data, std::size_t n, void* user) {
    return self(user).run([&] { return self(user).read_at(file, offset, data, n); });
  };
  native_.write_at = [](void* file, std::uint64_t offset, const void* data, std::size_t n, void* user) {
    return self(user).run([&] { return self(user).write_at(file, offset, data, n); });
  };
  native_.sync = [](void* file, void* user) {
    return self(user).run([&] { return self(user).status_of(self(user).call_file(file, "sync", {})); });
  };
  native_.truncate = [](void* file, std::uint64_t n, void* user) {
    return self(user).run([&] { return self(user).truncate(file, n); });
  };
  native_.close = [](void* file, void* user) {
    // Also after another callback threw: every file is closed.
    return self(user).run([&] { return self(user).status_of(self(user).call_file(file, "close", {})); }, true);
  };
}

template <class Work>
qinfer_status Files::run(const Work& work, bool always) {
  qinfer_status status = QINFER_E_IO;
  const bool ran = job_.on_js_thread(
      [&] {
        status = work();
        return true;
      },
      always);
  return ran ? status : QINFER_E_IO;
}

napi_value Files::call_file(const void* file, const char* method, const std::vector<napi_value>& arguments) const {
  const napi_value object = files_[reinterpret_cast<std::size_t>(file) - 1].get();
  napi_value function = nullptr;
  check(env_, napi_get_named_property(env_, object, method, &function));
  if (type_of(env_, function) != napi_function)
    throw_type_error(env_, std::string("the file has no function ") + method);
  const napi_value answer = call_function(env_, object, function, arguments);
  refuse_promise(env_, answer, method);
  return answer;
}

bool Files::has_method(const void* file, const char* method) const {
  napi_value function = nullptr;
  const napi_value object = files_[reinterpret_cast<std::size_t>(file) - 1].get();
  check(env_, napi_get_named_property(env_, object, method, &function));
  return !is_nullish(env_, function);
}

qinfer_status Files::status_of(napi_value value) const {
  if (type_of(env_, value) != napi_number) return QINFER_OK;
  const double status = number_of(env_, value, "a status");
  return status < 0 && status >= INT32_MIN ? static_cast<qinfer_status>(status) : QINFER_OK;
}

qinfer_status Files::open(const char* name, std::int32_t mode, void** out) {
  napi_value writing = nullptr;
  check(env_, napi_get_boolean(env_, (mode & QINFER_FILE_WRITE) != 0, &writing));
  const napi_value file = call_function(env_, undefined(env_), open_.get(), {text(env_, name), writing});
  refuse_promise(env_, file, "files");
  if (is_nullish(env_, file)) return QINFER_E_NOT_FOUND;
  if (const qinfer_status status = status_of(file); status != QINFER_OK) return status;
  if (type_of(env_, file) != napi_object) throw_type_error(env_, "open must return a file, null or a status");
  files_.emplace_back(env_, file);
  *out = reinterpret_cast<void*>(files_.size());
  return QINFER_OK;
}

qinfer_status Files::size(const void* file, std::uint64_t* out) const {
  const napi_value size = call_file(file, "size", {});
  if (const qinfer_status status = status_of(size); status != QINFER_OK) return status;
  *out = u64_of(env_, size, "the size of a file");
  return QINFER_OK;
}

qinfer_status Files::read_at(const void* file, std::uint64_t offset, void* data, std::size_t n) const {
  const napi_value found =
      call_file(file, "readAt", {number(env_, static_cast<double>(offset)), number(env_, static_cast<double>(n))});
  if (const qinfer_status status = status_of(found); status != QINFER_OK) return status;
  const View<std::uint8_t> bytes = bytes_of(env_, found, "what readAt gives");
  if (bytes.size != n)
    throw_type_error(env_, "readAt gave " + std::to_string(bytes.size) + " bytes instead of " + std::to_string(n));
  if (n != 0) std::memcpy(data, bytes.data, n);
  return QINFER_OK;
}

qinfer_status Files::write_at(const void* file, std::uint64_t offset, const void* data, std::size_t n) const {
  napi_value buffer = nullptr, bytes = nullptr;
  void* copy = nullptr;
  check(env_, napi_create_arraybuffer(env_, n, &copy, &buffer));
  if (n != 0) std::memcpy(copy, data, n);
  check(env_, napi_create_typedarray(env_, napi_uint8_array, n, buffer, 0, &bytes));
  return status_of(call_file(file, "writeAt", {number(env_, static_cast<double>(offset)), bytes}));
}

qinfer_status Files::truncate(const void* file, std::uint64_t n) const {
  if (!has_method(file, "truncate")) return QINFER_OK;
  return status_of(call_file(file, "truncate", {number(env_, static_cast<double>(n))}));
}

}  // namespace qinfer_node
