// grammar.h: --schema, --regex and --lark: what a session draws fulfils a grammar, through libqinfer_grammar. A program
// that was built without that library says so where one of the options is given.
#pragma once

#include <qinfer/qinfer.hpp>

#include <memory>
#include <string>

#include "command_line.h"

struct qinfer_grammar;
struct qinfer_grammar_matcher;

namespace cli {

/// At most one is given; empty: not.
struct GrammarArgs {
  std::string schema_file, regex, lark_file;
};
void add_grammar_args(Options& options, GrammarArgs& args);

class Grammar {
 public:
  /// Compiles what is given for a model, or does nothing. Throws Failure.
  Grammar(const qi::Model& model, const GrammarArgs& args);

  bool is_set() const { return grammar_ != nullptr; }
  /// The next token that the session draws is the first of a text that fulfils the grammar.
  void begin(qi::Session& session);
  /// What the session draws is free again.
  void end(qi::Session& session) const;
  /// Throws Failure if it was the grammar that ended a generation.
  void check() const;

 private:
  struct Free {
    void operator()(qinfer_grammar* grammar) const;
    void operator()(qinfer_grammar_matcher* matcher) const;
  };
  std::unique_ptr<qinfer_grammar, Free> grammar_;  ///< null: there is none
  std::unique_ptr<qinfer_grammar_matcher, Free> matcher_;
};

}  // namespace cli
