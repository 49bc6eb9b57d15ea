// kv_bench: what forking a session costs, for short and long contexts and both storages, with the geometry of a model
// directory. No token is computed: the session only holds blocks as if it had been, so that 32768 tokens cost no
// memory.
//
//   kv_bench MODEL
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "engine/session.h"

namespace qinfer::bench {
namespace {

double microseconds(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result.value());
  throw std::runtime_error(std::string(result.take_status().message()));
}

void bench_fork(const std::shared_ptr<const engine::Model>& model, kv::Storage storage, std::size_t n_tokens) {
  engine::KvCacheOptions options;
  options.storage = storage;
  options.budget_blocks = n_tokens / 32 + 256;
  const std::shared_ptr<engine::KvCache> cache = must(engine::KvCache::create(model, options));
  const std::unique_ptr<engine::Session> session = must(engine::Session::create(cache, engine::SessionOptions()));
  std::vector<std::int32_t> tokens(n_tokens - 8, 1);
  (void)session->append(tokens);
  if (session->reserve_blocks(tokens.size()) != Code::ok) throw std::runtime_error("no room");
  session->advance(tokens.size());
  session->set_kept_logits(1);
  constexpr int kForks = 101;
  std::vector<double> forking, freeing, writing;
  for (int i = 0; i < kForks; ++i) {
    auto begin = std::chrono::steady_clock::now();
    std::unique_ptr<engine::Session> copy = must(session->fork());
    forking.push_back(microseconds(begin));
    const std::uint64_t used = cache->pool().stats().blocks_used;
    (void)copy->append(std::vector<std::int32_t>{1});
    begin = std::chrono::steady_clock::now();
    if (copy->reserve_blocks(1) != Code::ok) throw std::runtime_error("no room");
    writing.push_back(microseconds(begin));
    if (cache->pool().stats().blocks_used != used + 1) throw std::runtime_error("the first write took not one block");
    begin = std::chrono::steady_clock::now();
    copy.reset();
    freeing.push_back(microseconds(begin));
  }
  fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} |\n", storage == kv::Storage::paged ? "paged" : "contiguous",
             n_tokens, median(forking), median(writing), median(freeing));
}

void run(const char* path) {
  const std::shared_ptr<engine::Runtime> runtime = must(engine::Runtime::create({}));
  const std::shared_ptr<const engine::Model> model = must(engine::Model::load(runtime, path, {}, {}, nullptr));
  fmt::print("Forking a session, microseconds, medians\n\n");
  fmt::print("| storage | tokens | fork | first write (copies one block) | free |\n|---|---|---|---|---|\n");
  for (const kv::Storage storage : {kv::Storage::paged, kv::Storage::contiguous})
    for (const std::size_t n : {std::size_t{1024}, std::size_t{32768}}) bench_fork(model, storage, n);
}

}  // namespace
}  // namespace qinfer::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: kv_bench MODEL\n", stderr);
    return 2;
  }
  try {
    qinfer::bench::run(argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kv_bench: {}\n", error.what());
    return 1;
  }
}
