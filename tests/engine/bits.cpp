// The bits of every model on every kernel set, in a table: what a change of the code that means no other numbers must
// leave as it is. A line of fixtures/bits.txt has a model, a kernel set and a hash of the model's logits for each
// variant: the types of KV cache, exact numerics, and the weight formats; "-" where the set refuses it. That the
// storage (mapped, read, packed) and the cut of the prompt change nothing is checked too.
//
// Sets that this CPU lacks keep their lines; a model that came later has "?" there until it was run on such a CPU, and
// only storage and cuts are checked. The lines of the AMX sets and of avx512_fp16 are those of silicon (a CPU with AMX
// and AVX512-FP16), of Bochs as a Sapphire Rapids and of the emulator in tests/support, which all give the same.
// avx512_bf16 has none, until its instruction is known to give the same on the CPUs of both makers: of it only storage
// and cuts are checked. Sines and cosines are the C library's, so the table holds for the versions that it was compared
// with. To write the lines anew after numbers were changed on purpose: qinfer_tests_engine "[bits-table]" prints them
// all. QINFER_BITS_SETS has the names of the sets that are looked at, where not all are to be.
#include <gnu/libc-version.h>
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/hash.h"
#include "support/model_fixtures.h"
#include "support/skip.h"
#include "support/targets.h"
#ifdef QINFER_HAVE_AMX
#include "support/amx_runtime.h"
#endif

namespace {

namespace fs = std::filesystem;
using namespace qinfer::test::models;

constexpr const char* kTable = QINFER_TEST_FIXTURES "/bits.txt";
constexpr std::string_view kLibcs[] = {"2.36", "2.39"};
constexpr std::string_view kWithoutLines = "avx512_bf16";
constexpr std::string_view kNotRun = " ?";

struct NamedModel {
  std::string name;  ///< in the table
  fs::path path;
};

std::vector<NamedModel> all_models() {
  std::vector<NamedModel> models;
  for (const char* kind : {"models", "quant", "gguf"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(QINFER_TEST_FIXTURES) / kind)) {
      const std::string name = std::string(kind) + "/" + entry.path().filename().string();
      const fs::path inside = entry.path() / "model.gguf";
      if (fs::exists(inside))
        models.push_back({name, inside});
      else if (entry.is_directory() || entry.path().extension() == ".gguf")
        models.push_back({name, entry.path()});
    }
  }
  for (const char* name : {"tiny-stories", "tiny-stories-moe", "tiny-chat"})
    models.push_back({name, fs::path(QINFER_TEST_MODELS) / name});
  std::sort(models.begin(), models.end(), [](const NamedModel& a, const NamedModel& b) { return a.name < b.name; });
  return models;
}

/// What is loaded, and how it is evaluated.
struct Variant {
  std::int32_t kv_type = QINFER_KV_DEFAULT;
  const char* weight_format = nullptr;
  std::uint32_t load_flags = 0;
  std::size_t chunk = 0;  ///< 0: the prompt whole
};

std::vector<std::int32_t> prompt_of(const qi::Model& model) {
  std::mt19937 engine(7);
  std::vector<std::int32_t> ids(70);
  for (auto& id : ids) id = static_cast<std::int32_t>(engine() % model.info().n_vocab);
  return ids;
}

std::string hash_of(const std::vector<float>& values) {
  char text[20];
  std::snprintf(text, sizeof text, "%012llx",
                static_cast<unsigned long long>(XXH3_64bits(values.data(), values.size() * sizeof(float)) >> 16));
  return text;
}

/// The logits of all tokens, or an encoder's embedding.
std::string bits_of(const qi::Model& model, const Variant& variant) {
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.kv_type = variant.kv_type;
  const std::vector<std::int32_t> ids = prompt_of(model);
  const bool encoder = (model.info().flags & QINFER_MODEL_ENCODER) != 0;
  qi::KvCache cache(model, cache_options);
  auto options = qi::options<qinfer_session_options>();
  if (encoder)
    options.flags = QINFER_SESSION_EMBEDDINGS;
  else
    options.max_logits = static_cast<std::uint32_t>(ids.size());
  qi::Session session(cache, options);
  std::vector<float> values;
  const std::size_t step = variant.chunk == 0 ? ids.size() : variant.chunk;
  for (std::size_t i = 0; i < ids.size(); i += step) {
    const std::size_t n = std::min(step, ids.size() - i);
    session.append(ids.data() + i, n);
    auto eval_options = qi::options<qinfer_eval_options>();
    if (!encoder) eval_options.keep_logits = static_cast<std::uint32_t>(n);
    session.eval(eval_options);
    for (std::size_t back = n; back-- > 0 && !encoder;)
      values.insert(values.end(), session.logits(back), session.logits(back) + model.info().n_vocab);
  }
  if (encoder) values = session.embedding();
  return hash_of(values);
}

qi::Model load_variant(qi::Runtime& runtime, const fs::path& path, const Variant& variant,
                       const char* packed = nullptr) {
  auto options = qi::options<qinfer_load_options>();
  options.flags = variant.load_flags;
  options.weight_format = variant.weight_format;
  options.packed_path = packed;
  return qi::Model::load(runtime, path.string(), options);
}

/// "-" where it is refused.
std::string bits_or_none(qi::Runtime& runtime, const fs::path& path, const Variant& variant) {
  try {
    return bits_of(load_variant(runtime, path, variant), variant);
  } catch (const qi::Error& error) {
    INFO(path << ": " << error.what());
    REQUIRE((error.status() == QINFER_E_UNSUPPORTED || error.status() == QINFER_E_INVALID_ARGUMENT));
    return "-";
  }
}

qi::Runtime runtime_of(const std::string& set, std::uint64_t flags) {
  auto options = qi::options<qinfer_runtime_options>();
  options.cpu_target = set.c_str();
  options.n_threads = 1;  // that more change nothing is checked in invariance.cpp
  options.flags = flags;
  return qi::Runtime(options);
}

/// The hashes of a line.
std::vector<std::string> hashes_of(qi::Runtime& usual, qi::Runtime* exact, const fs::path& path) {
  std::vector<std::string> hashes;
  for (const std::int32_t kv_type : {QINFER_KV_F32, QINFER_KV_F16, QINFER_KV_BF16})
    hashes.push_back(bits_or_none(usual, path, {.kv_type = kv_type}));
  hashes.push_back(exact == nullptr ? "-" : bits_or_none(*exact, path, {}));
  for (const char* format : {"f32", "f16", "bf16"})
    hashes.push_back(bits_or_none(usual, path, {.weight_format = format}));
  return hashes;
}

/// What must not change the bits of this model.
void check_storage_and_chunks(qi::Runtime& runtime, const fs::path& path) {
  const std::string bits = bits_or_none(runtime, path, {});
  if (bits == "-") return;
  CHECK(bits_or_none(runtime, path, {.load_flags = QINFER_LOAD_NO_MMAP}) == bits);
  const qinfer::test::ModelDir dir;
  const std::string packed = dir.file("packed");
  qinfer_error error = {};
  REQUIRE(qinfer_model_pack(runtime.native(), path.c_str(), nullptr, packed.c_str(), &error) == QINFER_OK);
  CHECK(bits_of(load_variant(runtime, path, {}, packed.c_str()), {}) == bits);
  for (const std::size_t chunk : {1, 7, 33}) {
    INFO("chunks of " << chunk);
    CHECK(bits_or_none(runtime, path, {.chunk = chunk}) == bits);
  }
}

using BitsTable = std::map<std::string, std::string>;  // "MODEL SET" -> hashes

BitsTable read_table() {
  BitsTable table;
  std::ifstream file(kTable);
  for (std::string line, model, set; std::getline(file, line);) {
    std::istringstream words(line);
    if (line.empty() || line[0] == '#' || !(words >> model >> set)) continue;
    std::string hashes;
    for (std::string word; words >> word;) hashes += " " + word;
    table[model + " " + set] = hashes;
  }
  return table;
}

/// The sets that this CPU can run, and that are to be looked at.
std::vector<std::string> looked_at() {
  std::vector<std::string> sets = qinfer::test::usable_targets();
  const char* wanted = std::getenv("QINFER_BITS_SETS");
  if (wanted == nullptr) return sets;
  std::istringstream words(wanted);
  const std::set<std::string> names{std::istream_iterator<std::string>(words), {}};
  std::erase_if(sets, [&](const std::string& name) { return !names.contains(name); });
  INFO("QINFER_BITS_SETS=" << wanted << " on this CPU");
  REQUIRE((!names.empty() && sets.size() == names.size()));
  return sets;
}

/// Calls visit(MODEL, set name, usual runtime, exact one or null) for all that this CPU can run.
template <typename Visit>
void each_line(Visit visit) {
  const std::vector<std::string> exact = qinfer::test::usable_targets(true);
  for (const std::string& set : looked_at()) {
    qi::Runtime usual = runtime_of(set, 0);
    const bool has_exact = std::find(exact.begin(), exact.end(), set) != exact.end();
    qi::Runtime second = runtime_of(has_exact ? set : "reference", QINFER_RUNTIME_EXACT);
    for (const NamedModel& model : all_models()) visit(model, set, usual, has_exact ? &second : nullptr);
  }
}

std::string joined(const std::vector<std::string>& hashes) {
  std::string text;
  for (const std::string& hash : hashes) text += " " + hash;
  return text;
}

/// Lines are those of the models that there are, for every set of this build, whether or not this CPU can run it.
void check_lines(const BitsTable& table) {
  std::set<std::string> names;
  for (const NamedModel& model : all_models()) names.insert(model.name);
  for (const auto& [what, hashes] : table) {
    INFO(what);
    CHECK(names.contains(what.substr(0, what.find(' '))));
  }
  for (const std::string& name : names)
    for (const qinfer::kernels::KernelSetRow& row : qinfer::kernels::kernel_sets()) {
      INFO(name << " on " << row.name);
      CHECK(table.contains(name + " " + std::string(row.name)) == (row.name != kWithoutLines));
    }
}

}  // namespace

TEST_CASE("every model has the bits of the table on every kernel set", "[bits]") {
#ifndef __x86_64__
  SKIP_UNLESS(false, machine, "the table is of x86-64");
#endif
  const std::string libc = gnu_get_libc_version();
  SKIP_UNLESS(std::find(std::begin(kLibcs), std::end(kLibcs), libc) != std::end(kLibcs), machine,
              "the table was not compared with the C library " + libc);
  const BitsTable table = read_table();
  check_lines(table);
  std::size_t n_lines = 0;
  each_line([&](const NamedModel& model, const std::string& set, qi::Runtime& usual, qi::Runtime* exact) {
    INFO(model.name << " on " << set << ": KV f32, f16, bf16, exact, weights f32, f16, bf16");
    if (set != kWithoutLines) {
      const auto line = table.find(model.name + " " + set);
      REQUIRE(line != table.end());
      if (line->second != kNotRun) CHECK(joined(hashes_of(usual, exact, model.path)) == line->second);
    }
    check_storage_and_chunks(usual, model.path);
    ++n_lines;
  });
  CHECK(n_lines == all_models().size() * looked_at().size());
}

#ifdef QINFER_HAVE_AMX
// `.ci/run` runs it: it takes a minute.
TEST_CASE("emulated AMX and FP16 give every model the bits of the table", "[.][emulated]") {
  SKIP_UNLESS_CPU_HAS(qinfer::test::can_emulate_amx(), "AVX-512");
  const BitsTable table = read_table();
  std::size_t n_lines = 0, n_models = 0;
  for (const std::string_view set : {"amx", "avx512_fp16", "amx_int16"}) {
    qinfer::test::EmulatedRuntime runtime(1, set.data());
    for (const NamedModel& model : all_models()) {
      // A multiplication of f16 is a 256th of one of tiles, and takes the emulator as long.
      const bool quantised = model.name.starts_with("quant/");
      if (set == "avx512_fp16" && n_models++ % 8 != 0 && !quantised) continue;
      if (set == "amx_int16" && !quantised) continue;  // what it has of avx512_fp16
      const auto line = table.find(model.name + " " + std::string(set));
      REQUIRE(line != table.end());
      if (line->second == kNotRun) continue;
      INFO(model.name << " on " << set << ": KV f32, f16, bf16, weights f32, f16, bf16");
      CHECK(joined(hashes_of(runtime, nullptr, model.path)) == line->second);
      ++n_lines;
    }
  }
  CHECK(n_lines > 100);
}
#endif

TEST_CASE("prints the table of bits", "[.][bits-table]") {
  BitsTable table = read_table();
  for (const NamedModel& model : all_models())
    for (const qinfer::kernels::KernelSetRow& row : qinfer::kernels::kernel_sets())
      if (row.name != kWithoutLines) table.try_emplace(model.name + " " + std::string(row.name), kNotRun);
  each_line([&](const NamedModel& model, const std::string& set, qi::Runtime& usual, qi::Runtime* exact) {
    if (set != kWithoutLines) table[model.name + " " + set] = joined(hashes_of(usual, exact, model.path));
  });
#ifdef QINFER_HAVE_AMX
  if (qinfer::test::can_emulate_amx() && !qinfer::test::emulator::is_native()) {
    qinfer::test::EmulatedRuntime runtime(1, "amx");
    for (const NamedModel& model : all_models())
      table[model.name + " amx"] = joined(hashes_of(runtime, nullptr, model.path));
  }
#endif
  std::printf("# See tests/engine/bits.cpp.\n# model, kernel set; KV f32, f16, bf16; exact; weights f32, f16, bf16\n");
  for (const auto& [what, hashes] : table) std::printf("%s%s\n", what.c_str(), hashes.c_str());
  CHECK(!table.empty());
}
