// Which pages of a mapped mixture of experts a process touches: those of experts that were chosen, and of everything
// else in the file none. So a mapped model may be larger than memory.
#ifdef QINFER_HAVE_AMX
#include "support/amx_runtime.h"
#endif
#include "support/c_api.h"
#include "support/smaps.h"
#include "support/targets.h"

using namespace qinfer::test;

namespace {

/// One layer with 48 experts of 1.5 MiB each, of which a token needs one: nearly all of the file's 74 MiB.
TinySpec wide_mixture(qinfer::DType dtype) {
  TinySpec spec;
  spec.architecture = "Qwen3MoeForCausalLM";
  spec.hidden = 256, spec.ffn = 1024, spec.vocab = 300, spec.layers = 1;
  spec.experts = 48, spec.top_k = 1;
  spec.dtype = dtype;
  return spec;
}

/// Bytes of the mappings of a file that are in this process's page tables.
std::uint64_t resident_bytes(const std::string& path) {
  std::uint64_t kib = 0;
  for (const std::string& value : smaps_of(path, "Rss")) kib += std::stoull(value);
  return kib << 10;
}

/// Evaluates one token and says how many bytes of the file that took.
std::uint64_t touched_by_a_token(const Model& model, const std::string& file, qinfer_token token) {
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, {token});
  eval(session);
  return resident_bytes(file);
}

Runtime runtime_on(const std::string& target) {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = 2;
  options.cpu_target = target.c_str();
  qinfer_runtime* runtime = nullptr;
  REQUIRE_OK(qinfer_runtime_create(&options, &runtime, &err));
  return Runtime(runtime);
}

/// What one expert takes at most: its three matrices are in three places, and the kernel may map the file in pieces of
/// 2 MiB.
constexpr std::uint64_t kExpertBytes = 3 * (std::uint64_t{4} << 20);

void check_pages(const Runtime& runtime, const std::string& path, const std::string& file) {
  const Model model = load_model(runtime, path);
  const std::uint64_t loaded = resident_bytes(file);
  CHECK(loaded <= (std::uint64_t{8} << 20));  // norms and the RoPE table, each in up to two pieces of 2 MiB
  const std::uint64_t once = touched_by_a_token(model, file, 7);
  CHECK(once > loaded);
  CHECK(once <= loaded + kExpertBytes + (std::uint64_t{6} << 20));  // router, attention, embedding and LM head: 1 MiB
  CHECK(touched_by_a_token(model, file, 8) <= once + kExpertBytes);
}

}  // namespace

TEST_CASE("experts that were never chosen stay untouched pages of a packed model", "[packed]") {
  for (const std::string& target : usable_targets()) {
    INFO(target);
    const ModelDir dir(wide_mixture(qinfer::DType::f16));
    const std::string file = dir.file("model.packed");
    const Runtime runtime = runtime_on(target);
    REQUIRE_OK(qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, file.c_str(), &err));
    check_pages(runtime, file, file);
  }
}

TEST_CASE("experts that were never chosen stay untouched pages where rows are used in the file", "[packed]") {
  for (const std::string& target : usable_targets()) {
    if (repacks(target)) continue;
    INFO(target);
    const ModelDir dir(wide_mixture(qinfer::DType::bf16));
    check_pages(runtime_on(target), dir.path(), dir.file("model.safetensors"));
  }
}

#ifdef QINFER_HAVE_AMX
TEST_CASE("on emulated AMX a mixture has no second copy of its experts", "[amx][packed]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  const ModelDir dir(wide_mixture(qinfer::DType::bf16));
  const std::string file = dir.file("model.safetensors");
  EmulatedRuntime runtime(2);
  const qi::Model model = qi::Model::load(runtime, dir.path());
  const std::uint64_t loaded = resident_bytes(file);
  CHECK(model.memory().weights_private < 64 << 10);  // norms alone
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(std::vector<qinfer_token>{7, 8, 9});
  session.eval();
  CHECK(resident_bytes(file) > loaded);
  CHECK(resident_bytes(file) <= loaded + 3 * kExpertBytes + (std::uint64_t{6} << 20));
  // A whole layer for as many rows as the context has: room for what that takes is in the plan.
  session.append(std::vector<qinfer_token>(120, 7));
  session.eval();
  CHECK(model.memory().scratch < (std::uint64_t{24} << 20));
}
#endif
