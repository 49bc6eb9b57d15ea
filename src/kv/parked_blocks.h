// The blocks of one session in a file, while the session waits without a place in the cache: written one after the
// other, and read again in the same order. They are of no use to another process, nor after a crash, so nothing is
// synced, and what the blocks mean is not in the file.
//
// What is read must be what was written. So each block's checksum (XXH3, 64 bits) takes that of the block before for
// its seed, and the last one must be the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "platform/file.h"

namespace qinfer::kv {

class ParkedBlocks {
 public:
  bool has_file() const { return file_ != nullptr; }
  /// `name` is for messages.
  void set_file(std::shared_ptr<platform::WritableFile> file, std::string name) {
    file_ = std::move(file);
    name_ = std::move(name);
  }

  /// After the blocks that were written since clear().
  Status write(std::span<const std::byte> block);
  /// From now on the first block is read.
  void rewind();
  /// The next block. QINFER_E_FORMAT where the file has become shorter.
  Status read(std::span<std::byte> block);
  /// After the last block: QINFER_E_FORMAT if something was read that was not written.
  Status check() const;
  /// Nothing is written. After an error the file is closed: a host's must not be used any more.
  void clear();
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<platform::WritableFile> file_;
  std::string name_;
  bool failed_ = false;
  std::uint64_t bytes_ = 0, offset_ = 0;            ///< written, and read of them
  std::uint64_t checksum_ = 0, read_checksum_ = 0;  ///< of the same
};

}  // namespace qinfer::kv
