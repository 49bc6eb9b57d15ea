// Version, build and CPU information, cancellation flags and runtimes.
#include <qinfer/qinfer.h>

#include "platform/cpu.h"
#include "support.h"

using namespace qinfer;
using capi::guard;

#define QINFER_STRING_INNER(x) #x
#define QINFER_STRING(x) QINFER_STRING_INNER(x)

namespace {

constexpr char kVersionText[] =
    QINFER_STRING(QINFER_VERSION_MAJOR) "." QINFER_STRING(QINFER_VERSION_MINOR) "." QINFER_STRING(QINFER_VERSION_PATCH);
static_assert(QINFER_VERSION == QINFER_VERSION_MAJOR * 10000 + QINFER_VERSION_MINOR * 100 + QINFER_VERSION_PATCH);

}  // namespace

extern "C" {

uint32_t qinfer_version(void) { return QINFER_VERSION; }
const char* qinfer_version_string(void) { return kVersionText; }
const char* qinfer_build_info(void) { return QINFER_BUILD_INFO; }

const char* qinfer_status_name(qinfer_status status) {
  switch (status) {
    case QINFER_OK: return "QINFER_OK";
    case QINFER_E_INTERNAL: return "QINFER_E_INTERNAL";
    case QINFER_E_INVALID_ARGUMENT: return "QINFER_E_INVALID_ARGUMENT";
    case QINFER_E_STATE: return "QINFER_E_STATE";
    case QINFER_E_UNSUPPORTED: return "QINFER_E_UNSUPPORTED";
    case QINFER_E_NO_MEMORY: return "QINFER_E_NO_MEMORY";
    case QINFER_E_IO: return "QINFER_E_IO";
    case QINFER_E_NOT_FOUND: return "QINFER_E_NOT_FOUND";
    case QINFER_E_FORMAT: return "QINFER_E_FORMAT";
    case QINFER_E_BUFFER_TOO_SMALL: return "QINFER_E_BUFFER_TOO_SMALL";
    case QINFER_E_KV_FULL: return "QINFER_E_KV_FULL";
    case QINFER_E_CONTEXT_FULL: return "QINFER_E_CONTEXT_FULL";
    case QINFER_E_CANCELLED: return "QINFER_E_CANCELLED";
    case QINFER_E_NUMERIC: return "QINFER_E_NUMERIC";
    default: return "unknown status";
  }
}

qinfer_error* qinfer_full_error_arg(qinfer_full_error* error) { return capi::full_error_arg(error); }

qinfer_status qinfer_get_cpu_info(qinfer_cpu_info* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    const platform::CpuInfo cpu = platform::detect_cpu();
    qinfer_cpu_info info = {};
    info.n_physical_cores = cpu.cores.physical;
    info.n_logical_cores = cpu.cores.logical;
    info.n_numa_nodes = cpu.numa_nodes;
    info.l1d_bytes = cpu.l1d_bytes;
    info.l2_bytes = cpu.l2_bytes;
    info.l3_bytes = cpu.l3_bytes;
    QINFER_ASSIGN(const engine::KernelChoice chosen, engine::choose_kernels(engine::RuntimeOptions()));
    info.target = chosen.any_model->name;
    return capi::copy_out(info, out, "qinfer_cpu_info");
  });
}

qinfer_status qinfer_cpu_name(char* text, size_t capacity, size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    const std::string name = platform::cpu_name();
    return capi::copy_array<char>(name, text, capacity, out_n);
  });
}

qinfer_status qinfer_cpu_features(char* text, size_t capacity, size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    const std::string features = platform::cpu_features();
    return capi::copy_array<char>(features, text, capacity, out_n);
  });
}

size_t qinfer_kernel_set_count(void) { return kernels::kernel_sets().size(); }

qinfer_status qinfer_kernel_set_get_info(size_t index, qinfer_kernel_set_info* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    const auto sets = kernels::kernel_sets();
    if (index >= sets.size())
      return error(Code::invalid_argument, "index is {}, there are {} kernel sets", index, sets.size());
    const kernels::KernelSetRow& set = sets[index];
    QINFER_ASSIGN(const engine::KernelChoice chosen, engine::choose_kernels(engine::RuntimeOptions()));
    qinfer_kernel_set_info info = {};
    if (kernels::find_kernel_set(set.name, platform::cpu_features()) != nullptr) info.flags |= QINFER_KERNELS_USABLE;
    if (set.name == chosen.any_model->name) info.flags |= QINFER_KERNELS_DEFAULT;
    if (set.exact) info.flags |= QINFER_KERNELS_EXACT;
    if (set.chosen_for == kernels::ChosenFor::held_exactly) info.flags |= QINFER_KERNELS_HELD_EXACTLY;
    if (set.chosen_for == kernels::ChosenFor::held_plain) info.flags |= QINFER_KERNELS_HELD_PLAIN;
    if (set.chosen_for == kernels::ChosenFor::quantised) info.flags |= QINFER_KERNELS_QUANTISED;
    info.flags |= QINFER_KERNELS_INVARIANT;
    // All three are literals of the tables, and end with NUL.
    info.name = set.name.data();
    info.cpu_features = set.needs.data();
    info.weight_formats = set.weight_types.data();
    info.kv_types = kernels::kAllTypes.data();
    return capi::copy_out(info, out, "qinfer_kernel_set_info");
  });
}

const char* qinfer_kv_type_name(int32_t kv_type) {
  switch (kv_type) {
    case QINFER_KV_DEFAULT: return "default";
    case QINFER_KV_F32: return "f32";
    case QINFER_KV_F16: return "f16";
    case QINFER_KV_BF16: return "bf16";
    default: return nullptr;
  }
}

qinfer_status qinfer_cancel_create(qinfer_cancel** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    *out = new qinfer_cancel;
    return Status();
  });
}

void qinfer_cancel_request(qinfer_cancel* cancel) {
  static_assert(std::atomic<bool>::is_always_lock_free);  // otherwise a signal handler could not call this
  if (cancel != nullptr) cancel->requested.store(true);
}

void qinfer_cancel_reset(qinfer_cancel* cancel) {
  if (cancel != nullptr) cancel->requested.store(false);
}

void qinfer_cancel_free(qinfer_cancel* cancel) { delete cancel; }

qinfer_status qinfer_runtime_create(const qinfer_runtime_options* options, qinfer_runtime** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_ASSIGN(const engine::RuntimeOptions parsed, capi::runtime_options(options));
    QINFER_ASSIGN(auto impl, engine::Runtime::create(parsed));
    *out = new qinfer_runtime{std::move(impl)};
    return Status();
  });
}

void qinfer_runtime_free(qinfer_runtime* runtime) { delete runtime; }

qinfer_status qinfer_runtime_get_info(const qinfer_runtime* runtime, qinfer_runtime_info* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(runtime);
    QINFER_REQUIRE(out);
    QINFER_TRY(runtime->impl->check_process());
    qinfer_runtime_info info = {};
    info.n_threads = static_cast<std::uint32_t>(runtime->impl->team().size());
    info.target = runtime->impl->kernels().any_model->name;
    return capi::copy_out(info, out, "qinfer_runtime_info");
  });
}

qinfer_status qinfer_runtime_get_metrics(const qinfer_runtime* runtime, qinfer_metrics* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(runtime);
    QINFER_REQUIRE(out);
    QINFER_TRY(runtime->impl->check_process());
    return capi::copy_out(capi::to_c(runtime->impl->metrics().read()), out, "qinfer_metrics");
  });
}

}  // extern "C"
