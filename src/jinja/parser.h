// From tokens to a Program, in one pass: what runs in another order than it is written (conditions, targets of loops,
// filters of blocks) is cut out of the code and put where it runs.
//
// Parsing recurses with the nesting of the template, which kMaxNesting bounds; long chains of operators, attributes,
// filters or elif do not nest.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jinja/lexer.h"
#include "jinja/program.h"

namespace qinfer::jinja {

class Parser {
 public:
  /// `program` has the source; the tokens are those of it.
  Parser(Program& program, std::vector<Token> tokens) : program_(program), tokens_(std::move(tokens)) {}
  Status parse();

 private:
  /// Counts so many levels for as long as it lives; false where there are too many, or where parsing failed.
  class Level {
   public:
    explicit Level(Parser& parser, int weight = 1);
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { parser_.depth_ -= weight_; }
    explicit operator bool() const { return !parser_.failed(); }

   private:
    Parser& parser_;
    int weight_;
  };

  // Tokens.
  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool accept_op(std::string_view op);
  bool accept_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  void expect_kind(TokenKind kind);
  /// A name that is read, to be stored or called by; empty with an error.
  std::string take_name(const char* what);
  bool failed() const { return failed_; }
  void fail(const std::string& message, Code code = Code::format) { fail_at(now().at, message, code); }
  void fail_at(std::size_t at, const std::string& message, Code code = Code::format);
  void fail_expected(std::string_view expected);

  // What formats text takes much stack, which functions that call themselves must not keep.
  [[gnu::noinline]] void fail_not_closed(std::size_t at, const char* end);
  [[gnu::noinline]] void emit_missing_else(std::size_t at);

  // Code.
  std::size_t emit(Op op, std::size_t at, std::int64_t arg = 0, std::uint16_t small = 0, std::uint8_t flag = 0);
  /// Lets the jump go to the end of the code.
  void patch(std::size_t jump);
  void patch_to(std::size_t jump, std::size_t target);
  /// Cuts off the code from `begin`.
  Instructions take(std::size_t begin);
  void append(const Instructions& code);
  std::uint32_t name(std::string_view text);
  std::int64_t text_constant(std::string_view text);
  std::int64_t constant(const Value& value);
  std::int64_t shape(CallShape shape);

  // Expressions, in parser_expressions.cpp. Each leaves code that pushes one value.
  void expression();
  void operators(int lowest);
  void one_operator(int level);
  void comparisons();
  void concatenation();
  void unary();
  void filters_and_tests();
  void primary();
  void name_or_constant();
  void string();
  void list_display();
  void dict_display();
  void postfix();
  void subscript();
  bool subscript_part();
  void call();
  CallShape arguments();
  void filter();
  void test();
  /// A tuple without brackets, or one expression. `is_bracketed`: it may be empty.
  void tuple(bool with_condition, bool is_bracketed, bool ends_at_recursive = false);
  bool is_tuple_end(bool ends_at_recursive) const;

  // Statements, in parser_statements.cpp.
  /// Texts, output and statements up to a tag with one of these names, which becomes the current token. Returns which.
  std::size_t body(std::initializer_list<const char*> ends);
  void statement();
  /// After a tag's expressions: its end, the body and the end tag, without what ends that.
  std::size_t block(std::initializer_list<const char*> ends);
  void output();
  void target(bool with_fields);
  void one_target(bool with_fields);
  void set_statement();
  void for_statement();
  void if_statement();
  void with_statement();
  void macro_statement();
  void call_statement();
  void filter_statement();
  void block_statement();
  void generation_statement();
  void autoescape_statement();
  void print_statement();
  void loop_control(bool is_break);
  void refuse_statement(const char* what);
  /// The parameters of a macro or call block, if there are any; their defaults are set by `defaults`.
  void signature(MacroCode& macro, Instructions& defaults);
  void macro_body(Op op, std::size_t at, MacroCode macro, const Instructions& defaults, const char* end);
  void close_loop(std::size_t begin, std::size_t next, std::size_t exit);

  Program& program_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false, in_for_target_ = false;
  Status failure_;
  std::map<std::string, std::uint32_t, std::less<>> name_index_;
  std::vector<std::string> open_tags_;
  std::size_t loops_ = 0;       // that the code here is in, within its macro
  std::size_t conditions_ = 0;  // that the code here depends on
  std::size_t loop_reads_ = 0, caller_reads_ = 0, varargs_reads_ = 0, kwargs_reads_ = 0;
};

}  // namespace qinfer::jinja
