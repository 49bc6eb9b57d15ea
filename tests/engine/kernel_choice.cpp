// Which kernel set a model runs on where the host names none: the first usable one of kernel_sets() that is chosen for
// all models, or one before it that holds every matrix of the model with the values of the file.
#include <qinfer/qinfer.hpp>

#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_writer.h"
#include "support/skip.h"
#include "support/targets.h"

namespace {

namespace fs = std::filesystem;
using namespace qinfer;

const std::string kFixtures = QINFER_TEST_FIXTURES;

struct Options {
  std::uint32_t runtime_flags = 0, load_flags = 0;
  const char *target = nullptr, *weight_format = nullptr;
};

std::string set_of(const std::string& path, const Options& options = {}) {
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 1;
  runtime_options.flags = options.runtime_flags;
  runtime_options.cpu_target = options.target;
  qi::Runtime runtime(runtime_options);
  auto load = qi::options<qinfer_load_options>();
  load.flags = options.load_flags;
  load.weight_format = options.weight_format;
  load.max_batch_tokens = 8;
  const qi::Model model = qi::Model::load(runtime, path, load);
  // The plan chooses for itself.
  if (options.load_flags == 0) {
    const qinfer_memory plan = qi::plan(path, &runtime_options, &load);
    CHECK(plan.weights_private == model.memory().weights_private);
    CHECK(plan.weights_mapped == model.memory().weights_mapped);
    CHECK(plan.scratch == model.memory().scratch);
  }
  return model.info().kernel_set;
}

/// The set for models that are not held exactly by one before it.
std::string any() { return kernels::find_kernel_set("", test::usable_features())->name; }
/// The set for those that are; `quantised`: and have quantised matrices.
std::string held(bool quantised = false) {
  for (const kernels::KernelSetRow* row : kernels::find_preferred_sets(test::usable_features(), false))
    if (row->chosen_for == kernels::ChosenFor::held_exactly ||
        row->chosen_for == (quantised ? kernels::ChosenFor::quantised : kernels::ChosenFor::held_plain))
      return std::string(row->name);
  return any();
}

/// The set for those all of whose matrices are plain or Q8_0.
std::string held_q8_0() {
  for (const kernels::KernelSetRow* row : kernels::find_preferred_sets(test::usable_features(), false))
    if (row->chosen_for != kernels::ChosenFor::held_plain || row->held_besides == Encoding::q8_0)
      return std::string(row->name);
  return any();
}

/// The set for models of which some matrices are quantised, and one is not held exactly by the sets before it.
std::string partly_quantised() {
  for (const kernels::KernelSetRow* row : kernels::find_preferred_sets(test::usable_features(), false))
    if (row->chosen_for == kernels::ChosenFor::quantised) return std::string(row->name);
  return any();
}

TEST_CASE("a set is chosen for the models that it holds exactly, and another for all", "[engine]") {
  CHECK(set_of(kFixtures + "/models/qwen3-odd-bf16") == held());
  CHECK(set_of(kFixtures + "/gguf/qwen2-odd-f16.gguf") == any());
  CHECK(set_of(kFixtures + "/models/qwen2-odd-f16") == any());
  CHECK(set_of(kFixtures + "/models/qwen3-untied-f32") == any());
  CHECK(set_of(kFixtures + "/gguf/llama-plain-bf16.gguf") == held());
  // Quantised matrices are kept as they are in any set, but only Q8_0 decodes as fast on tiles; beside them these files
  // have f32 vectors and routers alone.
  CHECK(set_of(kFixtures + "/quant/mixed/model.gguf") == held(true));
  CHECK(set_of(kFixtures + "/quant/moe/model.gguf") == held(true));
  // Mixtures: their routers are kept as they are, in any set.
  CHECK(set_of(kFixtures + "/models/mixtral-odd-bf16") == held());
  CHECK(set_of(kFixtures + "/models/qwen3moe-f32") == any());
}

TEST_CASE("An encoder's plain weights may be rounded by the set that is chosen", "[engine]") {
  for (const char* name : {"bert-f32", "bert-odd-bf16", "modernbert-classifier-f32"}) {
    const std::string model = kFixtures + "/models/" + name;
    CAPTURE(name);
    CHECK(set_of(model) == held());
    CHECK(set_of(model, {.weight_format = "f32"}) == any());
    CHECK(set_of(model, {.runtime_flags = QINFER_RUNTIME_EXACT}) ==
          kernels::find_kernel_set("", test::usable_features(), true)->name);
  }
}

TEST_CASE("What the host asks for decides before what a set holds", "[engine]") {
  const std::string model = kFixtures + "/models/qwen3-odd-bf16";
  CHECK(set_of(model, {.weight_format = "f16"}) == any());
  CHECK(set_of(model, {.weight_format = "f32"}) == any());
  CHECK(set_of(model, {.weight_format = "bf16"}) == held());
  CHECK(set_of(model, {.load_flags = QINFER_LOAD_NO_WEIGHTS}) == held());
  const std::string exact = kernels::find_kernel_set("", test::usable_features(), true)->name;
  CHECK(set_of(model, {.runtime_flags = QINFER_RUNTIME_EXACT}) == exact);
  for (const std::string& name : test::usable_targets()) CHECK(set_of(model, {.target = name.c_str()}) == name);
}

TEST_CASE("A matrix that a set would round decides, also where it is the LM head of a split embedding", "[engine]") {
  const test::ModelDir folder;
  const auto write = [&](std::uint32_t embedding) {
    test::GgufFile file = test::tiny_gguf({.type = 8});  // q8_0
    test::GgufTestTensor& tensor = file.tensor("token_embd.weight");
    tensor.type = embedding;
    tensor.data = test::gguf_data(embedding, tensor.dims[0] * tensor.dims[1]);
    folder.write("m.gguf", file.bytes());
    return folder.file("m.gguf");
  };
  CHECK(set_of(write(8)) == held_q8_0());
  CHECK(set_of(write(8), {.load_flags = QINFER_LOAD_EMBED_ROWS}) == held_q8_0());
  CHECK(set_of(write(2)) == held(true));          // Q4_0
  CHECK(set_of(write(1)) == partly_quantised());  // f16
  CHECK(set_of(write(1), {.load_flags = QINFER_LOAD_EMBED_ROWS}) == partly_quantised());
}

TEST_CASE("A packed model runs on the set that it was packed for", "[engine]") {
  const test::ModelDir folder;
  for (const std::string& name : {held(), any()}) {
    const std::string path = folder.path() + "/" + name + ".qinfer";
    auto options = qi::options<qinfer_runtime_options>();
    options.cpu_target = name.c_str();
    qi::Runtime runtime(options);
    qi::pack(runtime, kFixtures + "/models/qwen3-odd-bf16", path);
    CHECK(set_of(path) == name);
    CHECK(set_of(path, {.load_flags = QINFER_LOAD_NO_WEIGHTS}) == name);
  }
}

TEST_CASE("The order of the sets decides which of them is preferred", "[kernels]") {
  const std::string avx512 = "avx512f avx512bw avx512dq avx512vl", bf16 = avx512 + " avx512_bf16";
  SKIP_UNLESS(kernels::find_kernel_set("avx512_bf16", bf16) != nullptr, machine, "the build has no AVX-512 kernels");
  const auto preferred = [](const std::string& features, bool exact) {
    std::string names;
    for (const kernels::KernelSetRow* row : kernels::find_preferred_sets(features, exact))
      names += std::string(row->name) + ' ';
    return names;
  };
  CHECK(preferred("", false).empty());
  CHECK(preferred(avx512, false).empty());
  CHECK(preferred(bf16, false) == "avx512_bf16 ");
  CHECK(preferred(bf16 + " avx512_vnni", false) == "avx512_bf16 ");
  CHECK(preferred(bf16, true).empty());
  // The sums of avx512_fp16 were measured beside no others on such a CPU.
  CHECK(preferred(bf16 + " avx512_vnni avx512_fp16", false).empty());
#ifdef QINFER_HAVE_AMX
  const std::string tiles = bf16 + " amx_tile amx_bf16";
  CHECK(preferred(tiles, false) == "amx avx512_bf16 ");
  CHECK(preferred(tiles + " avx512_vnni avx512_fp16", false) == "amx amx_int16 ");
  CHECK(preferred(tiles, true).empty());
#endif
}

}  // namespace
