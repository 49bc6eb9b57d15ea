// Kept keys and values: a folder of blocks that conversations find again.
#include <qinfer/qinfer.h>

#include "engine/kv_store.h"
#include "support.h"

using namespace qinfer;
using capi::guard;

struct qinfer_kv_store {
  std::unique_ptr<engine::KvStore> impl;
};

namespace {

Status check(const qinfer_kv_store* store) {
  if (store == nullptr) return capi::null_argument("store");
  return store->impl->cache().model().runtime().check_process();
}

std::string_view tenant_of(const char* tenant) { return tenant == nullptr ? std::string_view() : tenant; }

}  // namespace

extern "C" {

qinfer_status qinfer_kv_store_open(qinfer_kv_cache* cache, const qinfer_kv_store_options* options,
                                   qinfer_kv_store** out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    *out = nullptr;
    QINFER_REQUIRE(cache);
    QINFER_REQUIRE(options);
    QINFER_TRY(cache->impl->model().runtime().check_process());
    qinfer_kv_store_options o;
    QINFER_TRY(capi::copy_in(options, o, "qinfer_kv_store_options"));
    QINFER_TRY(capi::unknown_flags(o.flags, 0, "qinfer_kv_store_options.flags"));
    if (o.path == nullptr) return capi::null_argument("qinfer_kv_store_options.path");
    if (o.max_bytes == 0)
      return error(Code::invalid_argument, "qinfer_kv_store_options.max_bytes is 0, expected the bytes of its files");
    QINFER_ASSIGN(auto impl, engine::KvStore::open(cache->impl, {o.path, o.max_bytes}));
    *out = new qinfer_kv_store{std::move(impl)};
    return Status();
  });
}

qinfer_status qinfer_kv_store_keep(qinfer_kv_store* store, qinfer_session* session, const char* tenant,
                                   const qinfer_cancel* cancel, size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    if (out_n != nullptr) *out_n = 0;
    QINFER_TRY(check(store));
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(const engine::Session* impl, capi::usable(session, exclusive));
    QINFER_ASSIGN(const std::size_t n, store->impl->keep(*impl, tenant_of(tenant), capi::flag_of(cancel)));
    if (out_n != nullptr) *out_n = n;
    return Status();
  });
}

qinfer_status qinfer_kv_store_fetch(qinfer_kv_store* store, const qinfer_token* tokens, size_t n, const char* tenant,
                                    const qinfer_cancel* cancel, size_t* out_n, qinfer_error* err) {
  return qinfer_kv_store_fetch_into(store, tokens, n, tenant, 0, cancel, out_n, err);
}

qinfer_status qinfer_kv_store_fetch_into(qinfer_kv_store* store, const qinfer_token* tokens, size_t n,
                                         const char* tenant, uint32_t prefix_space, const qinfer_cancel* cancel,
                                         size_t* out_n, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    if (out_n != nullptr) *out_n = 0;
    QINFER_TRY(check(store));
    if (n != 0) QINFER_REQUIRE(tokens);
    // Of any list of tokens no session could evaluate more.
    const std::size_t most = std::min<std::size_t>(n, store->impl->cache().model().spec().context_tokens);
    QINFER_ASSIGN(const std::size_t found,
                  store->impl->fetch({tokens, most}, tenant_of(tenant), prefix_space, capi::flag_of(cancel)));
    if (out_n != nullptr) *out_n = found;
    return Status();
  });
}

qinfer_status qinfer_kv_store_get_stats(const qinfer_kv_store* store, qinfer_kv_store_stats* out, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_TRY(check(store));
    QINFER_REQUIRE(out);
    const kv::BlockFilesStats stats = store->impl->stats();
    qinfer_kv_store_stats values = {};
    values.n_files = stats.n_files;
    values.bytes = stats.bytes;
    values.written = stats.written;
    values.read = stats.read;
    values.removed = stats.removed;
    values.damaged = stats.damaged;
    return capi::copy_out(values, out, "qinfer_kv_store_stats");
  });
}

void qinfer_kv_store_free(qinfer_kv_store* store) { delete store; }

}  // extern "C"
