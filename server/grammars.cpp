// grammars.cpp: see grammars.h.
#include "grammars.h"

#include <algorithm>

#include "engine.h"

#ifdef QINFER_SERVER_HAS_GRAMMAR
#include <qinfer/qinfer_grammar.h>
#endif

namespace server {

Grammars::Grammars(const qi::Model& model) : model_(model) {}

#ifdef QINFER_SERVER_HAS_GRAMMAR

namespace {

constexpr std::size_t kMostKept = 16;

template <typename Call>
void call(const Call& function) {
  qi::detail::FullError error;
  qi::detail::check(function(error.arg()), error);
}

qinfer_grammar_vocab* vocab_of(const qi::Model& model) {
  auto options = qi::options<qinfer_grammar_vocab_options>();
  options.n_tokens = model.info().n_vocab;
  options.model = model.native();
  options.token_text = qinfer_token_text;
  options.token_flags = qinfer_token_flags;
  qinfer_grammar_vocab* vocab = nullptr;
  call([&](auto* error) { return qinfer_grammar_vocab_create(&options, &vocab, error); });
  return vocab;
}

}  // namespace

Grammars::~Grammars() {
  last_.clear();
  qinfer_grammar_vocab_free(vocab_);
}

/// The vocabulary stays as it is once it is made.
Grammars::Compiled Grammars::find(std::string_view schema, qinfer_grammar_vocab*& vocab) {
  const Lock lock(mutex_);
  if (vocab_ == nullptr) vocab_ = vocab_of(model_);
  vocab = vocab_;
  const auto known = std::find_if(last_.begin(), last_.end(), [&](const auto& one) { return one.first == schema; });
  if (known == last_.end()) return nullptr;
  last_.splice(last_.begin(), last_, known);
  return last_.front().second;
}

/// Without the lock: a large one takes seconds, and others need not wait for it.
Grammars::Compiled Grammars::compile(std::string_view schema) {
  qinfer_grammar_vocab* vocab = nullptr;
  if (Compiled known = find(schema, vocab)) return known;
  qinfer_grammar* grammar = nullptr;
  call([&](auto* error) {
    return qinfer_grammar_compile(vocab, QINFER_GRAMMAR_JSON_SCHEMA, schema.data(), schema.size(), nullptr, &grammar,
                                  error);
  });
  Compiled compiled(grammar, qinfer_grammar_free);
  const Lock lock(mutex_);
  last_.emplace_front(schema, compiled);
  if (last_.size() > kMostKept) last_.pop_back();
  return compiled;
}

void Grammars::install(const Compiled& grammar, qi::Session& session) {
  qinfer_grammar_matcher* matcher = nullptr;
  call([&](auto* error) { return qinfer_grammar_matcher_create(grammar.get(), &matcher, error); });
  const std::unique_ptr<qinfer_grammar_matcher, void (*)(qinfer_grammar_matcher*)> owner(matcher,
                                                                                         qinfer_grammar_matcher_free);
  auto hook = qi::options<qinfer_logits_hook>();
  call([&](auto* error) { return qinfer_grammar_matcher_hook(matcher, &hook, error); });
  try {
    call([&](auto* error) { return qinfer_session_set_logits_hook(session.native(), &hook, error); });
  } catch (...) {
    hook.release(hook.user);
    throw;
  }
}

#else

Grammars::~Grammars() = default;

Grammars::Compiled Grammars::compile(std::string_view) {
  throw refusal(400, "invalid_request_error",
                "A schema, and a call that must be made, need a server that is built with libqinfer_grammar");
}

void Grammars::install(const Compiled&, qi::Session&) {}

#endif

}  // namespace server
