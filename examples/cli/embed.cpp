// embed.cpp: `qinfer embed`: the embedding of each text, as a line of JSON or as a row of a .npy file.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "npy.h"
#include "options.h"
#include "support.h"
#include "texts.h"

namespace cli {
namespace {

struct EmbedArgs {
  std::string model, pooling, lines, out, prompt;
  std::uint32_t dims = 0;
  bool truncate = false;
  std::vector<std::string> texts;
  RuntimeArgs runtime;
};

std::int32_t pooling_of(const std::string& name) {
  if (name == "last") return QINFER_POOL_LAST;
  if (name == "mean") return QINFER_POOL_MEAN;
  return name == "first" ? QINFER_POOL_FIRST : QINFER_POOL_DEFAULT;
}

std::string as_json(const std::vector<float>& values) {
  std::string line = "[";
  for (const float value : values) line += format(line.size() == 1 ? "%.9g" : ",%.9g", static_cast<double>(value));
  return line + "]";
}

/// The tokens of all texts. A text that was cut is told on stderr, one that is too long ends the command.
std::vector<std::vector<qinfer_token>> tokens_of(const qi::Model& model, const std::vector<std::string>& texts,
                                                 const EmbedArgs& args) {
  auto options = qi::options<qinfer_embedding_text_options>();
  options.flags = QINFER_EMBED_PARSE_SPECIAL | (args.truncate ? QINFER_EMBED_TRUNCATE : 0);
  options.prompt_name = args.prompt.empty() ? nullptr : args.prompt.c_str();
  std::vector<std::vector<qinfer_token>> tokens;
  for (const std::string& text : texts) {
    std::uint64_t n_cut = 0;
    try {
      tokens.push_back(model.embedding_tokens(text, options, &n_cut));
    } catch (const qi::Error& error) {
      if (error.status() != QINFER_E_CONTEXT_FULL) throw;
      throw Failure(format("text %zu: %s (--truncate cuts it)", tokens.size() + 1, error.what()));
    }
    if (n_cut != 0)
      report(format("text %zu: %llu tokens were cut off", tokens.size(), static_cast<unsigned long long>(n_cut)));
    if (tokens.back().empty()) throw Failure(format("text %zu has no tokens", tokens.size()));
  }
  return tokens;
}

int run_embed(const EmbedArgs& args) {
  const std::vector<std::string> texts = texts_of(args.texts, args.lines);
  qi::Runtime runtime(runtime_options(args.runtime));
  const qi::Model model = load_for_texts(runtime, args.model);
  const auto tokens = tokens_of(model, texts, args);
  std::vector<std::size_t> counts;
  for (const auto& list : tokens) counts.push_back(list.size());
  auto options = qi::options<qinfer_embedding_options>();
  options.pooling = pooling_of(args.pooling);
  options.dims = args.dims;
  const std::size_t dims = args.dims != 0 ? args.dims : model.info().embedding_dims;
  std::unique_ptr<NpyWriter> writer;
  if (!args.out.empty()) writer = std::make_unique<NpyWriter>(args.out, texts.size(), dims);
  TextBatches batches(model, std::move(counts), QINFER_SESSION_EMBEDDINGS);
  batches.run([&](std::size_t i, qi::Session& session) { session.set_tokens(tokens[i]); },
              [&](std::size_t, qi::Session& session) {
                const std::vector<float> values = session.embedding(options);
                writer ? writer->write_row(values.data()) : print(as_json(values) + "\n");
              });
  if (!writer) return 0;
  writer->close();
  report(format("wrote %zu x %zu float32 to %s", texts.size(), dims, args.out.substr(0, 300).c_str()));
  return 0;
}

}  // namespace

void add_embed(Commands& commands) {
  auto args = std::make_shared<EmbedArgs>();
  Options options = commands.add("embed", "Give the embedding of each text, of length 1");
  options.set_footer("Example:\n  qinfer embed all-MiniLM-L6-v2 \"A cat sleeps.\" \"It rains.\"");
  add_model_arg(options, args->model);
  options.add("TEXT", args->texts, "Texts; without one, lines of standard input").type_name("");
  options.add("--lines", args->lines, "The lines of this file instead; - is standard input").type_name("FILE");
  options.add("--out", args->out, "Write float32 [texts, dims] here; default: print a line of JSON for each text")
      .type_name("F.npy");
  options.add("--prompt", args->prompt, "Put this prompt of the model before each text, e.g. query").type_name("NAME");
  options.flag("--truncate", args->truncate, "Cut texts that are too long for the model");
  options.add("--dims", args->dims, "Only the first N values, of models that are trained for it")
      .whole_number(1, 1u << 20)
      .type_name("N");
  options
      .add("--pooling", args->pooling, "Which hidden states: last, mean, first (default: what the model's files say)")
      .one_of({"last", "mean", "first"})
      .type_name("WHICH");
  add_runtime_args(options, args->runtime);
  options.run([args] { return run_embed(*args); });
}

}  // namespace cli
