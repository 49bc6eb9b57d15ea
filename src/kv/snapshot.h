// Snapshots: one session's tokens, keys, values and sampler in a file that can be saved to again.
//
// Layout (little-endian, offsets multiples of 4096):
//   header             magic, version, sizes, fingerprint of the model, origin of the values, checksum; never changes
//   state 0, state 1   sequence number, counts, checksum of the tail, checksum; the later one that is whole is valid
//   tail 0, tail 1     tokens, checksums of the full blocks of each group of layers, the sampler's options, the blocks
//                      that are not full
//   blocks             block images in KvLayout's order: the first of each group, the second of each group, ...
// Of a group with a window only the blocks that the next token sees have meaning; those before them may be holes.
// Offsets are from the beginning of the snapshot, which is that of the file or where its root says (snapshot_root.h).
//
// Two states, so that a crash at any moment leaves one of them whole. Example: the file has state 0 with sequence
// number 5. The next save
//   1. writes the blocks that are new after the old ones, and tail 1; syncs;
//   2. writes state 1 with sequence number 6; syncs.
// Until step 2 is on disk whole, state 0 is the later one that is whole, and nothing that it needs has been touched:
// full blocks are never overwritten, and its tail is the other one. The save after that writes tail 0 and state 0
// again.
//
// Blocks are appended only if those in the file are the session's, which the checksums in the file's tail tell without
// reading the blocks; whether the disk still has what was written there, only loading checks. A first save, and one of
// a session that was truncated and went on differently, writes a new snapshot that replaces the old one when it is
// complete: by a rename or, in a file of a host, by its root. A save locks the file that it writes; a second one at the
// same time is refused. Locking a host's files is left to the host.
//
// Every byte that matters is under an XXH3-64 checksum, which finds damage, not malice: what is read is checked again.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/kv_layout.h"
#include "base/status.h"
#include "platform/file.h"

namespace qinfer::kv {

/// Bytes of a name in the header.
inline constexpr std::size_t kMaxSnapshotName = 31;

/// What a snapshot fits, besides the token ids. Names that are longer than kMaxSnapshotName are refused.
struct SnapshotModel {
  std::string fingerprint;  ///< of the weights
  std::string origin;       ///< what computed keys and values, as far as it changes their bits
  /// Of each group of layers, 1 to kMaxGroups; they differ only in the number of layers.
  std::vector<KvLayout> layouts;
  std::vector<std::uint32_t> windows;
};
inline constexpr std::size_t kMaxGroups = 4;

/// Whether a file with this header is wanted.
using SnapshotFits =
    std::function<Status(const SnapshotModel& model, std::uint32_t max_tokens, std::uint32_t max_logits)>;

/// What a session saves. `block` gives the image of a block of a group, of which the last may not be full; `first` is
/// the first position that each group holds, which may be inside a block.
struct SnapshotState {
  std::span<const std::int32_t> tokens;
  std::size_t n_evaluated = 0;
  std::uint32_t max_tokens = 0, max_logits = 0;
  std::span<const std::byte> extra;  ///< stored as it is: the sampler's options
  std::uint64_t extra_capacity = 0;  ///< bytes that it can ever have
  std::vector<std::uint64_t> first;
  std::function<const std::byte*(std::size_t group, std::size_t i)> block;
};

/// `files` null: the operating system's.
Status save_snapshot(const std::string& path, const SnapshotModel& model, const SnapshotState& state,
                     const platform::Files* files = nullptr);

/// An open snapshot whose header, state and tail are whole.
class Snapshot {
 public:
  /// QINFER_E_FORMAT names what is wrong with a file that is cut, altered or something else. `fits` refuses what does
  /// not belong to the model, before anything of a size that the file alone states is read.
  static Result<Snapshot> open(const std::string& path, const SnapshotFits& fits,
                               const platform::Files* files = nullptr);

  const SnapshotModel& model() const { return model_; }
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::size_t n_evaluated() const { return n_evaluated_; }
  std::uint32_t max_tokens() const { return max_tokens_; }
  std::uint32_t max_logits() const { return max_logits_; }
  /// Whether the other state was written once and is not whole: what was saved last may be lost.
  bool recovered() const { return recovered_; }
  std::span<const std::byte> extra() const { return extra_; }
  /// The first position of a group that is there.
  std::uint64_t first(std::size_t group) const { return first_[group]; }
  /// Block i, block_bytes() of the file's layout; QINFER_E_FORMAT if it is not what was written.
  Status read_block(std::size_t group, std::size_t i, std::span<std::byte> out) const;

 private:
  friend class SnapshotFile;
  Snapshot() = default;
  /// At an offset of the snapshot, not of the file.
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const {
    return platform::read_at(file_, base_ + offset, out);
  }
  std::uint64_t size() const { return file_.size - base_; }
  platform::OpenFile file_;
  std::uint64_t base_ = 0;  ///< where the snapshot begins in its file
  SnapshotModel model_;
  std::vector<std::int32_t> tokens_;
  std::uint64_t n_full() const { return n_evaluated_ / model_.layouts[0].block_tokens; }
  std::array<std::uint64_t, kMaxGroups> first_ = {};
  std::array<std::vector<std::uint64_t>, kMaxGroups> checksums_;  ///< of the blocks from that of first_ to n_full() - 1
  std::vector<std::byte> extra_;
  std::array<std::vector<std::byte>, kMaxGroups> partial_;
  std::size_t n_evaluated_ = 0;
  std::uint32_t max_tokens_ = 0, max_logits_ = 0;
  std::uint64_t blocks_offset_ = 0, sequence_ = 0;
  int state_ = 0;  ///< which of the two is valid
  bool recovered_ = false;
  std::uint64_t tail_capacity_ = 0;
};

}  // namespace qinfer::kv
