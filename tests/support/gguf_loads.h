// GGUF files from memory through the C ABI: loaded and planned, with what failed and how.
#pragma once

#include <string>

#include "support/c_api.h"
#include "support/gguf_writer.h"
#include "support/memory_files.h"

namespace qinfer::test {

class GgufLoads {
 public:
  explicit GgufLoads(const char* cpu_target = nullptr) : runtime_(make_runtime(1, cpu_target)) { options_.flags = 0; }

  MemoryFiles files;
  const std::string path = "model.gguf";
  qinfer_error error = {};  ///< of the last call

  void set_flags(std::uint32_t flags) { options_.flags = flags; }
  void set_weight_format(const char* format) { options_.weight_format = format; }

  /// Loads "model.gguf". What is refused must say why, and leave no file open.
  Model load();
  Model load(const std::string& bytes);
  /// Whether it can be planned.
  bool plan();

  /// See the macros below.
  void require_load_fails(const CallSite& site, qinfer_status status, const std::string& text,
                          const std::string& bytes);
  void require_fails(const CallSite& site, qinfer_status status, const std::string& text, const std::string& bytes);

 private:
  void check(qinfer_status status);
  void require_error(const CallSite& site, qinfer_status status, const std::string& text) const;

  Runtime runtime_;
  qinfer_load_options options_ = sized<qinfer_load_options>();
};

/// Neither loads nor plans a file, with the status and a message that contains `text` and names the file.
#define REQUIRE_GGUF_FAILS(status, text, loads, bytes) \
  (loads).require_fails(QINFER_CALL_SITE(bytes), status, text, bytes)
/// The same of loading alone.
#define REQUIRE_GGUF_LOAD_FAILS(status, text, loads, bytes) \
  (loads).require_load_fails(QINFER_CALL_SITE(bytes), status, text, bytes)

}  // namespace qinfer::test
