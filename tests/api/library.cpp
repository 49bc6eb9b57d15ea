// What the library says of itself: kernel sets, formats, CPU features.
#include <qinfer/qinfer.hpp>

#include <set>
#include <sstream>

#include "support/c_api.h"
#include "support/targets.h"

using namespace qinfer::test;

namespace {

std::set<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> all;
  for (std::string word; stream >> word;) all.insert(word);
  return all;
}

}  // namespace

TEST_CASE("A runtime can be made with just the kernel sets that are listed as usable", "[api][library]") {
  int n_default = 0, n_usable = 0;
  std::set<std::string> names;
  for (const qinfer_kernel_set_info& set : qi::kernel_sets()) {
    INFO(set.name);
    names.insert(set.name);
    const bool usable = (set.flags & QINFER_KERNELS_USABLE) != 0;
    auto options = sized<qinfer_runtime_options>();
    options.n_threads = 1;
    options.cpu_target = set.name;
    qinfer_runtime* runtime = nullptr;
    qinfer_error err = {};
    const qinfer_status status = qinfer_runtime_create(&options, &runtime, &err);
    qinfer_runtime_free(runtime);
    INFO(err.message);
    REQUIRE(status == (usable ? QINFER_OK : QINFER_E_UNSUPPORTED));
    options.flags = QINFER_RUNTIME_EXACT;
    const bool exact = (set.flags & QINFER_KERNELS_EXACT) != 0;
    REQUIRE(qinfer_runtime_create(&options, &runtime, &err) == (usable && exact ? QINFER_OK : QINFER_E_UNSUPPORTED));
    qinfer_runtime_free(runtime);
    const std::set<std::string> features = words(qi::cpu_features());
    bool all = true;
    for (const std::string& needed : words(set.cpu_features)) all = all && features.count(needed) == 1;
    REQUIRE(all == usable);
    n_usable += usable ? 1 : 0;
    if ((set.flags & QINFER_KERNELS_DEFAULT) == 0) continue;
    ++n_default;
    REQUIRE(usable);
    REQUIRE(std::string(set.name) == qi::cpu_info().target);
    REQUIRE(std::string(set.name) == qi::Runtime().info().target);
  }
  REQUIRE(n_default == 1);
  REQUIRE(names.size() == qinfer_kernel_set_count());
  REQUIRE(names.count("reference") == 1);
  REQUIRE(static_cast<std::size_t>(n_usable) == usable_targets().size());
  auto info = sized<qinfer_kernel_set_info>();
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "index is",
                qinfer_kernel_set_get_info(qinfer_kernel_set_count(), &info, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_kernel_set_get_info(0, nullptr, &err));
}

TEST_CASE("Models load in every weight format listed, caches in every KV type, and in no other", "[api][library]") {
  const ModelDir dir{TinySpec()};
  for (const qinfer_kernel_set_info& set : qi::kernel_sets()) {
    if ((set.flags & QINFER_KERNELS_USABLE) == 0) continue;
    const Runtime runtime = make_runtime(1, set.name);
    const std::set<std::string> formats = words(set.weight_formats), types = words(set.kv_types);
    REQUIRE(!formats.empty());
    for (const char* format : {"f32", "f16", "bf16"}) {
      INFO(set.name << " " << format);
      auto options = sized<qinfer_load_options>();
      options.weight_format = format;
      qinfer_model* model = nullptr;
      qinfer_error err = {};
      const qinfer_status status = qinfer_model_load(runtime.get(), dir.path().c_str(), &options, &model, &err);
      qinfer_model_free(model);
      INFO(err.message);
      REQUIRE((status == QINFER_OK) == (formats.count(format) == 1));
    }
    const Model model = load_model(runtime, dir.path());
    std::set<std::string> known;
    for (std::int32_t type = 0; qinfer_kv_type_name(type) != nullptr; ++type) {
      auto options = sized<qinfer_kv_cache_options>();
      options.kv_type = type;
      make_cache(model, &options);
      if (type != QINFER_KV_DEFAULT) known.insert(qinfer_kv_type_name(type));
    }
    REQUIRE(known == types);
  }
  REQUIRE(std::string(qinfer_kv_type_name(QINFER_KV_DEFAULT)) == "default");
  REQUIRE(qinfer_kv_type_name(-1) == nullptr);
  REQUIRE(qinfer_kv_type_name(4) == nullptr);
}

TEST_CASE("The CPU's name and features come by call", "[api][library]") {
  const std::string all = qi::cpu_features();
  REQUIRE(all == qinfer::platform::cpu_features());
  REQUIRE(qi::cpu_name() == qinfer::platform::cpu_name());
  REQUIRE(!qi::cpu_name().empty());
  std::size_t n = 0;
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, static_cast<std::int64_t>(all.size()), "elements",
                   qinfer_cpu_features(nullptr, 0, &n, &err));
  REQUIRE(n == all.size());
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL", qinfer_cpu_features(nullptr, 0, nullptr, &err));
}
