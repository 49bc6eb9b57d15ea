// Functions of the addon for stores: keys and values in a folder, which jobs write and find again.
#include "job.h"
#include "structs.h"

namespace qinfer_node {
namespace {

/// storeOpen(cache, path, maxBytes)
napi_value store_open(const Args& args) {
  const auto cache = object_of<qinfer_kv_cache>(args.env, args[0]);
  const std::string path = c_text_of(args.env, args[1], "path");
  qinfer_kv_store_options options = sized<qinfer_kv_store_options>();
  options.path = path.c_str();
  options.max_bytes = u64_of(args.env, args[2], "maxBytes");
  qinfer_kv_store* out = nullptr;
  call(args.env, [&](qinfer_error* err) { return qinfer_kv_store_open(cache.get(), &options, &out, err); });
  return box(args.env, Kind::store, std::shared_ptr<qinfer_kv_store>(out, qinfer_kv_store_free));
}

napi_value store_stats(const Args& args) {
  const auto store = object_of<qinfer_kv_store>(args.env, args[0]);
  qinfer_kv_store_stats stats = sized<qinfer_kv_store_stats>();
  call(args.env, [&](qinfer_error* err) { return qinfer_kv_store_get_stats(store.get(), &stats, err); });
  return Record(args.env)
      .set("nFiles", stats.n_files)
      .set("bytes", stats.bytes)
      .set("written", stats.written)
      .set("read", stats.read)
      .set("removed", stats.removed)
      .set("damaged", stats.damaged)
      .object();
}

/// A job that gives a number of tokens.
class StoreJob : public Job {
 protected:
  explicit StoreJob(const Args& args)
      : Job(args.env),
        store_(object_of<qinfer_kv_store>(args.env, args[0])),
        tenant_(Options(args.env, args[2]).c_text("tenant").value_or("")) {}

  std::shared_ptr<qinfer_kv_store> store_;
  std::string tenant_;
  std::size_t n_ = 0;

 private:
  napi_value result() override { return number(env_, static_cast<double>(n_)); }
};

class KeepJob final : public StoreJob {
 public:
  /// storeKeep(store, session, {tenant})
  explicit KeepJob(const Args& args) : StoreJob(args) { sessions_ = {object_of<Session>(args.env, args[1])}; }

 private:
  qinfer_status run(qinfer_error* err) override {
    return qinfer_kv_store_keep(store_.get(), sessions_[0]->handle, tenant_.c_str(), cancel(), &n_, err);
  }
};

class FetchJob final : public StoreJob {
 public:
  /// storeFetch(store, Int32Array, {tenant})
  explicit FetchJob(const Args& args) : StoreJob(args) {
    // A copy: JavaScript goes on meanwhile.
    const View<qinfer_token> tokens = tokens_of(args.env, args[1], "tokens");
    tokens_.assign(tokens.data, tokens.data + tokens.size);
  }

 private:
  qinfer_status run(qinfer_error* err) override {
    return qinfer_kv_store_fetch(store_.get(), tokens_.data(), tokens_.size(), tenant_.c_str(), cancel(), &n_, err);
  }

  std::vector<qinfer_token> tokens_;
};

template <class Made>
napi_value make(const Args& args) {
  return box(args.env, Kind::job, std::make_shared<Made>(args));
}

}  // namespace

void export_store(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"storeOpen", entry<store_open>},
              {"storeStats", entry<store_stats>},
              {"storeKeep", entry<make<KeepJob>>},
              {"storeFetch", entry<make<FetchJob>>}});
}

}  // namespace qinfer_node
