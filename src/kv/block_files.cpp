// See block_files.h.
#include "kv/block_files.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "platform/random.h"

namespace qinfer::kv {
namespace {

constexpr std::size_t kMostFiles = std::size_t{1} << 22;
constexpr std::uint64_t kHeadUnit = 4096;
constexpr const char* kSecretName = "secret";
constexpr char kMagic[8] = {'q', 'i', 'n', 'f', 'e', 'r', 'K', 'V'};
constexpr std::uint32_t kVersion = 1;

/// At the beginning of a file, before its tokens; the block begins at the next multiple of 4096 bytes.
struct BlockHead {
  char magic[8];
  std::uint32_t version, group;
  std::uint64_t key[2], parent[2];
  std::uint64_t n_tokens, block_bytes;
  std::uint64_t checksum;  ///< of head and tokens with 0 here, then of the block
};
static_assert(std::is_trivially_copyable_v<BlockHead> && sizeof(BlockHead) == 72);

std::uint64_t head_bytes(std::size_t n_tokens) {
  return round_up(sizeof(BlockHead) + n_tokens * sizeof(std::int32_t), kHeadUnit);
}

/// The bytes before the block, with the checksum of all.
std::vector<std::byte> make_head(const BlockFile& file, std::span<const std::byte> block) {
  BlockHead head = {};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kVersion;
  head.group = file.group;
  std::copy(file.key.begin(), file.key.end(), head.key);
  std::copy(file.parent.begin(), file.parent.end(), head.parent);
  head.n_tokens = file.tokens.size();
  head.block_bytes = block.size();
  std::vector<std::byte> out(head_bytes(file.tokens.size()));
  std::memcpy(out.data(), &head, sizeof head);
  std::memcpy(out.data() + sizeof head, file.tokens.data(), file.tokens.size_bytes());
  const std::uint64_t before = XXH3_64bits(out.data(), out.size());
  head.checksum = XXH3_64bits_withSeed(block.data(), block.size(), before);
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

}  // namespace

Result<std::unique_ptr<BlockFiles>> BlockFiles::open(const std::string& path, std::uint64_t most_bytes) {
  QINFER_ASSIGN(platform::Folder folder, platform::Folder::open(path));
  std::unique_ptr<BlockFiles> files(new BlockFiles(std::move(folder), path, most_bytes));
  QINFER_TRY(files->read_secret());
  QINFER_TRY(files->read_list());
  return files;
}

/// Made with the folder.
Status BlockFiles::read_secret() {
  const std::span<std::byte> all(secret_);
  const std::span<std::byte> parts[] = {all};
  Status status = folder_.read(kSecretName, parts);
  if (status.code() != Code::not_found) return status;
  QINFER_TRY(platform::fill_random(all));
  const std::span<const std::byte> written[] = {all};
  return folder_.write(kSecretName, written);
}

std::string BlockFiles::text_of(const Name& name) {
  return format_text("{:016x}{:016x}.{}", name.first[0], name.first[1], name.second);
}

namespace {

std::optional<std::uint64_t> number_of(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

Status BlockFiles::read_list() {
  QINFER_ASSIGN(auto found, folder_.list(kMostFiles));
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.used_ns < b.used_ns; });
  const Lock lock(mutex_);
  for (const auto& one : found) {
    const std::string_view text = one.name;
    if (text.size() < 34 || text[32] != '.') continue;
    const auto high = number_of(text.substr(0, 16), 16), low = number_of(text.substr(16, 16), 16);
    const auto group = number_of(text.substr(33), 10);
    if (!high || !low || !group) continue;
    const Name name = {{*high, *low}, static_cast<std::uint32_t>(*group)};
    if (text_of(name) == text) add(name, one.bytes);
    last_use_ns_ = std::max(last_use_ns_, one.used_ns);
  }
  while (stats_.bytes > most_bytes_ && remove_oldest(most_bytes_)) {
  }
  return Status();
}

// ---- Names

BlockKey BlockFiles::hash(std::string_view bytes) const {
  const XXH128_hash_t hash = XXH3_128bits_withSecret(bytes.data(), bytes.size(), secret_.data(), secret_.size());
  return {hash.high64, hash.low64};
}

/// What is hashed begins with another byte than a block's does.
BlockKey BlockFiles::root(std::string_view description) const {
  std::string bytes(1, 'r');
  return hash(bytes.append(description));
}

BlockKey BlockFiles::key_of(const BlockKey& parent, std::span<const std::int32_t> tokens) const {
  std::string bytes(1 + sizeof parent + tokens.size_bytes(), 'b');
  std::memcpy(bytes.data() + 1, parent.data(), sizeof parent);
  std::memcpy(bytes.data() + 1 + sizeof parent, tokens.data(), tokens.size_bytes());
  return hash(bytes);
}

std::uint64_t BlockFiles::file_bytes(std::uint64_t block_bytes, std::size_t n_tokens) {
  return head_bytes(n_tokens) + block_bytes;
}

// ---- The list

bool BlockFiles::has(const BlockKey& key, std::uint32_t group) const {
  const Lock lock(mutex_);
  return entries_.contains({key, group});
}

/// `name` must not be there.
void BlockFiles::add(const Name& name, std::uint64_t bytes) {
  std::list<Name> place{name};
  entries_[name] = {bytes, place.begin()};
  order_.splice(order_.end(), place);  // the last step, and one that cannot fail
  stats_.bytes += bytes;
}

void BlockFiles::forget(const Name& name, bool is_damaged) {
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return;
  stats_.bytes -= entry->second.bytes;
  (is_damaged ? stats_.damaged : stats_.removed) += 1;
  order_.erase(entry->second.place);
  entries_.erase(entry);
}

/// Removes the file used longest ago, where the files have more than `room` bytes.
bool BlockFiles::remove_oldest(std::uint64_t room) {
  if (stats_.bytes <= room || order_.empty()) return false;
  const Name name = order_.front();
  folder_.remove(text_of(name));
  forget(name, false);
  return true;
}

void BlockFiles::use(std::span<const BlockKey> keys) {
  const Lock lock(mutex_);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  last_use_ns_ = std::max<std::int64_t>(last_use_ns_, std::chrono::nanoseconds(now).count());
  for (std::size_t i = keys.size(); i-- > 0;)
    for (auto at = entries_.lower_bound({keys[i], 0}); at != entries_.end() && at->first.first == keys[i]; ++at) {
      order_.splice(order_.end(), order_, at->second.place);
      folder_.touch(text_of(at->first), ++last_use_ns_);
    }
}

BlockFilesStats BlockFiles::stats() const {
  const Lock lock(mutex_);
  BlockFilesStats stats = stats_;
  stats.n_files = entries_.size();
  return stats;
}

// ---- Files

Status BlockFiles::write(const BlockFile& file, std::span<const std::byte> block) {
  const Lock writing(writing_);
  const Name name = {file.key, file.group};
  const std::uint64_t bytes = file_bytes(block.size(), file.tokens.size());
  {
    const Lock lock(mutex_);
    if (entries_.contains(name)) return Status();
    if (bytes > most_bytes_) return error(Code::no_memory, "{}: a file of {} bytes is more than all", path_, bytes);
    while (remove_oldest(most_bytes_ - bytes)) {
    }
  }
  const std::vector<std::byte> head = make_head(file, block);
  const std::span<const std::byte> parts[] = {head, block};
  QINFER_TRY(folder_.write(text_of(name), parts));
  const Lock lock(mutex_);
  add(name, bytes);
  ++stats_.written;
  return Status();
}

Result<bool> BlockFiles::read(const BlockFile& file, std::span<std::byte> out) {
  const Name name = {file.key, file.group};
  if (!has(file.key, file.group)) return false;
  std::vector<std::byte> head(head_bytes(file.tokens.size()));
  const std::span<std::byte> parts[] = {head, out};
  const Status status = folder_.read(text_of(name), parts);
  const bool is_right = status.ok() && head == make_head(file, out);
  const bool is_wrong = status.ok() || status.code() == Code::format || status.code() == Code::not_found;
  if (!is_right && !is_wrong) return error(status.code(), "{}", status.message());
  const Lock lock(mutex_);
  if (is_right) {
    ++stats_.read;
    return true;
  }
  folder_.remove(text_of(name));
  forget(name, true);
  return false;
}

}  // namespace qinfer::kv
