// Arguments of the C ABI that no caller should pass: NULL for every pointer, struct sizes of other versions, unknown
// flags, values out of range. Each gives the status that qinfer.h promises and a message
// that names the argument; nothing else changes.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "support/c_api.h"

using namespace qinfer::test;

namespace {

struct Stack {
  ModelDir dir{TinySpec()};
  Runtime runtime = make_runtime(1);
  Model model = load_model(runtime, dir.path());
  Cache cache = make_cache(model);
  Session session = make_session(cache);
};

/// Calls with the struct in exactly as many bytes of heap as it says, so that a sanitizer sees every byte too many.
template <typename T, typename Call>
void check_option_sizes(const std::string& name, Call call) {
  INFO(name);
  const auto with = [&](std::uint32_t size, std::uint32_t room, unsigned char last, qinfer_error& err) {
    const std::unique_ptr<unsigned char[]> bytes(new unsigned char[room]());
    std::memcpy(bytes.get(), &size, sizeof size);
    if (last != 0) bytes[room - 1] = last;
    return call(reinterpret_cast<const T*>(bytes.get()), &err);
  };
  const auto known = static_cast<std::uint32_t>(sizeof(T));
  for (std::uint32_t size = 4; size <= known + 40; ++size) REQUIRE_OK(with(size, size, 0, err));
  for (std::uint32_t size = 0; size < 4; ++size)
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, name + ".struct_size is " + std::to_string(size), with(size, 4, 0, err));
  for (const std::uint32_t size : {4097u, 0xccccccccu, UINT32_MAX})  // never set: not followed through memory
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, name + ".struct_size is " + std::to_string(size), with(size, 4, 0, err));
  for (const std::uint32_t more : {1u, 8u, 40u})
    REQUIRE_FAILS(QINFER_E_UNSUPPORTED, name, with(known + more, known + more, 1, err));
}

template <typename T, typename Call>
void check_output_sizes(const std::string& name, Call call) {
  INFO(name);
  const auto with = [&](std::uint32_t size, std::uint32_t room, qinfer_error& err) {
    const std::unique_ptr<unsigned char[]> bytes(new unsigned char[room]);
    std::memset(bytes.get(), 0x5a, room);
    std::memcpy(bytes.get(), &size, sizeof size);
    const qinfer_status status = call(reinterpret_cast<T*>(bytes.get()), &err);
    if (status == QINFER_OK) {
      std::uint32_t seen = 0;
      std::memcpy(&seen, bytes.get(), sizeof seen);
      REQUIRE(seen == size);
      for (std::size_t i = sizeof(T); i < size; ++i) REQUIRE(bytes[i] == 0);
    }
    return status;
  };
  for (std::uint32_t size = 4; size <= sizeof(T) + 40; ++size) REQUIRE_OK(with(size, size, err));
  for (std::uint32_t size = 0; size < 4; ++size)
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, name + ".struct_size is " + std::to_string(size), with(size, 4, err));
  for (const std::uint32_t size : {4097u, UINT32_MAX})
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, name + ".struct_size is " + std::to_string(size), with(size, 4, err));
}

#define REQUIRE_NULL(argument, call) REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, argument " is NULL", call)

}  // namespace

TEST_CASE("NULL arguments: library, runtime and model", "[bad]") {
  const Stack s;
  qinfer_runtime* runtime = nullptr;
  qinfer_model* model = nullptr;
  auto memory = sized<qinfer_memory>();
  auto metrics = sized<qinfer_metrics>();
  auto info = sized<qinfer_model_info>();
  REQUIRE_NULL("out", qinfer_get_cpu_info(nullptr, &err));
  REQUIRE_NULL("out", qinfer_cancel_create(nullptr, &err));
  qinfer_cancel_request(nullptr);
  qinfer_cancel_reset(nullptr);
  qinfer_cancel_free(nullptr);
  REQUIRE_NULL("out", qinfer_runtime_create(nullptr, nullptr, &err));
  REQUIRE_OK(qinfer_runtime_create(nullptr, &runtime, &err));
  qinfer_runtime_free(runtime);
  qinfer_runtime_free(nullptr);
  REQUIRE_NULL("runtime", qinfer_runtime_get_metrics(nullptr, &metrics, &err));
  REQUIRE_NULL("out", qinfer_runtime_get_metrics(s.runtime.get(), nullptr, &err));
  REQUIRE_NULL("path", qinfer_model_plan(nullptr, nullptr, nullptr, nullptr, nullptr, &memory, &err));
  REQUIRE_NULL("out", qinfer_model_plan(s.dir.path().c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, &err));
  REQUIRE_NULL("out", qinfer_model_load(s.runtime.get(), s.dir.path().c_str(), nullptr, nullptr, &err));
  REQUIRE_NULL("path", qinfer_model_load(s.runtime.get(), nullptr, nullptr, &model, &err));
  qinfer_model_free(nullptr);
  REQUIRE_NULL("model", qinfer_model_get_info(nullptr, &info, &err));
  REQUIRE_NULL("out", qinfer_model_get_info(s.model.get(), nullptr, &err));
  REQUIRE_NULL("model", qinfer_model_get_memory(nullptr, &memory, &err));
  REQUIRE_NULL("out", qinfer_model_get_memory(s.model.get(), nullptr, &err));
  REQUIRE(qinfer_model_meta_count(nullptr) == 0);
  REQUIRE(qinfer_model_meta_key(nullptr, 0) == nullptr);
  REQUIRE(qinfer_model_meta_key(s.model.get(), SIZE_MAX) == nullptr);
  REQUIRE(qinfer_model_meta_key(s.model.get(), qinfer_model_meta_count(s.model.get())) == nullptr);
  REQUIRE(qinfer_model_meta_value(nullptr, "config.hidden_size") == nullptr);
  REQUIRE(qinfer_model_meta_value(s.model.get(), nullptr) == nullptr);
  REQUIRE(qinfer_model_meta_value(s.model.get(), "absent") == nullptr);
  REQUIRE(qinfer_model_load(s.runtime.get(), nullptr, nullptr, &model, nullptr) == QINFER_E_INVALID_ARGUMENT);
  REQUIRE(std::string(qinfer_status_name(-1000)) == "unknown status");
}

TEST_CASE("NULL arguments: tokenizer", "[bad]") {
  const Stack s;
  std::size_t n = 7;
  qinfer_token tokens[8];
  char text[64];
  REQUIRE_NULL("model", qinfer_tokenize(nullptr, "a", 1, 0, tokens, 8, &n, &err));
  REQUIRE_NULL("text", qinfer_tokenize(s.model.get(), nullptr, 1, 0, tokens, 8, &n, &err));
  REQUIRE_NULL("text", qinfer_tokenize(s.model.get(), nullptr, SIZE_MAX, 0, tokens, 8, &n, &err));
  REQUIRE_NULL("out_n", qinfer_tokenize(s.model.get(), "a", 1, 0, tokens, 8, nullptr, &err));
  REQUIRE_OK(qinfer_tokenize(s.model.get(), nullptr, 0, 0, nullptr, 0, &n, &err));
  REQUIRE(n == 0);
  REQUIRE(qinfer_token_text(nullptr, 0, &n) == nullptr);
  REQUIRE(qinfer_token_text(s.model.get(), 0, nullptr) == nullptr);
  REQUIRE(qinfer_token_flags(nullptr, 0) == 0);
  // "negative token byte <0x-1>" (llama.cpp #25969, #27226): an id that is no index.
  for (const qinfer_token token : {-1, 300, 264, INT32_MIN, INT32_MAX}) {
    REQUIRE(qinfer_token_text(s.model.get(), token, &n) == nullptr);
    REQUIRE(n == 0);
    REQUIRE(qinfer_token_flags(s.model.get(), token) == 0);
  }
  qinfer_detok* created = nullptr;
  REQUIRE_NULL("model", qinfer_detok_create(nullptr, &created, &err));
  REQUIRE_NULL("out", qinfer_detok_create(s.model.get(), nullptr, &err));
  REQUIRE_OK(qinfer_detok_create(s.model.get(), &created, &err));
  const Detok detok(created);
  REQUIRE_NULL("detok", qinfer_detok_push(nullptr, 0, text, 64, &n, &err));
  REQUIRE_NULL("out_n", qinfer_detok_push(detok.get(), 0, text, 64, nullptr, &err));
  REQUIRE_NULL("detok", qinfer_detok_finish(nullptr, text, 64, &n, &err));
  REQUIRE_NULL("out_n", qinfer_detok_finish(detok.get(), text, 64, nullptr, &err));
  for (const qinfer_token token : {-1, 300, INT32_MIN, INT32_MAX})
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "token " + std::to_string(token),
                  qinfer_detok_push(detok.get(), token, text, 64, &n, &err));
  qinfer_detok_free(nullptr);
}

TEST_CASE("NULL arguments: cache, session, evaluation, generation", "[bad]") {
  const Stack s;
  qinfer_session* session = s.session.get();
  qinfer_kv_cache* cache = nullptr;
  qinfer_session* created = nullptr;
  qinfer_token token = 0;
  std::size_t n = 0;
  float value = 0;
  auto stats = sized<qinfer_kv_cache_stats>();
  auto metrics = sized<qinfer_metrics>();
  auto memory = sized<qinfer_session_memory>();
  REQUIRE_NULL("model", qinfer_kv_cache_create(nullptr, nullptr, &cache, &err));
  REQUIRE_NULL("out", qinfer_kv_cache_create(s.model.get(), nullptr, nullptr, &err));
  qinfer_kv_cache_free(nullptr);
  REQUIRE_NULL("cache", qinfer_kv_cache_get_stats(nullptr, &stats, &err));
  REQUIRE_NULL("out", qinfer_kv_cache_get_stats(s.cache.get(), nullptr, &err));
  std::size_t n_found = 1;
  REQUIRE_NULL("cache", qinfer_kv_cache_find(nullptr, nullptr, 0, 0, &n_found, &err));
  CHECK(n_found == 0);
  REQUIRE_NULL("tokens", qinfer_kv_cache_find(s.cache.get(), nullptr, 1, 0, &n_found, &err));
  REQUIRE_NULL("out_n", qinfer_kv_cache_find(s.cache.get(), nullptr, 0, 0, nullptr, &err));
  REQUIRE_NULL("cache", qinfer_session_create(nullptr, nullptr, &created, &err));
  REQUIRE_NULL("out", qinfer_session_create(s.cache.get(), nullptr, nullptr, &err));
  qinfer_session_free(nullptr);
  REQUIRE_NULL("session", qinfer_session_fork(nullptr, &created, &err));
  REQUIRE_NULL("out", qinfer_session_fork(session, nullptr, &err));
  REQUIRE_NULL("session", qinfer_session_save(nullptr, "x", &err));
  REQUIRE_NULL("path", qinfer_session_save(session, nullptr, &err));
  REQUIRE_NULL("cache", qinfer_session_load(nullptr, "x", &created, &err));
  REQUIRE_NULL("path", qinfer_session_load(s.cache.get(), nullptr, &created, &err));
  REQUIRE_NULL("out", qinfer_session_load(s.cache.get(), "x", nullptr, &err));
  REQUIRE_NULL("session", qinfer_session_truncate(nullptr, 0, &err));
  REQUIRE_NULL("session", qinfer_session_append(nullptr, &token, 1, &err));
  REQUIRE_NULL("tokens", qinfer_session_append(session, nullptr, 1, &err));
  REQUIRE_OK(qinfer_session_append(session, nullptr, 0, &err));
  REQUIRE_NULL("session", qinfer_session_get_tokens(nullptr, &token, 1, &n, &err));
  REQUIRE_NULL("out_n", qinfer_session_get_tokens(session, &token, 1, nullptr, &err));
  REQUIRE(qinfer_session_length(nullptr) == 0);
  REQUIRE(qinfer_session_pending(nullptr) == 0);
  REQUIRE_NULL("session", qinfer_session_set_sampler(nullptr, nullptr, &err));
  REQUIRE_OK(qinfer_session_set_sampler(session, nullptr, &err));
  REQUIRE_NULL("sessions", qinfer_eval(nullptr, 1, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_sessions", qinfer_eval(nullptr, 0, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_sessions", qinfer_eval(&session, 0, nullptr, &err));
  qinfer_session* two[] = {session, nullptr};
  REQUIRE_NULL("sessions[1]: session", qinfer_eval(two, 2, nullptr, &err));
  REQUIRE_NULL("session", qinfer_session_set_bias(nullptr, &token, &value, 1, &err));
  REQUIRE_NULL("tokens", qinfer_session_set_bias(session, nullptr, &value, 1, &err));
  REQUIRE_NULL("values", qinfer_session_set_bias(session, &token, nullptr, 1, &err));
  REQUIRE_OK(qinfer_session_set_bias(session, nullptr, nullptr, 0, &err));
  REQUIRE_NULL("session", qinfer_session_sample(nullptr, &token, &err));
  REQUIRE_NULL("out", qinfer_session_sample(session, nullptr, &err));
  REQUIRE(qinfer_session_logits(nullptr, 0) == nullptr);
  REQUIRE_NULL("session", qinfer_session_copy_logits(nullptr, 0, &value, 1, &n, &err));
  REQUIRE_NULL("out_n", qinfer_session_copy_logits(session, 0, &value, 1, nullptr, &err));
  REQUIRE_NULL("session", qinfer_generate(nullptr, nullptr, nullptr, &err));
  auto generate = sized<qinfer_generate_options>();
  generate.n_stop = 1;
  REQUIRE_NULL("stop", qinfer_generate(session, &generate, nullptr, &err));
  const char* stops[] = {nullptr};
  generate.stop = stops;
  REQUIRE_NULL("a stop text", qinfer_generate(session, &generate, nullptr, &err));
  REQUIRE_NULL("session", qinfer_session_get_memory(nullptr, &memory, &err));
  REQUIRE_NULL("out", qinfer_session_get_memory(session, nullptr, &err));
  REQUIRE_NULL("session", qinfer_session_get_metrics(nullptr, &metrics, &err));
  REQUIRE_NULL("out", qinfer_session_get_metrics(session, nullptr, &err));
}

TEST_CASE("struct_size of option structs: shorter, longer with a zero tail, longer with more", "[bad]") {
  const Stack s;
  const char* path = s.dir.path().c_str();
  auto memory = sized<qinfer_memory>();
  check_option_sizes<qinfer_runtime_options>("qinfer_runtime_options", [&](const auto* options, qinfer_error* err) {
    return qinfer_model_plan(path, options, nullptr, nullptr, nullptr, &memory, err);
  });
  check_option_sizes<qinfer_load_options>("qinfer_load_options", [&](const auto* options, qinfer_error* err) {
    return qinfer_model_plan(path, nullptr, options, nullptr, nullptr, &memory, err);
  });
  check_option_sizes<qinfer_kv_cache_options>("qinfer_kv_cache_options", [&](const auto* options, qinfer_error* err) {
    return qinfer_model_plan(path, nullptr, nullptr, options, nullptr, &memory, err);
  });
  check_option_sizes<qinfer_session_options>("qinfer_session_options", [&](const auto* options, qinfer_error* err) {
    return qinfer_model_plan(path, nullptr, nullptr, nullptr, options, &memory, err);
  });
  check_option_sizes<qinfer_sampler_options>("qinfer_sampler_options", [&](const auto* options, qinfer_error* err) {
    return qinfer_session_set_sampler(s.session.get(), options, err);
  });
  qinfer_session* one = s.session.get();
  check_option_sizes<qinfer_eval_options>("qinfer_eval_options", [&](const auto* options, qinfer_error* error) {
    REQUIRE_OK(qinfer_session_truncate(one, 0, &err));
    append(s.session, {1});
    return qinfer_eval(&one, 1, options, error);
  });
  check_option_sizes<qinfer_generate_options>("qinfer_generate_options", [&](const auto* options, qinfer_error* error) {
    REQUIRE_OK(qinfer_session_truncate(one, 0, &err));
    append(s.session, some_tokens(127));
    return qinfer_generate(one, options, nullptr, error);
  });
}

TEST_CASE("struct_size of output structs: filled up to it, zeros beyond what the library knows", "[bad]") {
  const Stack s;
  check_output_sizes<qinfer_cpu_info>("qinfer_cpu_info",
                                      [](auto* out, qinfer_error* err) { return qinfer_get_cpu_info(out, err); });
  check_output_sizes<qinfer_kernel_set_info>(
      "qinfer_kernel_set_info", [](auto* out, qinfer_error* err) { return qinfer_kernel_set_get_info(0, out, err); });
  check_output_sizes<qinfer_model_details>("qinfer_model_details", [&](auto* out, qinfer_error* err) {
    char texts[512];
    std::size_t n = 0;
    return qinfer_model_inspect(s.dir.path().c_str(), nullptr, out, texts, sizeof texts, &n, err);
  });
  check_output_sizes<qinfer_model_info>("qinfer_model_info", [&](auto* out, qinfer_error* err) {
    return qinfer_model_get_info(s.model.get(), out, err);
  });
  check_output_sizes<qinfer_memory>(
      "qinfer_memory", [&](auto* out, qinfer_error* err) { return qinfer_model_get_memory(s.model.get(), out, err); });
  check_output_sizes<qinfer_kv_cache_stats>("qinfer_kv_cache_stats", [&](auto* out, qinfer_error* err) {
    return qinfer_kv_cache_get_stats(s.cache.get(), out, err);
  });
  check_output_sizes<qinfer_metrics>("qinfer_metrics", [&](auto* out, qinfer_error* err) {
    return qinfer_session_get_metrics(s.session.get(), out, err);
  });
  check_output_sizes<qinfer_session_info>("qinfer_session_info", [&](auto* out, qinfer_error* err) {
    return qinfer_session_get_info(s.session.get(), out, err);
  });
  check_output_sizes<qinfer_session_memory>("qinfer_session_memory", [&](auto* out, qinfer_error* err) {
    return qinfer_session_get_memory(s.session.get(), out, err);
  });
  append(s.session, some_tokens(128));
  check_output_sizes<qinfer_generate_result>("qinfer_generate_result", [&](auto* out, qinfer_error* err) {
    return qinfer_generate(s.session.get(), nullptr, out, err);
  });
}

TEST_CASE("Runtime, load, cache and session options out of range", "[bad]") {
  const Stack s;
  auto memory = sized<qinfer_memory>();
  auto runtime = sized<qinfer_runtime_options>();
  auto load = sized<qinfer_load_options>();
  auto cache = sized<qinfer_kv_cache_options>();
  auto session = sized<qinfer_session_options>();
  /// Plan and the call that does it for real agree.
  const auto refuse = [&](qinfer_status status, const std::string& message) {
    REQUIRE_FAILS(status, message,
                  qinfer_model_plan(s.dir.path().c_str(), &runtime, &load, &cache, &session, &memory, &err));
    REQUIRE_FAILS(status, message, [&]() -> qinfer_status {
      qinfer_runtime* r = nullptr;
      qinfer_model* m = nullptr;
      qinfer_kv_cache* c = nullptr;
      qinfer_session* n = nullptr;
      qinfer_status result = qinfer_runtime_create(&runtime, &r, &err);
      if (result == QINFER_OK) result = qinfer_model_load(r, s.dir.path().c_str(), &load, &m, &err);
      if (result == QINFER_OK) result = qinfer_kv_cache_create(m, &cache, &c, &err);
      if (result == QINFER_OK) result = qinfer_session_create(c, &session, &n, &err);
      REQUIRE(n == nullptr);
      qinfer_kv_cache_free(c);
      qinfer_model_free(m);
      qinfer_runtime_free(r);
      return result;
    }());
    runtime = sized<qinfer_runtime_options>();
    runtime.n_threads = 1;
    load = sized<qinfer_load_options>();
    cache = sized<qinfer_kv_cache_options>();
    session = sized<qinfer_session_options>();
  };
  const std::uint32_t cpus[3] = {};
  qinfer_allocator allocator = sized<qinfer_allocator>();
  runtime.n_threads = 1'000'000;
  refuse(QINFER_E_INVALID_ARGUMENT, "n_threads is 1000000");
  runtime.flags = 1U << 31;
  refuse(QINFER_E_UNSUPPORTED, "qinfer_runtime_options.flags");
  runtime.log_level = -1;
  refuse(QINFER_E_INVALID_ARGUMENT, "log_level is -1");
  runtime.log_level = 5;
  refuse(QINFER_E_INVALID_ARGUMENT, "log_level is 5");
  runtime.n_cpu_ids = 1;
  refuse(QINFER_E_INVALID_ARGUMENT, "cpu_ids is NULL");
  runtime.cpu_ids = cpus;
  runtime.n_cpu_ids = UINT32_MAX;
  refuse(QINFER_E_INVALID_ARGUMENT, "n_cpu_ids is 4294967295");
  runtime.cpu_target = "avx9000";
  refuse(QINFER_E_UNSUPPORTED, "\"avx9000\"");
  runtime.allocator = &allocator;
  refuse(QINFER_E_INVALID_ARGUMENT, "qinfer_allocator");
  load.flags = 1U << 30;
  refuse(QINFER_E_UNSUPPORTED, "qinfer_load_options.flags");
  load.max_batch_tokens = 4'000'000'000;
  refuse(QINFER_E_INVALID_ARGUMENT, "max_batch_tokens is 4000000000");
  load.weight_format = "";
  load.flags = UINT32_MAX;
  refuse(QINFER_E_UNSUPPORTED, "qinfer_load_options.flags");
  load.weight_format = "F16";
  refuse(QINFER_E_UNSUPPORTED, "weight_format \"F16\"");
  cache.flags = 8;
  refuse(QINFER_E_UNSUPPORTED, "qinfer_kv_cache_options.flags");
  for (const int type : {4, -1, INT32_MIN, INT32_MAX}) {
    cache.kv_type = type;
    refuse(QINFER_E_UNSUPPORTED, "kv_type is " + std::to_string(type));
  }
  for (const std::uint32_t block : {1u, 16u, 33u, 96u, 512u, 1u << 31, UINT32_MAX}) {
    cache.block_tokens = block;
    refuse(QINFER_E_INVALID_ARGUMENT, "block_tokens is " + std::to_string(block));
  }
  cache.budget_blocks = std::uint64_t{1} << 63;
  refuse(QINFER_E_NO_MEMORY, "9223372036854775808 KV blocks");
  cache.budget_blocks = UINT64_MAX;
  refuse(QINFER_E_NO_MEMORY, "18446744073709551615 KV blocks");
  cache.budget_bytes = UINT64_MAX;
  refuse(QINFER_E_NO_MEMORY, "KV blocks");
  cache.budget_bytes = 1;
  refuse(QINFER_E_NO_MEMORY, "budget_bytes is 1");
  session.flags = 2;
  refuse(QINFER_E_UNSUPPORTED, "qinfer_session_options.flags");
  session.max_tokens = 129;
  refuse(QINFER_E_INVALID_ARGUMENT, "max_tokens is 129");
  session.max_tokens = UINT32_MAX;
  refuse(QINFER_E_INVALID_ARGUMENT, "max_tokens is 4294967295");
  session.max_logits = 129;
  refuse(QINFER_E_INVALID_ARGUMENT, "max_logits is 129");
  runtime.log_level = 0;
  runtime.n_cpu_ids = 3;
  runtime.cpu_ids = cpus;
  qinfer_runtime* created = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_cpu_ids is 3", qinfer_runtime_create(&runtime, &created, &err));
}

TEST_CASE("CPU numbers that do not exist, or are too few, are refused by index", "[bad]") {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = options.n_cpu_ids = 2;
  qinfer_runtime* runtime = nullptr;
  for (const std::uint32_t missing : {1000u, 1u << 16, 100'000u, UINT32_MAX}) {
    const std::uint32_t cpus[2] = {0, missing};
    options.cpu_ids = cpus;
    REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "cpu_ids[1] is " + std::to_string(missing),
                     qinfer_runtime_create(&options, &runtime, &err));
  }
  const std::uint32_t one[1] = {0};
  options.cpu_ids = one;
  options.n_cpu_ids = 1;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_cpu_ids is 1, but there are 2 threads",
                qinfer_runtime_create(&options, &runtime, &err));
  options.n_threads = 1;
  REQUIRE_OK(qinfer_runtime_create(&options, &runtime, &err));
  qinfer_runtime_free(runtime);
}

TEST_CASE("Evaluation, sampler, bias and stop texts out of range", "[bad]") {
  const Stack s;
  qinfer_session* one = s.session.get();
  auto eval = sized<qinfer_eval_options>();
  append(s.session, {1, 2});
  eval.keep_logits = 2;
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 0, "keep_logits is 2", qinfer_eval(&one, 1, &eval, &err));
  eval.keep_logits = 1;
  eval.flags = 2;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "qinfer_eval_options.flags", qinfer_eval(&one, 1, &eval, &err));
  eval.flags = QINFER_EVAL_NO_LOGITS;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "keep_logits is 1 beside QINFER_EVAL_NO_LOGITS",
                qinfer_eval(&one, 1, &eval, &err));
  REQUIRE(qinfer_session_pending(one) == 2);

  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::pair<const char*, float qinfer_sampler_options::*> members[] = {
      {"temperature", &qinfer_sampler_options::temperature},
      {"top_p", &qinfer_sampler_options::top_p},
      {"min_p", &qinfer_sampler_options::min_p},
      {"repeat_penalty", &qinfer_sampler_options::repeat_penalty},
      {"frequency_penalty", &qinfer_sampler_options::frequency_penalty},
      {"presence_penalty", &qinfer_sampler_options::presence_penalty},
      {"typical_p", &qinfer_sampler_options::typical_p},
      {"top_n_sigma", &qinfer_sampler_options::top_n_sigma},
      {"dynatemp_range", &qinfer_sampler_options::dynatemp_range},
      {"dynatemp_exponent", &qinfer_sampler_options::dynatemp_exponent},
      {"xtc_probability", &qinfer_sampler_options::xtc_probability},
      {"xtc_threshold", &qinfer_sampler_options::xtc_threshold},
      {"dry_multiplier", &qinfer_sampler_options::dry_multiplier},
      {"dry_base", &qinfer_sampler_options::dry_base},
      {"mirostat_tau", &qinfer_sampler_options::mirostat_tau},
      {"mirostat_eta", &qinfer_sampler_options::mirostat_eta}};
  for (const auto& [name, member] : members) {
    const bool signed_one =
        std::string(name).find("cy_") != std::string::npos || std::string(name).substr(0, 2) == "pr";
    for (const float value : {nan, inf, -inf, signed_one ? nan : -0.5f}) {
      auto options = sized<qinfer_sampler_options>();
      options.*member = value;
      REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, std::string(name) + " is",
                    qinfer_session_set_sampler(one, &options, &err));
    }
  }
  auto sampler = sized<qinfer_sampler_options>();
  sampler.top_p = 1.01f;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "top_p is 1.01", qinfer_session_set_sampler(one, &sampler, &err));
  sampler = sized<qinfer_sampler_options>();
  sampler.mirostat = 1;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "mirostat is 1", qinfer_session_set_sampler(one, &sampler, &err));
  sampler.mirostat = 0;
  std::memset(sampler.steps, 't', sizeof sampler.steps);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "steps has no NUL", qinfer_session_set_sampler(one, &sampler, &err));

  const char* const breakers[] = {"a", "", nullptr};
  const std::size_t breaker_lens[] = {1, 41};
  const std::string long_text(100, 'a');
  const char* const long_breakers[] = {"a", long_text.c_str()};
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "texts", qinfer_session_set_dry_breakers(one, nullptr, nullptr, 1, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n is 18446744073709551615: more than 16",
                qinfer_session_set_dry_breakers(one, breakers, nullptr, SIZE_MAX, &err));
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "index 1 has 0 bytes",
                   qinfer_session_set_dry_breakers(one, breakers, nullptr, 2, &err));
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "index 1 has 41 bytes",
                   qinfer_session_set_dry_breakers(one, long_breakers, breaker_lens, 2, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "a sequence breaker",
                qinfer_session_set_dry_breakers(one, breakers + 2, nullptr, 1, &err));
  REQUIRE_OK(qinfer_session_set_dry_breakers(one, nullptr, nullptr, 0, &err));

  for (const qinfer_token bad : {-1, 300, INT32_MIN, INT32_MAX}) {
    const qinfer_token tokens[2] = {5, bad};
    const float values[2] = {1, 1};
    REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "token " + std::to_string(bad) + " at index 1",
                     qinfer_session_set_bias(one, tokens, values, 2, &err));
    REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "token " + std::to_string(bad) + " at index 1",
                     qinfer_session_append(one, tokens, 2, &err));
  }
  const qinfer_token token = 5;
  for (const float value : {nan, inf})
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "bias of token 5", qinfer_session_set_bias(one, &token, &value, 1, &err));
  const float value = 1;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n is 18446744073709551615",
                qinfer_session_set_bias(one, &token, &value, SIZE_MAX, &err));
  // "length used as int" (CVE-2025-49847): a count beyond what the session can hold is seen before it is used.
  for (const std::size_t n : {SIZE_MAX, SIZE_MAX / 2 + 1, std::size_t{1} << 32, (std::size_t{1} << 32) + 1})
    REQUIRE_FAILS(QINFER_E_CONTEXT_FULL, std::to_string(n) + " more do not fit",
                  qinfer_session_append(one, &token, n, &err));
  REQUIRE(qinfer_session_length(one) == 2);

  auto generate = sized<qinfer_generate_options>();
  const std::vector<const char*> stops(257, "x");
  const std::vector<std::size_t> lens = {1, 0, 4097};
  const std::string longest(4097, 'x');
  generate.stop = stops.data();
  generate.n_stop = 257;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_stop is 257", qinfer_generate(one, &generate, nullptr, &err));
  const char* texts[] = {"ok", "", longest.c_str()};
  generate.stop = texts;
  generate.n_stop = 2;
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "stop text 1 has 0 bytes",
                   qinfer_generate(one, &generate, nullptr, &err));
  generate.n_stop = 3;
  texts[1] = "ok";
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 2, "stop text 2 has 4097 bytes",
                   qinfer_generate(one, &generate, nullptr, &err));
  texts[1] = "ab\xFFx";  // output is valid UTF-8
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "stop text 1 is not valid UTF-8 at byte 2",
                   qinfer_generate(one, &generate, nullptr, &err));
  texts[1] = "";
  generate.stop_lens = lens.data();
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 1, "stop text 1 has 0 bytes",
                   qinfer_generate(one, &generate, nullptr, &err));
  generate.n_stop = 1;
  generate.flags = 2;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "qinfer_generate_options.flags", qinfer_generate(one, &generate, nullptr, &err));
  REQUIRE(qinfer_session_length(one) == 2);
}
