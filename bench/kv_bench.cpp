// kv_bench: what a KV cache costs, with the geometry of a model directory.
//   - Forking a session, for short and long contexts and both storages. No token is computed: the session only holds
//     blocks as if it had been, so that 32768 tokens cost no memory.
//   - Decoding a token after 1k, 4k and 16k others: paged and contiguous storage beside one dense array that was made
//     for the whole context, on pages of 2 MiB and of 4 KiB; all in turn, so that a slower second hits all alike.
//   - A prompt of which the cache knows the beginning, beside the same without it.
//
//   kv_bench MODEL
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/eval.h"
#include "engine/forward.h"
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

std::unique_ptr<engine::Session> filled_session(const std::shared_ptr<engine::KvCache>& cache, std::size_t n_tokens) {
  std::unique_ptr<engine::Session> session = must(engine::Session::create(cache, engine::SessionOptions()));
  (void)session->append(std::vector<std::int32_t>(n_tokens, 1));
  for (std::size_t done = 0; done < n_tokens;) {
    const std::size_t n = std::min<std::size_t>(n_tokens - done, session->model().scratch_layout().batch_capacity);
    if (session->keys().reserve(n) != Code::ok) throw std::runtime_error("no room");
    session->advance(n);
    done += n;
  }
  return session;
}

void bench_fork(const std::shared_ptr<const engine::Model>& model, kv::Storage storage, std::size_t n_tokens) {
  engine::KvCacheOptions options;
  options.storage = storage;
  options.budget_blocks = n_tokens / 32 + 256;
  const std::shared_ptr<engine::KvCache> cache = must(engine::KvCache::create(model, options));
  const std::unique_ptr<engine::Session> session = filled_session(cache, n_tokens - 8);
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
    if (copy->keys().reserve(1) != Code::ok) throw std::runtime_error("no room");
    writing.push_back(microseconds(begin));
    if (cache->pool().stats().blocks_used != used + 1) throw std::runtime_error("the first write took not one block");
    begin = std::chrono::steady_clock::now();
    copy.reset();
    freeing.push_back(microseconds(begin));
  }
  fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} |\n", storage == kv::Storage::paged ? "paged" : "contiguous",
             n_tokens, median(forking), median(writing), median(freeing));
}

/// Writes numbers to all tiles, so that the system has given memory for them.
void fill(const KvLayout& layout, const KvView& view, std::size_t n_tokens) {
  for (std::uint32_t layer = 0; layer < layout.n_layers; ++layer)
    for (std::uint32_t head = 0; head < layout.n_kv_heads; ++head)
      for (std::uint32_t tile = 0; tile < n_tokens / kTileTokens; ++tile)
        std::memset(view.k_tile(layout, layer, head, tile), 0x2c, 2 * layout.tile_bytes());
}

/// Milliseconds for one token at the last of n_tokens positions.
double decode(const engine::Model& model, std::span<const KvLayout> layouts, const KvView& view, std::size_t n_tokens) {
  const engine::BatchArrays arrays = engine::batch_arrays(model);
  std::vector<float> logits(model.spec().n_vocab);
  arrays.tokens[0] = 1;
  arrays.sequences[0] = {view, 0, 1, static_cast<std::uint32_t>(n_tokens - 1)};
  arrays.logit_rows[0] = 0;
  arrays.logit_out[0] = logits.data();
  engine::Batch batch;
  batch.n_rows = batch.n_logits = 1;
  batch.n_sequences = 1;
  batch.longest_context = static_cast<std::uint32_t>(n_tokens);
  const auto begin = std::chrono::steady_clock::now();
  (void)engine::forward(model, layouts, batch, nullptr);
  return microseconds(begin) / 1000;
}

void bench_decode(const std::shared_ptr<const engine::Model>& model, std::size_t n_tokens) {
  constexpr int kRounds = 11;
  std::vector<std::shared_ptr<engine::KvCache>> caches;
  std::vector<std::unique_ptr<engine::Session>> sessions;
  std::vector<KvView> views;
  for (const kv::Storage storage : {kv::Storage::paged, kv::Storage::contiguous}) {
    engine::KvCacheOptions options;
    options.storage = storage;
    caches.push_back(must(engine::KvCache::create(model, options)));
    sessions.push_back(filled_session(caches.back(), n_tokens));
    views.push_back(sessions.back()->keys().view());
  }
  const KvLayout& layout = caches[0]->layout();
  std::vector<platform::Buffer> dense;
  for (const platform::Pages pages : {platform::Pages::huge, platform::Pages::normal}) {
    dense.push_back(
        must(platform::Buffer::allocate({}, layout.blocks_for(n_tokens) * layout.block_bytes(), "an array", pages)));
    views.push_back({dense.back().data(), nullptr});
  }
  for (const KvView& view : views) fill(layout, view, n_tokens);
  std::vector<std::vector<double>> times(views.size());
  for (int round = -1; round < kRounds; ++round)
    for (std::size_t i = 0; i < views.size(); ++i) {
      const double ms = decode(*model, caches[0]->layouts(), views[i], n_tokens);
      if (round >= 0) times[i].push_back(ms);
    }
  fmt::print("| {} |", n_tokens);
  for (const std::vector<double>& each : times) fmt::print(" {:.1f} |", median(each));
  fmt::print("\n");
}

double evaluate(engine::Session& session) {
  const auto begin = std::chrono::steady_clock::now();
  if (Status status = engine::eval(session, engine::EvalOptions()); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  return microseconds(begin) / 1000;
}

void bench_prefix(const std::shared_ptr<const engine::Model>& model) {
  constexpr std::size_t kKnown = 2048, kTail = 64;
  engine::KvCacheOptions options;
  options.prefix = true;
  const std::shared_ptr<engine::KvCache> cache = must(engine::KvCache::create(model, options));
  std::vector<std::int32_t> tokens(kKnown + kTail);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(i * 7919 % model->spec().n_vocab);
  const auto session_of = [&](std::size_t first, std::size_t n) {
    auto session = must(engine::Session::create(cache, engine::SessionOptions()));
    (void)session->append(std::span(tokens).subspan(first, n));
    return session;
  };
  const auto whole = session_of(0, kKnown);
  const double first = evaluate(*whole);
  std::vector<double> known, tail;
  for (int round = 0; round < 5; ++round) {
    tokens[kKnown] = round;  // another tail each time: the one before is known by now
    const auto second = session_of(0, kKnown + kTail);
    known.push_back(evaluate(*second));
    if (second->metrics().cached_tokens != kKnown) throw std::runtime_error("the prefix was not found");
    std::unique_ptr<engine::Session> fork = must(whole->fork());
    (void)fork->append(std::span(tokens).subspan(kKnown - 1 - static_cast<std::size_t>(round), kTail));  // never known
    tail.push_back(evaluate(*fork));
  }
  fmt::print(
      "\nA prompt of {} + {} tokens, milliseconds, medians: {:.0f} with the {} known, {:.0f} for the {} alone "
      "after a session that holds the others, {:.0f} for these\n",
      kKnown, kTail, median(known), kKnown, median(tail), kTail, first);
}

void run(const char* path) {
  const std::shared_ptr<engine::Runtime> runtime = must(engine::Runtime::create({}));
  const std::shared_ptr<const engine::Model> model = must(engine::Model::load(runtime, path, {}, {}));
  fmt::print("Forking a session, microseconds, medians\n\n");
  fmt::print("| storage | tokens | fork | first write (copies one block) | free |\n|---|---|---|---|---|\n");
  for (const kv::Storage storage : {kv::Storage::paged, kv::Storage::contiguous})
    for (const std::size_t n : {std::size_t{1024}, std::size_t{32768}}) bench_fork(model, storage, n);
  fmt::print("\nDecoding one token, milliseconds, medians\n\n");
  fmt::print("| tokens | paged | contiguous | dense, 2 MiB pages | dense, 4 KiB pages |\n|---|---|---|---|---|\n");
  for (const std::size_t n : {std::size_t{1024}, std::size_t{4096}, std::size_t{16384}}) bench_decode(model, n);
  bench_prefix(model);
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
