// Packed models: the same bits as from the directory, and whatever is cut, altered, stale or foreign is refused with
// the reason.
#include <dirent.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "source/packed.h"
#include "support/c_api.h"
#include "support/skip.h"
#include "support/targets.h"

using namespace qinfer::test;
using qinfer::DType;

namespace {

TinySpec packable(bool tied = false, DType dtype = DType::bf16) {
  TinySpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.tied = tied;
  spec.dtype = dtype;
  return spec;
}

Runtime runtime_for(const std::string& target, bool exact = false) {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = 2;
  options.cpu_target = target.c_str();
  options.flags = exact ? QINFER_RUNTIME_EXACT : 0;
  qinfer_runtime* runtime = nullptr;
  REQUIRE_OK(qinfer_runtime_create(&options, &runtime, &err));
  return Runtime(runtime);
}

std::vector<float> logits_on(const Runtime& runtime, const std::string& path,
                             const qinfer_load_options* options = nullptr) {
  const Model model = load_model(runtime, path, options);
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(20));
  eval(session);
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  return last_logits(session, info.n_vocab);
}

/// Logits of some tokens or, of an encoder, their embedding.
std::vector<float> result_on(const Runtime& runtime, const std::string& path, std::uint32_t flags) {
  auto options = sized<qinfer_load_options>();
  options.flags = flags;
  const Model model = load_model(runtime, path, &options);
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(70, info.n_vocab));
  eval(session);
  if ((info.flags & QINFER_MODEL_ENCODER) == 0) return last_logits(session, info.n_vocab);
  std::vector<float> values(info.n_embd);
  std::size_t n = 0;
  REQUIRE_OK(qinfer_session_embedding(session.get(), 0, values.data(), values.size(), &n, &err));
  return values;
}

/// A directory with a model and, beside it, the packed file.
struct Packed {
  ModelDir dir;
  std::string path;
  explicit Packed(const TinySpec& spec, const std::string& target = {}, bool exact = false)
      : dir(spec), path(dir.file("model.packed")) {
    const Runtime runtime = runtime_for(target, exact);
    REQUIRE_OK(qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, path.c_str(), &err));
  }
  std::string bytes() const { return dir.read("model.packed"); }
};

qinfer_status try_load(const Runtime& runtime, const std::string& path, std::uint32_t flags, qinfer_error& err) {
  auto options = sized<qinfer_load_options>();
  options.flags = flags;
  qinfer_model* model = nullptr;
  const qinfer_status status = qinfer_model_load(runtime.get(), path.c_str(), &options, &model, &err);
  qinfer_model_free(model);
  return status;
}

}  // namespace

TEST_CASE("packed models of all that architectures differ in give the bits of their directories", "[packed]") {
  // Norms less one, four of them to a layer, only after or over all heads, two ropes, layers without keys, no LM head
  // and other names; rows of larger tensors, in another order.
  for (const char* name : {"gemma2-f32", "gemma3-f32", "gemma3-capped-bf16", "gemma3-shared-f32", "gemma3-encoder-f32",
                           "llama-bias-f16", "olmo2-odd-bf16", "phi3-window-bf16", "phi3-partial-f32", "qwen2moe-f32",
                           "qwen3moe-dense-f32", "mixtral-fused-f32"})
    for (const std::string& target : usable_targets()) {
      INFO(name << " on " << target);
      const ModelDir place;
      const std::string folder = QINFER_TEST_FIXTURES "/models/" + std::string(name), file = place.file("packed");
      const Runtime runtime = runtime_for(target);
      REQUIRE_OK(qinfer_model_pack(runtime.get(), folder.c_str(), nullptr, file.c_str(), &err));
      const std::vector<float> want = result_on(runtime, folder, 0);
      CHECK(result_on(runtime, file, 0) == want);
      CHECK(result_on(runtime, file, QINFER_LOAD_NO_MMAP | QINFER_LOAD_VERIFY) == want);
    }
}

/// GGUF files: plain ones with all that conversion changes, and quantised ones with every encoding.
TEST_CASE("packed GGUF files give the bits of the files", "[packed][gguf]") {
  for (const char* name :
       {"gguf/llama-llama3-f32.gguf", "gguf/gemma3-released-bf16.gguf", "gguf/phi3-partial-f32.gguf",
        "gguf/qwen2moe-f32.gguf", "gguf/mixtral-f32.gguf", "quant/mixed/model.gguf", "quant/moe/model.gguf"})
    for (const std::string& target : usable_targets()) {
      if (uses_tiles(target) && std::string(name).starts_with("quant")) continue;  // refused, which another test checks
      INFO(name << " on " << target);
      const ModelDir place;
      const std::string model = QINFER_TEST_FIXTURES "/" + std::string(name), file = place.file("packed");
      const Runtime runtime = runtime_for(target);
      REQUIRE_OK(qinfer_model_pack(runtime.get(), model.c_str(), nullptr, file.c_str(), &err));
      const std::vector<float> want = result_on(runtime, model, 0);
      CHECK(result_on(runtime, model, QINFER_LOAD_NO_MMAP | QINFER_LOAD_VERIFY) == want);
      CHECK(result_on(runtime, file, 0) == want);
      CHECK(result_on(runtime, file, QINFER_LOAD_NO_MMAP | QINFER_LOAD_VERIFY) == want);
      auto options = sized<qinfer_load_options>();
      options.packed_path = file.c_str();
      load_model(runtime, model, &options);
    }
}

TEST_CASE("a packed model gives the bits of its directory", "[packed]") {
  for (const std::string& target : usable_targets())
    for (const bool tied : {false, true})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        INFO(target << " tied " << tied << " " << dtype_name(dtype));
        const Packed packed(packable(tied, dtype), target);
        const Runtime runtime = runtime_for(target);
        const auto expected = logits_on(runtime, packed.dir.path());
        CHECK(logits_on(runtime, packed.path) == expected);
        auto options = sized<qinfer_load_options>();
        options.flags = QINFER_LOAD_VERIFY;
        CHECK(logits_on(runtime, packed.path, &options) == expected);
        options.flags = QINFER_LOAD_VERIFY | QINFER_LOAD_NO_MMAP;
        CHECK(logits_on(runtime, packed.path, &options) == expected);
        options.flags = 0;
        options.packed_path = packed.path.c_str();
        CHECK(logits_on(runtime, packed.dir.path(), &options) == expected);
      }
}

TEST_CASE("exact weights pack exactly", "[packed]") {
  for (const std::string& target : usable_targets(true)) {
    INFO(target);
    const Packed packed(packable(), target, true);
    const Runtime runtime = runtime_for(target, true);
    CHECK(logits_on(runtime, packed.path) == logits_on(runtime, packed.dir.path()));
  }
}

TEST_CASE("a packed model is planned to the byte and brings its tokenizer and RoPE table", "[packed]") {
  const Packed packed(packable());
  const Runtime runtime = runtime_for("");
  const Model model = load_model(runtime, packed.path);
  auto used = sized<qinfer_memory>(), planned = sized<qinfer_memory>();
  auto runtime_options = sized<qinfer_runtime_options>();
  runtime_options.n_threads = 2;
  REQUIRE_OK(qinfer_model_get_memory(model.get(), &used, &err));
  REQUIRE_OK(qinfer_model_plan(packed.path.c_str(), &runtime_options, nullptr, nullptr, nullptr, &planned, &err));
  CHECK(planned.total == used.total);
  CHECK(used.weights_private == 0);
  CHECK(used.weights_mapped > 0);
  qinfer_token tokens[8];
  std::size_t n = 0;
  REQUIRE_OK(qinfer_tokenize(model.get(), "the", 3, 0, tokens, 8, &n, &err));
  CHECK(n == 1);
}

TEST_CASE("a packed file that is cut anywhere is refused", "[packed]") {
  const Packed packed(packable());
  const Runtime runtime = runtime_for("");
  const std::string whole = packed.bytes();
  qinfer_error err;
  for (std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{100}, std::size_t{4096},
                           whole.size() / 2, whole.size() - 1}) {
    packed.dir.write("cut", std::string_view(whole).substr(0, size));
    INFO(size << " of " << whole.size() << " bytes");
    CHECK(try_load(runtime, packed.dir.file("cut"), 0, err) == QINFER_E_FORMAT);
    CHECK(std::string(err.message).find("cut") != std::string::npos);
  }
  packed.dir.write("long", whole + "x");
  CHECK(try_load(runtime, packed.dir.file("long"), 0, err) == QINFER_E_FORMAT);
}

TEST_CASE("a changed byte of a packed file is refused, or is white space", "[packed]") {
  const Packed packed(packable(true));
  const Runtime runtime = runtime_for("");
  const std::string whole = packed.bytes();
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  const std::size_t header_end = 8 + static_cast<std::size_t>(length);
  qinfer_error err;
  std::size_t refused = 0, tried = 0;
  // Every byte of the header without VERIFY; every 37th byte of the rest with it.
  for (std::size_t at = 0; at < whole.size(); at += at < header_end ? 1 : 37) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x15);
    packed.dir.write("changed", changed);
    ++tried;
    const qinfer_status status =
        try_load(runtime, packed.dir.file("changed"), at < header_end ? 0 : QINFER_LOAD_VERIFY, err);
    if (status != QINFER_OK) ++refused;
    INFO("byte " << at << " of " << whole.size() << ", header ends at " << header_end);
    REQUIRE(status != QINFER_OK);
  }
  CHECK(refused == tried);
}

namespace {

void check_refused(const Runtime& runtime, const std::string& path, qinfer_status code, const char* why,
                   const qinfer_load_options* options = nullptr) {
  qinfer_model* model = nullptr;
  qinfer_error error;
  INFO(path);
  REQUIRE(qinfer_model_load(runtime.get(), path.c_str(), options, &model, &error) == code);
  INFO(error.message);
  REQUIRE(std::string(error.message).find(why) != std::string::npos);
}

}  // namespace

TEST_CASE("foreign and stale packed files are refused with the reason", "[packed]") {
  const Runtime runtime = runtime_for("");
  const ModelDir dir(packable());
  SECTION("a checkpoint is not a packed model") {
    check_refused(runtime, dir.file("model.safetensors"), QINFER_E_FORMAT, "not a packed model");
  }
  SECTION("another version") {
    const Packed packed(packable());
    const std::string key = "\"qinfer.packed\":\"2\"";
    for (const std::string version : {"1", "7"}) {
      std::string bytes = packed.bytes();
      bytes.replace(bytes.find(key), key.size(), "\"qinfer.packed\":\"" + version + "\"");
      packed.dir.write("other", bytes);
      check_refused(runtime, packed.dir.file("other"), QINFER_E_UNSUPPORTED,
                    ("packed in version " + version + ", this library reads 2").c_str());
    }
  }
  SECTION("the checkpoint has changed since") {
    const Packed packed(packable());
    auto options = sized<qinfer_load_options>();
    options.packed_path = packed.path.c_str();
    load_model(runtime, packed.dir.path(), &options);
    std::string bytes = packed.dir.read("model.safetensors");
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    packed.dir.write("model.safetensors", bytes);
    check_refused(runtime, packed.dir.path(), QINFER_E_FORMAT, "was packed from another state of", &options);
  }
  SECTION("it is not there") {
    auto options = sized<qinfer_load_options>();
    const std::string missing = dir.file("missing");
    options.packed_path = missing.c_str();
    check_refused(runtime, dir.path(), QINFER_E_NOT_FOUND, "missing", &options);
  }
}

TEST_CASE("a packed file is refused by kernels that want other weights", "[packed]") {
  SKIP_UNLESS_CPU_HAS(usable_targets(true).front() == "avx512", "AVX-512");
  const Packed packed(packable(), "avx512");
  check_refused(runtime_for("reference"), packed.path, QINFER_E_UNSUPPORTED, "packed as f16 for kernel set avx512");
  check_refused(runtime_for("avx512", true), packed.path, QINFER_E_UNSUPPORTED, "with QINFER_RUNTIME_EXACT");
  for (const std::string& target : usable_targets()) {
    if (repacks(target) && !rounds_to_bf16(target)) {  // they share a layout
      const Runtime runtime = runtime_for(target), avx512 = runtime_for("avx512");
      CHECK(logits_on(runtime, packed.path) == logits_on(runtime, packed.dir.path()));
      const Packed other(packable(), target);
      CHECK(logits_on(avx512, other.path) == logits_on(avx512, other.dir.path()));
    }
    if (rounds_to_bf16(target))
      check_refused(runtime_for(target), packed.path, QINFER_E_UNSUPPORTED, (target + " does not take it so").c_str());
  }
}

TEST_CASE("packing fails without leaving a file, and never spoils an old one", "[packed]") {
  const ModelDir dir(packable());
  const Runtime runtime = runtime_for("");
  const auto files = [&dir] {
    std::vector<std::string> names;
    DIR* open = opendir(dir.path().c_str());
    while (const dirent* entry = readdir(open)) names.emplace_back(entry->d_name);
    closedir(open);
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto before = files();
  auto options = sized<qinfer_load_options>();
  struct Stop {
    int after;
    static int32_t at(std::uint64_t, std::uint64_t, void* user) {
      return --static_cast<Stop*>(user)->after < 0 ? 1 : 0;
    }
  };
  options.progress = Stop::at;
  const std::string out = dir.file("out");
  for (int after = 0;; ++after) {
    Stop stop{after};
    options.progress_user = &stop;
    qinfer_error error;
    const qinfer_status status = qinfer_model_pack(runtime.get(), dir.path().c_str(), &options, out.c_str(), &error);
    if (status == QINFER_OK) break;
    REQUIRE(status == QINFER_E_CANCELLED);
    REQUIRE(files() == before);
    REQUIRE(after < 1000);
  }
  const std::string good = dir.read("out");
  Stop stop{0};
  options.progress_user = &stop;
  REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled",
                qinfer_model_pack(runtime.get(), dir.path().c_str(), &options, out.c_str(), &err));
  CHECK(dir.read("out") == good);
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "no/such",
                qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, dir.file("no/such").c_str(), &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "is not a model directory",
                qinfer_model_pack(runtime.get(), out.c_str(), nullptr, out.c_str(), &err));
  options = sized<qinfer_load_options>();
  options.flags = QINFER_LOAD_EMBED_ROWS;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "QINFER_LOAD_EMBED_ROWS",
                qinfer_model_pack(runtime.get(), dir.path().c_str(), &options, out.c_str(), &err));
}

TEST_CASE("tied embeddings may have rows of their own", "[packed]") {
  const ModelDir dir(packable(true));
  for (const std::string& target : usable_targets()) {
    INFO(target);
    const Runtime runtime = runtime_for(target);
    auto options = sized<qinfer_load_options>();
    options.flags = QINFER_LOAD_EMBED_ROWS;
    CHECK(logits_on(runtime, dir.path(), &options) == logits_on(runtime, dir.path()));
  }
}

namespace {

using qinfer::source::PackedFile;
using qinfer::source::PackedWriter;

/// Writes a packed file again with one tensor changed: as an attacker could who knows how checksums are made.
void rewrite(const Packed& packed, const std::string& out, const std::function<void(PackedWriter::Item&)>& change) {
  auto opened = PackedFile::open(packed.path, {});
  REQUIRE(opened.ok());
  const PackedFile& file = opened.value();
  std::vector<std::vector<std::byte>> data;
  PackedWriter writer;
  for (const auto& tensor : file.checkpoint.tensors()) {
    data.emplace_back(tensor.bytes());
    REQUIRE(file.checkpoint.read(tensor, 0, data.back()).ok());
    PackedWriter::Item item;
    item.name = tensor.name;
    item.dtype = tensor.dtype;
    item.shape = tensor.shape;
    item.data = data.back();
    item.info = *file.find(tensor.name);
    change(item);
    writer.add(std::move(item));
  }
  REQUIRE(writer.write(out, file.kernel_set, file.fingerprints, file.exact, nullptr).ok());
}

}  // namespace

TEST_CASE("a packed file that lies about its tensors is refused", "[packed]") {
  const Packed packed(packable());
  const Runtime runtime = runtime_for("");
  const std::string out = packed.dir.file("lies");
  qinfer_error err;
  std::vector<std::byte> other(4 << 20);
  const auto refused = [&](const char* why, std::uint32_t flags,
                           const std::function<void(PackedWriter::Item&)>& change) {
    rewrite(packed, out, change);
    INFO(why);
    REQUIRE(try_load(runtime, out, flags, err) != QINFER_OK);
    INFO(err.message);
    CHECK(std::string(err.message).find(why) != std::string::npos);
  };
  rewrite(packed, out, [](PackedWriter::Item&) {});
  REQUIRE(try_load(runtime, out, QINFER_LOAD_VERIFY, err) == QINFER_OK);
  refused("at most 1048576 are accepted", 0, [&](PackedWriter::Item& item) {
    if (item.name != "qinfer.text.config.json") return;
    item.shape = {2 << 20};
    item.data = {other.data(), 2 << 20};
  });
  const float nan = NAN;
  std::memcpy(other.data(), &nan, 4);
  refused("expected a finite number", QINFER_LOAD_VERIFY, [&](PackedWriter::Item& item) {
    if (item.name == "model.norm.weight") item.data = {other.data(), item.data.size()};
  });
  refused("the shape", 0, [&](PackedWriter::Item& item) {
    if (item.name == "model.norm.weight") item.shape = {1, item.shape[0]};
  });
  refused("no tensor", 0, [&](PackedWriter::Item& item) {
    if (item.name == "model.norm.weight") item.name = "model.another.weight";
  });
  for (const float scale : {0.0f, 3.0f, INFINITY, NAN, -1.0f})
    refused("expected layout, sizes", 0, [&](PackedWriter::Item& item) {
      if (item.name == "model.layers.0.mlp.up_proj.weight") item.info.pack.scale = scale;
    });
}

TEST_CASE("layers whose matrices are stored in different encodings keep them, packed too", "[packed]") {
  TinySpec spec = packable();
  const ModelDir dir(spec), plain(spec);
  // The values are the same in all three encodings, so the logits must be, too.
  write_changed(dir, spec, [](std::vector<TinyTensor>& tensors) {
    const std::pair<const char*, DType> changes[] = {{"model.layers.0.self_attn.k_proj.weight", DType::f32},
                                                     {"model.layers.0.self_attn.v_proj.weight", DType::bf16},
                                                     {"model.layers.0.mlp.up_proj.weight", DType::f32},
                                                     {"model.layers.1.mlp.down_proj.weight", DType::f32}};
    for (const auto& [name, type] : changes) {
      TinyTensor& tensor = find_tensor(tensors, name);
      std::vector<float> values(tensor.data.size() / 2);
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, tensor.data.data() + 2 * i, 2);
        values[i] = tensor.dtype == "F16" ? qinfer::f16_to_f32(bits) : qinfer::bf16_to_f32(bits);
      }
      tensor.data = encode_values(values, type);
      tensor.dtype = type == DType::f32 ? "F32" : "BF16";
    }
  });
  for (const std::string& target : usable_targets(true)) {
    INFO(target);
    const Runtime runtime = runtime_for(target, true);
    const std::vector<float> want = logits_on(runtime, plain.path());
    CHECK(logits_on(runtime, dir.path()) == want);
    const std::string out = dir.file("mixed-" + target);
    REQUIRE_OK(qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, out.c_str(), &err));
    CHECK(logits_on(runtime, out) == want);
    const Model model = load_model(runtime, out);
    auto info = sized<qinfer_model_info>();
    REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
    CHECK(std::string(info.weight_format) == "mixed");
  }
}

TEST_CASE("packing onto the checkpoint itself is refused", "[packed]") {
  const ModelDir dir(packable());
  const Runtime runtime = runtime_for("");
  const std::string before = dir.read("model.safetensors");
  REQUIRE_FAILS(
      QINFER_E_INVALID_ARGUMENT, "is a file of the checkpoint itself",
      qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, dir.file("model.safetensors").c_str(), &err));
  CHECK(dir.read("model.safetensors") == before);
}
