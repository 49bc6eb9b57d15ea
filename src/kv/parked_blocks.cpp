// See parked_blocks.h.
#include "kv/parked_blocks.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>
#include <utility>

namespace qinfer::kv {

Status ParkedBlocks::write(std::span<const std::byte> block) {
  failed_ = true;  // also where a message finds no memory
  QINFER_TRY(file_->write_at(bytes_, block));
  failed_ = false;
  checksum_ = XXH3_64bits_withSeed(block.data(), block.size(), checksum_);
  bytes_ += block.size();
  return Status();
}

void ParkedBlocks::rewind() { offset_ = read_checksum_ = 0; }

Status ParkedBlocks::read(std::span<std::byte> block) {
  failed_ = true;
  QINFER_TRY(file_->read_at(name_, offset_, block));
  failed_ = false;
  read_checksum_ = XXH3_64bits_withSeed(block.data(), block.size(), read_checksum_);
  offset_ += block.size();
  return Status();
}

Status ParkedBlocks::check() const {
  if (offset_ == bytes_ && read_checksum_ == checksum_) return Status();
  return error_at(Code::format, -1,
                  "{}: damaged (checksum): the {} bytes of a parked request are not those that were written", name_,
                  bytes_);
}

void ParkedBlocks::clear() {
  bytes_ = checksum_ = 0;
  rewind();
  if (file_ == nullptr) return;
  try {
    if (std::exchange(failed_, false) || !file_->truncate(0).ok()) file_.reset();
  } catch (const std::bad_alloc&) {  // for a message
    file_.reset();
  }
}

}  // namespace qinfer::kv
