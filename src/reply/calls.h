// Calls of tools, as each family of models writes them: from the text after the marker to a name and JSON arguments.
//
// What is not written as its family writes it is no call, and stays content; but raw line ends inside of a text are
// read as what they are, and a last marker may be missing at the end. A value ends where its format ends it, whatever
// markers are inside. A call that has begun
// is looked at again when more of it is there, from where the search for its end stopped, so that a long one costs no
// more than its length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reply/format.h"
#include "reply/json.h"
#include "reply/tags.h"
#include "reply/tools.h"

namespace qinfer::reply {

struct ToolCall {
  std::string name;
  std::string arguments;  ///< a JSON object, as the model wrote it; of a tool that takes code that code
  bool is_code = false;
};

/// What a search leaves for the next one of the same text, when more of it is there.
struct CallScan {
  std::size_t at = 0;  ///< no end of a call begins before
  JsonEnd json;
  TagScan tags;
};

struct CallSearch {
  enum Outcome { more, none, found } outcome = more;
  std::size_t size = 0;         ///< found: bytes of the text that they are; none: bytes that were read in vain
  std::vector<ToolCall> calls;  ///< found; of ">>>all" none
};

/// The calls at the beginning of `text`, which follows the marker of their family. `at_end`: nothing will follow it.
CallSearch read_calls(Format format, std::string_view text, bool at_end, const ToolList& tools, CallScan& scan);

/// A call of Hermes's family without the marker before it: `text` begins with kFunctionTag.
CallSearch read_unmarked_call(std::string_view text, bool at_end, const ToolList& tools, CallScan& scan);

/// One call written as a bare JSON object, as Llama 3 does: `text` begins with its brace. It must name a tool of the
/// list.
CallSearch read_bare_call(std::string_view text, const ToolList& tools, CallScan& scan);

/// Whether one can begin with this text: a brace, and as the first key one of a call.
bool may_be_bare_call(std::string_view text);

}  // namespace qinfer::reply
