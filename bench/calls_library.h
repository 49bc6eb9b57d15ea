// calls_library.h: builds of the library, each loaded as an instance of its own and called through the functions that
// qinfer.h declares. The program is not linked with the library, so that nothing of one build can serve another.
#pragma once

#include <qinfer/qinfer.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace qinfer::bench {

/// A folder of our own below `parent`, with all that it holds until this is destroyed.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What is called. All of it is in the first release of the ABI, so that old builds can be measured too.
// clang-format off
#define QINFER_CALLS(F)                                                              \
  F(build_info) F(cpu_features) F(get_cpu_info) F(status_name) F(runtime_create) F(runtime_free)     \
  F(model_plan) F(model_load) F(model_free) F(model_get_info) F(tokenize)            \
  F(chat_tokenize) F(kv_cache_create) F(kv_cache_free)                               \
  F(session_create) F(session_fork) F(session_truncate) F(session_save)              \
  F(session_load) F(session_free) F(session_append) F(session_sample)                \
  F(session_length) F(eval)
// clang-format on

using Runtime = std::shared_ptr<qinfer_runtime>;
using Model = std::shared_ptr<qinfer_model>;
using Cache = std::shared_ptr<qinfer_kv_cache>;
using Session = std::shared_ptr<qinfer_session>;

/// One build. Stays loaded until the process ends.
class Library {
 public:
  /// Copies the file into `folder` and loads the copy: the dynamic linker would give the same file twice as one.
  Library(const std::string& path, const std::filesystem::path& folder);

  const std::string& path() const { return path_; }

  struct Functions {
#define QINFER_MEMBER(name) decltype(&qinfer_##name) name = nullptr;
    QINFER_CALLS(QINFER_MEMBER)
#undef QINFER_MEMBER
  } call;

  /// Throws what went wrong, with the path of the library.
  void expect(qinfer_status status, const qinfer_error& error) const;

  /// The handle that create(&handle, &error) makes.
  template <typename T, typename Create>
  std::shared_ptr<T> take(const Create& create, void (*release)(T*)) const {
    T* handle = nullptr;
    qinfer_error error{};
    expect(create(&handle, &error), error);
    return std::shared_ptr<T>(handle, release);
  }

 private:
  std::string path_;
};

/// A struct of qinfer.h with all that it does not say at its default.
template <typename T>
T blank() {
  T out{};
  out.struct_size = sizeof(T);
  return out;
}

}  // namespace qinfer::bench
