// Calls whose parameters are tags, as Qwen3-Coder writes them:
//
//   <tool_call>
//   <function=name>
//   <parameter=key>
//   a value, as it is
//   </parameter>
//   </function>
//   </tool_call>
//
// Values are not escaped, so a tag ends one only where the format has it: </parameter> at the beginning of a line (or
// anywhere, after a value that begins beside its tag) and before another tag or the end. A model that left it out has
// the next parameter of the tool's schema there, or the end of the call. It may leave out <tool_call>, too, before a
// tool of the conversation, and the last tags.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reply/tools.h"

namespace qinfer::reply {

struct CallSearch;

/// How far a call was read, whose text may go on.
struct TagScan {
  enum class State { function, between, value, after } state = State::function;
  std::size_t at = 0;  ///< what is before has been read
  std::string tool;
  struct Parameter {
    std::string key;
    std::size_t begin, end;  ///< of the value in the text
  };
  std::vector<Parameter> parameters;
  std::set<std::string, std::less<>> keys;  ///< theirs
  std::size_t end = 0;                      ///< after </function>, in the state after it
};

/// The call at the beginning of `text`, perhaps after white space. `marked`: <tool_call> is before it.
CallSearch read_tags(std::string_view text, bool at_end, bool marked, const ToolList& tools, TagScan& scan);

/// A longer name is none.
inline constexpr std::size_t kMaxToolNameBytes = 256;
inline constexpr std::string_view kFunctionTag = "<function=";

}  // namespace qinfer::reply
