// The C side of engine::LogitsHook: a hook made of the host's functions.
#pragma once

#include <qinfer/qinfer.h>

#include <memory>

#include "engine/logits_hook.h"

namespace qinfer::capi {

/// Owns the host's `user` from adopt() on, and releases it when it is destroyed.
class HostHook final : public engine::LogitsHook {
 public:
  /// `session`: the handle that apply() is called with.
  explicit HostHook(const qinfer_session* session) : session_(session) {}
  HostHook(const HostHook&) = delete;
  HostHook& operator=(const HostHook&) = delete;
  ~HostHook() override;

  void adopt(const qinfer_logits_hook& hook) { hook_ = hook; }
  /// A clone learns the handle of its fork when there is one.
  void bind(const qinfer_session* session) { session_ = session; }

  bool apply(std::span<float> logits) override;
  bool accept(std::int32_t token) override;
  bool rewind(std::size_t n_tokens) override;
  Result<std::unique_ptr<engine::LogitsHook>> clone() const override;

 private:
  const qinfer_session* session_;
  qinfer_logits_hook hook_ = {};
};

}  // namespace qinfer::capi
