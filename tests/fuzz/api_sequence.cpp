// See api_sequence.h.
#include "api_sequence.h"

#include <qinfer/qinfer.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "api_support.h"
#include "choices.h"

namespace qinfer::fuzz {
namespace {

/// A session and what it should be.
struct Twin {
  qinfer_session* session = nullptr;
  std::vector<qinfer_token> tokens;
  std::uint32_t max_tokens = 0, max_logits = 1;
  bool greedy = true;
  bool skipped = false;  ///< its last evaluation was with QINFER_EVAL_NO_LOGITS
};

struct CacheKind {
  std::int32_t type = QINFER_KV_DEFAULT;
  std::uint32_t block_tokens = 32, flags = 0;
  std::uint64_t blocks = 8;
};

qinfer_kv_cache* make_cache(const qinfer_model* model, const CacheKind& kind, qinfer_status& status) {
  auto options = sized<qinfer_kv_cache_options>();
  options.kv_type = kind.type;
  options.block_tokens = kind.block_tokens;
  options.flags = kind.flags;
  options.budget_blocks = kind.blocks;
  qinfer_error err = {};
  qinfer_kv_cache* cache = nullptr;
  status = expect("kv_cache_create", qinfer_kv_cache_create(model, &options, &cache, &err), err, QINFER_E_NO_MEMORY,
                  QINFER_E_UNSUPPORTED, QINFER_E_INVALID_ARGUMENT);
  if ((cache != nullptr) != (status == QINFER_OK)) differs("kv_cache_create: the handle does not fit the status");
  return cache;
}

/// One sequence of calls.
class Sequence {
 public:
  Sequence(const LoadedModel& loaded, HostMemory& memory, const std::string& folder, Choices& choices,
           ApiCounts& counts)
      : loaded_(loaded), memory_(memory), folder_(folder), choices_(choices), counts_(counts) {}

  void run();

 private:
  static constexpr std::size_t kMost = 6;

  void step();
  void create();
  void fork(const Twin& twin);
  void truncate(Twin& twin);
  void append(Twin& twin);
  void append_wrong(Twin& twin);
  void evaluate();
  void sample(Twin& twin);
  void generate(Twin& twin);
  void set_sampler(Twin& twin);
  void set_bias(Twin& twin);
  void save_and_load(Twin& twin);
  void free_one(std::size_t index);
  void check_counts() const;
  void check_tokens(const Twin& twin) const;
  void check_logits(const Twin& twin);
  void compare(const Twin& twin, std::size_t back);
  std::vector<float> reference(const qinfer_token* tokens, std::size_t n) const;
  void check_evaluated(const std::vector<Twin*>& batch, const std::vector<std::size_t>& before, qinfer_status status,
                       std::uint32_t max_tokens);
  /// Lets one of the next requests fail, where the host gives the memory.
  void maybe_fail() {
    memory_.fail_in = on_host_memory_ && choices_.one_of(4) ? 1 + static_cast<long>(choices_.below(6)) : 0;
  }

  const LoadedModel& loaded_;
  HostMemory& memory_;
  const std::string& folder_;
  Choices& choices_;
  ApiCounts& counts_;
  CacheKind kind_;
  bool on_host_memory_ = false;
  const qinfer_model* model_ = nullptr;
  qinfer_kv_cache* cache_ = nullptr;
  std::vector<Twin> twins_;
};

void Sequence::run() {
  static constexpr std::int32_t kTypes[] = {QINFER_KV_DEFAULT, QINFER_KV_F32, QINFER_KV_F16, QINFER_KV_BF16};
  static constexpr std::uint32_t kSizes[] = {32, 64, 128, 0};
  kind_.type = choices_.of(kTypes);
  kind_.block_tokens = choices_.of(kSizes);
  kind_.flags = static_cast<std::uint32_t>(choices_.below(8));  // prefix, commit, contiguous
  kind_.blocks = 2 + choices_.below(20);
  on_host_memory_ = choices_.one_of(3);
  model_ = on_host_memory_ ? loaded_.on_host_memory : loaded_.model;
  const std::size_t held = memory_.live;
  maybe_fail();
  qinfer_status status = QINFER_OK;
  cache_ = make_cache(model_, kind_, status);
  memory_.fail_in = 0;
  if (cache_ == nullptr) {
    ++counts_.refused;
    if (memory_.live != held) differs("a cache that was not created keeps %zu bytes", memory_.live - held);
    return;
  }
  for (int i = 0; i < 60 && !choices_.done(); ++i) {
    step();
    check_counts();
  }
  for (const Twin& twin : twins_) check_logits(twin);
  const bool cache_first = choices_.one_of(2);
  if (cache_first) qinfer_kv_cache_free(cache_);
  while (!twins_.empty()) free_one(choices_.below(twins_.size()));
  if (!cache_first) {
    check_counts();
    qinfer_kv_cache_free(cache_);
  }
  if (memory_.live != held) differs("freed handles keep %zu bytes", memory_.live - held);
}

void Sequence::step() {
  const std::size_t kind = choices_.below(32);
  if (twins_.empty()) return create();
  Twin& twin = twins_[choices_.below(twins_.size())];
  if (kind < 10) return evaluate();
  if (kind < 16) return append(twin);
  if (kind < 17) return append_wrong(twin);
  if (kind < 19) return truncate(twin);
  if (kind < 21) return fork(twin);
  if (kind < 23) return create();
  if (kind < 24) return sample(twin);
  if (kind < 25) return generate(twin);
  if (kind < 26) return set_sampler(twin);
  if (kind < 27) return set_bias(twin);
  if (kind < 28) return save_and_load(twin);
  if (kind < 30) return check_logits(twin);
  free_one(static_cast<std::size_t>(&twin - twins_.data()));
}

void Sequence::create() {
  if (twins_.size() == kMost) return;
  Twin twin;
  auto options = sized<qinfer_session_options>();
  twin.max_tokens = options.max_tokens =
      choices_.one_of(4) ? 1 + static_cast<std::uint32_t>(choices_.below(70)) : kContext;
  twin.max_logits = options.max_logits = std::min(twin.max_tokens, 1 + static_cast<std::uint32_t>(choices_.below(4)));
  maybe_fail();
  qinfer_error err = {};
  const qinfer_status status =
      expect("session_create", qinfer_session_create(cache_, &options, &twin.session, &err), err, QINFER_E_NO_MEMORY);
  memory_.fail_in = 0;
  if ((twin.session != nullptr) != (status == QINFER_OK)) differs("session_create: the handle does not fit the status");
  if (status == QINFER_OK)
    twins_.push_back(twin);
  else
    ++counts_.refused;
}

void Sequence::fork(const Twin& twin) {
  if (twins_.size() == kMost) return;
  Twin copy = twin;
  copy.session = nullptr;
  maybe_fail();
  qinfer_error err = {};
  const qinfer_status status =
      expect("session_fork", qinfer_session_fork(twin.session, &copy.session, &err), err, QINFER_E_NO_MEMORY);
  memory_.fail_in = 0;
  if ((copy.session != nullptr) != (status == QINFER_OK)) differs("session_fork: the handle does not fit the status");
  if (status != QINFER_OK) return static_cast<void>(++counts_.refused);
  if (qinfer_session_pending(copy.session) != qinfer_session_pending(twin.session))
    differs("a fork has other pending tokens");
  ++counts_.forks;
  twins_.push_back(std::move(copy));
  check_tokens(twins_.back());
}

void Sequence::truncate(Twin& twin) {
  const std::size_t n = choices_.below(twin.tokens.size() + 2);
  const std::size_t evaluated = twin.tokens.size() - qinfer_session_pending(twin.session);
  qinfer_error err = {};
  const qinfer_status status =
      expect("session_truncate", qinfer_session_truncate(twin.session, n, &err), err, QINFER_E_INVALID_ARGUMENT);
  if ((status == QINFER_OK) != (n <= twin.tokens.size()))
    differs("truncate to %zu of %zu tokens", n, twin.tokens.size());
  if (status != QINFER_OK) return;
  twin.tokens.resize(n);
  check_tokens(twin);
  const std::size_t pending = qinfer_session_pending(twin.session);
  if (n > evaluated && n - pending != evaluated) differs("truncate changed what is evaluated");
  if (!loaded_.has_windows && n < evaluated && n != 0 && pending != 1)
    differs("after truncating to %zu of %zu evaluated tokens %zu are pending", n, evaluated, pending);
}

void Sequence::append(Twin& twin) {
  // Mostly what every session has at these positions, so that equal prefixes are common.
  const std::size_t n = choices_.one_of(3) ? 1 : 1 + choices_.below(60);
  const bool common = !choices_.one_of(4);
  std::vector<qinfer_token> tokens(n);
  for (std::size_t i = 0; i < n; ++i)
    tokens[i] =
        static_cast<qinfer_token>(common ? (twin.tokens.size() + i) * 13 % 256 : choices_.below(loaded_.n_vocab));
  qinfer_error err = {};
  const qinfer_status status =
      expect("session_append", qinfer_session_append(twin.session, tokens.data(), n, &err), err, QINFER_E_CONTEXT_FULL);
  if ((status == QINFER_OK) != (twin.tokens.size() + n <= twin.max_tokens))
    differs("%zu tokens after %zu of at most %u: status %d", n, twin.tokens.size(), twin.max_tokens, status);
  if (status == QINFER_OK) twin.tokens.insert(twin.tokens.end(), tokens.begin(), tokens.end());
}

void Sequence::append_wrong(Twin& twin) {
  if (twin.tokens.size() + 2 > twin.max_tokens) return;
  const qinfer_token tokens[] = {1, choices_.one_of(2) ? -1 : static_cast<qinfer_token>(loaded_.n_vocab)};
  qinfer_error err = {};
  if (qinfer_session_append(twin.session, tokens, 2, &err) != QINFER_E_INVALID_ARGUMENT || err.detail != 1)
    differs("a token out of range was accepted");
  check_tokens(twin);
}

/// A batch of some sessions, under limits, perhaps cancelled before it begins.
void Sequence::evaluate() {
  std::vector<Twin*> batch;
  std::vector<qinfer_session*> handles;
  std::vector<std::size_t> before;
  const std::size_t mask = choices_.below(256);
  for (std::size_t i = 0; i < twins_.size(); ++i)
    if (mask == 0 || (mask >> i & 1) != 0) batch.push_back(&twins_[i]);
  for (const Twin* twin : batch) {
    handles.push_back(twin->session);
    before.push_back(qinfer_session_pending(twin->session));
  }
  auto options = sized<qinfer_eval_options>();
  if (choices_.one_of(3)) options.max_tokens = 1 + static_cast<std::uint32_t>(choices_.below(60));
  if (choices_.one_of(3)) options.keep_logits = static_cast<std::uint32_t>(choices_.below(6));
  if (options.keep_logits == 0 && choices_.one_of(5)) options.flags = QINFER_EVAL_NO_LOGITS;
  qinfer_cancel* cancel = nullptr;
  qinfer_error err = {};
  if (choices_.one_of(8) && qinfer_cancel_create(&cancel, &err) == QINFER_OK) qinfer_cancel_request(cancel);
  options.cancel = cancel;
  if (choices_.one_of(16) && !handles.empty()) handles.push_back(handles.front());
  const qinfer_status status = expect("eval", qinfer_eval(handles.data(), handles.size(), &options, &err), err,
                                      QINFER_E_KV_FULL, QINFER_E_STATE, QINFER_E_INVALID_ARGUMENT, QINFER_E_CANCELLED);
  qinfer_cancel_free(cancel);
  ++counts_.evals;
  const bool wrong = handles.size() > batch.size() || std::any_of(batch.begin(), batch.end(), [&](const Twin* t) {
                       return options.keep_logits > t->max_logits;
                     });
  if (wrong && status != QINFER_E_INVALID_ARGUMENT && status != QINFER_E_CANCELLED)
    differs("eval: status %d, expected QINFER_E_INVALID_ARGUMENT", status);
  if (!wrong && !batch.empty() && status == QINFER_E_INVALID_ARGUMENT) differs("eval: %s", err.message);
  if (status == QINFER_OK && cancel != nullptr) differs("eval went on although it was cancelled");
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (qinfer_session_pending(batch[i]->session) != before[i]) batch[i]->skipped = options.flags != 0;
  check_evaluated(batch, before, status, options.max_tokens);
}

void Sequence::check_evaluated(const std::vector<Twin*>& batch, const std::vector<std::size_t>& before,
                               qinfer_status status, std::uint32_t max_tokens) {
  if (status == QINFER_E_CANCELLED) ++counts_.cancelled;
  if (status == QINFER_E_KV_FULL) ++counts_.full;
  std::size_t wanted = 0, done = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::size_t pending = qinfer_session_pending(batch[i]->session);
    if (pending > before[i]) differs("eval added pending tokens");
    wanted += before[i];
    done += before[i] - pending;
    if (status == QINFER_E_KV_FULL && pending != before[i])
      differs("eval without room evaluated %zu tokens", before[i] - pending);
    check_tokens(*batch[i]);
  }
  if (status != QINFER_OK) return;
  if (wanted == 0) differs("eval of nothing succeeded");
  if (max_tokens != 0) wanted = std::min<std::size_t>(wanted, max_tokens);
  const bool adopts = (kind_.flags & QINFER_CACHE_PREFIX) != 0;  // what is taken from the cache does not count
  if (adopts ? done < wanted : done != wanted) differs("eval evaluated %zu tokens, expected %zu", done, wanted);
  for (const Twin* twin : batch)
    if (choices_.one_of(3)) check_logits(*twin);
}

void Sequence::sample(Twin& twin) {
  const float* row = qinfer_session_logits(twin.session, 0);
  std::vector<float> logits;
  if (row != nullptr) logits.assign(row, row + loaded_.n_vocab);
  const bool ready = row != nullptr && qinfer_session_pending(twin.session) == 0;
  qinfer_token token = -1;
  qinfer_error err = {};
  const qinfer_status status = expect("sample", qinfer_session_sample(twin.session, &token, &err), err, QINFER_E_STATE,
                                      QINFER_E_CONTEXT_FULL, QINFER_E_INVALID_ARGUMENT, QINFER_E_NUMERIC);
  if (status != QINFER_OK) {
    if (ready && twin.greedy && twin.tokens.size() < twin.max_tokens) differs("sample: %s", err.message);
    return;
  }
  if (!ready || token < 0 || static_cast<std::uint32_t>(token) >= loaded_.n_vocab) differs("sampled %d", token);
  if (twin.greedy && logits[static_cast<std::size_t>(token)] != *std::max_element(logits.begin(), logits.end()))
    differs("greedy sampling drew %d, which is not the most likely", token);
  twin.tokens.push_back(token);
  check_tokens(twin);
}

void Sequence::generate(Twin& twin) {
  auto options = sized<qinfer_generate_options>();
  options.max_tokens = 1 + static_cast<std::uint32_t>(choices_.below(5));
  auto result = sized<qinfer_generate_result>();
  qinfer_error err = {};
  expect("generate", qinfer_generate(twin.session, &options, &result, &err), err, QINFER_E_STATE, QINFER_E_KV_FULL,
         QINFER_E_CONTEXT_FULL, QINFER_E_INVALID_ARGUMENT, QINFER_E_NUMERIC);
  std::vector<qinfer_token> tokens(kContext);
  std::size_t n = 0;
  if (qinfer_session_get_tokens(twin.session, tokens.data(), tokens.size(), &n, nullptr) != QINFER_OK)
    differs("no tokens");
  tokens.resize(n);
  if (n != twin.tokens.size() + result.new_tokens ||
      !std::equal(twin.tokens.begin(), twin.tokens.end(), tokens.begin()))
    differs("generate: %zu tokens after %zu, %u of them new", n, twin.tokens.size(), result.new_tokens);
  twin.tokens = std::move(tokens);
  ++counts_.generated;
}

void Sequence::set_sampler(Twin& twin) {
  auto options = sized<qinfer_sampler_options>();
  options.temperature = 0.8f;
  options.top_k = static_cast<std::uint32_t>(choices_.below(50));
  options.top_p = choices_.one_of(2) ? 0.9f : 0;
  options.repeat_penalty = choices_.one_of(2) ? 1.1f : 0;
  options.seed = choices_.byte();
  // By its bits, so that stored inputs keep their meaning.
  if ((options.seed & 1) != 0) options.dry_multiplier = 0.5f;
  if ((options.seed & 2) != 0) options.xtc_probability = 0.5f;
  if ((options.seed & 4) != 0) options.typical_p = 0.9f;
  if ((options.seed & 8) != 0) options.mirostat = 2;
  qinfer_error err = {};
  expect("set_sampler", qinfer_session_set_sampler(twin.session, &options, &err), err);
  twin.greedy = false;
}

void Sequence::set_bias(Twin& twin) {
  const qinfer_token tokens[] = {1, 2, 2, static_cast<qinfer_token>(choices_.below(2 * loaded_.n_vocab))};
  const float values[] = {1, -2, 0.5f, -__builtin_inff()};
  qinfer_error err = {};
  const qinfer_status status =
      expect("set_bias", qinfer_session_set_bias(twin.session, tokens, values, choices_.below(5), &err), err,
             QINFER_E_INVALID_ARGUMENT);
  if (status == QINFER_OK) twin.greedy = false;
}

void Sequence::save_and_load(Twin& twin) {
  const std::string path = folder_ + (choices_.one_of(2) ? "/a.kv" : "/b.kv");
  qinfer_error err = {};
  expect("session_save", qinfer_session_save(twin.session, path.c_str(), &err), err);
  if (twins_.size() == kMost) return;
  Twin copy = twin;
  copy.session = nullptr;
  maybe_fail();
  const qinfer_status status = expect("session_load", qinfer_session_load(cache_, path.c_str(), &copy.session, &err),
                                      err, QINFER_E_KV_FULL, QINFER_E_NO_MEMORY);
  memory_.fail_in = 0;
  if ((copy.session != nullptr) != (status == QINFER_OK)) differs("session_load: the handle does not fit the status");
  if (status != QINFER_OK) return static_cast<void>(++counts_.refused);
  const std::size_t pending = qinfer_session_pending(twin.session);
  const std::size_t expected = pending == 0 && !twin.tokens.empty() ? 1 : pending;
  if (qinfer_session_pending(copy.session) != expected)
    differs("%zu tokens of a loaded session are pending, expected %zu", qinfer_session_pending(copy.session), expected);
  ++counts_.loads;
  twins_.push_back(std::move(copy));
  check_tokens(twins_.back());
}

void Sequence::free_one(std::size_t index) {
  qinfer_session_free(twins_[index].session);
  twins_.erase(twins_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Sequence::check_tokens(const Twin& twin) const {
  std::vector<qinfer_token> tokens(kContext);
  std::size_t n = 0;
  qinfer_error err = {};
  expect("get_tokens", qinfer_session_get_tokens(twin.session, tokens.data(), tokens.size(), &n, &err), err);
  tokens.resize(n);
  if (tokens != twin.tokens || qinfer_session_length(twin.session) != n)
    differs("a session holds %zu other tokens than the %zu that it should", n, twin.tokens.size());
}

void Sequence::check_counts() const {
  auto stats = sized<qinfer_kv_cache_stats>();
  qinfer_error err = {};
  expect("get_stats", qinfer_kv_cache_get_stats(cache_, &stats, &err), err);
  if (stats.blocks_used > stats.blocks_total || stats.blocks_shared > stats.blocks_used ||
      stats.bytes_committed > stats.bytes_reserved)
    differs("the cache's counts: %llu of %llu used, %llu shared", static_cast<unsigned long long>(stats.blocks_used),
            static_cast<unsigned long long>(stats.blocks_total), static_cast<unsigned long long>(stats.blocks_shared));
  std::uint64_t most = 0, sum = 0;
  for (const Twin& twin : twins_) {
    if (qinfer_session_length(twin.session) != twin.tokens.size())
      differs("a session that nothing was done to changed");
    const std::size_t evaluated = twin.tokens.size() - qinfer_session_pending(twin.session);
    const std::uint64_t blocks = (evaluated + stats.block_tokens - 1) / stats.block_tokens;
    most = std::max(most, blocks);
    sum += blocks;
  }
  if (!loaded_.has_windows && (stats.blocks_used < most || stats.blocks_used > sum))
    differs("%llu blocks are used, expected %llu to %llu", static_cast<unsigned long long>(stats.blocks_used),
            static_cast<unsigned long long>(most), static_cast<unsigned long long>(sum));
  if (twins_.empty() && (stats.blocks_used != 0 || stats.blocks_shared != 0))
    differs("an empty cache has blocks in use");
}

/// The logits of the last of these tokens, from a fresh cache of the same kind of keys and values.
std::vector<float> Sequence::reference(const qinfer_token* tokens, std::size_t n) const {
  CacheKind kind;
  kind.type = kind_.type;
  kind.blocks = 20;
  qinfer_status status = QINFER_OK;
  qinfer_kv_cache* cache = make_cache(model_, kind, status);
  qinfer_session* session = nullptr;
  qinfer_error err = {};
  if (cache == nullptr) differs("no cache for a reference");
  expect("session_create", qinfer_session_create(cache, nullptr, &session, &err), err);
  expect("session_append", qinfer_session_append(session, tokens, n, &err), err);
  expect("eval", qinfer_eval(&session, 1, nullptr, &err), err);
  const float* row = qinfer_session_logits(session, 0);
  std::vector<float> values(row, row + loaded_.n_vocab);
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  return values;
}

void Sequence::check_logits(const Twin& twin) {
  if (qinfer_session_pending(twin.session) != 0) return;
  for (std::size_t back = 0; back < std::min<std::size_t>(twin.max_logits, twin.tokens.size()); ++back)
    compare(twin, back);
}

void Sequence::compare(const Twin& twin, std::size_t back) {
  const float* row = qinfer_session_logits(twin.session, back);
  if (row == nullptr) {
    if (back == 0 && !twin.skipped) differs("nothing is pending, and there are no logits");
    return;
  }
  const std::vector<float> values = reference(twin.tokens.data(), twin.tokens.size() - back);
  ++counts_.compared;
  for (std::uint32_t i = 0; i < loaded_.n_vocab; ++i)
    if (std::memcmp(&row[i], &values[i], sizeof(float)) != 0)
      differs("logit %u, %zu tokens before the last of %zu: %a, expected %a", i, back, twin.tokens.size(),
              static_cast<double>(row[i]), static_cast<double>(values[i]));
}

}  // namespace

struct ApiSequences::State {
  static constexpr std::size_t kModels = 4;
  HostMemory memory;
  qinfer_runtime *runtime = nullptr, *on_host_memory = nullptr;
  LoadedModel models[kModels], encoder;
  test::ModelDir folder;
  ApiCounts counts;
};

ApiSequences::ApiSequences() : state_(std::make_unique<State>()) {
  State& s = *state_;
  qinfer_error err = {};
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = 1;
  expect("runtime_create", qinfer_runtime_create(&options, &s.runtime, &err), err);
  auto allocator = sized<qinfer_allocator>();
  allocator.alloc = HostMemory::alloc;
  allocator.release = HostMemory::release;
  allocator.user = &s.memory;
  options.allocator = &allocator;
  expect("runtime_create", qinfer_runtime_create(&options, &s.on_host_memory, &err), err);
  auto load = sized<qinfer_load_options>();
  load.max_batch_tokens = kBatch;
  for (std::size_t i = 0; i < State::kModels; ++i) {
    const test::TinySpec spec = spec_of(i);
    LoadedModel& model = s.models[i];
    model.directory = std::make_unique<test::ModelDir>(spec);
    model.n_vocab = spec.vocab;
    model.has_windows = spec.window != 0;
    const char* path = model.directory->path().c_str();
    expect("model_load", qinfer_model_load(s.runtime, path, &load, &model.model, &err), err);
    expect("model_load", qinfer_model_load(s.on_host_memory, path, &load, &model.on_host_memory, &err), err);
  }
  qinfer_model*& encoder = s.encoder.model;
  expect("model_load",
         qinfer_model_load(s.runtime, QINFER_TEST_FIXTURES "/models/gemma3-encoder-f32", &load, &encoder, &err), err);
  auto info = sized<qinfer_model_info>();
  expect("model_get_info", qinfer_model_get_info(encoder, &info, &err), err);
  s.encoder.n_vocab = info.n_vocab;
}

ApiSequences::~ApiSequences() {
  for (const LoadedModel& model : state_->models) {
    qinfer_model_free(model.model);
    qinfer_model_free(model.on_host_memory);
  }
  qinfer_model_free(state_->encoder.model);
  qinfer_runtime_free(state_->runtime);
  qinfer_runtime_free(state_->on_host_memory);
}

void ApiSequences::run(std::string_view input) {
  State& s = *state_;
  Choices choices(input);
  for (const char* name : {"a.kv", "b.kv"}) s.folder.remove(name);
  const std::size_t model = choices.below(2 * State::kModels + 1);
  if (model == 2 * State::kModels) return run_encoder(s.encoder, choices, s.counts);
  Sequence(s.models[model / 2], s.memory, s.folder.path(), choices, s.counts).run();
}

const ApiCounts& ApiSequences::counts() const { return state_->counts; }

}  // namespace qinfer::fuzz
