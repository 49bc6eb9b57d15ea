// Files of JavaScript: models and snapshots that come from an archive, an encrypted store or memory instead of paths.
#pragma once

#include <vector>

#include "job.h"

namespace qinfer_node {

/// The callbacks for one call of a job. `open(name, writing)` gives an object with size(), readAt(offset, n),
/// writeAt(offset, bytes), sync(), truncate(n)? and close(), or null where there is no such file; a negative number
/// from any of them is a status.
class Files {
 public:
  Files(napi_env env, Job& job, napi_value open);
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  const qinfer_files* native() const { return &native_; }

 private:
  napi_value call_file(const void* file, const char* method, const std::vector<napi_value>& arguments) const;
  bool has_method(const void* file, const char* method) const;
  qinfer_status status_of(napi_value value) const;
  qinfer_status open(const char* name, std::int32_t mode, void** out);
  qinfer_status size(const void* file, std::uint64_t* out) const;
  qinfer_status read_at(const void* file, std::uint64_t offset, void* data, std::size_t n) const;
  qinfer_status write_at(const void* file, std::uint64_t offset, const void* data, std::size_t n) const;
  qinfer_status truncate(const void* file, std::uint64_t n) const;
  template <class Work>
  qinfer_status run(const Work& work, bool always = false);

  const napi_env env_;
  Job& job_;
  Reference open_;
  std::vector<Reference> files_;  ///< all that were opened; the library knows them by their place, from 1
  qinfer_files native_ = {};
};

}  // namespace qinfer_node
