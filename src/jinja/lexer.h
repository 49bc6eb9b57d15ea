// Splits a template into text, and the tokens of its tags, as jinja2's lexer does with trim_blocks and lstrip_blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace qinfer::jinja {

enum class TokenKind : std::uint8_t {
  data,            ///< text between tags
  variable_begin,  ///< {{
  variable_end,
  block_begin,  ///< {%
  block_end,
  name,
  string,
  integer,
  big_integer,  ///< beyond 64 bits
  number,
  op,  ///< an operator or bracket: its characters are the text
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::uint32_t at = 0;  ///< offset in the source
  std::string text;      ///< of data and strings what they stand for
  std::int64_t integer = 0;
  double number = 0;

  bool is_op(std::string_view op) const { return kind == TokenKind::op && text == op; }
  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
};

/// The source as jinja2 reads it: newlines are \n, and one at the end is dropped.
std::string normalise_newlines(std::string_view source, bool drop_last);

/// `source` is valid UTF-8 with normalised newlines. The last token is `end`. An error is QINFER_E_FORMAT.
Result<std::vector<Token>> split_into_tokens(std::string_view source);

}  // namespace qinfer::jinja
