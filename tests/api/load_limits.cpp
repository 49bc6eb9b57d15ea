// Models that are larger than a budget, than what may be locked, or than memory: QINFER_LOAD_BUDGET_PRIVATE and
// QINFER_LOAD_LOCK.
#include <linux/capability.h>
#include <sys/syscall.h>

#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/in_child.h"
#include "support/skip.h"
#include "support/targets.h"

using namespace qinfer::test;

namespace {

/// A checkpoint of one mixture of experts, all zeros, which take no place on the disk: `bytes` or somewhat more.
class SparseMixture {
 public:
  static constexpr std::uint64_t kHidden = 1024;

  SparseMixture(std::uint64_t bytes, std::uint64_t n_experts)
      : n_experts_(n_experts), width_(bytes / (n_experts * 3 * kHidden * sizeof(float)) + 1) {
    write_config();
    add("model.embed_tokens.weight", {kVocab, kHidden});
    const std::string layer = "model.layers.0.";
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"}) add(layer + norm, {kHidden});
    for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) add(layer + norm, {kHeadDim});
    for (const char* name : {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"})
      add(layer + name, {kHeadDim, kHidden});
    add(layer + "self_attn.o_proj.weight", {kHidden, kHeadDim});
    add(layer + "mlp.gate.weight", {n_experts_, kHidden});
    for (std::uint64_t e = 0; e < n_experts_; ++e) {
      const std::string expert = fmt::format("{}mlp.experts.{}.", layer, e);
      add(expert + "gate_proj.weight", {width_, kHidden});
      add(expert + "up_proj.weight", {width_, kHidden});
      add(expert + "down_proj.weight", {kHidden, width_});
    }
    add("model.norm.weight", {kHidden});
    const std::string file = safetensors_file(header_.dump(), "");
    dir_.write("model.safetensors", file);
    REQUIRE(truncate(dir_.file("model.safetensors").c_str(), static_cast<off_t>(file.size() + at_)) == 0);
  }
  const std::string& path() const { return dir_.path(); }
  std::string file(const char* name) const { return dir_.file(name); }

 private:
  static constexpr std::uint64_t kVocab = 64, kHeadDim = 32;

  void write_config() const {
    const nlohmann::json config = {{"architectures", {"Qwen3MoeForCausalLM"}},
                                   {"hidden_act", "silu"},
                                   {"hidden_size", kHidden},
                                   {"head_dim", kHeadDim},
                                   {"intermediate_size", 32},
                                   {"max_position_embeddings", 64},
                                   {"moe_intermediate_size", width_},
                                   {"norm_topk_prob", true},
                                   {"num_attention_heads", 1},
                                   {"num_key_value_heads", 1},
                                   {"num_experts", n_experts_},
                                   {"num_experts_per_tok", 2},
                                   {"num_hidden_layers", 1},
                                   {"rms_norm_eps", 1e-5},
                                   {"rope_theta", 10000.0},
                                   {"tie_word_embeddings", true},
                                   {"vocab_size", kVocab}};
    dir_.write("config.json", config.dump());
  }

  void add(const std::string& name, const std::vector<std::uint64_t>& shape) {
    std::uint64_t bytes = sizeof(float);
    for (const std::uint64_t extent : shape) bytes *= extent;
    header_[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {at_, at_ + bytes}}};
    at_ += bytes;
  }

  ModelDir dir_;
  std::uint64_t n_experts_, width_, at_ = 0;
  nlohmann::json header_;
};

/// The machine's memory, or the cgroup's, and a tenth.
std::uint64_t more_than_memory(const ModelDir& any) { return qi::plan(any.path()).system_limit / 10 * 11; }

/// A number of KiB in /proc/self/status, in bytes.
std::uint64_t status_bytes(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string name; in >> name;) {
    std::uint64_t kib = 0;
    if (name == field && in >> kib) return kib * 1024;
    in.ignore(1 << 16, '\n');
  }
  throw std::runtime_error("no " + field);
}

/// Pages of files in memory: those of a file system in memory are counted apart.
std::uint64_t resident_file_bytes() { return status_bytes("RssFile:") + status_bytes("RssShmem:"); }

/// What `load` says for a budget, for all kinds of what a model's budget is taken for.
void check_budget(const std::string& target, const std::string& path) {
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.n_threads = 1;
  runtime_options.cpu_target = target.c_str();
  auto load = qi::options<qinfer_load_options>();
  load.max_batch_tokens = 8;
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.budget_blocks = 2;
  auto session_options = qi::options<qinfer_session_options>();
  session_options.max_tokens = 48;
  const qinfer_memory plan = qi::plan(path, &runtime_options, &load, &cache_options, &session_options);
  const qinfer_memory of_model = qi::plan(path, &runtime_options, &load);
  const std::uint64_t needed = of_model.load_peak - of_model.weights_mapped;
  REQUIRE(of_model.weights_mapped > needed);

  qi::Runtime runtime(runtime_options);
  qinfer_model* refused = nullptr;
  load.memory_budget_bytes = of_model.load_peak - 1;
  REQUIRE_FAILS_AT(QINFER_E_NO_MEMORY, static_cast<std::int64_t>(of_model.load_peak), "memory_budget_bytes is",
                   qinfer_model_load(runtime.native(), path.c_str(), &load, &refused, &err));
  load.flags = QINFER_LOAD_BUDGET_PRIVATE;
  load.memory_budget_bytes = needed - 1;
  REQUIRE_FAILS_AT(QINFER_E_NO_MEMORY, static_cast<std::int64_t>(needed), "mapped, not counted,",
                   qinfer_model_load(runtime.native(), path.c_str(), &load, &refused, &err));
  load.memory_budget_bytes = needed;
  {
    const qi::Model model = qi::Model::load(runtime, path, load);
    REQUIRE(model.memory().weights_mapped == of_model.weights_mapped);
    qinfer_kv_cache* cache = nullptr;
    REQUIRE_FAILS(QINFER_E_NO_MEMORY, "memory_budget_bytes is",
                  qinfer_kv_cache_create(model.native(), &cache_options, &cache, &err));
  }
  // All that comes later is charged, against private memory alone: a byte less is too little for the session.
  const std::uint64_t all = plan.total - plan.weights_mapped + plan.per_session;
  for (const std::uint64_t budget : {all, all - 1}) {
    load.memory_budget_bytes = budget;
    const qi::Model model = qi::Model::load(runtime, path, load);
    qi::KvCache cache(model, cache_options);
    if (budget == all) {
      qi::Session session(cache, session_options);
      session.append(some_tokens(3, 64));
      session.eval();
      REQUIRE(model.memory().total - model.memory().weights_mapped + plan.kv_cache_bytes + plan.kv_lists +
                  plan.per_session ==
              all);
    } else {
      qinfer_session* session = nullptr;
      REQUIRE_FAILS(QINFER_E_NO_MEMORY, "of which",
                    qinfer_session_create(cache.native(), &session_options, &session, &err));
    }
  }
}

/// What mlock() grants to those without privileges.
void drop_privilege_to_lock() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  need(syscall(SYS_capget, &header, data) == 0, "capget failed");
  data[0].effective &= ~(1u << CAP_IPC_LOCK);
  need(syscall(SYS_capset, &header, data) == 0, "capset failed");
}

qinfer_load_options locked() {
  auto options = sized<qinfer_load_options>();
  options.flags = QINFER_LOAD_LOCK;
  options.progress = [](uint64_t, uint64_t, void* user) -> int32_t { return ++*static_cast<int*>(user), 0; };
  return options;
}

}  // namespace

TEST_CASE("QINFER_LOAD_BUDGET_PRIVATE counts no mapped weights: a directory, and packed files", "[api][limits]") {
  const SparseMixture model(24 << 20, 16);
  check_budget("reference", model.path());
  for (const std::string& target : usable_targets()) {
    INFO(target);
    auto options = qi::options<qinfer_runtime_options>();
    options.cpu_target = target.c_str();
    qi::Runtime runtime(options);
    qi::pack(runtime, model.path(), model.file("packed"));
    check_budget(target, model.file("packed"));
    std::filesystem::remove(model.file("packed"));
  }
}

TEST_CASE("Without mapped weights QINFER_LOAD_BUDGET_PRIVATE changes nothing", "[api][limits]") {
  const ModelDir dir{TinySpec()};
  qi::Runtime runtime;
  auto runtime_options = qi::options<qinfer_runtime_options>();
  auto load = qi::options<qinfer_load_options>();
  load.flags = QINFER_LOAD_BUDGET_PRIVATE | QINFER_LOAD_NO_MMAP;
  const qinfer_memory plan = qi::plan(dir.path(), &runtime_options, &load);
  REQUIRE(plan.weights_mapped == 0);
  load.memory_budget_bytes = plan.load_peak - 1;
  qinfer_model* refused = nullptr;
  REQUIRE_FAILS_AT(QINFER_E_NO_MEMORY, static_cast<std::int64_t>(plan.load_peak), "memory_budget_bytes",
                   qinfer_model_load(runtime.native(), dir.path().c_str(), &load, &refused, &err));
  load.memory_budget_bytes = plan.load_peak;
  qi::Model::load(runtime, dir.path(), load);
}

TEST_CASE("A mapped mixture larger than memory runs, and reads no expert that is not chosen", "[api][limits]") {
  const ModelDir any{TinySpec()};
  const std::uint64_t bytes = more_than_memory(any);
  SKIP_UNLESS(bytes != 0, machine, "the system does not tell how much memory there is");
  constexpr std::uint64_t kExperts = 2048;
  const SparseMixture sparse(bytes, kExperts);
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 2;
  options.cpu_target = "reference";
  qi::Runtime runtime(options);
  auto load = qi::options<qinfer_load_options>();
  load.flags = QINFER_LOAD_BUDGET_PRIVATE;
  load.max_batch_tokens = 8;
  load.memory_budget_bytes = 1 << 30;
  const std::uint64_t before_loading = resident_file_bytes();
  const qi::Model model = qi::Model::load(runtime, sparse.path(), load);
  const qinfer_memory memory = model.memory();
  REQUIRE(memory.weights_mapped > memory.system_limit);
  REQUIRE(resident_file_bytes() <= before_loading + (4 << 20));
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(some_tokens(3, 64));
  const std::uint64_t before = resident_file_bytes();
  session.eval();
  const std::uint64_t after = resident_file_bytes();
  REQUIRE(after > before);
  const std::uint64_t read = after - before;
  // A router of zeros makes all experts equal, so that every token has the same two.
  std::vector<std::uint64_t> counts = model.expert_counts(0);
  REQUIRE(counts.size() == kExperts);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  REQUIRE(counts[0] == 3);
  REQUIRE(counts[1] == 3);
  REQUIRE(counts[2] == 0);
  // The system maps up to 64 KiB around each page that is touched.
  REQUIRE(read >= memory.active_weight_bytes / 2);
  REQUIRE(read <= memory.active_weight_bytes + (4 << 20));
}

#if !defined(QINFER_SANITIZED)  // AddressSanitizer makes mlock() do nothing
TEST_CASE("QINFER_LOAD_LOCK says what it would lock beyond RLIMIT_MEMLOCK, and reads nothing", "[api][limits]") {
  struct Kind {
    bool packed;
    std::uint32_t flags;
  };
  for (const auto& [packed, flags] : {Kind{false, 0}, Kind{true, 0}, Kind{false, QINFER_LOAD_NO_MMAP}}) {
    INFO((packed ? "packed" : "directory") << ", flags " << flags);
    TinySpec spec;
    spec.tied = true;
    const ModelDir dir{spec};
    const std::string path = packed ? dir.file("packed") : dir.path();
    REQUIRE_CHILD([&, packed = packed, flags = flags] {
      const Runtime runtime = make_runtime(1, "reference");
      if (packed) REQUIRE_OK(qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, path.c_str(), &err));
      drop_privilege_to_lock();
      int reports = 0;
      qinfer_load_options options = locked();
      options.progress_user = &reports;
      options.flags |= flags;
      const auto load = [&](qinfer_status wanted, std::int64_t detail, const std::string& message) {
        qinfer_model* model = nullptr;
        qinfer_error err = {};
        const qinfer_status status = qinfer_model_load(runtime.get(), path.c_str(), &options, &model, &err);
        if (detail == 0) detail = err.detail;
        need_status("load", status, err, wanted, detail, message);
        const Model handle(model);
        need((reports != 0) == (status == QINFER_OK), "weights were read, or none");
        if (status == QINFER_OK) need(status_bytes("VmLck:") > 0, "nothing is locked");
        reports = 0;
        return status == QINFER_OK ? static_cast<std::int64_t>(status_bytes("VmLck:")) : detail;
      };
      std::int64_t needed = 0;
      {
        const SmallLimit small(RLIMIT_MEMLOCK, 8192);
        needed = load(QINFER_E_NO_MEMORY, 0, "RLIMIT_MEMLOCK (ulimit -l) is 8192 bytes with 0 in use");
        need(needed > 8192 && needed % 4096 == 0, fmt::format("{} bytes are needed", needed));
      }
      {
        const SmallLimit small(RLIMIT_MEMLOCK, static_cast<std::uint64_t>(needed) - 4096);
        load(QINFER_E_NO_MEMORY, needed, fmt::format("would lock {} bytes", needed));
      }
      {
        const SmallLimit enough(RLIMIT_MEMLOCK, static_cast<std::uint64_t>(needed));
        const std::int64_t in_use = load(QINFER_OK, 0, "");
        need(in_use == needed, fmt::format("{} bytes are locked, {} were announced", in_use, needed));
        need(status_bytes("VmLck:") == 0, "memory stays locked after the model");
      }
      {
        const SmallLimit none(RLIMIT_MEMLOCK, 0);
        load(QINFER_E_NO_MEMORY, needed, "(ulimit -l) is 0 bytes");
        options.flags = flags;
        load_model(runtime, path, &options);
      }
    });
  }
}
#endif

TEST_CASE("QINFER_LOAD_LOCK refuses more than the memory of the machine, and reads nothing", "[api][limits]") {
  const ModelDir any{TinySpec()};
  const std::uint64_t bytes = more_than_memory(any);
  SKIP_UNLESS(bytes != 0, machine, "the system does not tell how much memory there is");
  const SparseMixture sparse(bytes, 64);
  REQUIRE_CHILD([&] {
    const Runtime runtime = make_runtime(1, "reference");
    // Should it be tried all the same, this keeps the machine's memory from being locked.
    drop_privilege_to_lock();
    const SmallLimit small(RLIMIT_MEMLOCK, 8192);
    int reports = 0;
    qinfer_load_options options = locked();
    options.progress_user = &reports;
    qinfer_model* refused = nullptr;
    qinfer_error err = {};
    const qinfer_status status = qinfer_model_load(runtime.get(), sparse.path().c_str(), &options, &refused, &err);
    need_status("load", status, err, QINFER_E_NO_MEMORY, err.detail, "of this machine or cgroup: load without it");
    need(err.detail > static_cast<std::int64_t>(bytes), fmt::format("{} bytes are needed", err.detail));
    need(reports == 0, "weights were read");
  });
}

TEST_CASE("QINFER_LOAD_LOCK with QINFER_LOAD_BUDGET_PRIVATE contradict each other where weights are mapped",
          "[api][limits]") {
  const ModelDir dir{TinySpec()};
  qinfer_model* refused = nullptr;
  auto options = sized<qinfer_load_options>();
  options.flags = QINFER_LOAD_LOCK | QINFER_LOAD_BUDGET_PRIVATE;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "give one of the two",
                qinfer_model_load(nullptr, dir.path().c_str(), &options, &refused, &err));
  auto memory = sized<qinfer_memory>();
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "give one of the two",
                qinfer_model_plan(dir.path().c_str(), nullptr, &options, nullptr, nullptr, &memory, &err));
  options.flags |= QINFER_LOAD_NO_MMAP;
  REQUIRE_OK(qinfer_model_plan(dir.path().c_str(), nullptr, &options, nullptr, nullptr, &memory, &err));
}
