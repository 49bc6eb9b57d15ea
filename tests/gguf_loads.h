// GGUF files from memory through the C ABI: loaded and planned, with what failed and how.
#pragma once

#include <string>

#include "c_api.h"
#include "gguf_writer.h"
#include "memory_files.h"

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
  Model load() {
    options_.files = files.callbacks();
    qinfer_model* model = nullptr;
    error = {};
    const qinfer_status status = qinfer_model_load(runtime_.get(), path.c_str(), &options_, &model, &error);
    REQUIRE((status == QINFER_OK) == (model != nullptr));
    check(status);
    if (model == nullptr) REQUIRE(files.all_closed());
    return Model(model);
  }
  Model load(const std::string& bytes) {
    files.files[path] = bytes;
    return load();
  }
  /// Whether it can be planned.
  bool plan() {
    options_.files = files.callbacks();
    auto memory = sized<qinfer_memory>();
    error = {};
    const qinfer_status status = qinfer_model_plan(path.c_str(), nullptr, &options_, nullptr, nullptr, &memory, &error);
    check(status);
    return status == QINFER_OK;
  }

 private:
  void check(qinfer_status status) {
    files.forget();
    REQUIRE(error.code == status);
    INFO(error.message);
    REQUIRE(status != QINFER_E_INTERNAL);
    REQUIRE((status == QINFER_OK || error.message[0] != '\0'));
  }

  Runtime runtime_;
  qinfer_load_options options_ = sized<qinfer_load_options>();
};

/// Neither loads nor plans a file, with the status and a message that contains `text` and names the file.
#define REQUIRE_GGUF_FAILS(status, text, loads, bytes)                                          \
  do {                                                                                          \
    REQUIRE_GGUF_LOAD_FAILS(status, text, loads, bytes);                                        \
    REQUIRE_FALSE((loads).plan());                                                              \
    INFO("planned: " << (loads).error.message);                                                 \
    REQUIRE(std::string(qinfer_status_name((loads).error.code)) == qinfer_status_name(status)); \
    REQUIRE_THAT(std::string((loads).error.message), ::qinfer::test::contains(text));           \
  } while (0)
/// The same of loading alone.
#define REQUIRE_GGUF_LOAD_FAILS(status, text, loads, bytes)                                     \
  do {                                                                                          \
    REQUIRE((loads).load(bytes) == nullptr);                                                    \
    INFO((loads).error.message);                                                                \
    REQUIRE(std::string(qinfer_status_name((loads).error.code)) == qinfer_status_name(status)); \
    REQUIRE_THAT(std::string((loads).error.message), ::qinfer::test::contains(text));           \
    REQUIRE_THAT(std::string((loads).error.message), ::qinfer::test::contains(".gguf"));        \
  } while (0)

}  // namespace qinfer::test
