// See snapshot_root.h.
#include "kv/snapshot_root.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace qinfer::kv {
namespace {

constexpr std::uint64_t kRecords[2] = {1024, 2048};

struct RootHead {
  char magic[8];
  std::uint32_t version;
  char tag[4];  ///< so that no other version is taken for a root
};

struct RootRecord {
  std::uint64_t sequence, base;
  std::uint64_t checksum;  ///< of the two before
};

RootHead root_head() {
  RootHead head = {};
  std::memcpy(head.magic, kSnapshotMagic, sizeof kSnapshotMagic);
  head.version = kRootVersion;
  std::memcpy(head.tag, "root", sizeof head.tag);
  return head;
}

std::uint64_t root_checksum(const RootRecord& record) {
  return XXH3_64bits_withSeed(&record, offsetof(RootRecord, checksum), kRootVersion);
}

/// The first page as far as the file has one, and zeros.
Status read_first_page(const platform::OpenFile& file, std::span<std::byte> page) {
  std::fill(page.begin(), page.end(), std::byte{});
  return platform::read_at(file, 0, page.first(std::min<std::uint64_t>(page.size(), file.size)));
}

}  // namespace

Result<SnapshotRoot> read_root(const platform::OpenFile& file) {
  std::byte page[kSnapshotPage];
  QINFER_TRY(read_first_page(file, page));
  SnapshotRoot root;
  RootHead head;
  std::memcpy(&head, page, sizeof head);
  const bool known = std::memcmp(head.magic, kSnapshotMagic, sizeof head.magic) == 0;
  if (!known || (head.version != kSnapshotVersion && head.version != kRootVersion)) return root;
  const RootHead expected = root_head();
  root.is_root = std::memcmp(&head, &expected, sizeof head) == 0;
  bool both_written = true;
  std::uint64_t latest = 0;  // of those that are whole, wherever they lead
  for (const std::uint64_t at : kRecords) {
    RootRecord record;
    std::memcpy(&record, page + at, sizeof record);
    const bool blank = record.sequence == 0 && record.base == 0 && record.checksum == 0;
    const bool whole = record.checksum == root_checksum(record) && record.sequence != 0 &&
                       record.base % kSnapshotPage == 0 && record.base >= kSnapshotPage;
    root.damaged = root.damaged || (!blank && !whole);
    both_written = both_written && !blank;
    if (!whole) continue;
    latest = std::max(latest, record.sequence);
    // What the earlier one leads to may have been cut off.
    if (record.base >= file.size || record.sequence < root.sequence) continue;
    root.sequence = record.sequence;
    root.base = record.base;
  }
  root.damaged = root.damaged || latest != root.sequence;
  root.exists = !root.is_root || root.sequence != 0;
  if (!root.exists && (both_written || latest != 0))
    return error_at(Code::format, static_cast<std::int64_t>(kRecords[0]),
                    "{}: what says where in the file the snapshot is is damaged, or the file is cut", file.name);
  return root;
}

Result<bool> is_unwritten(const platform::OpenFile& file) {
  if (file.size > kSnapshotPage) return false;
  std::byte page[kSnapshotPage];
  QINFER_TRY(read_first_page(file, page));
  // A page of which a crash has left a part.
  const RootHead head = root_head();
  const std::span<const std::byte> made = bytes_of(head);
  for (std::size_t i = 0; i < sizeof page; ++i)
    if (page[i] != std::byte{} && (i >= made.size() || page[i] != made[i])) return false;
  return true;
}

Status write_root(platform::WritableFile& file) {
  std::byte page[kSnapshotPage] = {};
  const RootHead head = root_head();
  std::memcpy(page, &head, sizeof head);
  QINFER_TRY(file.write_at(0, page));
  return file.sync();
}

Status write_root_record(platform::WritableFile& file, const SnapshotRoot& before, std::uint64_t base) {
  const auto write = [&](std::uint64_t sequence) -> Status {
    RootRecord record = {sequence, base, 0};
    record.checksum = root_checksum(record);
    QINFER_TRY(file.write_at(kRecords[sequence % 2], bytes_of(record)));
    return file.sync();
  };
  QINFER_TRY(write(before.sequence + 1));
  if (before.sequence == 0) QINFER_TRY(write(2));
  if (before.is_root) return Status();
  // From now on the snapshot at 0 must not be found by a library that knows nothing of roots.
  const RootHead head = root_head();
  QINFER_TRY(file.write_at(0, bytes_of(head)));
  return file.sync();
}

}  // namespace qinfer::kv
