// See fingerprint.h.
#include "source/fingerprint.h"

#include "base/format.h"
#include "base/hash.h"

namespace qinfer::source {
namespace {

constexpr std::uint64_t kSmall = 1 << 20, kDistance = 4 << 20, kPart = 4096;

/// A tensor as it is sampled, in either kind of file. No layer has more matrices than kMost: what says that it has, and
/// may have none of their bytes, is sampled as one.
struct Sampled {
  std::uint64_t begin, bytes, matrices;
};
std::uint64_t matrices_of(std::uint64_t stated) {
  constexpr std::uint64_t kMost = 65'536;
  return stated >= 1 && stated <= kMost ? stated : 1;
}
Sampled sampled(const formats::Tensor& tensor) {
  return {tensor.begin, tensor.bytes(), tensor.shape.size() == 3 ? matrices_of(tensor.shape[0]) : 1};
}
Sampled sampled(const formats::GgufTensor& tensor) {
  return {tensor.offset, tensor.bytes, tensor.n_dims == 3 ? matrices_of(tensor.dims[2]) : 1};
}

/// Adds the hashes of samples of `bytes` bytes of a tensor, from `first` on, one to a line. Container: Checkpoint or
/// Gguf, with the tensors that it has.
template <typename Container, typename Tensor>
Status sample(const Container& container, const Tensor& tensor, std::uint64_t first, std::uint64_t bytes,
              std::span<std::byte> buffer, std::string& lines) {
  const auto add = [&](std::uint64_t at, std::uint64_t n) -> Status {
    const std::span<std::byte> part = buffer.subspan(0, n);
    QINFER_TRY(container.read(tensor, first + at, part));
    lines += format_text("{:016x}\n", hash_bytes(part));
    return Status();
  };
  const bool small = bytes <= kSmall;
  for (std::uint64_t at = 0; at < bytes; at += small ? kSmall : kDistance)
    QINFER_TRY(add(at, std::min(small ? kSmall : kPart, bytes - at)));
  return small ? Status() : add(bytes - kPart, kPart);
}

/// Of a tensor of three dimensions each matrix, such as an expert's, is sampled as if it were a separate tensor.
template <typename Container, typename Tensor>
Result<std::string> sample(const Container& container, const Tensor& tensor, std::span<std::byte> buffer) {
  std::string lines;
  const Sampled whole = sampled(tensor);
  const std::uint64_t bytes = whole.bytes / whole.matrices;
  for (std::uint64_t i = 0; i < whole.matrices; ++i)
    QINFER_TRY(sample(container, tensor, i * bytes, bytes, buffer, lines));
  return lines;
}

template <typename Container>
Result<std::vector<std::string>> sample_all(const Container& container, CancelFlag cancel) {
  std::vector<std::byte> buffer(kSmall);
  std::vector<std::string> samples;
  samples.reserve(container.tensors().size());
  for (const auto& tensor : container.tensors()) {
    QINFER_TRY(cancel.check("reading a checkpoint"));
    QINFER_ASSIGN(std::string lines, sample(container, tensor, buffer));
    samples.push_back(std::move(lines));
  }
  return samples;
}

/// Of the model, out of the samples of all tensors.
template <typename Container>
Result<std::string> model_fingerprint(const model::ModelSpec& spec, std::uint64_t tokenizer, const Container& container,
                                      std::span<const std::string> samples, std::span<const model::TensorNeed> needs,
                                      const FindTensor& find) {
  std::vector<std::byte> buffer(kSmall);
  std::string summary = model::canonical_text(spec);
  summary += format_text("\ntokenizer {:016x}\n", tokenizer);
  for (const model::TensorNeed& need : needs) {
    QINFER_ASSIGN(const model::TensorInfo info, find(need.id));
    const auto* tensor = container.find(info.stored_name());
    if (tensor == nullptr) return error(Code::not_found, "the checkpoint has no tensor \"{}\"", info.stored_name());
    const std::uint64_t begin = sampled(*tensor).begin;
    summary += format_text("{} {} {} {}", model::describe(need.id), formats::shape_text(info.shape),
                           encoding_name(info.encoding), static_cast<int>(info.transform));
    if (!info.part_of.empty()) summary += format_text(" from byte {}", info.offset() - begin);
    if (!info.row_order.empty()) summary += format_text(" rows {}", join_texts(info.row_order, ","));
    summary += '\n';
    if (!info.part_of.empty() && need.id.expert != model::kNoExpert) {
      QINFER_TRY(sample(container, *tensor, info.offset() - begin, info.extent(), buffer, summary));
      continue;
    }
    summary += samples[static_cast<std::size_t>(tensor - container.tensors().data())];
  }
  return format_text("2:{:016x}", hash_text(summary));
}

std::string files_fingerprint(const FingerprintTexts& texts, const formats::Checkpoint& checkpoint,
                              std::span<const std::string> samples) {
  std::string summary;
  for (const auto& [name, hash] : texts.files) summary += format_text("{} {:016x}\n", name, hash);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const formats::Tensor& tensor = checkpoint.tensors()[i];
    summary += format_text("{} {} {} {} {}\n", checkpoint.shard_name(tensor.shard), tensor.name, tensor.dtype,
                           tensor.begin, tensor.end);
    summary += samples[i];
  }
  return format_text("{:016x}", hash_text(summary));
}

}  // namespace

Result<Fingerprints> make_fingerprints(const model::ModelSpec& spec, const FingerprintTexts& texts,
                                       const formats::Checkpoint& checkpoint, std::span<const model::TensorNeed> needs,
                                       const FindTensor& find, CancelFlag cancel) {
  QINFER_ASSIGN(const std::vector<std::string> samples, sample_all(checkpoint, cancel));
  QINFER_ASSIGN(std::string model, model_fingerprint(spec, texts.tokenizer, checkpoint, samples, needs, find));
  return Fingerprints{std::move(model), files_fingerprint(texts, checkpoint, samples)};
}

Result<Fingerprints> make_gguf_fingerprints(const model::ModelSpec& spec, std::uint64_t tokenizer,
                                            const formats::Gguf& gguf, std::span<const model::TensorNeed> needs,
                                            const FindTensor& find, CancelFlag cancel) {
  QINFER_ASSIGN(const std::vector<std::string> samples, sample_all(gguf, cancel));
  QINFER_ASSIGN(std::string model, model_fingerprint(spec, tokenizer, gguf, samples, needs, find));
  return Fingerprints{std::move(model), {}};
}

Result<std::string> sample_gguf(const formats::Gguf& gguf, CancelFlag cancel) {
  QINFER_ASSIGN(const std::vector<std::string> samples, sample_all(gguf, cancel));
  std::string out;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const formats::GgufTensor& tensor = gguf.tensors()[i];
    out += format_text("{} {} {} {} {}\n", gguf.file(tensor.file).name, tensor.name, encoding_name(tensor.encoding),
                       tensor.offset, tensor.bytes);
    out += samples[i];
  }
  return out;
}

Result<std::string> make_files_fingerprint(const FingerprintTexts& texts, const formats::Checkpoint& checkpoint,
                                           CancelFlag cancel) {
  QINFER_ASSIGN(const std::vector<std::string> samples, sample_all(checkpoint, cancel));
  return files_fingerprint(texts, checkpoint, samples);
}

}  // namespace qinfer::source
