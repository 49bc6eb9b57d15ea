// saved.h: conversations in files: where a name puts one, how one is written, what else is read into a message.
#pragma once

#include <string>
#include <vector>

namespace cli {

/// The folder of this program's state below XDG_STATE_HOME; empty if nothing says where that is.
std::string state_folder();

/// A name without "/" and "." is a conversation's that is kept in state_folder(); all others are files, "~/x" in the
/// home folder, as a shell has it.
std::string conversation_path(const std::string& name);
std::string file_path(const std::string& name);

/// The names of the conversations that are kept, the last written first.
std::vector<std::string> saved_names();

/// Written next to the file and renamed. Throws Failure, and leaves what is there, if that is no conversation or
/// read-only. Returns where it is.
std::string save_conversation(const std::string& name, const std::string& text);
std::string load_conversation(const std::string& name);

/// A file of text as part of a message: its name, and its text between fences that it does not contain. Throws Failure
/// if it is no text, or larger than 4 MiB. `summary` gets what was read, for people.
std::string read_attachment(const std::string& name, std::string& summary);

/// What the person makes of a text in the program that VISUAL or EDITOR names, vi if neither does.
std::string edited(const std::string& text);

}  // namespace cli
