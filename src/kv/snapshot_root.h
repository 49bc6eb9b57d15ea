// The root of a snapshot: where in a file the valid snapshot is, so that another one can take its place in the same
// file.
//
// A file of the operating system's is replaced by renaming a new one. A host's file is changed in place, with nothing
// but writes and syncs: the new snapshot is written where the present one is not, and then a record of 24 bytes in the
// first page says where it is.
//
// Layout of the first page (little-endian):
//   0                  magic, version 5, "root"; in a file that is renamed into place the snapshot itself begins here,
//                      with the same magic and version 4
//   1024, 2048         two records: sequence number, where the snapshot begins (a multiple of 4096), checksum. Of those
//                      that are whole the later one is valid. The first time both are written, first the one at 2048:
//                      until that is whole, a file of version 5 holds no snapshot yet.
// A record is also valid in a file that begins with version 4: its first page becomes a root only when the snapshot
// that takes the place of the one at 0 is complete.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "platform/file.h"

namespace qinfer::kv {

inline constexpr char kSnapshotMagic[8] = {'q', 'i', 'n', 'f', 'K', 'V', '\r', '\n'};
inline constexpr std::uint32_t kSnapshotVersion = 4, kRootVersion = 5;
inline constexpr std::uint64_t kSnapshotPage = 4096;

/// A record as it is stored.
template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

struct SnapshotRoot {
  bool is_root = false;        ///< the first page is no snapshot's own
  bool exists = true;          ///< a snapshot was completed once
  std::uint64_t base = 0;      ///< where it begins
  std::uint64_t sequence = 0;  ///< of the record that says so; 0 = none does
  bool damaged = false;        ///< the other record was written and is not whole: it may have been the later one
};

/// QINFER_E_FORMAT if there was a snapshot, and no record is whole and leads into the file. Of a file that is no
/// snapshot at all it says that one begins at 0.
Result<SnapshotRoot> read_root(const platform::OpenFile& file);

/// Whether a file holds nothing that could be lost: it is empty, or its first page was being made a root.
Result<bool> is_unwritten(const platform::OpenFile& file);

/// Makes the first page a root without records and syncs.
Status write_root(platform::WritableFile& file);
/// Says that the snapshot at `base`, which is complete and synced, now counts, and syncs.
Status write_root_record(platform::WritableFile& file, const SnapshotRoot& before, std::uint64_t base);

}  // namespace qinfer::kv
