// Spaces of prefixes: what sessions of one have evaluated is not found by those of another, in memory or out of a
// folder of kept keys and values, and bits do not depend on it.
#include <qinfer/qinfer.hpp>

#include <filesystem>

#include "kv/support.h"
#include "support/c_api.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"

using namespace qinfer::test;
namespace fs = std::filesystem;

namespace {

TinySpec spec(std::uint32_t window) {
  TinySpec spec;
  spec.architecture = "Qwen2ForCausalLM";
  spec.context_tokens = 2048;
  spec.layers = 3;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.window = window;
  spec.full_layers = window != 0 ? 1 : 0;
  return spec;
}

qi::KvCache cache_of(const qi::Model& model) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.budget_blocks = 100;
  options.flags = QINFER_CACHE_PREFIX;
  return qi::KvCache(model, options);
}

qi::Session session_of(qi::KvCache& cache, std::uint32_t space) {
  auto options = qi::options<qinfer_session_options>();
  options.prefix_space = space;
  return qi::Session(cache, options);
}

/// How many tokens were not evaluated; the logits must be these, where any are given.
std::uint64_t cached(qi::Session& session, const std::vector<qi::Token>& tokens, std::vector<float>& logits) {
  session.append(tokens);
  session.eval();
  if (logits.empty()) logits = session.copy_logits();
  CHECK(same_bits(session.copy_logits(), logits));
  return session.metrics().cached_tokens;
}

}  // namespace

TEST_CASE("prefixes are found in their own space alone", "[kv]") {
  for (const std::uint32_t window : {0u, 64u}) {
    CAPTURE(window);
    const ModelDir directory(spec(window));
    const qi::Model model = qi::Model::load(directory.path());
    qi::KvCache cache = cache_of(model);
    const auto prompt = tokens_of(200, 4);
    std::vector<float> logits;
    for (const std::uint32_t space : {0u, 1u, 2u, UINT32_MAX}) {
      qi::Session first = session_of(cache, space);
      CHECK(cache.find(prompt, space) == 0);
      CHECK(cached(first, prompt, logits) == 0);
      CHECK(cache.find(prompt, space) == 192);
      const std::vector<qi::Token> beginning(prompt.begin(), prompt.begin() + 100);
      const std::size_t known = cache.find(beginning, space);
      CHECK(known == 96);  // of the window's layers, too: blocks that no session holds stay until they are evicted
      qi::Session shorter = session_of(cache, space);
      std::vector<float> any;
      CHECK(cached(shorter, beginning, any) == known);
      qi::Session second = session_of(cache, space);
      CHECK(cached(second, prompt, logits) == 192);
      const qi::Session fork = second.fork();
      second.truncate(0);
      CHECK(cached(second, prompt, logits) == 2 * 192);
    }
    qi::Session again = session_of(cache, 1);  // what has no holder is found as well
    CHECK(cache.find(prompt, 1) == 192);
    CHECK(cached(again, prompt, logits) == 192);
  }
}

TEST_CASE("what is fetched is found by sessions of the space that it is fetched into", "[kv][store]") {
  const ModelDir directory(spec(0));
  const qi::Model model = qi::Model::load(directory.path());
  const fs::path folder = fs::path(directory.path()) / "kept";
  const auto prompt = tokens_of(200, 4);
  std::vector<float> logits;
  {
    qi::KvCache cache = cache_of(model);
    qi::KvStore store(cache, folder.string(), 1 << 30);
    qi::Session session = session_of(cache, 7);
    cached(session, prompt, logits);
    CHECK(store.keep(session, "t") == 192);
  }
  qi::KvCache cache = cache_of(model);
  qi::KvStore store(cache, folder.string(), 1 << 30);
  CHECK(store.fetch(prompt, "t", nullptr, 3) == 192);
  for (const auto& [space, known] : {std::pair{0u, 0u}, {7u, 0u}, {3u, 192u}}) {
    qi::Session session = session_of(cache, space);
    CHECK(cached(session, prompt, logits) == known);
  }
}
