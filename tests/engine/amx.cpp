// The AMX backend through the C ABI: when it is chosen and when it is quietly left alone, and that no thread is left
// with tiles in use, however a call ends. Its results have their tests in models_hugging_face.cpp and stories.cpp.
#ifdef QINFER_HAVE_AMX
#include <cerrno>

#include "engine/plan.h"
#include "model/weights.h"
#include "source/model_source.h"
#include "support/amx_runtime.h"
#include "support/c_api.h"
#include "support/gguf_writer.h"
#include "support/model_fixtures.h"
#include "support/targets.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

/// system_with_tiles() with one answer changed.
platform::TileSystem without(void (*change)(platform::TileSystem&)) {
  platform::TileSystem system = system_with_tiles();
  change(system);
  return system;
}

template <unsigned leaf, unsigned subleaf, platform::CpuidResult (*answer)()>
platform::CpuidResult cpuid_but(unsigned at, unsigned sub) {
  return at == leaf && sub == subleaf ? answer() : system_with_tiles().cpuid(at, sub);
}

platform::CpuidResult nothing() { return {}; }
platform::CpuidResult no_bf16() { return {0, 0, 0, 1u << 24}; }
platform::CpuidResult no_tile() { return {0, 0, 0, 1u << 22}; }
platform::CpuidResult old_leaves() { return {0x1c, 0, 0, 0}; }
platform::CpuidResult seven_tiles() { return {1024u << 16 | 8192, 7u << 16 | 64, 16, 0}; }
platform::CpuidResult short_rows() { return {1024u << 16 | 8192, 8u << 16 | 32, 16, 0}; }
platform::CpuidResult few_rows() { return {1024u << 16 | 8192, 8u << 16 | 64, 8, 0}; }
platform::CpuidResult small_multiplier() { return {0, 64u << 8 | 8, 0, 0}; }

int asked = 0;  ///< how often a system of granting_system() was asked for tiles
/// It has tiles, gives them, and counts.
platform::TileSystem granting_system() {
  asked = 0;
  platform::TileSystem system = system_with_tiles();
  system.request_permission = [] {
    ++asked;
    return Status();
  };
  return system;
}

bool chosen(const platform::TileSystem& system, const std::string& target, std::string& name) {
  engine::RuntimeOptions options;
  options.cpu_target = target;
  options.tiles = &system;
  auto set = engine::choose_kernels(options);
  name = set.ok() ? std::string(set.value().any_model->name) : std::string(set.take_status().message());
  return set.ok();
}

}  // namespace

TEST_CASE("tiles are used only where CPU, system and permission are all there", "[amx]") {
  CHECK(platform::has_tiles(system_with_tiles()));
  using System = platform::TileSystem;
  const System lacking[] = {
      without([](System& s) { s.cpuid = cpuid_but<7, 0, no_bf16>; }),
      without([](System& s) { s.cpuid = cpuid_but<7, 0, no_tile>; }),
      without([](System& s) { s.cpuid = cpuid_but<0, 0, old_leaves>; }),
      without([](System& s) { s.cpuid = cpuid_but<0x1d, 0, nothing>; }),  // some virtual machines show no palette
      without([](System& s) { s.cpuid = cpuid_but<0x1d, 1, seven_tiles>; }),
      without([](System& s) { s.cpuid = cpuid_but<0x1d, 1, short_rows>; }),
      without([](System& s) { s.cpuid = cpuid_but<0x1d, 1, few_rows>; }),
      without([](System& s) { s.cpuid = cpuid_but<0x1e, 0, small_multiplier>; }),
      without([](System& s) { s.enabled_state = [] { return std::uint64_t{0x20000}; }; }),
      without([](System& s) { s.enabled_state = [] { return std::uint64_t{0x40000}; }; }),
      without([](System& s) { s.enabled_state = [] { return std::uint64_t{0}; }; })};
  for (const System& system : lacking) {
    CHECK_FALSE(platform::has_tiles(system));
    std::string text;
    CHECK_FALSE(chosen(system, "amx", text));
    CHECK_THAT(text, contains("needs the CPU features"));
  }
}

TEST_CASE("a system that does not let tiles be used is asked why", "[amx]") {
  struct Case {
    int code;
    const char *name, *cause;
  };
  for (const Case& c :
       {Case{ENOSPC, "No space left on device", "sigaltstack"},
        Case{ENOMEM, "Cannot allocate memory", "sysconf(_SC_MINSIGSTKSZ)"},
        Case{EPERM, "Operation not permitted", "seccomp"}, Case{EACCES, "Permission denied", "seccomp"},
        Case{EINVAL, "Invalid argument", "Linux 5.16"}, Case{ENOSYS, "Function not implemented", "Linux 5.16"},
        Case{EOPNOTSUPP, "not supported", "no tiles"}, Case{EIO, "Input/output error", "not known"}}) {
    INFO(c.name);
    Status status = platform::tile_refusal(c.code);
    CHECK(status.code() == Code::unsupported);
    CHECK(status.detail() == c.code);
    CHECK_THAT(std::string(status.message()), contains(c.name));
    CHECK_THAT(std::string(status.message()), contains(c.cause));
  }
}

TEST_CASE("the system is asked for tiles only by who wants them, and may refuse", "[amx]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  platform::TileSystem system = system_with_tiles();
  system.request_permission = [] {
    ++asked;
    return platform::tile_refusal(ENOSPC);
  };
  asked = 0;
  std::string text, best;
  CHECK(chosen(system, "reference", text));
  CHECK(chosen(system, "avx512", text));
  CHECK(chosen(system, "", best));
  CHECK(best != "amx");
  CHECK(asked == 0);
  CHECK_FALSE(chosen(system, "amx", text));
  CHECK(asked == 1);
  CHECK_THAT(text, contains("cpu_target \"amx\" needs the CPU features"));
  CHECK_THAT(text, contains("; the system refused the use of AMX tiles (arch_prctl: No space left on device)"));
  CHECK_THAT(text, contains("sigaltstack"));
  system.request_permission = [] { return Status(); };
  CHECK(chosen(system, "amx", text));
  CHECK(text == "amx");
  engine::RuntimeOptions exact;
  exact.cpu_target = "amx";
  exact.exact = true;
  exact.tiles = &system;
  auto set = engine::choose_kernels(exact);
  REQUIRE_FALSE(set.ok());
  CHECK_THAT(std::string(set.take_status().message()), contains("QINFER_RUNTIME_EXACT"));
}

TEST_CASE("a model in bf16 runs on tiles unnamed, packed for them, unless the system or the host says no", "[amx]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  platform::TileSystem system = granting_system();
  engine::RuntimeOptions options = EmulatedRuntime::options_for(1, "");
  options.tiles = &system;
  std::string logged;
  options.log = [](int, const char* text, std::size_t length, void* user) {
    static_cast<std::string*>(user)->assign(text, length);
  };
  options.log_user = &logged;
  const std::string folder = QINFER_TEST_FIXTURES "/models/qwen3-odd-bf16";
  const std::string kQuantised = QINFER_TEST_FIXTURES "/quant/mixed/model.gguf";
  const std::string features = platform::cpu_features(system);
  const bool takes_quantised = kernels::find_kernel_set("amx_int16", features) != nullptr;
  const std::string of_quantised = takes_quantised ? "amx_int16" : "avx512_bf16";
  const std::string of_any = kernels::find_kernel_set("", features)->name;
  const ModelDir place;
  place.write("q8_0.gguf", tiny_gguf({.type = 8}).bytes());  // all of its matrices
  const std::string kBytes = place.file("q8_0.gguf");
  const auto plan = [&](const engine::RuntimeOptions& of, const engine::LoadOptions& load) {
    const auto source = source::ModelSource::open(folder, {});
    REQUIRE(source.ok());
    auto totals = engine::plan_memory(*source.value(), of, load, nullptr, nullptr, nullptr);
    REQUIRE(totals.ok());
    return totals.value();
  };
  {
    EmulatedRuntime runtime(options);
    CHECK(asked == 0);
    const qi::Model model = qi::Model::load(runtime, folder);
    CHECK(std::string(model.info().kernel_set) == "amx");
    CHECK(asked == 1);
    engine::LoadOptions packed;
    packed.pack = true;
    engine::RuntimeOptions named = options;
    named.cpu_target = "amx";
    CHECK(model.memory().weights_private == plan(named, packed).weights_private);
    CHECK(model.memory().weights_private == plan(options, {}).weights_private);
    CHECK(model.memory().weights_private > plan(named, {}).weights_private);
    CHECK(std::string(qi::Model::load(runtime, QINFER_TEST_FIXTURES "/models/qwen2-odd-f16").info().kernel_set) !=
          "amx");
    CHECK(asked == 1);
    CHECK(std::string(qi::Model::load(runtime, kQuantised).info().kernel_set) == of_quantised);
    CHECK(asked == (takes_quantised ? 2 : 1));
    CHECK(std::string(qi::Model::load(runtime, kBytes).info().kernel_set) == "amx");
    CHECK(logged.empty());
    REQUIRE_OK(qinfer_model_pack(runtime.native(), kQuantised.c_str(), nullptr, place.file("packed").c_str(), &err));
    CHECK(qi::Model::load(runtime, place.file("packed")).info().kernel_set == of_quantised);
    REQUIRE_OK(qinfer_model_pack(runtime.native(), kBytes.c_str(), nullptr, place.file("bytes").c_str(), &err));
    CHECK(std::string(qi::Model::load(runtime, place.file("bytes")).info().kernel_set) == "amx");
  }
  system.request_permission = [] { return platform::tile_refusal(ENOSPC); };
  {
    EmulatedRuntime runtime(options);
    const std::string set = qi::Model::load(runtime, folder).info().kernel_set;
    CHECK(set != "amx");
    CHECK_THAT(logged, contains("kernel set " + set + ", without tiles: the system refused the use of AMX tiles"));
    CHECK(qi::Model::load(runtime, kBytes).info().kernel_set == (takes_quantised ? of_any : of_quantised));
    CHECK(qi::Model::load(runtime, place.file("bytes")).info().kernel_set == of_any);
    // What was packed where tiles were permitted has the same form without.
    for (const std::string& path : {kQuantised, place.file("packed")})
      if (takes_quantised) CHECK(qi::Model::load(runtime, path).info().kernel_set == of_any);
  }
  logged.clear();
  options.no_tiles = true;
  EmulatedRuntime runtime(options);
  CHECK(std::string(qi::Model::load(runtime, folder).info().kernel_set) != "amx");
  CHECK(qi::Model::load(runtime, place.file("bytes")).info().kernel_set == of_any);
  for (const std::string& path : {kQuantised, place.file("packed")})
    if (takes_quantised) CHECK(qi::Model::load(runtime, path).info().kernel_set == of_any);
  CHECK(logged.empty());
}

TEST_CASE("what was packed for tiles runs on them unnamed, unless the system or the host says no", "[amx][packed]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  const std::string folder = QINFER_TEST_FIXTURES "/models/qwen3-odd-bf16";
  const ModelDir out;
  {
    EmulatedRuntime runtime(1);
    REQUIRE_OK(qinfer_model_pack(runtime.native(), folder.c_str(), nullptr, out.file("packed").c_str(), &err));
  }
  platform::TileSystem system = granting_system();
  engine::RuntimeOptions options = EmulatedRuntime::options_for(1, "");
  options.tiles = &system;
  qinfer_model* model = nullptr;
  {
    EmulatedRuntime runtime(options);
    const qi::Model packed = qi::Model::load(runtime, out.file("packed"));
    CHECK(std::string(packed.info().kernel_set) == "amx");
    CHECK(asked == 1);
    qi::KvCache cache(packed);
    qi::Session session(cache);
    session.append(std::vector<qinfer_token>{5, 9, 2});
    session.eval();
  }
  {
    system.request_permission = [] { return platform::tile_refusal(ENOSPC); };
    EmulatedRuntime runtime(options);
    REQUIRE_FAILS_AT(QINFER_E_UNSUPPORTED, ENOSPC, "packed for kernel set amx: the system refused the use of AMX tiles",
                     qinfer_model_load(runtime.native(), out.file("packed").c_str(), nullptr, &model, &err));
    // Who does not compute, and who plans, does not ask.
    auto load = sized<qinfer_load_options>();
    load.flags = QINFER_LOAD_NO_WEIGHTS;
    REQUIRE_OK(qinfer_model_load(runtime.native(), out.file("packed").c_str(), &load, &model, &err));
    qinfer_model_free(model);
    auto opened = source::ModelSource::open(out.file("packed"), {});
    REQUIRE(opened.ok());
    CHECK(engine::plan_memory(*opened.value(), options, {}, nullptr, nullptr, nullptr).ok());
    engine::RuntimeOptions named = options;
    named.cpu_target = "amx";
    CHECK(engine::plan_memory(*opened.value(), named, {}, nullptr, nullptr, nullptr).ok());
  }
  {
    auto flags = qi::options<qinfer_runtime_options>();
    CHECK_FALSE(capi::runtime_options(&flags).value().no_tiles);
    flags.flags = QINFER_RUNTIME_NO_TILES;
    options.no_tiles = capi::runtime_options(&flags).value().no_tiles;
    system.request_permission = [] {
      ++asked;
      return Status();
    };
    EmulatedRuntime runtime(options);
    REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "packed for kernel set amx; QINFER_RUNTIME_NO_TILES rules out tiles",
                  qinfer_model_load(runtime.native(), out.file("packed").c_str(), nullptr, &model, &err));
    CHECK(asked == 1);
    options.cpu_target = "amx";
    auto set = engine::choose_kernels(options);
    REQUIRE_FALSE(set.ok());
    CHECK_THAT(std::string(set.take_status().message()), contains("QINFER_RUNTIME_NO_TILES rules out tiles"));
    CHECK(asked == 1);
  }
}

TEST_CASE("no thread keeps tiles, however an evaluation ends", "[amx]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  EmulatedRuntime runtime(1);  // the calling thread does all the work
  const qi::Model model = qi::Model::load(runtime, QINFER_TEST_FIXTURES "/models/qwen3-odd-bf16");
  CHECK(std::string(runtime.info().target) == "amx");
  CHECK(std::string(model.info().weight_format) == "bf16");
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(std::vector<qinfer_token>(33, 5));
  const emulator::Counts before = emulator::counts();
  session.eval();
  if (!emulator::is_native()) CHECK(emulator::counts().multiplications > before.multiplications);
  if (!emulator::configures_natively()) {
    CHECK(emulator::counts().configured > before.configured);
    CHECK(emulator::counts().configured - before.configured == emulator::counts().released - before.released);
  }
  CHECK_FALSE(emulator::tiles_in_use());
  session.append(7);
  qi::Cancel cancel;
  cancel.request();
  auto options = qi::options<qinfer_eval_options>();
  options.cancel = cancel.native();
  qinfer_session* handle = session.native();
  CHECK(qinfer_eval(&handle, 1, &options, nullptr) == QINFER_E_CANCELLED);
  CHECK_FALSE(emulator::tiles_in_use());
  options.cancel = nullptr;
  options.keep_logits = 1000;
  CHECK(qinfer_eval(&handle, 1, &options, nullptr) == QINFER_E_INVALID_ARGUMENT);
  CHECK_FALSE(emulator::tiles_in_use());
  session.eval();
  CHECK_FALSE(emulator::tiles_in_use());
}

TEST_CASE("on emulated AMX the bits depend neither on chunks nor on threads, past a segment of keys", "[amx]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  // Few rows and many (in panels) both: the chunks end with 1, 2 and 30 rows. Olmo 2 has a norm over all heads.
  const char* architecture = GENERATE("LlamaForCausalLM", "Olmo2ForCausalLM");
  INFO(architecture);
  TinySpec spec;
  spec.architecture = architecture;
  spec.context_tokens = 1024;
  spec.dtype = DType::bf16;
  const ModelDir directory(spec);
  std::vector<qinfer_token> tokens;
  for (int i = 0; i < 530; ++i) tokens.push_back(i * 37 % 60);
  const auto logits_of = [&](std::uint32_t threads, std::size_t chunk) {
    EmulatedRuntime runtime(threads);
    const qi::Model model = qi::Model::load(runtime, directory.path());
    qi::KvCache cache(model);
    qi::Session session(cache);
    for (std::size_t i = 0; i < tokens.size(); i += chunk) {
      session.append(tokens.data() + i, std::min(chunk, tokens.size() - i));
      session.eval();
    }
    return session.copy_logits();
  };
  const std::vector<float> whole = logits_of(1, 530);
  // The last token alone: its keys are split among the threads.
  for (const std::size_t chunk : {529u, 100u, 33u}) {
    INFO("chunks of " << chunk);
    const std::vector<float> chunked = logits_of(2, chunk);
    CHECK(std::memcmp(chunked.data(), whole.data(), whole.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("packed for AMX, or packed while loading, a model has the bits of its mapped rows", "[amx]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  for (const char* fixture : {"qwen3-odd-bf16", "qwen3moe-unnormed-bf16", "olmo2-odd-bf16", "granite-odd-bf16",
                              "hunyuan-odd-bf16", "mistral3-ministral-bf16"}) {
    const std::string folder = std::string(QINFER_TEST_FIXTURES "/models/") + fixture;
    const ModelDir out;
    EmulatedRuntime runtime(1);
    REQUIRE_OK(qinfer_model_pack(runtime.native(), folder.c_str(), nullptr, out.file("packed").c_str(), &err));
    auto options = qi::options<qinfer_load_options>();
    const auto logits_of = [&](const std::string& path, std::uint32_t flags, std::uint64_t& mapped) {
      options.flags = flags;
      const qi::Model model = qi::Model::load(runtime, path, options);
      mapped = model.memory().weights_mapped;
      qi::KvCache cache(model);
      qi::Session session(cache);
      session.append(std::vector<qinfer_token>{5, 9, 2, 30, 7});
      session.eval();
      session.append(std::vector<qinfer_token>(120, 11));
      session.eval();
      return session.copy_logits();
    };
    INFO(fixture);
    std::uint64_t as_rows = 0, packed = 0, copied = 0;
    const std::vector<float> want = logits_of(folder, 0, as_rows);
    CHECK((logits_of(out.file("packed"), 0, packed) == want));
    CHECK((logits_of(folder, QINFER_LOAD_PACK, copied) == want));
    CHECK(packed > as_rows);  // padding
    CHECK(copied < as_rows);  // what is looked up stays in the file
    CHECK_THAT(out.read("packed").substr(0, 1 << 20), contains("pairs16"));
  }
}

TEST_CASE("quantised models on tiles have the same bits packed or not, in chunks of any size", "[amx][gguf]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  for (const std::string fixture : {"mixed", "moe"}) {  // every encoding, in layers and in experts
    INFO(fixture);
    const std::string folder = QINFER_TEST_FIXTURES "/quant/" + fixture, file = folder + "/model.gguf";
    const models::Expected expected = models::read_expected(folder);
    const ModelDir out;
    EmulatedRuntime runtime(1);
    REQUIRE_OK(qinfer_model_pack(runtime.native(), file.c_str(), nullptr, out.file("packed").c_str(), &err));
    const auto load = [&](const std::string& path, const char* format) {
      auto options = qi::options<qinfer_load_options>();
      options.weight_format = format;
      if (path == file) options.flags = QINFER_LOAD_EMBED_ROWS;  // embeddings are looked up as they are
      return qi::Model::load(runtime, path, options);
    };
    const qi::Model model = load(file, nullptr), rounded = load(file, "bf16"),
                    packed = load(out.file("packed"), nullptr);
    CHECK(model.memory().weights_private < rounded.memory().weights_private / 2);
    CHECK(packed.memory().weights_mapped > 0);
    const std::vector<float> whole = models::evaluate(model, expected.ids, 0);
    // What rounding weights and activations to 8 bits leaves, where it makes a router choose no other experts.
    if (fixture == "mixed") CHECK(models::deviation(whole, expected, expected.f64) <= 0.03);
    // Weights that were rounded once, when they were loaded, have no other errors than those that are cut.
    if (fixture == "mixed")
      CHECK(models::deviation(models::evaluate(rounded, expected.ids, 0), expected, expected.f64) <= 0.03);
    CHECK((models::evaluate(packed, expected.ids, 0) == whole));
    // Bits were others before weights were cut: what snapshots name says so.
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.append(expected.ids);
    session.eval();
    session.save(out.file("session.kv"));
    CHECK_THAT(out.read("session.kv").substr(0, 4096), contains("amx-cut/"));
    for (const std::size_t chunk : {1, 2, 3, 7, 20}) CHECK((models::evaluate(model, expected.ids, chunk) == whole));
  }
}

namespace {

/// A packed file whose first up projection is said to be in another layout.
class UpInLayout final : public model::TensorSource {
 public:
  UpInLayout(const std::string& path, kernels::WeightLayout layout)
      : source_(std::move(source::ModelSource::open(path, {}).value())), layout_(layout) {}
  source::ModelSource& inner() const { return *source_; }

  std::string name(const model::TensorId& id) const override { return source_->name(id); }
  Result<model::TensorInfo> find(const model::TensorId& id) const override {
    auto info = source_->find(id);
    if (!info.ok() || id.role != model::Role::up || id.layer != 0) return info;
    model::PackedForm& packed = *info.value().packed;
    packed.layout = layout_;
    const kernels::StoredShape shape = kernels::weight_shape({Encoding::bf16, layout_}, packed.rows, packed.cols);
    info.value().shape = {shape.lengths, shape.lengths + shape.n};
    return info;
  }
  std::string_view file_name(std::uint32_t file) const override { return source_->file_name(file); }
  Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t file) override { return source_->map(file); }
  Status read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const override {
    return source_->read(file, offset, out);
  }
  Status verify(const model::TensorInfo& tensor, std::span<const std::byte> data) const override {
    return source_->verify(tensor, data);
  }

 private:
  std::unique_ptr<source::ModelSource> source_;
  kernels::WeightLayout layout_;
};

}  // namespace

TEST_CASE("gate and up in different layouts are refused, and squares, as earlier versions packed", "[amx][packed]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  EmulatedRuntime runtime(1);
  for (const char* fixture : {"qwen3-odd-bf16", "qwen3moe-unnormed-bf16"}) {
    INFO(fixture);
    const ModelDir out;
    const std::string folder = std::string(QINFER_TEST_FIXTURES "/models/") + fixture;
    REQUIRE_OK(qinfer_model_pack(runtime.native(), folder.c_str(), nullptr, out.file("packed").c_str(), &err));
    const UpInLayout source(out.file("packed"), kernels::WeightLayout::row_major);
    const model::ModelSpec& spec = source.inner().spec();
    const kernels::KernelSet& set = *kernels::find_kernel_set("amx", platform::cpu_features(system_with_tiles()));
    CHECK(model::plan_weights(spec, source.inner(), std::nullopt, "amx", set, {}).ok());
    auto mixed = model::plan_weights(spec, source, std::nullopt, "amx", set, {});
    REQUIRE_FALSE(mixed.ok());
    const Status status = mixed.take_status();
    CHECK(status.code() == Code::format);
    CHECK_THAT(std::string(status.message()), contains("have different layouts, pairs16 and row_major"));
    const UpInLayout squares(out.file("packed"), kernels::WeightLayout::squares32);
    auto earlier = model::plan_weights(spec, squares, std::nullopt, "amx", set, {});
    REQUIRE_FALSE(earlier.ok());
    const Status refusal = earlier.take_status();
    CHECK(refusal.code() == Code::unsupported);
    CHECK_THAT(std::string(refusal.message()), contains("as earlier versions did: pack the checkpoint again"));
  }
  const ModelDir out;
  REQUIRE_OK(qinfer_model_pack(runtime.native(), QINFER_TEST_FIXTURES "/quant/mixed/model.gguf", nullptr,
                               out.file("packed").c_str(), &err));
  const UpInLayout squares(out.file("packed"), kernels::WeightLayout::squares32);
  const kernels::KernelSet& set = *kernels::find_kernel_set("amx", platform::cpu_features(system_with_tiles()));
  auto quantised = model::plan_weights(squares.inner().spec(), squares, std::nullopt, "amx", set, {});
  REQUIRE_FALSE(quantised.ok());
  const Status refusal = quantised.take_status();
  CHECK(refusal.code() == Code::unsupported);
  CHECK_THAT(std::string(refusal.message()),
             contains("in squares, as earlier versions did: pack the checkpoint again"));
}

TEST_CASE("formats that the AMX backend does not multiply are refused by name", "[amx]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  EmulatedRuntime runtime;
  auto options = qi::options<qinfer_load_options>();
  for (const char* format : {"f32", "f16"}) {
    options.weight_format = format;
    qinfer_model* model = nullptr;
    REQUIRE_FAILS(
        QINFER_E_INVALID_ARGUMENT, "kernel set amx cannot hold tensor",
        qinfer_model_load(runtime.native(), QINFER_TEST_FIXTURES "/models/qwen3-odd-bf16", &options, &model, &err));
  }
}

TEST_CASE("bf16 checkpoints are multiplied where the file is mapped, others are converted once, as planned", "[amx]") {
  SKIP_UNLESS_CPU_HAS(can_emulate_amx(), "AVX-512");
  EmulatedRuntime runtime;
  const auto memory_of = [&](const std::string& name) {
    return qi::Model::load(runtime, QINFER_TEST_FIXTURES "/models/" + name).memory();
  };
  const qinfer_memory mapped = memory_of("qwen3-odd-bf16"), converted = memory_of("llama-sharded-f32");
  CHECK(mapped.weights_mapped > 10 * mapped.weights_private);  // norms alone are widened
  CHECK(converted.weights_private > converted.weights_mapped);
}
#endif
