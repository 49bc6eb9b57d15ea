// See packed.h.
#include "source/packed.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/checked.h"
#include "base/hash.h"

namespace qinfer::source {
namespace {

constexpr std::string_view kChecksumKey = "qinfer.checksum";
constexpr std::string_view kNoChecksum = "0000000000000000";
/// Of the format, whatever pages the system has: files are mapped whole.
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kWriteStep = 16 << 20;

/// Takes the next word of a line.
std::string_view next_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

template <typename T>
bool parse_number(std::string_view word, T& out, int base = 10) {
  const char* end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data(), end, out, base);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

/// A finite number of zero or more; `power`: only a power of two will do.
bool parse_hex_float(std::string_view word, bool power, float& out) {
  const char* end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data(), end, out, std::chars_format::hex);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(out) || out < 0) return false;
  int exponent = 0;
  return !power || std::frexp(out, &exponent) == 0.5f;
}

std::string hex_float(float value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::hex).ptr;
  return {buffer, end};
}

std::string describe(const PackedTensor& info) {
  std::string layout(kernels::weight_layout_name(info.layout));
  if (info.quantised) layout.append("/").append(encoding_name(*info.quantised));
  return format_text("{} {} {} {} {} {} {:016x}", layout, info.rows, info.cols, hex_float(info.pack.scale),
                     hex_float(info.pack.largest), encoding_name(info.source), info.checksum);
}

bool parse_description(std::string_view line, PackedTensor& out) {
  const std::string_view form = next_word(line);
  const std::size_t slash = std::min(form.find('/'), form.size());
  const auto layout = kernels::find_weight_layout(form.substr(0, slash));
  if (!layout) return false;
  out.layout = *layout;
  if (slash != form.size()) {
    out.quantised = find_encoding(form.substr(slash + 1));
    if (!out.quantised || is_plain(*out.quantised)) return false;
  }
  bool good = parse_number(next_word(line), out.rows) && parse_number(next_word(line), out.cols);
  good = good && parse_hex_float(next_word(line), true, out.pack.scale) &&
         parse_hex_float(next_word(line), false, out.pack.largest);
  const auto source = find_encoding(next_word(line));
  if (source) out.source = *source;
  return good && source && parse_number(next_word(line), out.checksum, 16) && line.empty();
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// The header again, with zeros for the checksum, must have that checksum.
Status check_header(const platform::OpenFile& file, std::string_view checksum) {
  std::string text(8, '\0');
  QINFER_TRY(platform::read_at(file, 0, std::as_writable_bytes(std::span(text))));
  QINFER_ASSIGN(const std::uint64_t length, formats::safetensors_header_bytes(text, file.size, file.name));
  text.resize(length);
  QINFER_TRY(platform::read_at(file, 8, std::as_writable_bytes(std::span(text))));
  const std::size_t at = text.find(format_text("\"{}\":\"{}\"", kChecksumKey, checksum));
  if (at == text.npos || checksum.size() != kNoChecksum.size())
    return error_at(Code::format, 8, "{}: the header has no checksum", file.name);
  text.replace(at + kChecksumKey.size() + 4, kNoChecksum.size(), kNoChecksum);
  if (format_text("{:016x}", hash_text(text)) != checksum)
    return error_at(Code::format, 8, "{}: the header does not match its checksum: the file is damaged", file.name);
  return Status();
}

std::string metadata_value(const formats::Checkpoint& checkpoint, std::string_view key) {
  return std::string(checkpoint.metadata().value_or_empty(key));
}

}  // namespace

Result<PackedFile> PackedFile::open(const std::string& path, CancelFlag cancel, const platform::Files* files) {
  PackedFile packed;
  QINFER_ASSIGN(packed.checkpoint, formats::Checkpoint::open_file(path, cancel, files));
  const platform::OpenFile& file = packed.checkpoint.file(0);
  const std::string version = metadata_value(packed.checkpoint, "qinfer.packed");
  if (version.empty())
    return error_at(Code::format, 8, "{}: a safetensors file, but not a packed model: load its directory, or pack it",
                    file.name);
  if (version != kPackedVersion)
    return error(Code::unsupported, "{}: packed in version {}, this library reads {}: pack the checkpoint again",
                 file.name, version, kPackedVersion);
  QINFER_TRY(check_header(file, metadata_value(packed.checkpoint, kChecksumKey)));
  const formats::TextTable& metadata = packed.checkpoint.metadata();
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const std::string_view key = metadata.key(i), value = metadata.value(i);
    if (!key.starts_with(kTensorKey)) continue;
    PackedTensor tensor;
    if (!parse_description(value, tensor))
      return error_at(Code::format, 8, "{}: \"{}\" is \"{}\", expected layout, sizes, scale, largest, dtype, checksum",
                      file.name, key, value);
    packed.tensors.emplace(key.substr(kTensorKey.size()), tensor);
  }
  packed.kernel_set = metadata_value(packed.checkpoint, "qinfer.kernel_set");
  packed.fingerprints = {metadata_value(packed.checkpoint, "qinfer.fingerprint"),
                         metadata_value(packed.checkpoint, "qinfer.source")};
  packed.exact = metadata_value(packed.checkpoint, "qinfer.exact") == "1";
  return packed;
}

const PackedTensor* PackedFile::find(std::string_view name) const {
  const auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

Result<std::string> PackedFile::text(std::string_view file, std::uint64_t max_bytes) const {
  const std::string name = std::string(kTextPrefix) + std::string(file);
  const formats::Tensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return error(Code::not_found, "{}: the packed model has none", file);
  if (tensor->bytes() > max_bytes)
    return error_at(Code::format, static_cast<std::int64_t>(tensor->begin), "{}: {} bytes, at most {} are accepted",
                    file, tensor->bytes(), max_bytes);
  std::string text(tensor->bytes(), '\0');
  const auto bytes = std::as_writable_bytes(std::span(text));
  QINFER_TRY(checkpoint.read(*tensor, 0, bytes));
  QINFER_TRY(verify(name, bytes, checkpoint.shard_name(tensor->shard), tensor->begin));
  return text;
}

Status PackedFile::verify(std::string_view name, std::span<const std::byte> data, std::string_view file,
                          std::uint64_t offset) const {
  const PackedTensor* info = find(name);
  if (info != nullptr && hash_bytes(data) == info->checksum) return Status();
  return error_at(Code::format, static_cast<std::int64_t>(offset),
                  "{}: \"{}\" does not match its checksum: the file is damaged", file, name);
}

std::string PackedWriter::header(std::string_view kernel_set, const Fingerprints& fingerprints, bool exact) const {
  std::string text = format_text(
      R"({{"__metadata__":{{"qinfer.packed":"{}","{}":"{}","qinfer.kernel_set":"{}","qinfer.exact":"{}","qinfer.source":"{}","qinfer.fingerprint":"{}")",
      kPackedVersion, kChecksumKey, kNoChecksum, kernel_set, exact ? 1 : 0, fingerprints.files, fingerprints.model);
  for (const Item& item : items_)
    text += format_text(R"(,"{}{}":"{}")", kTensorKey, escape(item.name), describe(item.info));
  text += '}';
  std::uint64_t offset = 0;
  for (const Item& item : items_) {
    text += format_text(R"(,"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", escape(item.name), item.dtype,
                        formats::shape_text(item.shape), offset, offset + item.data.size());
    offset += item.data.size();
  }
  text += '}';
  text.resize(round_up(text.size() + 8, kPage) - 8, ' ');  // data begins on a page
  const std::string checksum = format_text("{:016x}", hash_text(text));
  text.replace(text.find(kChecksumKey) + kChecksumKey.size() + 3, checksum.size(), checksum);
  return text;
}

Status PackedWriter::write(const std::string& path, std::string_view kernel_set, const Fingerprints& fingerprints,
                           bool exact, const Progress& progress) {
  QINFER_ASSIGN(platform::AtomicFile file, platform::AtomicFile::create(path, is_packed_file));
  std::uint64_t total = 0, done = 0;
  for (const Item& item : items_) total += item.data.size();
  for (Item& item : items_) {
    if (progress && !progress(0, total)) return error(Code::cancelled, "packing was cancelled");
    item.info.checksum = hash_bytes(item.data);
  }
  const std::string text = header(kernel_set, fingerprints, exact);
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  QINFER_TRY(file.write(std::as_bytes(std::span(length))));
  QINFER_TRY(file.write(std::as_bytes(std::span(text))));
  const std::uint64_t data_begin = sizeof length + text.size();
  for (const Item& item : items_) {
    for (std::uint64_t at = 0, part = 0; at < item.data.size(); at += part) {
      // Ends on a multiple of a step in the file: where the system keeps what is written in large pages, none is cut
      // but those on the border of two tensors.
      part = std::min<std::uint64_t>(kWriteStep - (data_begin + done) % kWriteStep, item.data.size() - at);
      QINFER_TRY(file.write(item.data.subspan(at, part)));
      done += part;
      if (progress && !progress(done, total)) return error(Code::cancelled, "packing was cancelled");
    }
  }
  return file.commit();
}

Status is_packed_file(const platform::OpenFile& file) {
  constexpr std::string_view kBeginning = R"({"__metadata__":{"qinfer.packed":")";
  std::string text(kBeginning.size(), '\0');
  if (file.size >= 8 + text.size()) QINFER_TRY(platform::read_at(file, 8, std::as_writable_bytes(std::span(text))));
  if (text == kBeginning) return Status();
  return error_at(Code::format, 0, "{}: not a packed model, and so not overwritten", file.name);
}

}  // namespace qinfer::source
