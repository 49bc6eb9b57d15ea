// Jobs without a session: loading a model, and planning what that takes.
#include "files.h"
#include "grammar.h"
#include "structs.h"

namespace qinfer_node {
namespace {

class LoadJob final : public Job {
 public:
  /// modelLoad(runtime or undefined, path, options): a job that gives a model.
  explicit LoadJob(const Args& args)
      : Job(args.env), path_(c_text_of(args.env, args[1], "path")), load_(Options(args.env, args[2])) {
    if (!is_nullish(args.env, args[0])) runtime_ = object_of<qinfer_runtime>(args.env, args[0]);
    const Options options(args.env, args[2]);
    load_.native.cancel = cancel();
    if (options.has("progress")) {
      progress_ = Reference(args.env, options.get("progress"));
      load_.native.progress = [](std::uint64_t done, std::uint64_t total, void* user) {
        return static_cast<LoadJob*>(user)->report(done, total);
      };
      load_.native.progress_user = this;
    }
    if (options.has("files")) {
      files_ = std::make_unique<Files>(args.env, *this, options.get("files"));
      load_.native.files = files_->native();
    }
  }

 private:
  std::int32_t report(std::uint64_t done, std::uint64_t total) {
    const bool going = on_js_thread([&] {
      const napi_value answer =
          call_function(env_, undefined(env_), progress_.get(),
                        {number(env_, static_cast<double>(done)), number(env_, static_cast<double>(total))});
      return goes_on(env_, answer, "progress");
    });
    return going ? 0 : 1;
  }

  qinfer_status run(qinfer_error* err) override {
    qinfer_model* out = nullptr;
    const qinfer_status status = qinfer_model_load(runtime_.get(), path_.c_str(), &load_.native, &out, err);
    model_.reset(out, FreeModel());
    return status;
  }

  napi_value result() override { return box(env_, Kind::model, std::move(model_)); }

  std::shared_ptr<qinfer_runtime> runtime_;
  std::string path_;
  LoadArguments load_;
  Reference progress_;
  std::unique_ptr<Files> files_;
  std::shared_ptr<qinfer_model> model_;
};

class PlanJob final : public Job {
 public:
  /// plan(path, {runtime, load, cache, session}): a job that gives memory as an object.
  explicit PlanJob(const Args& args)
      : Job(args.env),
        path_(c_text_of(args.env, args[0], "path")),
        runtime_(part(args, "runtime")),
        load_(part(args, "load")),
        session_(session_options(part(args, "session"))) {
    if (Options(args.env, args[1]).has("cache")) cache_ = cache_options(args.env, part(args, "cache"));
    load_.native.cancel = cancel();
  }

 private:
  static Options part(const Args& args, const char* name) {
    return Options(args.env, Options(args.env, args[1]).get(name));
  }

  qinfer_status run(qinfer_error* err) override {
    return qinfer_model_plan(path_.c_str(), &runtime_.native, &load_.native, cache_ ? &*cache_ : nullptr, &session_,
                             &memory_, err);
  }

  napi_value result() override { return memory_object(env_, memory_); }

  std::string path_;
  RuntimeArguments runtime_;
  LoadArguments load_;
  std::optional<qinfer_kv_cache_options> cache_;
  qinfer_session_options session_;
  qinfer_memory memory_ = sized<qinfer_memory>();
};

napi_value model_load(const Args& args) { return box(args.env, Kind::job, std::make_shared<LoadJob>(args)); }
napi_value plan(const Args& args) { return box(args.env, Kind::job, std::make_shared<PlanJob>(args)); }

}  // namespace

void export_model_jobs(napi_env env, napi_value exports) {
  export_all(env, exports, {{"modelLoad", entry<model_load>}, {"plan", entry<plan>}});
}

}  // namespace qinfer_node
