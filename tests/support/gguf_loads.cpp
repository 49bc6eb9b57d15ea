// See gguf_loads.h.
#include "support/gguf_loads.h"

namespace qinfer::test {

Model GgufLoads::load() {
  options_.files = files.callbacks();
  qinfer_model* model = nullptr;
  error = {};
  const qinfer_status status = qinfer_model_load(runtime_.get(), path.c_str(), &options_, &model, &error);
  REQUIRE((status == QINFER_OK) == (model != nullptr));
  check(status);
  if (model == nullptr) REQUIRE(files.all_closed());
  return Model(model);
}

Model GgufLoads::load(const std::string& bytes) {
  files.files[path] = bytes;
  return load();
}

bool GgufLoads::plan() {
  options_.files = files.callbacks();
  auto memory = sized<qinfer_memory>();
  error = {};
  const qinfer_status status = qinfer_model_plan(path.c_str(), nullptr, &options_, nullptr, nullptr, &memory, &error);
  check(status);
  return status == QINFER_OK;
}

void GgufLoads::check(qinfer_status status) {
  files.forget();
  REQUIRE(error.code == status);
  INFO(error.message);
  REQUIRE(status != QINFER_E_INTERNAL);
  REQUIRE((status == QINFER_OK || error.message[0] != '\0'));
}

void GgufLoads::require_error(const CallSite& site, qinfer_status status, const std::string& text) const {
  INFO(site.file << ":" << site.line << ": " << site.call << ": " << error.message);
  REQUIRE(std::string(qinfer_status_name(error.code)) == qinfer_status_name(status));
  REQUIRE_THAT(std::string(error.message), contains(text));
}

void GgufLoads::require_load_fails(const CallSite& site, qinfer_status status, const std::string& text,
                                   const std::string& bytes) {
  INFO(site.file << ":" << site.line);
  REQUIRE(load(bytes) == nullptr);
  require_error(site, status, text);
  REQUIRE_THAT(std::string(error.message), contains(".gguf"));
}

void GgufLoads::require_fails(const CallSite& site, qinfer_status status, const std::string& text,
                              const std::string& bytes) {
  require_load_fails(site, status, text, bytes);
  INFO(site.file << ":" << site.line << ": planned");
  REQUIRE_FALSE(plan());
  require_error(site, status, text);
}

}  // namespace qinfer::test
