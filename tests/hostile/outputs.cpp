// What pack and save do to the file that their path leads to: only an empty file or one of their own kind is replaced,
// links are followed, and whatever else is there (a model's own files, texts, pipes, folders) stays as it is, byte for
// byte, with no temporary file beside it.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "support/c_api.h"

using namespace qinfer::test;

namespace {

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// A call that should return at once and hangs where it opens a pipe: then the process ends, and says why.
class Deadline {
 public:
  Deadline() {
    signal(SIGALRM, [](int) {
      constexpr char kText[] = "hostile_outputs: a call has not come back within 120 s\n";
      (void)!write(2, kText, sizeof kText - 1);
      _exit(99);
    });
    alarm(120);
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() {
    alarm(0);
    signal(SIGALRM, SIG_DFL);
  }
};

/// A model of two shards with everything beside it, a session, and a folder of its own for outputs.
struct Stack {
  ModelDir dir{spec()}, place;
  Runtime runtime = make_runtime(1);
  Model model = load_model(runtime, dir.path());
  Cache cache = make_cache(model);
  Session session = make_session(cache);

  Stack() {
    dir.write("generation_config.json", R"({"do_sample": false})");
    dir.write("README.md", "what people write about it\n");
    append(session, some_tokens(40));
    eval(session);
  }
  static TinySpec spec() {
    TinySpec spec;
    spec.shards = 2;
    return spec;
  }
  qinfer_status pack(const std::string& out, qinfer_error* err) const {
    return qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, out.c_str(), err);
  }
  qinfer_status save(const std::string& out, qinfer_error* err) const {
    return qinfer_session_save(session.get(), out.c_str(), err);
  }
  std::string packed_bytes() const {
    REQUIRE_OK(pack(place.file("bytes"), &err));
    std::string bytes = place.read("bytes");
    place.remove("bytes");
    return bytes;
  }
  std::string snapshot_bytes() const {
    REQUIRE_OK(save(place.file("bytes"), &err));
    std::string bytes = place.read("bytes");
    place.remove("bytes");
    return bytes;
  }
};

/// pack and save by one name, so that what holds for both is tested of both.
struct Writer {
  const char* name;
  std::function<qinfer_status(const std::string&, qinfer_error*)> write;
};

std::vector<Writer> writers(const Stack& s) {
  return {{"pack", [&s](const std::string& out, qinfer_error* err) { return s.pack(out, err); }},
          {"save", [&s](const std::string& out, qinfer_error* err) { return s.save(out, err); }}};
}

/// The writer refuses `name` in the folder of outputs with this status, and no file anywhere changes or appears.
void check_refused(const Stack& s, const Writer& writer, const std::string& name, qinfer_status status,
                   const std::string& message) {
  INFO(writer.name << " to " << name);
  const auto names = names_in(s.place.path());
  std::vector<std::string> before;
  for (const std::string& each : names)
    before.push_back(std::filesystem::is_regular_file(s.place.file(each)) ? s.place.read(each) : std::string());
  REQUIRE_FAILS(status, message, writer.write(s.place.file(name), &err));
  REQUIRE(names_in(s.place.path()) == names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    INFO("the file " << names[i] << " of " << before[i].size() << " bytes");
    if (std::filesystem::is_regular_file(s.place.file(names[i]))) REQUIRE(s.place.read(names[i]) == before[i]);
  }
}

/// What was written loads again.
void check_packed(const Stack& s, const std::string& path) {
  qinfer_model* model = nullptr;
  auto options = sized<qinfer_load_options>();
  options.flags = QINFER_LOAD_VERIFY;
  REQUIRE_OK(qinfer_model_load(s.runtime.get(), path.c_str(), &options, &model, &err));
  qinfer_model_free(model);
}

void check_snapshot(const Stack& s, const std::string& path, std::size_t tokens) {
  qinfer_session* session = nullptr;
  REQUIRE_OK(qinfer_session_load(s.cache.get(), path.c_str(), &session, &err));
  const Session loaded(session);
  REQUIRE(qinfer_session_length(session) == tokens);
}

void check_written(const Stack& s, const Writer& writer, const std::string& path) {
  INFO("the file that " << writer.name << " wrote: " << path);
  std::string(writer.name) == "pack" ? check_packed(s, path) : check_snapshot(s, path, 40);
}

mode_t permissions_of(const std::string& path) {
  struct stat info = {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

void link_to(const std::string& target, const std::string& path) {
  REQUIRE(symlink(target.c_str(), path.c_str()) == 0);
}

constexpr const char* kShard = "model-00002-of-00002.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

}  // namespace

TEST_CASE("pack to a file of the model's own is refused, by whatever name, and the file stays", "[hostile][packed]") {
  const Stack s;
  for (const std::string name : {"config.json", "generation_config.json", "tokenizer.json", kShard}) {
    const std::string before = s.dir.read(name), out = s.dir.file(name);
    const auto names = names_in(s.dir.path());
    const std::string soft = s.place.file(name + ".soft"), hard = s.place.file(name + ".hard");
    link_to(out, soft);
    REQUIRE(link(out.c_str(), hard.c_str()) == 0);
    for (const std::string& path : {out, s.dir.path() + "/./" + name, soft, hard}) {
      INFO("pack to " << path);
      REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "is a file of the checkpoint itself", s.pack(path, &err));
      REQUIRE(s.dir.read(name) == before);
      REQUIRE(names_in(s.dir.path()) == names);
    }
    REQUIRE(std::filesystem::is_symlink(soft));
    REQUIRE(s.place.read(name + ".hard") == before);
  }
}

TEST_CASE("pack leaves the index and other texts of the model's folder as they are", "[hostile][packed]") {
  const Stack s;
  const auto names = names_in(s.dir.path());
  for (const std::string name : {kIndex, "README.md"}) {
    const std::string before = s.dir.read(name);
    qinfer_error err = {};
    const qinfer_status status = s.pack(s.dir.file(name), &err);
    INFO("pack to " << name << ": " << qinfer_status_name(status) << ", " << err.message);
    REQUIRE((status == QINFER_E_INVALID_ARGUMENT || status == QINFER_E_FORMAT));
    REQUIRE_THAT(std::string(err.message), contains(name));
    REQUIRE(s.dir.read(name) == before);
    REQUIRE(names_in(s.dir.path()) == names);
  }
}

TEST_CASE("save to a file of the model is refused, and the file stays", "[hostile][snapshot]") {
  const Stack s;
  for (const std::string& name : names_in(s.dir.path())) {
    const std::string before = s.dir.read(name);
    const auto names = names_in(s.dir.path());
    INFO("save to " << name);
    REQUIRE_FAILS(QINFER_E_FORMAT, name + ": not a snapshot of a session, and so not overwritten",
                  s.save(s.dir.file(name), &err));
    REQUIRE(s.dir.read(name) == before);
    REQUIRE(names_in(s.dir.path()) == names);
  }
}

TEST_CASE("pack and save leave files that others wrote", "[hostile][packed][snapshot]") {
  const Stack s;
  const std::string packed = s.packed_bytes(), snapshot = s.snapshot_bytes();
  s.place.write("text", "not to be lost");
  s.place.write("byte", "x");
  s.place.write("page", std::string(4096, '\0'));
  s.place.write("foreign", s.dir.read(kShard));
  for (const Writer& writer : writers(s))
    for (const char* name : {"text", "byte", "page", "foreign"})
      check_refused(s, writer, name, QINFER_E_FORMAT, "and so not overwritten");
  s.place.write("snapshot", snapshot);
  check_refused(s, writers(s)[0], "snapshot", QINFER_E_FORMAT, "snapshot: not a packed model, and so not overwritten");
  s.place.write("packed", packed);
  check_refused(s, writers(s)[1], "packed", QINFER_E_FORMAT,
                "packed: not a snapshot of a session, and so not overwritten");
}

TEST_CASE("pack and save refuse pipes and folders at once, and do not open them", "[hostile][packed][snapshot]") {
  const Stack s;
  const Deadline deadline;
  REQUIRE(mkfifo(s.place.file("pipe").c_str(), 0600) == 0);
  REQUIRE(mkdir(s.place.file("folder").c_str(), 0700) == 0);
  link_to("pipe", s.place.file("to-pipe"));
  link_to("folder", s.place.file("to-folder"));
  for (const Writer& writer : writers(s))
    for (const char* name : {"pipe", "folder", "to-pipe", "to-folder"}) {
      check_refused(s, writer, name, QINFER_E_FORMAT, "not a regular file, and so not overwritten");
      REQUIRE(std::filesystem::is_fifo(s.place.file("pipe")));
      REQUIRE(std::filesystem::is_directory(s.place.file("folder")));
    }
  // A pipe in place of the temporary file is no better.
  REQUIRE(mkfifo(s.place.file("out.qinfer-new").c_str(), 0600) == 0);
  for (const Writer& writer : writers(s)) {
    check_refused(s, writer, "out", QINFER_E_FORMAT, "out.qinfer-new: not a file of qinfer's own");
    REQUIRE(std::filesystem::is_fifo(s.place.file("out.qinfer-new")));
  }
}

TEST_CASE("pack and save replace what is empty or their own, damaged or not", "[hostile][packed][snapshot]") {
  const Stack s;
  const std::string good[] = {s.packed_bytes(), s.snapshot_bytes()};
  for (std::size_t i = 0; i < 2; ++i) {
    const Writer writer = writers(s)[i];
    const std::pair<const char*, std::string> files[] = {
        {"empty", ""}, {"own", good[i]}, {"half", good[i].substr(0, good[i].size() / 2)}};
    for (const auto& [name, bytes] : files) {
      INFO(writer.name << " to a file of its own kind: " << name);
      s.place.write(name, bytes);
      REQUIRE_OK(writer.write(s.place.file(name), &err));
      check_written(s, writer, s.place.file(name));
      s.place.remove(name);
    }
  }
  REQUIRE(names_in(s.place.path()).empty());
}

TEST_CASE("pack and save follow links, and the links stay", "[hostile][packed][snapshot]") {
  const Stack s;
  for (const Writer& writer : writers(s)) {
    const ModelDir there;
    INFO(writer.name << " through links");
    const std::string target = there.file("target"), soft = s.place.file("link"), chain = s.place.file("chain");
    link_to(target, soft);   // leads to nothing yet
    link_to("link", chain);  // relative
    for (const std::string& path : {chain, soft}) {
      REQUIRE_OK(writer.write(path, &err));
      REQUIRE(std::filesystem::is_symlink(soft));
      REQUIRE(std::filesystem::is_symlink(chain));
      REQUIRE(names_in(there.path()) == std::vector<std::string>{"target"});
      REQUIRE_FALSE(std::filesystem::is_symlink(target));
      check_written(s, writer, target);
      there.write("target", "");  // what the next path replaces
    }
    there.write("target", "somebody's text");
    check_refused(s, writer, "chain", QINFER_E_FORMAT, "and so not overwritten");
    REQUIRE(there.read("target") == "somebody's text");
    there.remove("target");
    s.place.remove("link");
    link_to(there.file("no/such"), soft);
    check_refused(s, writer, "chain", QINFER_E_NOT_FOUND, "No such file");
    s.place.remove("link");
    link_to("chain", soft);  // round and round
    REQUIRE_FAILS_AT(QINFER_E_IO, ELOOP, "chain", writer.write(chain, &err));
    REQUIRE(names_in(s.place.path()) == std::vector<std::string>{"chain", "link"});
    s.place.remove("link");
    s.place.remove("chain");
  }
}

TEST_CASE("a file that has the temporary file's name and others too is not emptied", "[hostile][packed][snapshot]") {
  const Stack s;
  for (const Writer& writer : writers(s)) {
    s.place.write("precious", "not to be lost");
    REQUIRE(link(s.place.file("precious").c_str(), s.place.file("out.qinfer-new").c_str()) == 0);
    check_refused(s, writer, "out", QINFER_E_FORMAT, "out.qinfer-new: not a file of qinfer's own");
    REQUIRE(s.place.read("precious") == "not to be lost");
    s.place.remove("out.qinfer-new");
    link_to("precious", s.place.file("out.qinfer-new"));
    check_refused(s, writer, "out", QINFER_E_IO, "out");
    REQUIRE(s.place.read("precious") == "not to be lost");
    s.place.remove("out.qinfer-new");
    // One that a killed process left behind is used again.
    s.place.write("out.qinfer-new", "half of something");
    REQUIRE_OK(writer.write(s.place.file("out"), &err));
    check_written(s, writer, s.place.file("out"));
    REQUIRE(names_in(s.place.path()) == std::vector<std::string>{"out", "precious"});
    s.place.remove("out");
  }
}

TEST_CASE("a file that is replaced keeps its permissions", "[hostile][packed][snapshot]") {
  const Stack s;
  const Session other = make_session(s.cache);
  append(other, {7, 8, 9});
  for (const mode_t mode : {mode_t{0600}, mode_t{0640}, mode_t{0604}}) {
    INFO("permissions " << std::oct << mode);
    for (const Writer& writer : writers(s)) {
      const std::string out = s.place.file(writer.name), soft = s.place.file("link");
      REQUIRE_OK(writer.write(out, &err));
      REQUIRE(chmod(out.c_str(), mode) == 0);
      link_to(out, soft);
      if (std::string(writer.name) == "save") {  // another session's file is replaced, the own one continued
        REQUIRE_OK(qinfer_session_save(other.get(), soft.c_str(), &err));
        REQUIRE(permissions_of(out) == mode);
      }
      REQUIRE_OK(writer.write(soft, &err));
      INFO(writer.name << " made them " << std::oct << permissions_of(out));
      REQUIRE(permissions_of(out) == mode);
      s.place.remove("link");
      s.place.remove(writer.name);
    }
  }
}

TEST_CASE("a read-only file is left as it is, also by root", "[hostile][packed][snapshot]") {
  const Stack s;
  const Session other = make_session(s.cache);
  append(other, {7, 8, 9});
  std::vector<Writer> all = writers(s);
  all.push_back({"export", [&s](const std::string& out, qinfer_error* err) {
                   return qinfer_model_export_gguf(s.runtime.get(), s.dir.path().c_str(), nullptr, out.c_str(), err);
                 }});
  all.push_back({"save another session", [&other](const std::string& out, qinfer_error* err) {
                   return qinfer_session_save(other.get(), out.c_str(), err);
                 }});
  for (const Writer& writer : all) {
    const std::string out = s.place.file("out");
    // Its own kind, which "save" continues and the others replace, and an empty file.
    for (const bool empty : {false, true}) {
      if (empty) {
        s.place.write("out", "");
      } else if (std::string(writer.name) == "save another session") {
        REQUIRE_OK(s.save(out, &err));
      } else {
        REQUIRE_OK(writer.write(out, &err));
      }
      link_to(out, s.place.file("link"));
      for (const mode_t mode : {mode_t{0444}, mode_t{0555}}) {
        REQUIRE(chmod(out.c_str(), mode) == 0);
        for (const char* name : {"out", "link"}) {
          check_refused(s, writer, name, QINFER_E_IO, "a read-only file, and so not overwritten");
          REQUIRE_FAILS_AT(QINFER_E_IO, EACCES, name, writer.write(s.place.file(name), &err));
        }
        REQUIRE(permissions_of(out) == mode);
      }
      REQUIRE(chmod(out.c_str(), 0644) == 0);
      REQUIRE_OK(writer.write(out, &err));
      s.place.remove("link");
      s.place.remove("out");
    }
  }
}
