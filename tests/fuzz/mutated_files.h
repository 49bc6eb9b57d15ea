// A tiny model in a temporary directory, of whose files one is changed for each input and then read through the C ABI:
// planned, loaded, evaluated, tokenized. What is refused must be refused with a status and a message; what is accepted
// must work. The fuzzers and a test with fixed seeds share this.
#pragma once

#include <qinfer/qinfer.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mutate.h"

namespace qinfer::fuzz {

enum class File { config, header, index, tokenizer, packed, snapshot, gguf, packed_gguf };
inline constexpr File kAllFiles[] = {File::config, File::header,   File::index, File::tokenizer,
                                     File::packed, File::snapshot, File::gguf,  File::packed_gguf};
const char* name_of(File file);

class MutatedFiles {
 public:
  MutatedFiles();
  ~MutatedFiles();
  MutatedFiles(const MutatedFiles&) = delete;
  MutatedFiles& operator=(const MutatedFiles&) = delete;

  /// One input; whether the file was accepted. Writes to stderr and traps where the library breaks a promise.
  bool run(File file, std::string_view input);

  /// Whether a file that nothing was changed in but its checksums made right again is accepted, and is the same.
  bool repairs_to_itself(File file);

 private:
  struct State;
  bool run_directory(Choices& choices);
  bool run_file(const std::string& name, const std::string& bytes, Choices& choices);
  bool run_snapshot(const std::string& bytes);
  bool evaluates(qinfer_model* model, Choices& choices);
  std::unique_ptr<State> state_;
};

}  // namespace qinfer::fuzz
