// keys.h: who may use the server: whoever knows one of the keys in a file, one a line.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace server {

class Keys {
 public:
  Keys() = default;
  /// An empty path: everybody may. Throws std::runtime_error where the file cannot be read or has no key.
  explicit Keys(std::string path);
  /// Reads the file again; where that fails the keys stay as they are, and the reason is returned.
  std::string reload();
  /// `authorization`: "Bearer KEY". Takes the same time whatever it is and however much of it is right.
  bool allow(std::string_view authorization) const;
  /// Of a key that is allowed, the same as long as the server runs: from 1 on, or 0 where none is asked for.
  std::uint32_t number_of(std::string_view authorization);

 private:
  std::string path_;
  std::vector<std::string> keys_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;  ///< of those that were used
};

}  // namespace server
