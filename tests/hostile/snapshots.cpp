// Snapshots that more than one way of computing has written to, or of which the disk has lost a part; and outputs that
// would become files of the model directory.
#include "support/c_api.h"

using namespace qinfer::test;

namespace {

struct Loaded {
  Runtime runtime = make_runtime(1, "reference");
  Model model;
  Cache cache;
  Loaded(const ModelDir& dir, const char* weight_format) {
    auto options = sized<qinfer_load_options>();
    options.weight_format = weight_format;
    model = load_model(runtime, dir.path(), &options);
    cache = make_cache(model);
  }
};

TinySpec spec() {
  TinySpec spec;
  spec.context_tokens = 512;
  return spec;
}

void go_on(const Session& session, std::size_t n) {
  append(session, some_tokens(n));
  eval(session);
}

void save(const Session& session, const std::string& path) {
  REQUIRE_OK(qinfer_session_save(session.get(), path.c_str(), &err));
}

struct Outcome {
  Session session;
  qinfer_session_load_result result;
};

Outcome load_session(const Loaded& into, const std::string& path, std::uint32_t flags = 0) {
  auto options = sized<qinfer_session_load_options>();
  options.flags = flags;
  auto result = sized<qinfer_session_load_result>();
  qinfer_session* session = nullptr;
  REQUIRE_OK(qinfer_session_load_with(into.cache.get(), path.c_str(), &options, &session, &result, &err));
  return {Session(session), result};
}

/// A file saved to three times, of 40, 80 and 120 tokens, and where in it the newer state record and its tail are.
struct Thrice {
  ModelDir dir{spec()};
  Loaded loaded{dir, nullptr};
  std::string path = dir.file("session"), bytes;
  std::size_t newer_record = 4096, older_record = 8192, newer_tail = 3 * 4096;

  Thrice() {
    const Session session = make_session(loaded.cache);
    for (int i = 0; i < 3; ++i) {
      go_on(session, 40);
      save(session, path);
    }
    bytes = dir.read("session");
    REQUIRE(bytes[newer_record] == 3);  // sequence numbers
    REQUIRE(bytes[older_record] == 2);
  }
};

}  // namespace

TEST_CASE("what two ways of loading have computed is said to be of another way by both", "[hostile][snapshot]") {
  const ModelDir dir(spec());
  const std::string path = dir.file("session");
  const Loaded one(dir, "f32"), other(dir, "bf16");
  const Session session = make_session(one.cache);
  go_on(session, 40);
  save(session, path);
  const Outcome taken = load_session(other, path, QINFER_SNAPSHOT_ANY_BITS);
  go_on(taken.session, 40);  // 40 tokens of bf16 after 40 of f32
  save(taken.session, path);
  const Outcome back = load_session(one, path, QINFER_SNAPSHOT_ANY_BITS);
  INFO("of 80 tokens 40 were computed with bf16, and loading with f32 says flags " << back.result.flags);
  REQUIRE(back.result.flags == QINFER_SNAPSHOT_OTHER_BITS);
}

TEST_CASE("a newer state that the disk has made zeros of is missed", "[hostile][snapshot]") {
  Thrice t;
  t.bytes.replace(t.newer_record, 4096, std::string(4096, '\0'));
  t.dir.write("session", t.bytes);
  const Outcome loaded = load_session(t.loaded, t.path);
  INFO(loaded.result.tokens << " of 120 tokens came back, with flags " << loaded.result.flags);
  REQUIRE(loaded.result.flags == QINFER_SNAPSHOT_RECOVERED);  // the state left is the second: there was another
}

TEST_CASE("where only the newer state's tail is damaged the file is refused", "[hostile][snapshot]") {
  Thrice t;
  t.bytes[t.newer_tail] = static_cast<char>(t.bytes[t.newer_tail] ^ 1);
  t.dir.write("session", t.bytes);
  qinfer_session* session = nullptr;
  REQUIRE_FAILS(QINFER_E_FORMAT, "what was saved last is damaged",
                qinfer_session_load(t.loaded.cache.get(), t.path.c_str(), &session, &err));
}

TEST_CASE("a damaged record is told even if the state that is loaded is the newest", "[hostile][snapshot]") {
  Thrice t;
  t.bytes[t.older_record + 8] = static_cast<char>(t.bytes[t.older_record + 8] ^ 1);
  t.dir.write("session", t.bytes);
  const Outcome loaded = load_session(t.loaded, t.path);
  INFO(loaded.result.tokens << " of 120 tokens came back, with flags " << loaded.result.flags);
  REQUIRE(loaded.result.tokens == 120);
  REQUIRE(loaded.result.flags == QINFER_SNAPSHOT_RECOVERED);  // which of the two was later the damaged one cannot say
}

TEST_CASE("the index is one of the directory's own files", "[hostile][packed]") {
  TinySpec sharded = spec();
  sharded.shards = 2;
  const ModelDir dir(sharded);
  const Runtime runtime = make_runtime(1);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "model.safetensors.index.json",
                qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr,
                                  dir.file("model.safetensors.index.json").c_str(), &err));
}

TEST_CASE("a file that the directory does not have, but would read, is not packed to", "[hostile][packed]") {
  const ModelDir dir(spec());
  const Runtime runtime = make_runtime(1);
  const std::string out = dir.file("generation_config.json");
  qinfer_error err = {};
  const qinfer_status status = qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, out.c_str(), &err);
  qinfer_model* model = nullptr;
  const qinfer_status after = qinfer_model_load(runtime.get(), dir.path().c_str(), nullptr, &model, &err);
  qinfer_model_free(model);
  INFO("pack gave " << qinfer_status_name(status) << "; loading then " << qinfer_status_name(after) << ", "
                    << err.message);
  REQUIRE(after == QINFER_OK);
}
