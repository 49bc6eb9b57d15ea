// See fingerprint.h.
#include "source/fingerprint.h"

#include <fmt/ranges.h>

#include "base/hash.h"

namespace qinfer::source {
namespace {

constexpr std::uint64_t kSmall = 1 << 20, kDistance = 4 << 20, kPart = 4096;

/// Adds the hashes of samples of `bytes` bytes of a tensor, from `first` on, one to a line.
Status sample(const formats::Checkpoint& checkpoint, const formats::Tensor& tensor, std::uint64_t first,
              std::uint64_t bytes, std::span<std::byte> buffer, std::string& lines) {
  const auto add = [&](std::uint64_t at, std::uint64_t n) -> Status {
    const std::span<std::byte> part = buffer.subspan(0, n);
    QINFER_TRY(checkpoint.read(tensor, first + at, part));
    lines += fmt::format("{:016x}\n", hash_bytes(part));
    return Status();
  };
  const bool small = bytes <= kSmall;
  for (std::uint64_t at = 0; at < bytes; at += small ? kSmall : kDistance)
    QINFER_TRY(add(at, std::min(small ? kSmall : kPart, bytes - at)));
  return small ? Status() : add(bytes - kPart, kPart);
}

/// Of a tensor of three dimensions each matrix, such as an expert's, is sampled as if it were a tensor of its own.
Result<std::string> sample(const formats::Checkpoint& checkpoint, const formats::Tensor& tensor,
                           std::span<std::byte> buffer) {
  std::string lines;
  const std::uint64_t matrices = tensor.shape.size() == 3 ? std::max<std::uint64_t>(tensor.shape[0], 1) : 1;
  const std::uint64_t bytes = tensor.bytes() / matrices;
  for (std::uint64_t i = 0; i < matrices; ++i) QINFER_TRY(sample(checkpoint, tensor, i * bytes, bytes, buffer, lines));
  return lines;
}

Result<std::vector<std::string>> sample_all(const formats::Checkpoint& checkpoint, CancelFlag cancel) {
  std::vector<std::byte> buffer(kSmall);
  std::vector<std::string> samples;
  samples.reserve(checkpoint.tensors().size());
  for (const formats::Tensor& tensor : checkpoint.tensors()) {
    QINFER_TRY(cancel.check("reading a checkpoint"));
    QINFER_ASSIGN(std::string lines, sample(checkpoint, tensor, buffer));
    samples.push_back(std::move(lines));
  }
  return samples;
}

std::string first_version(const FingerprintTexts& texts, const formats::Checkpoint& checkpoint,
                          std::span<const std::string> samples) {
  std::string summary;
  for (const auto& [name, hash] : texts.files) summary += fmt::format("{} {:016x}\n", name, hash);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const formats::Tensor& tensor = checkpoint.tensors()[i];
    summary += fmt::format("{} {} {} {} {}\n", checkpoint.shard_name(tensor.shard), tensor.name, tensor.dtype,
                           tensor.begin, tensor.end);
    summary += samples[i];
  }
  return fmt::format("{:016x}", hash_text(summary));
}

}  // namespace

Result<Fingerprints> make_fingerprints(const model::ModelSpec& spec, const FingerprintTexts& texts,
                                       const formats::Checkpoint& checkpoint, std::span<const model::TensorNeed> needs,
                                       const std::function<Result<model::TensorInfo>(const model::TensorId& id)>& find,
                                       CancelFlag cancel) {
  QINFER_ASSIGN(const std::vector<std::string> samples, sample_all(checkpoint, cancel));
  std::vector<std::byte> buffer(kSmall);
  std::string summary = model::canonical_text(spec);
  summary += fmt::format("\ntokenizer {:016x}\n", texts.tokenizer);
  for (const model::TensorNeed& need : needs) {
    QINFER_ASSIGN(const model::TensorInfo info, find(need.id));
    const formats::Tensor* tensor = checkpoint.find(info.stored_name());
    if (tensor == nullptr) return error(Code::not_found, "the checkpoint has no tensor \"{}\"", info.stored_name());
    summary += fmt::format("{} {} {} {}", model::describe(need.id), formats::shape_text(info.shape),
                           encoding_name(info.encoding), static_cast<int>(info.transform));
    // Nothing is added for a whole tensor with its rows as stored: its line is the one that earlier builds wrote.
    if (!info.part_of.empty()) summary += fmt::format(" from byte {}", info.offset - tensor->begin);
    if (!info.row_order.empty()) summary += fmt::format(" rows {}", fmt::join(info.row_order, ","));
    summary += '\n';
    if (!info.part_of.empty() && need.id.expert != model::kNoExpert) {
      QINFER_TRY(sample(checkpoint, *tensor, info.offset - tensor->begin, info.bytes, buffer, summary));
      continue;
    }
    summary += samples[static_cast<std::size_t>(tensor - checkpoint.tensors().data())];
  }
  return Fingerprints{fmt::format("2:{:016x}", hash_text(summary)), first_version(texts, checkpoint, samples)};
}

Result<std::string> make_first_fingerprint(const FingerprintTexts& texts, const formats::Checkpoint& checkpoint,
                                           CancelFlag cancel) {
  QINFER_ASSIGN(const std::vector<std::string> samples, sample_all(checkpoint, cancel));
  return first_version(texts, checkpoint, samples);
}

}  // namespace qinfer::source
