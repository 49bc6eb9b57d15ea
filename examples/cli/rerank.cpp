// rerank.cpp: `qinfer rerank`: how well each document answers a query, the best first.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "options.h"
#include "support.h"
#include "texts.h"

namespace cli {
namespace {

struct RerankArgs {
  std::string model, query, lines, template_name, template_text, yes, no, instruction;
  std::uint32_t top = 0;
  bool truncate = false, raw = false;
  std::vector<std::string> documents;
  RuntimeArgs runtime;
};

qinfer_score_options score_options(const RerankArgs& args) {
  auto options = qi::options<qinfer_score_options>();
  options.flags = (args.truncate ? QINFER_SCORE_TRUNCATE : 0) | (args.raw ? QINFER_SCORE_RAW : 0);
  const auto given = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
  options.template_name = given(args.template_name);
  options.template_text = given(args.template_text);
  options.instruction = given(args.instruction);
  options.yes = given(args.yes);
  options.no = given(args.no);
  return options;
}

/// How many tokens each pair has, as a session of the model would hold it.
std::vector<std::size_t> count_tokens(const qi::Model& model, const std::vector<std::string>& documents,
                                      const RerankArgs& args) {
  qi::KvCache cache(model);
  qi::Session session(cache);
  std::vector<std::size_t> counts;
  for (const std::string& document : documents) {
    try {
      const std::uint64_t n_cut = session.set_pair(args.query, document, score_options(args));
      if (n_cut != 0)
        report(format("document %zu: %llu tokens were cut off", counts.size() + 1,
                      static_cast<unsigned long long>(n_cut)));
    } catch (const qi::Error& error) {
      if (error.status() != QINFER_E_CONTEXT_FULL) throw;
      throw Failure(format("document %zu: %s (--truncate cuts it)", counts.size() + 1, error.what()));
    }
    counts.push_back(session.length());
  }
  return counts;
}

int run_rerank(const RerankArgs& args) {
  const std::vector<std::string> documents = texts_of(args.documents, args.lines);
  qi::Runtime runtime(runtime_options(args.runtime));
  const qi::Model model = load_for_texts(runtime, args.model);
  const qinfer_score_options options = score_options(args);
  std::vector<float> scores(documents.size());
  TextBatches batches(model, count_tokens(model, documents, args), 0);
  batches.run([&](std::size_t i, qi::Session& session) { session.set_pair(args.query, documents[i], options); },
              [&](std::size_t i, qi::Session& session) { scores[i] = session.score(options); });
  std::vector<std::size_t> order(documents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  if (args.top != 0) order.resize(std::min<std::size_t>(args.top, order.size()));
  for (const std::size_t i : order)
    print(format("%.6f\t%zu\t", static_cast<double>(scores[i]), i) + documents[i] + "\n");
  return 0;
}

}  // namespace

void add_rerank(Commands& commands) {
  auto args = std::make_shared<RerankArgs>();
  Options options = commands.add("rerank", "Score documents by how well they answer a query, and print the best first");
  options.set_footer(
      "Example:\n  qinfer rerank bge-reranker-base \"Where do cats sleep?\" --top 1 \"On a sofa.\" \"It rains.\"");
  add_model_arg(options, args->model);
  options.add("QUERY", args->query, "What is asked").required().type_name("");
  options.add("DOCUMENT", args->documents, "Documents; without one, lines of standard input").type_name("");
  options.add("--lines", args->lines, "The lines of this file instead; - is standard input").type_name("FILE");
  options.add("--top", args->top, "Print only the N best").whole_number(1, 1u << 30).type_name("N");
  options.add("--template", args->template_name, "How a pair is written, where the model's files do not say it")
      .one_of({"qwen3-reranker"})
      .type_name("NAME");
  options
      .add("--template-text", args->template_text,
           "The same as a text, in which {instruction}, {query} and, last, {document} stand for texts; needs --yes")
      .type_name("TEXT");
  options.add("--yes", args->yes, "The token whose logit makes the score").type_name("TOKEN");
  options.add("--no", args->no, "The token whose logit is subtracted").type_name("TOKEN");
  options.add("--instruction", args->instruction, "What makes a document a good one, in words").type_name("TEXT");
  options.flag("--truncate", args->truncate, "Cut documents that are too long for the model");
  options.flag("--raw", args->raw, "Print scores as they are, and not as probabilities");
  add_runtime_args(options, args->runtime);
  options.run([args] { return run_rerank(*args); });
}

}  // namespace cli
