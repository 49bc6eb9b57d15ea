// tokenize.cpp: `qinfer tokenize`: text to ids and, with --decode, ids to text. Loads no weights.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "options.h"
#include "support.h"

namespace cli {
namespace {

struct TokenizeArgs {
  std::string model, text, decode;
  bool text_given = false, decode_given = false;
  bool special = false, no_parse_special = false;
};

std::string read_stdin() {
  std::string text;
  char buffer[1 << 16];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) text.append(buffer, n);
  if (std::ferror(stdin) != 0) throw Failure(format("cannot read standard input: %s", std::strerror(errno)));
  return text;
}

void print_decoded(const qi::Model& model, const std::vector<qinfer_token>& ids) {
  qi::Detokenizer detokenizer(model);
  for (const qinfer_token id : ids) print(detokenizer.push(id));
  print(detokenizer.finish());
  print("\n");
}

int run_tokenize(const TokenizeArgs& args) {
  if (args.text_given && args.decode_given) throw UsageError("give either TEXT or --decode, not both");
  std::vector<qinfer_token> ids;
  if (args.decode_given) ids = parse_ids(args.decode);  // before loading: a bad list is a usage error

  qi::Runtime runtime(runtime_options({}));
  auto load = qi::options<qinfer_load_options>();
  load.flags = QINFER_LOAD_NO_WEIGHTS;
  const qi::Model model = load_model(runtime, args.model, load);
  if (args.decode_given) {
    print_decoded(model, ids);
    return 0;
  }
  const std::uint32_t flags = (args.special ? std::uint32_t{QINFER_TEXT_ADD_SPECIAL} : 0) |
                              (args.no_parse_special ? 0 : std::uint32_t{QINFER_TEXT_PARSE_SPECIAL});
  print(join_ids(model.tokenize(args.text_given ? args.text : read_stdin(), flags)) + "\n");
  return 0;
}

}  // namespace

void add_tokenize(Commands& commands) {
  auto args = std::make_shared<TokenizeArgs>();
  Options options = commands.add("tokenize", "Print the token ids of a text, or the text of token ids");
  options.set_footer("Example:\n  qinfer tokenize model.gguf \"Once upon a time\"");
  add_model_arg(options, args->model);
  const Option text = options.add("TEXT", args->text, "Default: standard input, to its last byte").type_name("");
  const Option decode =
      options.add("--decode", args->decode, "Print the text of these ids, e.g. 1,2,3").type_name("IDS");
  options.flag("--special", args->special, "Add what the tokenizer puts around a text, e.g. the begin token");
  options.flag("--no-parse-special", args->no_parse_special, "Take <|names|> of special tokens as plain text");
  options.run([args, text, decode] {
    args->text_given = text.count() > 0;
    args->decode_given = decode.count() > 0;
    return run_tokenize(*args);
  });
}

}  // namespace cli
