// saved.cpp: see saved.h.
#include "saved.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "conversation.h"
#include "support.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

std::string conversations_folder() {
  const std::string state = state_folder();
  if (state.empty()) throw Failure("neither XDG_STATE_HOME nor HOME is set: give a file, such as ./x.json");
  return state + "/conversations";
}

bool is_kept(const std::string& name) { return name.find_first_of("/.") == std::string::npos && name != "~"; }

constexpr std::size_t kMaxConversation = std::size_t{64} << 20;  // bytes

/// The bytes of a file, at most `most` of them: a device has no end.
std::string read_up_to(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text, piece(std::size_t{64} << 10, '\0');
  while (text.size() <= most && file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece, 0, static_cast<std::size_t>(file.gcount()));
  }
  if (text.size() > most) throw Failure(path + " is too long: at most " + human_bytes(most) + " are read");
  if (!file.eof()) throw Failure(format("cannot read %s: %s", path.c_str(), std::strerror(errno)));
  return text;
}

[[noreturn]] void fail_to_write(const fs::path& path, const std::string& reason) {
  throw Failure("cannot write " + path.string() + ": " + reason);
}

/// Throws Failure unless nothing is lost if a conversation takes the place of what is there.
void check_replacement(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() == fs::file_type::none) fail_to_write(path, error.message());
  const bool may_be_one =
      status.type() == fs::file_type::regular && fs::file_size(path, error) <= kMaxConversation && !error;
  if (!may_be_one || !Conversation::is_conversation(read_up_to(path.string(), kMaxConversation)))
    throw Failure(path.string() + " is no conversation, and /save replaces nothing else: give another name");
  // A rename does not ask for the permissions of the file that it replaces.
  if ((status.permissions() & fs::perms::owner_write) == fs::perms::none)
    throw Failure(path.string() + " is a read-only file: make it writable (chmod u+w) or give another name");
}

void write_to(int opened, const std::string& path, const std::string& text) {
  std::FILE* file = opened >= 0 ? fdopen(opened, "wb") : nullptr;
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (!written) fail_to_write(path, std::strerror(errno));
}

}  // namespace

std::string state_folder() {
  const std::string state = environment("XDG_STATE_HOME"), home = environment("HOME");
  if (!state.empty()) return state + "/qinfer";
  return home.empty() ? "" : home + "/.local/state/qinfer";
}

std::string file_path(const std::string& name) {
  const std::string home = environment("HOME");
  return !home.empty() && (name == "~" || name.starts_with("~/")) ? home + name.substr(1) : name;
}

std::string conversation_path(const std::string& name) {
  return is_kept(name) ? conversations_folder() + "/" + name + ".json" : file_path(name);
}

std::vector<std::string> saved_names() {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(conversations_folder(), error))
    if (entry.path().extension() == ".json") found.emplace_back(entry.last_write_time(error), entry.path().stem());
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> names;
  names.reserve(found.size());
  for (auto& [time, name] : found) names.push_back(std::move(name));
  return names;
}

std::string save_conversation(const std::string& name, const std::string& text) {
  const fs::path wanted = conversation_path(name);
  std::error_code error;
  if (is_kept(name)) {
    fs::create_directories(wanted.parent_path(), error);
    fs::permissions(wanted.parent_path(), fs::perms::owner_all, error);  // what people write is theirs alone to read
  }
  std::string path = fs::weakly_canonical(wanted, error).string();
  if (error) fail_to_write(wanted, error.message());
  check_replacement(path);
  std::string beside = path + ".XXXXXX";
  const int opened = mkstemp(beside.data());
  try {
    write_to(opened, path, text);
    if (std::rename(beside.c_str(), path.c_str()) != 0) fail_to_write(path, std::strerror(errno));
  } catch (const Failure&) {
    if (opened >= 0) std::remove(beside.c_str());
    throw;
  }
  return path;
}

std::string load_conversation(const std::string& name) {
  const std::string path = conversation_path(name);
  std::error_code error;
  if (fs::exists(path, error) || !is_kept(name)) return read_up_to(path, kMaxConversation);
  throw Failure("no conversation " + name + " is kept (" + path + "); a file is named with its folder: ./" + name);
}

std::string read_attachment(const std::string& name, std::string& summary) {
  constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
  const fs::path path = file_path(name);
  std::error_code error;
  if (fs::is_directory(path, error)) throw Failure(name + " is a folder: /file takes one file");
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    throw Failure(name + " is a device or a pipe: /file takes a file of text");
  if (fs::file_size(path, error) > kMaxBytes && !error)
    throw Failure(name + " has " + human_bytes(fs::file_size(path, error)) + ", /file takes at most " +
                  human_bytes(kMaxBytes));
  std::string text = read_up_to(path.string(), kMaxBytes);
  try {
    if (text.find('\0') != std::string::npos) throw Failure("NUL");
    (void)Json(text).dump();  // throws for what is not UTF-8
  } catch (const std::exception&) {
    throw Failure(name + " is not a text in UTF-8");
  }
  while (text.ends_with('\n')) text.pop_back();
  std::string fence = "```";
  while (text.find(fence) != std::string::npos) fence += '`';
  const auto n_lines = 1 + std::count(text.begin(), text.end(), '\n');
  summary = path.filename().string() + ": " + std::to_string(n_lines) + (n_lines == 1 ? " line, " : " lines, ") +
            human_bytes(text.size());
  return path.filename().string() + ":\n" + fence + "\n" + text + "\n" + fence + "\n\n";
}

std::string edited(const std::string& text) {
  std::string program = environment("VISUAL");
  if (program.empty()) program = environment("EDITOR");
  if (program.empty()) program = "vi";
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  if (error) throw Failure("there is no folder for temporary files (TMPDIR): " + error.message());
  std::string path = (folder / "qinfer-message-XXXXXX.txt").string();
  const int opened = mkstemps(path.data(), 4);
  write_to(opened, path, text + "\n");
  // The program may have options ("code --wait"), which only a shell takes apart; the path is its parameter.
  setenv("QINFER_MESSAGE", path.c_str(), 1);
  const int status = std::system((program + " \"$QINFER_MESSAGE\"").c_str());  // NOLINT(cert-env33-c)
  std::string result = status == 0 ? read_file(path) : "";
  std::remove(path.c_str());
  if (status != 0) throw Failure(program + " failed: the message stays as it was");
  while (result.ends_with('\n')) result.pop_back();
  return result;
}

}  // namespace cli
