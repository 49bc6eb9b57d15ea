// grammar.cpp: see grammar.h.
#include "grammar.h"

#ifdef QINFER_HAS_GRAMMAR
#include <qinfer/qinfer_grammar.h>
#endif

#include "support.h"

namespace cli {

void add_grammar_args(Options& options, GrammarArgs& args) {
  const Option schema =
      options.add("--schema", args.schema_file, "Draw JSON that fulfils this JSON schema").type_name("FILE");
  const Option regex = options.add("--regex", args.regex, "Draw text that matches this regular expression")
                           .type_name("TEXT")
                           .excludes(schema);
  options.add("--lark", args.lark_file, "Draw text that fulfils this Lark grammar")
      .type_name("FILE")
      .excludes(schema)
      .excludes(regex);
}

#ifdef QINFER_HAS_GRAMMAR

namespace {

/// Calls a function of the C ABI with room for the whole of a long message.
template <typename Call>
void call(const std::string& what, const Call& function) {
  std::string text(4096, '\0');
  auto error = qi::options<qinfer_full_error>();
  error.text = text.data();
  error.capacity = text.size();
  if (function(qinfer_full_error_arg(&error)) == QINFER_OK) return;
  const std::string message(text.c_str());
  throw Failure(what.empty() ? message : what + ": " + message);
}

}  // namespace

Grammar::Grammar(const qi::Model& model, const GrammarArgs& args) {
  std::int32_t kind = QINFER_GRAMMAR_JSON_SCHEMA;
  std::string name = args.schema_file, text;
  if (!args.regex.empty()) {
    kind = QINFER_GRAMMAR_REGEX;
    name = "--regex";
    text = args.regex;
  } else if (!args.lark_file.empty()) {
    kind = QINFER_GRAMMAR_LARK;
    name = args.lark_file;
  }
  if (name.empty()) return;
  if (args.regex.empty()) text = read_file(name);
  auto tokens = qi::options<qinfer_grammar_vocab_options>();
  tokens.n_tokens = model.info().n_vocab;
  tokens.model = model.native();
  tokens.token_text = qinfer_token_text;
  tokens.token_flags = qinfer_token_flags;
  qinfer_grammar_vocab* vocab = nullptr;
  call("", [&](qinfer_error* error) { return qinfer_grammar_vocab_create(&tokens, &vocab, error); });
  const std::unique_ptr<qinfer_grammar_vocab, decltype(&qinfer_grammar_vocab_free)> owner(vocab,
                                                                                          qinfer_grammar_vocab_free);
  qinfer_grammar* grammar = nullptr;
  call(name, [&](qinfer_error* error) {
    return qinfer_grammar_compile(vocab, kind, text.data(), text.size(), nullptr, &grammar, error);
  });
  grammar_.reset(grammar);
}

void Grammar::begin(qi::Session& session) {
  if (grammar_ == nullptr) return;
  qinfer_grammar_matcher* matcher = nullptr;
  call("", [&](qinfer_error* error) { return qinfer_grammar_matcher_create(grammar_.get(), &matcher, error); });
  matcher_.reset(matcher);
  auto hook = qi::options<qinfer_logits_hook>();
  call("", [&](qinfer_error* error) { return qinfer_grammar_matcher_hook(matcher, &hook, error); });
  try {
    call("", [&](qinfer_error* error) { return qinfer_session_set_logits_hook(session.native(), &hook, error); });
  } catch (...) {
    hook.release(hook.user);
    throw;
  }
}

void Grammar::end(qi::Session& session) const {
  if (grammar_ != nullptr) session.set_logits_hook(nullptr);
}

void Grammar::check() const {
  if (matcher_ == nullptr) return;
  call("the grammar", [&](qinfer_error* error) { return qinfer_grammar_matcher_error(matcher_.get(), error); });
}

void Grammar::Free::operator()(qinfer_grammar* grammar) const { qinfer_grammar_free(grammar); }
void Grammar::Free::operator()(qinfer_grammar_matcher* matcher) const { qinfer_grammar_matcher_free(matcher); }

#else

Grammar::Grammar(const qi::Model&, const GrammarArgs& args) {
  if (args.schema_file.empty() && args.regex.empty() && args.lark_file.empty()) return;
  throw Failure("--schema, --regex and --lark need libqinfer_grammar, and this program was built without it");
}

// There is never a grammar.
void Grammar::begin(qi::Session&) {}
void Grammar::end(qi::Session&) const {}
void Grammar::check() const {}
void Grammar::Free::operator()(qinfer_grammar*) const {}
void Grammar::Free::operator()(qinfer_grammar_matcher*) const {}

#endif

}  // namespace cli
