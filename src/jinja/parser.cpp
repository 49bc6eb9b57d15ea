// See parser.h: tokens, errors and the pieces of code.
#include "jinja/parser.h"

#include <algorithm>

#include "jinja/limits.h"
#include "jinja/source_place.h"

namespace qinfer::jinja {
namespace {

/// How messages name a token.
std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data: return "template data / text";
    case TokenKind::variable_begin: return "begin of print statement";
    case TokenKind::variable_end: return "end of print statement";
    case TokenKind::block_begin: return "begin of statement block";
    case TokenKind::block_end: return "end of statement block";
    case TokenKind::string: return "string";
    case TokenKind::end: return "end of template";
    default: return token.text;
  }
}

const char* describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::variable_end: return "end of print statement";
    case TokenKind::block_end: return "end of statement block";
    case TokenKind::name: return "name";
    default: return "token";
  }
}

}  // namespace

Parser::Level::Level(Parser& parser, int weight) : parser_(parser), weight_(weight) {
  parser_.depth_ += weight;
  if (parser_.depth_ > kMaxNesting)
    parser_.fail(
        format_text("the template nests deeper than {} levels (a block or a pair of brackets counts as two); use fewer "
                    "blocks and brackets inside each other",
                    kMaxNesting));
}

bool Parser::accept_op(std::string_view op) {
  if (!now().is_op(op)) return false;
  advance();
  return true;
}

bool Parser::accept_name(std::string_view name) {
  if (!now().is_name(name)) return false;
  advance();
  return true;
}

void Parser::expect_op(std::string_view op) {
  if (!accept_op(op)) fail_expected(op);
}

void Parser::expect_name(std::string_view name) {
  if (!accept_name(name)) fail_expected(name);
}

void Parser::expect_kind(TokenKind kind) {
  if (now().kind == kind)
    advance();
  else
    fail_expected(describe(kind));
}

std::string Parser::take_name(const char* what) {
  if (now().kind != TokenKind::name) {
    fail_expected(what);
    return {};
  }
  std::string taken = now().text;
  advance();
  return taken;
}

void Parser::fail_expected(std::string_view expected) {
  fail(now().kind == TokenKind::end ? format_text("unexpected end of template, expected '{}'", expected)
                                    : format_text("expected token '{}', got '{}'", expected, describe(now())));
}

/// After an error only the end of the template is left to read.
void Parser::fail_at(std::size_t at, const std::string& message, Code code) {
  if (!failed_) {
    const Place place = find_place(program_.source, at);
    failure_ = error_at(code, static_cast<std::int64_t>(place.line), "{}", place_message(place, message));
  }
  failed_ = true;
  at_ = tokens_.size() - 1;
}

std::size_t Parser::emit(Op op, std::size_t at, std::int64_t arg, std::uint16_t small, std::uint8_t flag) {
  program_.code.push_back({op, flag, small, static_cast<std::int32_t>(arg), static_cast<std::uint32_t>(at)});
  return program_.code.size() - 1;
}

void Parser::patch_to(std::size_t jump, std::size_t target) {
  program_.code[jump].arg =
      static_cast<std::int32_t>(static_cast<std::int64_t>(target) - static_cast<std::int64_t>(jump));
}

void Parser::patch(std::size_t jump) { patch_to(jump, program_.code.size()); }

Instructions Parser::take(std::size_t begin) {
  const auto from = program_.code.begin() + static_cast<std::ptrdiff_t>(begin);
  Instructions taken(from, program_.code.end());
  program_.code.erase(from, program_.code.end());
  return taken;
}

void Parser::append(const Instructions& code) { program_.code.insert(program_.code.end(), code.begin(), code.end()); }

std::uint32_t Parser::name(std::string_view text) {
  if (const auto found = name_index_.find(text); found != name_index_.end()) return found->second;
  const auto index = static_cast<std::uint32_t>(program_.names.size());
  name_index_.emplace(text, index);
  Text& made = program_.texts.emplace_back();
  const std::string& stored = program_.strings.emplace_back(text);
  made.data = stored.data();
  made.size = stored.size();
  program_.names.push_back(text_value(&made));
  program_.is_read.push_back(false);
  if (text == "loop") program_.loop_name = index;
  return index;
}

std::int64_t Parser::constant(const Value& value) {
  program_.constants.push_back(value);
  return static_cast<std::int64_t>(program_.constants.size()) - 1;
}

std::int64_t Parser::text_constant(std::string_view text) {
  Text& made = program_.texts.emplace_back();
  const std::string& stored = program_.strings.emplace_back(text);
  made.data = stored.data();
  made.size = stored.size();
  return constant(text_value(&made));
}

std::int64_t Parser::shape(CallShape shape) {
  program_.shapes.push_back(std::move(shape));
  return static_cast<std::int64_t>(program_.shapes.size()) - 1;
}

Status Parser::parse() {
  program_.caller_name = name("caller");
  program_.kwargs_name = name("kwargs");
  program_.varargs_name = name("varargs");
  body({});
  emit(Op::end, program_.source.size());
  if (failed_) return std::move(failure_);
  return {};
}

}  // namespace qinfer::jinja
