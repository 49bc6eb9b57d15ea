// logits.cpp: `qinfer logits`: evaluates a list of token ids at once and gives the logits after each of them, as a
// float32 [n, vocab] .npy file or as the five likeliest next tokens per row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "npy.h"
#include "options.h"
#include "support.h"

namespace cli {
namespace {

struct LogitsArgs {
  std::string model, ids, out, kv;
  RuntimeArgs runtime;
};

const float* logits_row(const qi::Session& session, std::size_t n_rows, std::size_t row) {
  const float* values = session.logits(n_rows - 1 - row);
  if (values == nullptr) throw Failure(format("the logits of row %zu were not kept", row));
  return values;
}

void print_best(const std::vector<qinfer_token>& ids, std::size_t row, const float* values, std::size_t n_vocab) {
  constexpr std::size_t kBest = 5;
  std::vector<std::size_t> order(n_vocab);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t n_best = std::min(kBest, n_vocab);
  // NaN sorts last and equal values by id, so that this is an order.
  const auto key = [values](std::size_t i) {
    const float value = values[i];
    return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
  };
  const auto better = [&](std::size_t a, std::size_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n_best), order.end(), better);
  std::string line = format("%zu (id %d):", row, ids[row]);
  for (std::size_t i = 0; i < n_best; ++i) {
    line += format(" %zu %.6g", order[i], static_cast<double>(values[order[i]]));
    if (i + 1 < n_best) line += ",";
  }
  print(line + "\n");
}

int run_logits(const LogitsArgs& args) {
  const std::vector<qinfer_token> ids = parse_ids(args.ids);
  const auto n = static_cast<std::uint32_t>(ids.size());
  qi::Runtime runtime(runtime_options(args.runtime));
  const qi::Model model = load_model(runtime, args.model);
  const std::size_t n_vocab = model.info().n_vocab;

  constexpr std::uint32_t kBlockTokens = 32;
  auto cache_options = qi::options<qinfer_kv_cache_options>();
  cache_options.kv_type = kv_type(args.kv);
  cache_options.block_tokens = kBlockTokens;
  cache_options.budget_blocks = (n + kBlockTokens - 1) / kBlockTokens;
  qi::KvCache cache(model, cache_options);
  auto session_options = qi::options<qinfer_session_options>();
  session_options.max_tokens = n;
  session_options.max_logits = n;
  qi::Session session(cache, session_options);
  session.append(ids);
  auto eval = qi::options<qinfer_eval_options>();
  eval.keep_logits = n;
  session.eval(eval);

  if (args.out.empty()) {
    for (std::size_t row = 0; row < n; ++row) print_best(ids, row, logits_row(session, n, row), n_vocab);
    return 0;
  }
  NpyWriter writer(args.out, n, n_vocab);
  for (std::size_t row = 0; row < n; ++row) writer.write_row(logits_row(session, n, row));
  writer.close();
  report(format("wrote %u x %zu float32 to %s", n, n_vocab, args.out.substr(0, 300).c_str()));
  return 0;
}

}  // namespace

void add_logits(Commands& commands) {
  auto args = std::make_shared<LogitsArgs>();
  Options options = commands.add("logits", "Evaluate token ids and give the logits after each");
  options.set_footer("Example:\n  qinfer logits model.gguf --ids 1,2,3 --out logits.npy");
  add_model_arg(options, args->model);
  options.add("--ids", args->ids, "The ids, e.g. 1,2,3").required().type_name("IDS");
  options.add("--out", args->out, "Write float32 [n, vocab] here; default: print the five best of each row")
      .type_name("F.npy");
  add_kv_arg(options, args->kv);
  add_runtime_args(options, args->runtime);
  options.run([args] { return run_logits(*args); });
}

}  // namespace cli
