// What the sequences of calls are made of: the models, memory of the host that can fail, and the check of a status.
#pragma once

#include <qinfer/qinfer.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "api_sequence.h"
#include "choices.h"
#include "support/checkpoint_writer.h"

namespace qinfer::fuzz {

inline constexpr std::uint32_t kContext = 160, kBatch = 24;

/// Something is not as it should be.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void differs(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("differs: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  __builtin_trap();
}

template <typename T>
T sized() {
  T value = {};
  value.struct_size = sizeof(T);
  return value;
}

/// The status, which must be one of those expected; a failure must say what is wrong.
template <typename... Expected>
qinfer_status expect(const char* call, qinfer_status status, const qinfer_error& err, Expected... expected) {
  if (status == QINFER_OK) return status;
  const bool known = ((status == expected) || ...);
  if (!known) differs("%s: %s (%s)", call, qinfer_status_name(status), err.message);
  if (err.code != status || err.message[0] == '\0') differs("%s: no message", call);
  return status;
}

/// Memory of the host, of which the n-th request may fail.
struct HostMemory {
  long fail_in = 0;  ///< 0 = never
  std::size_t live = 0;

  static void* alloc(std::size_t size, std::size_t alignment, void* user) {
    auto* self = static_cast<HostMemory*>(user);
    if (self->fail_in != 0 && --self->fail_in == 0) return nullptr;
    self->live += size;
    return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  }
  static void release(void* data, std::size_t size, std::size_t, void* user) {
    static_cast<HostMemory*>(user)->live -= size;
    std::free(data);
  }
};

struct LoadedModel {
  std::unique_ptr<test::ModelDir> directory;
  qinfer_model *model = nullptr, *on_host_memory = nullptr;
  std::uint32_t n_vocab = 0;
  bool has_windows = false;
};

/// One sequence of calls on an encoder.
void run_encoder(const LoadedModel& loaded, Choices& choices, ApiCounts& counts);

/// Of one of the models: without windows, with them in some layers, in all, and a mixture of experts.
inline test::TinySpec spec_of(std::size_t index) {
  test::TinySpec spec;
  spec.context_tokens = kContext;
  if (index == 0) {
    spec.tied = true;
    spec.dtype = DType::f16;
  } else if (index == 1) {
    spec.architecture = "Qwen2ForCausalLM";
    spec.layers = 3, spec.window = 40, spec.full_layers = 1;
  } else if (index == 2) {
    spec.architecture = "MistralForCausalLM";
    spec.window = 33, spec.kv_heads = 2;
  } else {
    spec.architecture = "Qwen3MoeForCausalLM";
    spec.dtype = DType::bf16, spec.heads = 4, spec.kv_heads = 2;
    spec.experts = 5;
  }
  return spec;
}

}  // namespace qinfer::fuzz
