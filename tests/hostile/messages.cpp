// What the library says about folders that are not what they should be: the message names the folder and the file, and
// ends with the reason, however long the path is. And planning can be cancelled as loading can.
#include <cerrno>

#include "support/c_api.h"

using namespace qinfer::test;

namespace {

constexpr const char* kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n";

TinySpec sharded() {
  TinySpec spec;
  spec.shards = 2;
  return spec;
}

}  // namespace

TEST_CASE("A folder without config.json or without tensors is named in the message", "[hostile][messages]") {
  const ModelDir empty, bare{TinySpec()};
  REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, empty.path() + ": config.json", empty);
  bare.remove("model.safetensors");
  REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, bare.path() + ": neither model.safetensors nor model.safetensors.index.json",
                     bare);
  const ModelDir half{sharded()};
  half.remove("model-00002-of-00002.safetensors");
  REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, half.path(), half);
  REQUIRE_LOAD_FAILS(QINFER_E_NOT_FOUND, "model-00002-of-00002.safetensors", half);
}

TEST_CASE("A git-LFS pointer in place of a file is called one, and the file is named", "[hostile][messages]") {
  for (const std::string name : {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}) {
    const ModelDir dir{TinySpec()};
    dir.write(name, kPointer);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, name + ": a pointer to a git-LFS object", dir);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "git lfs pull", dir);
  }
  for (const std::string name : {"model.safetensors.index.json", "model-00002-of-00002.safetensors"}) {
    const ModelDir dir{sharded()};
    dir.write(name, kPointer);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, name + ": a pointer to a git-LFS object", dir);
  }
  const ModelDir dir;  // and a lone file that should be a packed model
  dir.write("packed", kPointer);
  qinfer_model* model = nullptr;
  REQUIRE_FAILS(QINFER_E_FORMAT, "packed: a pointer to a git-LFS object",
                qinfer_model_load(nullptr, dir.file("packed").c_str(), nullptr, &model, &err));
}

TEST_CASE("The reason is in the message of a path of 3000 characters", "[hostile][messages]") {
  const ModelDir dir{TinySpec()};
  const Runtime runtime = make_runtime(1);
  const Model model = load_model(runtime, dir.path());
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  std::string deep = dir.path();
  while (deep.size() < 3000) deep += "/folder";
  const struct {
    std::string path, reason;
    qinfer_status status;
    std::int64_t detail;
  } cases[] = {{deep, "No such file or directory", QINFER_E_NOT_FOUND, ENOENT},
               {dir.file(std::string(3000, 'x')), "File name too long", QINFER_E_IO, ENAMETOOLONG}};
  for (const auto& [path, reason, status, detail] : cases) {
    INFO("a path of " << path.size() << " characters: " << reason);
    const char* out = path.c_str();
    qinfer_model* no_model = nullptr;
    qinfer_session* no_session = nullptr;
    auto memory = sized<qinfer_memory>();
    REQUIRE_FAILS_AT(status, detail, reason, qinfer_model_load(runtime.get(), out, nullptr, &no_model, &err));
    REQUIRE_FAILS_AT(status, detail, reason, qinfer_model_plan(out, nullptr, nullptr, nullptr, nullptr, &memory, &err));
    REQUIRE_FAILS_AT(status, detail, reason, qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, out, &err));
    REQUIRE_FAILS_AT(status, detail, reason, qinfer_session_save(session.get(), out, &err));
    REQUIRE_FAILS_AT(status, detail, reason, qinfer_session_load(cache.get(), out, &no_session, &err));
    auto options = sized<qinfer_load_options>();
    options.packed_path = out;
    REQUIRE_FAILS_AT(status, detail, reason,
                     qinfer_model_load(runtime.get(), dir.path().c_str(), &options, &no_model, &err));
  }
}

TEST_CASE("Planning, packing and loading look at a cancel flag that was set before", "[hostile][messages]") {
  const ModelDir dir{sharded()}, place;
  const Runtime runtime = make_runtime(1);
  const std::string packed = place.file("packed"), other = place.file("other"), config = dir.file("config.json");
  REQUIRE_OK(qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, packed.c_str(), &err));
  const Cancel cancel = make_cancel();
  auto options = sized<qinfer_load_options>();
  options.cancel = cancel.get();
  auto memory = sized<qinfer_memory>();
  std::size_t n = 0;
  for (const std::string& path : {dir.path(), packed, config}) {
    INFO("the path " << path);
    qinfer_cancel_request(cancel.get());
    REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled",
                  qinfer_model_plan(path.c_str(), nullptr, &options, nullptr, nullptr, &memory, &err));
    REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled",
                  qinfer_model_plan_map(path.c_str(), nullptr, &options, nullptr, nullptr, nullptr, 0, &n, &err));
    qinfer_model* model = nullptr;
    if (path != config)
      REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled",
                    qinfer_model_load(runtime.get(), path.c_str(), &options, &model, &err));
    qinfer_cancel_reset(cancel.get());
    REQUIRE_OK(qinfer_model_plan(path.c_str(), nullptr, &options, nullptr, nullptr, &memory, &err));
  }
  qinfer_cancel_request(cancel.get());
  REQUIRE_FAILS(QINFER_E_CANCELLED, "cancelled",
                qinfer_model_pack(runtime.get(), dir.path().c_str(), &options, other.c_str(), &err));
  REQUIRE(place.read("other").empty());
}
