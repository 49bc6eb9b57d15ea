// folders.h: the library's errors name files, for who runs the server. Clients see the names of these without the
// folders of this machine.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace server {

class Folders {
 public:
  /// What the command line names, absolute or not; "": nothing.
  void add(const std::string& path);
  /// A text, or one as it is in JSON: of each path that was added only the last name is left.
  std::string hidden(std::string text) const;

 private:
  std::vector<std::pair<std::string, std::string>> paths_;  ///< with what stands for it; the longest first
};

}  // namespace server
