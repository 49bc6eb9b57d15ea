// What packing asks of a model directory or GGUF file besides the model: its texts, whether the output would take
// the place of one of its files, and whether it changed meanwhile.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "platform/file.h"

namespace qinfer::source {

class PackInput {
 public:
  /// QINFER_E_INVALID_ARGUMENT if the path is a file, and not a GGUF one.
  static Result<PackInput> open(const std::string& path);

  /// QINFER_E_INVALID_ARGUMENT if `out` is one of the files of the model, or has the name of one that is not there yet
  /// and would then be read as what it is called.
  Status check_output(const std::string& out, CancelFlag cancel) const;

  struct Text {
    std::string name, text;
  };
  /// Those that are there.
  Result<std::vector<Text>> texts(CancelFlag cancel) const;

  /// The state of all files: equal as long as nothing has changed that is packed.
  Result<std::string> state(CancelFlag cancel) const;

 private:
  PackInput() = default;
  std::optional<platform::Directory> directory_;
  std::string gguf_;  ///< the path of a GGUF file, in place of a directory
};

}  // namespace qinfer::source
