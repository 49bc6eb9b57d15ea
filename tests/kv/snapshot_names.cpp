// The names that a snapshot holds: whatever encodings a model mixes, on every kernel set, exact or not, a session's own
// cache takes its snapshot back, and one that other options computed is told from it.
#include <qinfer/qinfer.hpp>

#include <string>
#include <vector>

#include "kv/support.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_writer.h"
#include "support/targets.h"

namespace {

using qinfer::test::same_bits;
using qinfer::test::tokens_of;

/// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL and F32, as GGUF numbers them.
constexpr std::uint32_t kTypes[] = {2, 3, 6, 7, 8, 20, 0};

/// A model whose matrices take turns with the first `n_types` of them.
std::string mixed_model(std::size_t n_types) {
  qinfer::test::GgufFile file = qinfer::test::tiny_gguf({.hidden = 64, .heads = 2, .ffn = 64, .layers = 2});
  std::size_t n = 0;
  for (qinfer::test::GgufTestTensor& tensor : file.tensors) {
    if (tensor.dims.size() != 2 || tensor.name == "token_embd.weight") continue;
    tensor.type = kTypes[n++ % n_types];
    tensor.data = qinfer::test::gguf_data(tensor.type, tensor.dims[0] * tensor.dims[1]);
  }
  return file.bytes();
}

qi::Model load(const std::string& path, const std::string& target, bool exact) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 1;
  options.cpu_target = target.c_str();
  options.flags = exact ? QINFER_RUNTIME_EXACT : 0;
  qi::Runtime runtime(options);
  return qi::Model::load(runtime, path);
}

}  // namespace

TEST_CASE("a snapshot of any mix of encodings loads into its own cache", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory{qinfer::test::TinySpec()};
  const std::string model_path = directory.file("m.gguf"), path = directory.file("session.kv");
  std::vector<std::int32_t> tokens = tokens_of(20, 3);
  for (std::int32_t& token : tokens) token %= 9;
  std::size_t n_saved = 0;
  for (std::size_t n_types = 1; n_types <= std::size(kTypes); ++n_types) {
    directory.write("m.gguf", mixed_model(n_types));
    for (const bool exact : {false, true})
      for (const std::string& target : qinfer::test::usable_targets(exact)) {
        if (qinfer::test::uses_tiles(target)) continue;  // it refuses quantised weights
        INFO(n_types << " encodings on " << target << (exact ? ", exact" : ""));
        const qi::Model model = load(model_path, target, exact);
        qi::KvCache cache(model);
        qi::Session session(cache);
        session.append(tokens);
        session.eval();
        directory.remove("session.kv");
        session.save(path);
        qi::Session loaded = qi::Session::load(cache, path);
        loaded.eval();
        CHECK(same_bits(loaded.copy_logits(), session.copy_logits()));
        // Saved again, it is the same.
        loaded.save(path);
        qi::KvCache other(model);
        CHECK(qi::Session::load(other, path).length() == tokens.size());
        ++n_saved;
      }
  }
  CHECK(n_saved >= 2 * std::size(kTypes));
}

TEST_CASE("a snapshot that other options computed is refused by name, however long the names", "[kv][snapshot]") {
  const qinfer::test::ModelDir directory{qinfer::test::TinySpec()};
  directory.write("m.gguf", mixed_model(std::size(kTypes)));
  const std::string path = directory.file("session.kv");
  const qi::Model model = load(directory.file("m.gguf"), "reference", false);
  const qi::Model other = load(directory.file("m.gguf"), "reference", true);
  auto options = qi::options<qinfer_kv_cache_options>();
  options.kv_type = QINFER_KV_F32;
  qi::KvCache cache(model, options), exact(other, options);
  qi::Session session(cache);
  session.append(tokens_of(5, 3).front() % 9);
  session.eval();
  session.save(path);
  qinfer_session* loaded = nullptr;
  qinfer_error error{};
  CHECK(qinfer_session_load(exact.native(), path.c_str(), &loaded, &error) == QINFER_E_UNSUPPORTED);
  INFO(error.message);
  CHECK(std::string(error.message).find("the model has reference/f32+iq4_nl+q4_0+q4_1+q5_0+q5_1+q8_0") !=
        std::string::npos);
}
