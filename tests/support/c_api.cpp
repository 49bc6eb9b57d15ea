// See c_api.h.
#include "support/c_api.h"

namespace qinfer::test {

void require_failure(const CallSite& site, qinfer_status status, std::int64_t detail, const std::string& text,
                     qinfer_status returned, const qinfer_error& err) {
  INFO(site.file << ":" << site.line << ": " << site.call << ": "
                 << (returned == QINFER_OK ? "succeeded" : err.message));
  REQUIRE(std::string(qinfer_status_name(returned)) == qinfer_status_name(status));
  REQUIRE(err.code == returned);
  REQUIRE_THAT(std::string(err.message), contains(text));
  if (detail != kAnyDetail) REQUIRE(err.detail == detail);
}

void require_ok(const CallSite& site, qinfer_status returned, const qinfer_error& err) {
  INFO(site.file << ":" << site.line << ": " << site.call << ": " << err.message);
  REQUIRE(std::string(qinfer_status_name(returned)) == "QINFER_OK");
}

void require_load_fails(const CallSite& site, qinfer_status status, const std::string& text, const std::string& path) {
  INFO(site.file << ":" << site.line << ": " << site.call);
  qinfer_model* refused = reinterpret_cast<qinfer_model*>(1);
  REQUIRE_FAILS(status, text, qinfer_model_load(nullptr, path.c_str(), nullptr, &refused, &err));
  REQUIRE(refused == nullptr);
  auto unplanned = sized<qinfer_memory>();
  REQUIRE_FAILS(status, text, qinfer_model_plan(path.c_str(), nullptr, nullptr, nullptr, nullptr, &unplanned, &err));
}

Runtime make_runtime(std::uint32_t n_threads, const char* cpu_target) {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = n_threads;
  options.cpu_target = cpu_target;
  qinfer_runtime* runtime = nullptr;
  REQUIRE_OK(qinfer_runtime_create(&options, &runtime, &err));
  return Runtime(runtime);
}

Model load_model(const Runtime& runtime, const std::string& path, const qinfer_load_options* options) {
  qinfer_model* model = nullptr;
  REQUIRE_OK(qinfer_model_load(runtime.get(), path.c_str(), options, &model, &err));
  return Model(model);
}

Cache make_cache(const Model& model, const qinfer_kv_cache_options* options) {
  qinfer_kv_cache* cache = nullptr;
  REQUIRE_OK(qinfer_kv_cache_create(model.get(), options, &cache, &err));
  return Cache(cache);
}

Session make_session(const Cache& cache, const qinfer_session_options* options) {
  qinfer_session* session = nullptr;
  REQUIRE_OK(qinfer_session_create(cache.get(), options, &session, &err));
  return Session(session);
}

Cancel make_cancel() {
  qinfer_cancel* cancel = nullptr;
  REQUIRE_OK(qinfer_cancel_create(&cancel, &err));
  return Cancel(cancel);
}

void append(const Session& session, const std::vector<qinfer_token>& tokens) {
  REQUIRE_OK(qinfer_session_append(session.get(), tokens.data(), tokens.size(), &err));
}

void eval(const Session& session) {
  qinfer_session* one = session.get();
  REQUIRE_OK(qinfer_eval(&one, 1, nullptr, &err));
}

std::vector<float> last_logits(const Session& session, std::size_t n_vocab) {
  const float* row = qinfer_session_logits(session.get(), 0);
  REQUIRE(row != nullptr);
  return {row, row + n_vocab};
}

std::vector<float> logits_of(const ModelDir& dir, const qinfer_load_options* options, const char* cpu_target) {
  const Runtime runtime = make_runtime(2, cpu_target);
  const Model model = load_model(runtime, dir.path(), options);
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(20, info.n_vocab));
  eval(session);
  return last_logits(session, info.n_vocab);
}

}  // namespace qinfer::test
