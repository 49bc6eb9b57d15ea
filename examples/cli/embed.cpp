// embed.cpp: `qinfer embed`: the embedding of each text, one line of numbers each.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "support.h"

namespace cli {
namespace {

struct EmbedArgs {
  std::string model, pooling;
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

int run_embed(const EmbedArgs& args) {
  qi::Runtime runtime(runtime_options(args.runtime));
  const qi::Model model = load_model(runtime, args.model);
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  for (const std::string& text : args.texts) {
    qi::Session session(cache, options);
    session.append(model.tokenize(text, QINFER_TEXT_ADD_SPECIAL | QINFER_TEXT_PARSE_SPECIAL));
    session.eval();
    print(as_json(session.embedding(pooling_of(args.pooling))) + "\n");
  }
  return 0;
}

}  // namespace

void add_embed(Commands& commands) {
  auto args = std::make_shared<EmbedArgs>();
  Options options = commands.add("embed", "Print the embedding of each text, of length 1, as a line of JSON");
  add_model_arg(options, args->model);
  options.add("TEXT", args->texts, "One or more texts").required().type_name("");
  options
      .add("--pooling", args->pooling,
           "Which hidden states: last, mean, first (default: mean for encoders, otherwise last)")
      .one_of({"last", "mean", "first"})
      .type_name("WHICH");
  add_runtime_args(options, args->runtime);
  options.run([args] { return run_embed(*args); });
}

}  // namespace cli
