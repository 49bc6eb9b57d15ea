// See snapshot.h.
#include "kv/snapshot.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "kv/snapshot_root.h"

namespace qinfer::kv {
namespace {

constexpr std::uint64_t kPage = kSnapshotPage;
constexpr std::uint64_t kStates = kPage, kTails = 3 * kPage;

struct Header {
  char magic[8];
  std::uint32_t version, kv_type;
  std::uint32_t n_kv_heads, head_dim, head_dim_padded, block_tokens;
  std::uint32_t n_groups;
  std::uint32_t n_layers[kMaxGroups], windows[kMaxGroups];  ///< of each group
  std::uint32_t max_tokens, max_logits;
  std::uint32_t tile_order;  ///< KvOrder
  std::uint64_t extra_capacity, tail_capacity, blocks_offset;
  char fingerprint[kMaxSnapshotName + 1], origin[kMaxSnapshotName + 1];
  std::uint64_t checksum;  ///< of all before
};

struct State {
  std::uint64_t sequence;  ///< the later one is valid; 0 = never written
  std::uint64_t n_tokens, n_evaluated;
  std::uint64_t first[kMaxGroups];  ///< the first position of each group that has meaning
  std::uint64_t extra_bytes, partial_bytes;
  std::uint64_t tail_bytes, tail_checksum;
  std::uint64_t checksum;  ///< of all before
};

std::uint64_t hash(const void* data, std::uint64_t bytes) { return XXH3_64bits(data, bytes); }

template <typename T>
std::uint64_t checksum_of(const T& record) {
  return hash(&record, offsetof(T, checksum));
}

/// The tail as one run of bytes, in this order.
struct Tail {
  std::span<const std::int32_t> tokens;
  std::span<const std::uint64_t> checksums;  ///< group by group
  std::span<const std::byte> extra;
  std::vector<std::span<const std::byte>> partial;  ///< one for each group, or none

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out;
    const auto add = [&](std::span<const std::byte> part) { out.insert(out.end(), part.begin(), part.end()); };
    add(std::as_bytes(tokens));
    if (tokens.size() % 2 != 0) out.resize(out.size() + sizeof(std::int32_t));
    add(std::as_bytes(checksums));
    add(extra);
    for (const std::span<const std::byte> block : partial) add(block);
    return out;
  }
};

std::uint64_t set_bytes(std::span<const KvLayout> layouts) {
  std::uint64_t bytes = 0;
  for (const KvLayout& layout : layouts) bytes += layout.block_bytes();
  return bytes;
}

/// Where block i of a group is in the snapshot.
std::uint64_t block_offset(std::uint64_t blocks_offset, std::span<const KvLayout> layouts, std::size_t group,
                           std::uint64_t i) {
  return blocks_offset + i * set_bytes(layouts) + set_bytes(layouts.first(group));
}

std::uint64_t tail_bytes(std::uint64_t n_tokens, std::uint64_t n_blocks, std::uint64_t extra, std::uint64_t partial) {
  return round_up(n_tokens * sizeof(std::int32_t), 8) + n_blocks * sizeof(std::uint64_t) + extra + partial;
}

template <std::size_t n>
void copy_name(char (&to)[n], std::string_view from) {
  std::memcpy(to, from.data(), std::min(from.size(), n - 1));
}

template <std::size_t n>
std::string name_of(const char (&from)[n]) {
  return std::string(from, std::find(from, from + n, '\0'));
}

Header header_for(const SnapshotModel& model, const SnapshotState& state) {
  Header header = {};
  std::memcpy(header.magic, kSnapshotMagic, sizeof kSnapshotMagic);
  header.version = kSnapshotVersion;
  const KvLayout& layout = model.layouts[0];
  header.kv_type = static_cast<std::uint32_t>(layout.type);
  header.n_kv_heads = layout.n_kv_heads;
  header.head_dim = layout.head_dim;
  header.head_dim_padded = layout.head_dim_padded;
  header.block_tokens = layout.block_tokens;
  header.tile_order = static_cast<std::uint32_t>(layout.order);
  header.n_groups = static_cast<std::uint32_t>(model.layouts.size());
  for (std::size_t g = 0; g < model.layouts.size(); ++g) {
    header.n_layers[g] = model.layouts[g].n_layers;
    header.windows[g] = model.windows[g];
  }
  header.max_tokens = state.max_tokens;
  header.max_logits = state.max_logits;
  header.extra_capacity = state.extra_capacity;
  header.tail_capacity =
      round_up(tail_bytes(state.max_tokens, std::uint64_t{layout.blocks_for(state.max_tokens)} * header.n_groups,
                          state.extra_capacity, set_bytes(model.layouts)),
               kPage);
  header.blocks_offset = kTails + 2 * header.tail_capacity;
  copy_name(header.fingerprint, model.fingerprint);
  copy_name(header.origin, model.origin);
  header.checksum = checksum_of(header);
  return header;
}

using WriteAt = std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>;

/// The full blocks of each group that the file has already: their checksums, from block `first` on.
struct Present {
  std::uint64_t first[kMaxGroups] = {};
  std::vector<std::uint64_t> checksums[kMaxGroups];
  std::uint64_t end(std::size_t group) const { return first[group] + checksums[group].size(); }
};

/// Writes the full blocks that the file does not have yet, and the tail of a state; fills in `record`, the state, which
/// the caller writes when these are on disk.
Status write_parts(const Header& header, const SnapshotModel& model, const SnapshotState& state, const Present& present,
                   int which, State& record, const WriteAt& write) {
  const std::uint64_t n_full = state.n_evaluated / header.block_tokens;
  std::vector<std::uint64_t> checksums;
  Tail tail{state.tokens, {}, state.extra, {}};
  for (std::size_t g = 0; g < model.layouts.size(); ++g) {
    const std::uint64_t bytes = model.layouts[g].block_bytes();
    record.first[g] = state.first[g];
    for (std::uint64_t i = state.first[g] / header.block_tokens; i < n_full; ++i) {
      if (i >= present.first[g] && i < present.end(g)) {
        checksums.push_back(present.checksums[g][i - present.first[g]]);
        continue;
      }
      const std::span<const std::byte> block(state.block(g, i), bytes);
      checksums.push_back(hash(block.data(), block.size()));
      QINFER_TRY(write(block_offset(header.blocks_offset, model.layouts, g, i), block));
    }
    if (state.n_evaluated % header.block_tokens != 0) tail.partial.emplace_back(state.block(g, n_full), bytes);
  }
  tail.checksums = checksums;
  const std::vector<std::byte> bytes = tail.bytes();
  record.n_tokens = state.tokens.size();
  record.n_evaluated = state.n_evaluated;
  record.extra_bytes = state.extra.size();
  record.partial_bytes = tail.partial.empty() ? 0 : set_bytes(model.layouts);
  record.tail_bytes = bytes.size();
  record.tail_checksum = hash(bytes.data(), bytes.size());
  record.checksum = checksum_of(record);
  return write(kTails + static_cast<std::uint64_t>(which) * header.tail_capacity, bytes);
}

/// Writes a whole snapshot with its first state; bytes that it does not write are never read.
Status write_whole(const Header& header, const SnapshotModel& model, const SnapshotState& state, const WriteAt& write) {
  State record = {};
  record.sequence = 1;
  QINFER_TRY(write_parts(header, model, state, Present(), 0, record, write));
  QINFER_TRY(write(kStates, bytes_of(record)));
  const std::vector<std::byte> never_written(kPage);
  QINFER_TRY(write(kTails - kPage, never_written));  // the second state
  return write(0, bytes_of(header));
}

Status save_new(const std::string& path, const SnapshotModel& model, const SnapshotState& state) {
  QINFER_ASSIGN(platform::AtomicFile file, platform::AtomicFile::create(path));
  const WriteAt write = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    return file.write_at(offset, bytes);
  };
  QINFER_TRY(write_whole(header_for(model, state), model, state, write));
  return file.commit();
}

}  // namespace

/// Reads an open file; what Snapshot::open() and saving again have in common.
class SnapshotFile {
 public:
  using Fits = SnapshotFits;

  /// `fits` looks at the header before anything is read whose size depends on it.
  static Result<Snapshot> read(platform::OpenFile file, const SnapshotRoot& root, const Fits& fits) {
    Snapshot snapshot;
    snapshot.file_ = std::move(file);
    snapshot.base_ = root.base;
    Header header;
    QINFER_TRY(read_header(snapshot, header));
    QINFER_TRY(fits(snapshot.model_, header.max_tokens, header.max_logits));
    for (int attempt = 0;; ++attempt) {
      std::optional<State> states[2];
      for (int i = 0; i < 2; ++i) {
        QINFER_ASSIGN(states[i], read_state(snapshot, header, i));
      }
      const std::uint64_t sequences[] = {states[0] ? states[0]->sequence : 0, states[1] ? states[1]->sequence : 0};
      const int later = sequences[1] > sequences[0] ? 1 : 0;
      if (!states[later]) return damaged(snapshot, kStates, "neither of the two saved states is whole");
      QINFER_ASSIGN(const bool has_tail, read_tail(snapshot, header, *states[later], later));
      if (has_tail) {
        // The second state is written by the second save: it may be missing only if nothing was saved after the first.
        QINFER_ASSIGN(const bool blank, is_blank(snapshot, 1));
        const bool never_written = later == 0 && states[0]->sequence == 1 && blank;
        snapshot.recovered_ = root.damaged || (!states[1 - later] && !never_written);
        return snapshot;
      }
      // A state is written after its tail, so a later state without one is damage, unless another process has saved
      // meanwhile.
      QINFER_ASSIGN(const std::optional<State> again, read_state(snapshot, header, later));
      if (attempt == 100 || (again && again->sequence == states[later]->sequence))
        return damaged(snapshot, kTails, "what was saved last is damaged (checksum)");
    }
  }

  /// Whether the full blocks of the file are the first ones of what is to be saved, bit for bit; those that the windows
  /// of the new state do not see are not compared.
  static bool continues(const Snapshot& snapshot, const SnapshotState& state) {
    const std::span<const KvLayout> layouts = snapshot.model_.layouts;
    const std::uint64_t n_full = snapshot.n_full(), kept = n_full * layouts[0].block_tokens;
    if (kept > state.n_evaluated || snapshot.size() < end_of(snapshot) ||
        !std::equal(snapshot.tokens_.begin(), snapshot.tokens_.begin() + static_cast<std::ptrdiff_t>(kept),
                    state.tokens.begin()))
      return false;
    for (std::size_t g = 0; g < layouts.size(); ++g) {
      if (state.first[g] < snapshot.first_[g]) return false;
      const std::uint64_t size = layouts[g].block_tokens, first = snapshot.first_[g] / size;
      for (std::uint64_t i = state.first[g] / size; i < n_full; ++i)
        if (hash(state.block(g, i), layouts[g].block_bytes()) != snapshot.checksums_[g][i - first]) return false;
    }
    return true;
  }

  /// Where the blocks of the present state end.
  static std::uint64_t end_of(const Snapshot& snapshot) {
    return block_offset(snapshot.blocks_offset_, snapshot.model_.layouts, 0, snapshot.n_full());
  }

  /// `file`: platform::UpdatedFile or WritableFile.
  template <typename File>
  static Status append(const Snapshot& snapshot, File& file, const Header& header, const SnapshotModel& model,
                       const SnapshotState& state) {
    const WriteAt write = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      return file.write_at(snapshot.base_ + offset, bytes);
    };
    // The process that wrote the present state may have been killed before its last sync: the state is written and
    // synced again. Its tail was synced before it was written.
    State present;
    const std::uint64_t present_at = kStates + static_cast<std::uint64_t>(snapshot.state_) * kPage;
    QINFER_TRY(snapshot.read_at(present_at, std::as_writable_bytes(std::span(&present, 1))));
    QINFER_TRY(write(present_at, bytes_of(present)));
    QINFER_TRY(file.sync());
    Present blocks;
    for (std::size_t g = 0; g < model.layouts.size(); ++g) {
      blocks.first[g] = snapshot.first_[g] / header.block_tokens;
      blocks.checksums[g] = snapshot.checksums_[g];
    }
    State record = {};
    record.sequence = snapshot.sequence_ + 1;
    const int which = 1 - snapshot.state_;
    QINFER_TRY(write_parts(header, model, state, blocks, which, record, write));
    QINFER_TRY(file.sync());
    QINFER_TRY(write(kStates + static_cast<std::uint64_t>(which) * kPage, bytes_of(record)));
    return file.sync();
  }

 private:
  static Status damaged(const Snapshot& snapshot, std::uint64_t offset, std::string_view what) {
    return error_at(Code::format, static_cast<std::int64_t>(offset), "{}: {}", snapshot.file_.name, what);
  }

  static Status read_header(Snapshot& snapshot, Header& header) {
    QINFER_TRY(snapshot.read_at(0, std::as_writable_bytes(std::span(&header, 1))));
    if (std::memcmp(header.magic, kSnapshotMagic, sizeof kSnapshotMagic) != 0)
      return damaged(snapshot, 0, "not a snapshot of a session");
    if (header.version != kSnapshotVersion)
      return error_at(Code::unsupported, 8, "{}: version {} of the snapshot format, expected {}", snapshot.file_.name,
                      header.version, kSnapshotVersion);
    if (header.checksum != checksum_of(header)) return damaged(snapshot, 0, "the header is damaged (checksum)");
    for (std::size_t g = 0; g < std::min<std::size_t>(header.n_groups, kMaxGroups); ++g) {
      snapshot.model_.layouts.push_back({static_cast<DType>(header.kv_type), header.n_layers[g], header.n_kv_heads,
                                         header.head_dim, header.head_dim_padded, header.block_tokens,
                                         static_cast<KvOrder>(header.tile_order)});
      snapshot.model_.windows.push_back(header.windows[g]);
    }
    if (header.tile_order > static_cast<std::uint32_t>(KvOrder::key_pairs))
      return error_at(Code::unsupported, offsetof(Header, tile_order), "{}: tiles in the order {}, expected 0, 1 or 2",
                      snapshot.file_.name, header.tile_order);
    constexpr std::uint32_t kMost = 1 << 20;
    constexpr std::uint64_t kMostExtra = 64 << 20;
    const auto too_many_layers = [](std::uint32_t n) { return n > kMost / 16; };
    if (header.kv_type > static_cast<std::uint32_t>(DType::bf16) || header.n_groups == 0 ||
        header.n_groups > kMaxGroups || std::any_of(header.n_layers, header.n_layers + kMaxGroups, too_many_layers) ||
        header.n_kv_heads > kMost / 16 || header.head_dim > header.head_dim_padded ||
        header.head_dim_padded > round_up(header.head_dim, 64) || header.head_dim_padded > 4096 ||
        header.block_tokens < kTileTokens || header.block_tokens > 256 || header.block_tokens % kTileTokens != 0 ||
        header.max_tokens > 1u << 30 || header.extra_capacity > kMostExtra ||
        header.tail_capacity > std::uint64_t{1} << 40 || header.blocks_offset != kTails + 2 * header.tail_capacity ||
        header.origin[0] == 0 ||
        (header.tile_order == static_cast<std::uint32_t>(KvOrder::key_pairs) && header.head_dim_padded % 2 != 0))
      return damaged(snapshot, 0, "the header has sizes that cannot be");
    snapshot.model_.fingerprint = name_of(header.fingerprint);
    snapshot.model_.origin = name_of(header.origin);
    snapshot.max_tokens_ = header.max_tokens;
    snapshot.max_logits_ = header.max_logits;
    snapshot.blocks_offset_ = header.blocks_offset;
    snapshot.tail_capacity_ = header.tail_capacity;
    return Status();
  }

  /// Bytes that a disk cannot read any more are damage, which the other state may make good; a host's callback that
  /// fails to read is a different error.
  static Result<bool> could_read(const Snapshot& snapshot, Status status) {
    if (!status.ok() && snapshot.file_.file->host_failed()) return status;
    return status.ok();
  }

  /// Whether a state was never written.
  static Result<bool> is_blank(const Snapshot& snapshot, int which) {
    std::byte bytes[sizeof(State)];
    const std::uint64_t at = kStates + static_cast<std::uint64_t>(which) * kPage;
    QINFER_ASSIGN(const bool there, could_read(snapshot, snapshot.read_at(at, bytes)));
    return there && std::all_of(std::begin(bytes), std::end(bytes), [](std::byte byte) { return byte == std::byte{}; });
  }

  /// Nothing if it is not whole.
  static Result<std::optional<State>> read_state(const Snapshot& snapshot, const Header& header, int which) {
    constexpr std::optional<State> kNone;
    State state;
    const std::uint64_t at = kStates + static_cast<std::uint64_t>(which) * kPage;
    QINFER_ASSIGN(const bool there,
                  could_read(snapshot, snapshot.read_at(at, std::as_writable_bytes(std::span(&state, 1)))));
    if (!there || state.sequence == 0 || state.checksum != checksum_of(state)) return kNone;
    const std::span<const KvLayout> layouts = snapshot.model_.layouts;
    const std::uint64_t n_full = state.n_evaluated / header.block_tokens;
    const bool partial = state.n_evaluated % header.block_tokens != 0;
    std::uint64_t n_checksums = 0;
    for (std::size_t g = 0; g < layouts.size(); ++g) {
      if (state.first[g] > state.n_evaluated) return kNone;
      n_checksums += n_full - state.first[g] / header.block_tokens;
    }
    if (state.n_tokens > header.max_tokens || state.n_evaluated > state.n_tokens ||
        state.extra_bytes > header.extra_capacity || state.partial_bytes != (partial ? set_bytes(layouts) : 0) ||
        state.tail_bytes != tail_bytes(state.n_tokens, n_checksums, state.extra_bytes, state.partial_bytes) ||
        state.tail_bytes > header.tail_capacity || state.tail_bytes > snapshot.size())
      return kNone;
    return std::optional<State>(state);
  }

  /// False if it is not whole.
  static Result<bool> read_tail(Snapshot& snapshot, const Header& header, const State& state, int which) {
    std::vector<std::byte> bytes(state.tail_bytes);
    const std::uint64_t at = kTails + static_cast<std::uint64_t>(which) * header.tail_capacity;
    QINFER_ASSIGN(const bool there, could_read(snapshot, snapshot.read_at(at, bytes)));
    if (!there || hash(bytes.data(), bytes.size()) != state.tail_checksum) return false;
    const std::byte* from = bytes.data();
    const auto take = [&](auto& out, std::uint64_t n) {
      out.resize(n);
      if (n != 0) std::memcpy(out.data(), from, n * sizeof(out[0]));
      from += n * sizeof(out[0]);
    };
    take(snapshot.tokens_, state.n_tokens);
    from = bytes.data() + round_up(state.n_tokens * sizeof(std::int32_t), 8);
    const std::span<const KvLayout> layouts = snapshot.model_.layouts;
    snapshot.n_evaluated_ = state.n_evaluated;
    for (std::size_t g = 0; g < layouts.size(); ++g) {
      snapshot.first_[g] = state.first[g];
      take(snapshot.checksums_[g], snapshot.n_full() - state.first[g] / header.block_tokens);
    }
    take(snapshot.extra_, state.extra_bytes);
    for (std::size_t g = 0; g < layouts.size(); ++g)
      take(snapshot.partial_[g], state.partial_bytes != 0 ? layouts[g].block_bytes() : 0);
    snapshot.sequence_ = state.sequence;
    snapshot.state_ = which;
    return true;
  }
};

namespace {

/// Accepts what the header says: the file is to be written, not to be used.
Status fits_anything(const SnapshotModel&, std::uint32_t, std::uint32_t) { return Status(); }

/// What is in a file that a snapshot is to be saved to.
struct Found {
  SnapshotRoot root;
  bool same_header = false;         ///< as the new one's, and nothing about the root to mend
  std::optional<Snapshot> present;  ///< if it is whole
};

/// QINFER_E_FORMAT for a file that is no snapshot, QINFER_E_UNSUPPORTED for one of a newer version: they are not
/// overwritten. A damaged one may be. `in_place`: also a snapshot of another header is looked at, to know where it
/// ends.
Result<Found> look_at(const platform::OpenFile& file, const Header& wanted, bool in_place, const std::string& path) {
  Found found;
  Header present = {};
  const auto read_header = [&](std::uint64_t at) {
    const std::uint64_t there = std::min<std::uint64_t>(sizeof present, file.size - at);
    return platform::read_at(file, at, std::as_writable_bytes(std::span(&present, 1)).first(there));
  };
  QINFER_TRY(read_header(0));
  if (std::memcmp(present.magic, kSnapshotMagic, sizeof kSnapshotMagic) != 0)
    return error_at(Code::format, 0, "{}: not a snapshot of a session, and so not overwritten", path);
  if (present.version > kRootVersion)
    return error_at(Code::unsupported, 8, "{}: version {} of the snapshot format is not overwritten, known is {}", path,
                    present.version, kRootVersion);
  auto root = read_root(file);
  Status whole = root.take_status();
  if (whole.ok()) {
    found.root = root.value();
    if (!found.root.exists) return found;
    if (found.root.base != 0) QINFER_TRY(read_header(found.root.base));
    found.same_header = std::memcmp(&present, &wanted, sizeof present) == 0 && !found.root.damaged;
    if (!found.same_header && !in_place) return found;
    auto snapshot = SnapshotFile::read(file, found.root, fits_anything);
    whole = snapshot.take_status();
    if (whole.ok()) found.present = std::move(snapshot.value());
  } else {
    found.root.is_root = true;
    found.root.exists = false;
  }
  if (whole.code() == Code::io || file.file->host_failed()) return whole;
  return found;
}

/// Saves to a file that cannot be replaced by renaming another one. At any moment the root leads to a complete
/// snapshot, of which nothing has been overwritten.
Status save_in_place(platform::WritableFile& file, const platform::OpenFile& readable, const SnapshotModel& model,
                     const SnapshotState& state) {
  const Header header = header_for(model, state);
  QINFER_ASSIGN(const bool unwritten, is_unwritten(readable));
  Found found;
  found.root.exists = false;
  if (!unwritten) {
    QINFER_ASSIGN(found, look_at(readable, header, true, readable.name));
  }
  if (found.present && found.same_header && SnapshotFile::continues(*found.present, state))
    return SnapshotFile::append(*found.present, file, header, model, state);
  std::uint64_t base = kPage;
  const std::uint64_t size =
      block_offset(header.blocks_offset, model.layouts, 0, state.n_evaluated / header.block_tokens);
  SnapshotRoot root = found.root;
  if (!root.exists) {
    QINFER_TRY(write_root(file));
    root = SnapshotRoot{true, false, 0, 0, false};
  } else if (kPage + size > root.base) {
    // No room before the present one: after it, and after all of a file whose snapshot cannot be read.
    const std::uint64_t end = found.present ? root.base + SnapshotFile::end_of(*found.present) : readable.size;
    base = round_up(end, kPage);
  }
  const WriteAt write = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    return file.write_at(base + offset, bytes);
  };
  QINFER_TRY(write_whole(header, model, state, write));
  QINFER_TRY(file.sync());
  QINFER_TRY(write_root_record(file, root, base));
  // What was there before is of no use any more.
  return base + size < file.size() ? file.truncate(base + size) : Status();
}

}  // namespace

Status save_snapshot(const std::string& path, const SnapshotModel& model, const SnapshotState& state,
                     const platform::Files* files) {
  if (std::max(model.fingerprint.size(), model.origin.size()) > kMaxSnapshotName)
    return error(Code::internal, "{}: a snapshot's names have at most {} bytes: {}, {}", path, kMaxSnapshotName,
                 model.fingerprint, model.origin);
  if (files != nullptr) {
    QINFER_ASSIGN(const std::shared_ptr<platform::WritableFile> file, files->open_to_write(path));
    QINFER_TRY(save_in_place(*file, {file, file->size(), path}, model, state));
    return file->close();
  }
  auto file = platform::UpdatedFile::open(path);
  Status opened = file.take_status();
  if (opened.code() == Code::not_found) return save_new(path, model, state);
  QINFER_TRY(std::move(opened));
  QINFER_ASSIGN(const platform::OpenFile readable, file.value().reader());
  if (readable.size == 0) return save_new(path, model, state);
  const Header wanted = header_for(model, state);
  QINFER_ASSIGN(const Found found, look_at(readable, wanted, false, path));
  if (found.present && found.same_header && SnapshotFile::continues(*found.present, state))
    return SnapshotFile::append(*found.present, file.value(), wanted, model, state);
  return save_new(path, model, state);  // in place of a damaged one, or of one that went another way
}

Result<Snapshot> Snapshot::open(const std::string& path, const SnapshotFits& fits, const platform::Files* files) {
  QINFER_ASSIGN(platform::OpenFile file, platform::open_path(path, files));
  QINFER_ASSIGN(const SnapshotRoot root, read_root(file));
  const bool nothing_saved = !root.exists || (files != nullptr && file.size == 0);
  if (nothing_saved) return error(Code::not_found, "{}: no save to it was ever completed", path);
  return SnapshotFile::read(std::move(file), root, fits);
}

Status Snapshot::read_block(std::size_t group, std::size_t i, std::span<std::byte> out) const {
  if (i == n_full() && !partial_[group].empty()) {
    std::memcpy(out.data(), partial_[group].data(), partial_[group].size());
    return Status();
  }
  const std::uint64_t offset = block_offset(blocks_offset_, model_.layouts, group, i);
  QINFER_TRY(read_at(offset, out));
  if (hash(out.data(), out.size()) == checksums_[group][i - first_[group] / model_.layouts[group].block_tokens])
    return Status();
  return error_at(Code::format, static_cast<std::int64_t>(offset), "{}: block {} is damaged (checksum)", file_.name, i);
}

}  // namespace qinfer::kv
