// chat_commands.h: the commands of a conversation: their names, what they do, and what the Tab key makes of a line.
#pragma once

#include <string>
#include <vector>

#include "chat_session.h"

namespace cli {

inline constexpr const char* kFullContext =
    "[what can be done: /undo takes the last turn back, /reset begins anew, /set overflow drop-oldest leaves the "
    "oldest "
    "turns out from now on; --context N has more room from the start]";

/// Reaches what the commands of a session are.
struct ChatCommands {
  /// A line that begins with a slash.
  static void obey(ChatSession& session, const std::string& line);
};

}  // namespace cli
