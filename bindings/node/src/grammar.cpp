// See grammar.h; and the functions for grammars and matchers.
#include "grammar.h"

#include "instance.h"
#include "job.h"

#if __has_include(<qinfer/qinfer_grammar.h>)
#include <dlfcn.h>
#include <qinfer/qinfer_grammar.h>

#include <atomic>

namespace qinfer_node {
namespace {

/// The functions of the library. It is loaded when it is first needed, and never again let go of.
struct Library {
  decltype(&qinfer_grammar_vocab_create) vocab_create;
  decltype(&qinfer_grammar_vocab_free) vocab_free;
  decltype(&qinfer_grammar_compile) compile;
  decltype(&qinfer_grammar_get_info) get_info;
  decltype(&qinfer_grammar_free) free;
  decltype(&qinfer_grammar_matcher_create) matcher_create;
  decltype(&qinfer_grammar_matcher_clone) matcher_clone;
  decltype(&qinfer_grammar_matcher_free) matcher_free;
  decltype(&qinfer_grammar_matcher_hook) matcher_hook;
  decltype(&qinfer_grammar_matcher_mask) matcher_mask;
  decltype(&qinfer_grammar_matcher_accept) matcher_accept;
  decltype(&qinfer_grammar_matcher_rewind) matcher_rewind;
  decltype(&qinfer_grammar_matcher_get_info) matcher_get_info;
  decltype(&qinfer_grammar_matcher_error) matcher_error;
};

/// Of the process: all environments have it. Null until one has loaded it.
std::atomic<const Library*> loaded{nullptr};
std::mutex loading;

const Library& library() { return *loaded.load(); }

/// Fills the functions; gives the name of one that is missing, or null.
const char* find_functions(void* handle, Library& out) {
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    void* const found = dlsym(handle, name);
    function = reinterpret_cast<std::decay_t<decltype(function)>>(found);
    if (found == nullptr && missing == nullptr) missing = name;
  };
  find("qinfer_grammar_vocab_create", out.vocab_create);
  find("qinfer_grammar_vocab_free", out.vocab_free);
  find("qinfer_grammar_compile", out.compile);
  find("qinfer_grammar_get_info", out.get_info);
  find("qinfer_grammar_free", out.free);
  find("qinfer_grammar_matcher_create", out.matcher_create);
  find("qinfer_grammar_matcher_clone", out.matcher_clone);
  find("qinfer_grammar_matcher_free", out.matcher_free);
  find("qinfer_grammar_matcher_hook", out.matcher_hook);
  find("qinfer_grammar_matcher_mask", out.matcher_mask);
  find("qinfer_grammar_matcher_accept", out.matcher_accept);
  find("qinfer_grammar_matcher_rewind", out.matcher_rewind);
  find("qinfer_grammar_matcher_get_info", out.matcher_get_info);
  find("qinfer_grammar_matcher_error", out.matcher_error);
  return missing;
}

/// loadGrammars(path): undefined once the library is loaded, or why it cannot be
napi_value load_grammars(const Args& args) {
  const std::string path = c_text_of(args.env, args[0], "the path of the library");
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded.load() != nullptr) return nullptr;
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return text(args.env, dlerror());
  auto found = std::make_unique<Library>();
  // It stays open: qinfer_grammar.h forbids dlclose().
  if (const char* missing = find_functions(handle, *found); missing != nullptr)
    return text(args.env, path + " has no function " + missing);
  loaded.store(found.release());
  return nullptr;
}

/// The matcher that `make` makes.
template <class Make>
std::shared_ptr<qinfer_grammar_matcher> made_matcher(napi_env env, const Make& make) {
  qinfer_grammar_matcher* out = nullptr;
  call(env, [&](qinfer_error* err) { return make(&out, err); });
  return std::shared_ptr<qinfer_grammar_matcher>(out, library().matcher_free);
}

class GrammarJob final : public Job {
 public:
  /// grammarCompile(model, QINFER_GRAMMAR_*, text, options): a job that gives a grammar
  explicit GrammarJob(const Args& args)
      : Job(args.env),
        model_(object_of<qinfer_model>(args.env, args[0])),
        kind_(static_cast<std::int32_t>(integer_of(args.env, args[1], "kind", 1, 3))),
        text_(text_of(args.env, args[2], "text")) {
    if (loaded.load() == nullptr) throw_error(args.env, QINFER_E_STATE, "libqinfer_grammar is not loaded", 0);
    const Options options(args.env, args[3]);
    options.flag("anySpace", options_.flags, QINFER_GRAMMAR_ANY_SPACE);
    options.read("maxSourceBytes", options_.max_source_bytes);
    options.read("maxDepth", options_.max_depth);
    options.read("maxStates", options_.max_states);
    options.read("maxSymbols", options_.max_symbols);
    options.read("maxRowItems", options_.max_row_items);
    options.read("compileWork", options_.compile_work);
    options.read("maskWork", options_.mask_work);
  }

 private:
  qinfer_status run(qinfer_error* err) override {
    Vocabulary& vocabulary = *std::get_deleter<FreeModel>(model_)->vocabulary;
    std::shared_ptr<qinfer_grammar_vocab> vocab;
    {
      const std::lock_guard<std::mutex> lock(vocabulary.mutex);
      if (vocabulary.handle == nullptr) {
        const qinfer_status status = make_vocabulary(vocabulary, err);
        if (status != QINFER_OK) return status;
      }
      vocab = vocabulary.handle;
    }
    qinfer_grammar* out = nullptr;
    const qinfer_status status =
        library().compile(vocab.get(), kind_, text_.data(), text_.size(), &options_, &out, err);
    grammar_.reset(out, library().free);
    return status;
  }

  qinfer_status make_vocabulary(Vocabulary& vocabulary, qinfer_error* err) const {
    qinfer_model_info info = sized<qinfer_model_info>();
    if (const qinfer_status status = qinfer_model_get_info(model_.get(), &info, err); status != QINFER_OK)
      return status;
    qinfer_grammar_vocab_options options = sized<qinfer_grammar_vocab_options>();
    options.n_tokens = info.n_vocab;
    options.model = model_.get();
    options.token_text = qinfer_token_text;
    options.token_flags = qinfer_token_flags;
    qinfer_grammar_vocab* out = nullptr;
    const qinfer_status status = library().vocab_create(&options, &out, err);
    if (status == QINFER_OK) vocabulary.handle.reset(out, library().vocab_free);
    return status;
  }

  napi_value result() override { return box(env_, Kind::grammar, std::move(grammar_)); }

  std::shared_ptr<qinfer_model> model_;
  std::int32_t kind_;
  std::string text_;
  qinfer_grammar_options options_ = sized<qinfer_grammar_options>();
  std::shared_ptr<qinfer_grammar> grammar_;
};

napi_value grammar_compile(const Args& args) { return box(args.env, Kind::job, std::make_shared<GrammarJob>(args)); }

/// grammarInfo(grammar): {kind: QINFER_GRAMMAR_*, nTokens, nWarnings}
napi_value grammar_info(const Args& args) {
  const auto grammar = object_of<qinfer_grammar>(args.env, args[0]);
  qinfer_grammar_info info = sized<qinfer_grammar_info>();
  call(args.env, [&](qinfer_error* err) { return library().get_info(grammar.get(), &info, err); });
  return Record(args.env)
      .set("kind", info.kind)
      .set("nTokens", info.n_tokens)
      .set("nWarnings", info.n_warnings)
      .object();
}

napi_value box_matcher(napi_env env, std::shared_ptr<qinfer_grammar_matcher> made) {
  auto matcher = std::make_shared<Matcher>();
  matcher->handle = std::move(made);
  return box(env, Kind::matcher, std::move(matcher));
}

/// matcherCreate(grammar)
napi_value matcher_create(const Args& args) {
  const auto grammar = object_of<qinfer_grammar>(args.env, args[0]);
  return box_matcher(args.env, made_matcher(args.env, [&](qinfer_grammar_matcher** out, qinfer_error* err) {
                       return library().matcher_create(grammar.get(), out, err);
                     }));
}

std::shared_ptr<qinfer_grammar_matcher> cloned(napi_env env, const qinfer_grammar_matcher* matcher) {
  return made_matcher(
      env, [&](qinfer_grammar_matcher** out, qinfer_error* err) { return library().matcher_clone(matcher, out, err); });
}

/// matcherClone(matcher)
napi_value matcher_clone(const Args& args) {
  const auto matcher = object_of<Matcher>(args.env, args[0]);
  return box_matcher(args.env, cloned(args.env, matcher->handle.get()));
}

/// matcherMask(matcher): a Uint32Array, with a bit for each token
napi_value matcher_mask(const Args& args) {
  const auto matcher = object_of<Matcher>(args.env, args[0]);
  std::size_t n = 0;
  std::vector<std::uint32_t> words(8192);
  for (;;) {
    Failure failure;
    const qinfer_status status =
        library().matcher_mask(matcher->handle.get(), words.data(), words.size(), &n, failure.argument());
    if (status == QINFER_OK) break;
    words.resize(more_room(args.env, failure, status, words.size(), n));
  }
  void* data = nullptr;
  napi_value buffer = nullptr, array = nullptr;
  check(args.env, napi_create_arraybuffer(args.env, n * sizeof(std::uint32_t), &data, &buffer));
  for (std::size_t i = 0; i < n; ++i) static_cast<std::uint32_t*>(data)[i] = words[i];
  check(args.env, napi_create_typedarray(args.env, napi_uint32_array, n, buffer, 0, &array));
  return array;
}

/// matcherAccept(matcher, Int32Array)
napi_value matcher_accept(const Args& args) {
  const auto matcher = object_of<Matcher>(args.env, args[0]);
  const View<qinfer_token> view = tokens_of(args.env, args[1], "tokens");
  const std::vector<qinfer_token> tokens(view.data, view.data + view.size);
  call(args.env, [&](qinfer_error* err) {
    return library().matcher_accept(matcher->handle.get(), tokens.data(), tokens.size(), err);
  });
  return nullptr;
}

/// matcherRewind(matcher, nTokens)
napi_value matcher_rewind(const Args& args) {
  const auto matcher = object_of<Matcher>(args.env, args[0]);
  const std::size_t n = size_of(args.env, args[1], "nTokens");
  call(args.env, [&](qinfer_error* err) { return library().matcher_rewind(matcher->handle.get(), n, err); });
  return nullptr;
}

/// matcherInfo(matcher): {accepting, ended, failed, nTokens}
napi_value matcher_info(const Args& args) {
  const auto matcher = object_of<Matcher>(args.env, args[0]);
  qinfer_grammar_matcher_info info = sized<qinfer_grammar_matcher_info>();
  call(args.env, [&](qinfer_error* err) { return library().matcher_get_info(matcher->handle.get(), &info, err); });
  return Record(args.env)
      .set_flag("accepting", (info.flags & QINFER_GRAMMAR_ACCEPTING) != 0)
      .set_flag("ended", (info.flags & QINFER_GRAMMAR_ENDED) != 0)
      .set_flag("failed", (info.flags & QINFER_GRAMMAR_FAILED) != 0)
      .set("nTokens", info.n_tokens)
      .object();
}

/// matcherError(matcher): the failure that ended its work, or undefined
napi_value matcher_error(const Args& args) {
  const auto matcher = object_of<Matcher>(args.env, args[0]);
  Failure failure;
  const qinfer_status status = library().matcher_error(matcher->handle.get(), failure.argument());
  return status == QINFER_OK ? nullptr : error_object(args.env, status, failure.message(), failure.detail());
}

/// The matcher's hook becomes that of the session.
void install(napi_env env, Session& session, std::shared_ptr<qinfer_grammar_matcher> matcher) {
  qinfer_logits_hook hook = sized<qinfer_logits_hook>();
  call(env, [&](qinfer_error* err) { return library().matcher_hook(matcher.get(), &hook, err); });
  Failure failure;
  const qinfer_status status = qinfer_session_set_logits_hook(session.handle, &hook, failure.argument());
  if (status != QINFER_OK) {
    hook.release(hook.user);
    throw_error(env, status, failure.message(), failure.detail());
  }
  session.matcher = std::move(matcher);
}

/// setMatcher(session, matcher)
napi_value set_matcher(const Args& args) {
  const auto session = idle_session(args.env, args[0]);
  const auto matcher = object_of<Matcher>(args.env, args[1]);
  if (matcher->taken)
    throw_error(args.env, QINFER_E_STATE, "the Matcher is a session's already: clone() gives another one", 0);
  install(args.env, *session, matcher->handle);
  matcher->taken = true;
  return nullptr;
}

}  // namespace

GrammarFailure grammar_failure(const Session& session) {
  if (session.matcher == nullptr) return {};
  Failure failure;
  const qinfer_status status = library().matcher_error(session.matcher.get(), failure.argument());
  return {status, status == QINFER_OK ? "" : failure.message()};
}

/// The library has given the fork a matcher already, whose failures could not be told.
void fork_matcher(napi_env env, const Session& session, Session& fork) {
  if (session.matcher != nullptr) install(env, fork, cloned(env, session.matcher.get()));
}

void export_grammar(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"loadGrammars", entry<load_grammars>},
              {"grammarCompile", entry<grammar_compile>},
              {"grammarInfo", entry<grammar_info>},
              {"matcherCreate", entry<matcher_create>},
              {"matcherClone", entry<matcher_clone>},
              {"matcherMask", entry<matcher_mask>},
              {"matcherAccept", entry<matcher_accept>},
              {"matcherRewind", entry<matcher_rewind>},
              {"matcherInfo", entry<matcher_info>},
              {"matcherError", entry<matcher_error>},
              {"setMatcher", entry<set_matcher>}});
}

}  // namespace qinfer_node

#else

namespace qinfer_node {
namespace {

/// No grammar can be made, so that there are no other calls.
napi_value load_grammars(const Args& args) {
  return text(args.env, "the addon was built where there is no qinfer/qinfer_grammar.h");
}

}  // namespace

GrammarFailure grammar_failure(const Session&) { return {}; }
void fork_matcher(napi_env, const Session&, Session&) {}

void export_grammar(napi_env env, napi_value exports) {
  export_all(env, exports, {{"loadGrammars", entry<load_grammars>}});
}

}  // namespace qinfer_node

#endif
