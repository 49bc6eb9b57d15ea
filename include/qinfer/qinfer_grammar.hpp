// qinfer_grammar.hpp - C++17 host side of qinfer_grammar.h: JSON schemas, regular expressions and Lark grammars for
// what a session of qinfer.hpp draws. Programs that include it are linked with libqinfer_grammar besides libqinfer.
//
//   qi::Grammar grammar = qi::Grammar::json_schema(model, R"({"enum": ["yes", "no"]})");
//   grammar.begin(session);  // what the session draws from now on fulfils the schema
//   std::string answer = session.generate_text(request);
//
// A turn of a qi::Chat takes one in TurnOptions::constraint.
#ifndef QINFER_GRAMMAR_HPP
#define QINFER_GRAMMAR_HPP

#include <qinfer/qinfer_grammar.h>
#include <qinfer/qinfer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace qi {

/// The tokens of a model, in the form that grammars need. Making one takes some 0.3 s for 150,000 tokens: keep it where
/// a model has several grammars.
class GrammarVocab : public detail::Handle<qinfer_grammar_vocab, qinfer_grammar_vocab_free> {
 public:
  /// The model is used during this call alone. Not explicit: what takes a GrammarVocab takes a Model.
  GrammarVocab(const Model& model) {
    auto options = qi::options<qinfer_grammar_vocab_options>();
    options.n_tokens = model.info().n_vocab;
    options.model = model.native();
    options.token_text = qinfer_token_text;
    options.token_flags = qinfer_token_flags;
    create([&](auto** out, auto* error) { return qinfer_grammar_vocab_create(&options, out, error); });
  }
};

/// A compiled text, for any number of sessions of its model, on any threads.
class Grammar : public detail::Handle<qinfer_grammar, qinfer_grammar_free>, public Constraint {
 public:
  /// JSON that fulfils a schema of draft 2020-12. What cannot be enforced is refused, with the keyword and its place.
  static Grammar json_schema(const GrammarVocab& vocab, std::string_view schema,
                             const qinfer_grammar_options& options = qi::options<qinfer_grammar_options>()) {
    return Grammar(vocab, QINFER_GRAMMAR_JSON_SCHEMA, schema, options);
  }
  /// Text of which the whole matches the pattern, which is in the syntax of Rust's regex crate.
  static Grammar regex(const GrammarVocab& vocab, std::string_view pattern,
                       const qinfer_grammar_options& options = qi::options<qinfer_grammar_options>()) {
    return Grammar(vocab, QINFER_GRAMMAR_REGEX, pattern, options);
  }
  /// Text of the rule "start".
  static Grammar lark(const GrammarVocab& vocab, std::string_view text,
                      const qinfer_grammar_options& options = qi::options<qinfer_grammar_options>()) {
    return Grammar(vocab, QINFER_GRAMMAR_LARK, text, options);
  }

  qinfer_grammar_info info() const {
    return detail::filled<qinfer_grammar_info>(
        [&](auto* out, auto* error) { return qinfer_grammar_get_info(native(), out, error); });
  }
  /// Sets the session's hook to a new GrammarMatcher: what is drawn from now on fulfils the grammar from its beginning.
  std::function<void()> begin(Session& session) const override;

 private:
  Grammar(const GrammarVocab& vocab, std::int32_t kind, std::string_view text, const qinfer_grammar_options& options) {
    const char* data = text.data() != nullptr ? text.data() : "";
    create([&](auto** out, auto* error) {
      return qinfer_grammar_compile(vocab.native(), kind, data, text.size(), &options, out, error);
    });
  }
};

/// Where one text stands in a grammar. It holds the grammar.
class GrammarMatcher : public detail::Handle<qinfer_grammar_matcher, qinfer_grammar_matcher_free> {
 public:
  /// At the beginning.
  explicit GrammarMatcher(const Grammar& grammar) {
    create([&](auto** out, auto* error) { return qinfer_grammar_matcher_create(grammar.native(), out, error); });
  }
  /// At the same place; from there on the two are independent.
  GrammarMatcher clone() const {
    GrammarMatcher copy;
    copy.create([&](auto** out, auto* error) { return qinfer_grammar_matcher_clone(native(), out, error); });
    return copy;
  }

  /// Makes it the session's hook, which goes on with it when this object is gone. One matcher is for one session.
  void set_on(Session& session) const {
    auto hook = qi::options<qinfer_logits_hook>();
    call([&](auto* error) { return qinfer_grammar_matcher_hook(native(), &hook, error); });
    detail::FullError error;
    const qinfer_status status = qinfer_session_set_logits_hook(session.native(), &hook, error.arg());
    if (status != QINFER_OK) hook.release(hook.user);
    detail::check(status, error);
  }

  // For hosts that sample themselves.

  /// Bit (t % 32) of word t / 32 is 1 where token t may come next.
  std::vector<std::uint32_t> mask() {
    return detail::collected<std::vector<std::uint32_t>>(
        0, [&](auto... out) { return qinfer_grammar_matcher_mask(native(), out...); });
  }
  /// All of them, or none where one cannot come next (Error::detail(): its index).
  void accept(const std::vector<Token>& tokens) {
    call([&](auto* error) { return qinfer_grammar_matcher_accept(native(), tokens.data(), tokens.size(), error); });
  }
  void accept(Token token) {
    call([&](auto* error) { return qinfer_grammar_matcher_accept(native(), &token, 1, error); });
  }
  /// Takes back the last n tokens.
  void rewind(std::size_t n) {
    call([&](auto* error) { return qinfer_grammar_matcher_rewind(native(), n, error); });
  }
  /// flags: QINFER_GRAMMAR_ACCEPTING, _ENDED, _FAILED.
  qinfer_grammar_matcher_info info() {
    return detail::filled<qinfer_grammar_matcher_info>(
        [&](auto* out, auto* error) { return qinfer_grammar_matcher_get_info(native(), out, error); });
  }
  /// Throws the failure that ended its work, if there was one: the reason of a call of the session that ended with
  /// QINFER_E_CANCELLED.
  void check() const {
    call([&](auto* error) { return qinfer_grammar_matcher_error(native(), error); });
  }

 private:
  GrammarMatcher() = default;
};

inline std::function<void()> Grammar::begin(Session& session) const {
  const auto matcher = std::make_shared<const GrammarMatcher>(*this);
  matcher->set_on(session);
  return [matcher] { matcher->check(); };
}

}  // namespace qi
#endif  // QINFER_GRAMMAR_HPP
