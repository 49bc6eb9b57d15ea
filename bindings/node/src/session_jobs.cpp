// Jobs that evaluate, sample, save and load sessions.
#include "files.h"
#include "structs.h"

namespace qinfer_node {
namespace {

class EvaluateJob final : public Job {
 public:
  /// evaluate([sessions], {maxTokens, keepLogits, logits})
  explicit EvaluateJob(const Args& args) : Job(args.env) {
    std::uint32_t n = 0;
    check(args.env, napi_get_array_length(args.env, args[0], &n));
    for (std::uint32_t i = 0; i < n; ++i) {
      napi_value session = nullptr;
      check(args.env, napi_get_element(args.env, args[0], i, &session));
      sessions_.push_back(object_of<Session>(args.env, session));
      handles_.push_back(sessions_.back()->handle);
    }
    const Options options(args.env, args[1]);
    options.read("maxTokens", options_.max_tokens);
    options.read("keepLogits", options_.keep_logits);
    options.flag("logits", options_.flags, QINFER_EVAL_NO_LOGITS, false);
    options_.cancel = cancel();
  }

 private:
  qinfer_status run(qinfer_error* err) override {
    return qinfer_eval(handles_.data(), handles_.size(), &options_, err);
  }
  napi_value result() override { return undefined(env_); }

  std::vector<qinfer_session*> handles_;
  qinfer_eval_options options_ = sized<qinfer_eval_options>();
};

class SampleJob final : public Job {
 public:
  /// sample(session): a job that gives a token.
  explicit SampleJob(const Args& args) : Job(args.env) { sessions_ = {object_of<Session>(args.env, args[0])}; }

 private:
  qinfer_status run(qinfer_error* err) override { return qinfer_session_sample(sessions_[0]->handle, &token_, err); }
  napi_value result() override { return number(env_, token_); }

  qinfer_token token_ = -1;
};

class SaveJob final : public Job {
 public:
  /// sessionSave(session, path, {files})
  explicit SaveJob(const Args& args) : Job(args.env), path_(c_text_of(args.env, args[1], "path")) {
    sessions_ = {object_of<Session>(args.env, args[0])};
    const Options options(args.env, args[2]);
    if (!options.has("files")) return;
    files_ = std::make_unique<Files>(args.env, *this, options.get("files"));
    options_.files = files_->native();
  }

 private:
  qinfer_status run(qinfer_error* err) override {
    return qinfer_session_save_with(sessions_[0]->handle, path_.c_str(), &options_, err);
  }
  napi_value result() override { return undefined(env_); }

  std::string path_;
  std::unique_ptr<Files> files_;
  qinfer_session_save_options options_ = sized<qinfer_session_save_options>();
};

class RestoreJob final : public Job {
 public:
  /// sessionLoad(cache, path, {files, anyBits, noRecovery}): a job that gives {handle, recovered, otherBits, ...}.
  explicit RestoreJob(const Args& args)
      : Job(args.env),
        cache_(object_of<qinfer_kv_cache>(args.env, args[0])),
        path_(c_text_of(args.env, args[1], "path")) {
    const Options options(args.env, args[2]);
    options.flag("anyBits", options_.flags, QINFER_SNAPSHOT_ANY_BITS);
    options.flag("noRecovery", options_.flags, QINFER_SNAPSHOT_NO_RECOVERY);
    if (!options.has("files")) return;
    files_ = std::make_unique<Files>(args.env, *this, options.get("files"));
    options_.files = files_->native();
  }

 private:
  qinfer_status run(qinfer_error* err) override {
    return qinfer_session_load_with(cache_.get(), path_.c_str(), &options_, &session_->handle, &result_, err);
  }
  napi_value result() override {
    return Record(env_)
        .set("handle", box(env_, Kind::session, std::move(session_)))
        .set_flag("recovered", (result_.flags & QINFER_SNAPSHOT_RECOVERED) != 0)
        .set_flag("otherBits", (result_.flags & QINFER_SNAPSHOT_OTHER_BITS) != 0)
        .set("tokens", result_.tokens)
        .set("evaluatedTokens", result_.evaluated_tokens)
        .object();
  }

  std::shared_ptr<qinfer_kv_cache> cache_;
  std::string path_;
  std::unique_ptr<Files> files_;
  qinfer_session_load_options options_ = sized<qinfer_session_load_options>();
  qinfer_session_load_result result_ = sized<qinfer_session_load_result>();
  std::shared_ptr<Session> session_ = std::make_shared<Session>();
};

template <class Made>
napi_value make(const Args& args) {
  return box(args.env, Kind::job, std::make_shared<Made>(args));
}

}  // namespace

void export_session_jobs(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"evaluate", entry<make<EvaluateJob>>},
              {"sample", entry<make<SampleJob>>},
              {"sessionSave", entry<make<SaveJob>>},
              {"sessionLoad", entry<make<RestoreJob>>}});
}

}  // namespace qinfer_node
