// Changes to the files that the library reads, which keep what guards them whole: a JSON text stays one (mostly), the
// length in front of a header and the checksums over a file are made right again, so that the code that comes after
// those checks is reached. Knows nothing of the library's inside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "choices.h"
#include "support/gguf_writer.h"

namespace qinfer::fuzz {

/// Changes one to four things of a JSON text: a value becomes another (an extreme number, another type, one of
/// `known`, a deep nest, the value of another field), a member goes, comes twice, or is added; rarely a byte changes.
/// `known` are texts of JSON values that such a file may have.
std::string mutate_json(std::string text, const std::vector<std::string>& known, Choices& choices);

/// A pattern as tokenizers have, in the text of a JSON string with its quotes.
std::string random_pattern(Choices& choices);

/// The header of a safetensors file, with its length made right (mostly).
std::string mutate_safetensors(std::string_view file, Choices& choices);

/// The same of a packed model, with the checksum of the header made right.
std::string mutate_packed(std::string_view file, Choices& choices);
/// Puts right the checksum of a packed model's header.
void repair_packed(std::string& file);

/// A GGUF file with some of its key-values, tensors, counts or bytes changed. `architecture`: the file's.
std::string mutate_gguf(test::GgufFile file, const std::string& architecture, Choices& choices);

/// Where a snapshot has its checksums, found by looking: a change of the format that keeps the kind of checksum needs
/// no change here.
struct SnapshotShape {
  struct Sum {
    std::size_t begin, end;  ///< what it is over
    std::size_t at;          ///< where it stands
  };
  std::vector<Sum> sums;  ///< in the order in which they are made right
};
SnapshotShape shape_of_snapshot(std::string_view file);
void repair_snapshot(std::string& file, const SnapshotShape& shape);
std::string mutate_snapshot(std::string_view file, const SnapshotShape& shape, Choices& choices);

}  // namespace qinfer::fuzz
