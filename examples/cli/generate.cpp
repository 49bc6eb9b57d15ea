// generate.cpp: `qinfer generate`: prints a prompt and, as it comes, the text that follows. Ctrl-C ends the generation
// cleanly through qinfer_cancel; a second one kills the program.
#include <algorithm>
#include <memory>
#include <string>

#include "grammar.h"
#include "interrupt.h"
#include "options.h"
#include "prompt.h"
#include "sampler_options.h"
#include "support.h"

namespace cli {
namespace {

struct GenerateArgs {
  std::string model, prompt, kv;
  RuntimeArgs runtime;
  GrammarArgs grammar;
  std::uint32_t max_tokens = 256, context = 0, max_draft = 8;
  std::vector<std::string> stop;
  qinfer_sampler_options sampler = qi::options<qinfer_sampler_options>();
  SamplerTexts sampler_texts;
  bool ids = false;
};

std::vector<qinfer_token> prompt_tokens(const qi::Model& model, const std::string& prompt) {
  if (prompt.empty()) {
    const qinfer_token begin = model.info().bos_token;
    if (begin < 0) throw Failure("this model has no begin token, so it needs a prompt that is not empty");
    return {begin};
  }
  return model.tokenize(prompt, QINFER_TEXT_ADD_SPECIAL | QINFER_TEXT_PARSE_SPECIAL);
}

/// Room for what was asked and no more, so that a model with a long context does not take memory for all of it.
std::uint32_t session_tokens(const GenerateArgs& args, std::uint32_t model_context, std::size_t n_prompt) {
  if (args.context != 0) return args.context;
  if (args.max_tokens == 0) return model_context;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(model_context, n_prompt + args.max_tokens));
}

/// The first new token comes from the evaluation of the prompt, so decoding n tokens takes n - 1 evaluations.
void report_statistics(const qinfer_generate_result& counts) {
  const std::uint32_t decoded = counts.new_tokens > 0 ? counts.new_tokens - 1 : 0;
  report("prompt " + count_text(counts.prompt_tokens) + rate(counts.prompt_tokens, counts.prefill_ns) + ", new " +
         count_text(counts.new_tokens) + rate(decoded, counts.decode_ns) + ", ended by " + finish_name(counts.finish));
}

/// Streams prompt and text to stdout. Returns whether the generation ran to its end, false if it was cancelled.
bool stream(qi::Session& session, const GenerateArgs& args, const qi::Cancel& cancel, qinfer_generate_result& counts) {
  qi::GenerateOptions request;
  request.max_tokens = args.max_tokens;
  request.stop = args.stop;
  request.cancel = &cancel;
  request.on_token = [](std::string_view text, qinfer_token) {
    print(text);
    flush_output();
    return true;
  };
  print(args.prompt);
  flush_output();
  bool cancelled = false;
  try {
    counts.prompt_tokens = static_cast<std::uint32_t>(session.length());
    const std::uint64_t prefill_ns = evaluate_prompt(session, cancel);
    session.generate(request, &counts);
    counts.prefill_ns = prefill_ns;
  } catch (const qi::Error& error) {
    if (error.status() != QINFER_E_CANCELLED) {
      print("\n");
      throw;
    }
    cancelled = true;
  }
  print("\n");
  return !cancelled;
}

int run_generate(const GenerateArgs& args) {
  qi::Cancel cancel;
  InterruptGuard guard(cancel);
  qi::Runtime runtime(runtime_options(args.runtime));
  auto load = qi::options<qinfer_load_options>();
  load.cancel = std::as_const(cancel).native();
  load.max_context = args.context;
  const qi::Model model = load_model(runtime, args.model, load);
  Grammar grammar(model, args.grammar);
  const std::vector<qinfer_token> prompt = prompt_tokens(model, args.prompt);

  auto options = qi::options<qinfer_session_options>();
  options.max_tokens = session_tokens(args, model.info().context_tokens, prompt.size());
  options.max_draft = args.max_draft;
  qi::KvCache cache = make_cache(model, args.kv, options.max_tokens);
  qi::Session session(cache, options);
  set_sampler(session, args.sampler, args.sampler_texts);
  session.append(prompt);
  grammar.begin(session);

  auto counts = qi::options<qinfer_generate_result>();
  const bool complete = stream(session, args, cancel, counts);
  if (args.ids) {
    std::vector<qinfer_token> ids = session.tokens();
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(std::min(prompt.size(), ids.size())));
    print(join_ids(ids) + "\n");
  }
  flush_output();
  report_statistics(counts);
  if (!complete) {
    grammar.check();
    throw Failure("cancelled");
  }
  return 0;
}

}  // namespace

void add_generate(Commands& commands) {
  auto args = std::make_shared<GenerateArgs>();
  Options options = commands.add("generate", "Print a prompt and the text that follows");
  options.set_footer("Example:\n  qinfer generate model.gguf \"Once upon a time\" -n 100 --temp 0.8");
  add_model_arg(options, args->model);
  options.add("PROMPT", args->prompt, "Start of the text; \"\" is the begin token alone").required().type_name("");
  options.add("-n", args->max_tokens, "New tokens at most; 0 = until an end token or the context is full (default 256)")
      .whole_number(0, 1u << 30)
      .type_name("N");
  options.add("--context", args->context, "Tokens the session has room for (default: prompt + N)")
      .whole_number(1, 1u << 30)
      .type_name("N");
  // Without this the option would take every word that follows, the prompt included.
  options.add("--stop", args->stop, "End before this text appears; may be repeated").one_value().type_name("TEXT");
  add_grammar_args(options, args->grammar);
  add_sampler_args(options, args->sampler);
  add_more_sampler_args(options, args->sampler, args->sampler_texts);
  add_draft_arg(options, args->max_draft);
  add_kv_arg(options, args->kv);
  add_runtime_args(options, args->runtime);
  options.flag("--ids", args->ids, "Print the ids of the new tokens on a line after the text");
  options.run([args] { return run_generate(*args); });
}

}  // namespace cli
