// qinfer.hpp - C++17 host side of qinfer.h: one move-only class per handle, exceptions for failed calls, strings and
// vectors for buffers. Header-only and nothing but the C functions underneath, so it adds no ABI of its own; native()
// gives the C handle for whatever is not wrapped. The rules at the top of qinfer.h hold here too.
//
//   qi::Model model = qi::Model::load("path/to/model");
//   qi::KvCache cache(model);
//   qi::Session session(cache);
//   session.append(model.tokenize("Once upon a time", QINFER_TEXT_ADD_SPECIAL));
//   qi::GenerateOptions request;
//   request.max_tokens = 64;
//   std::string text = session.generate_text(request);
//
// Conversations are in qinfer_chat.hpp, grammars in qinfer_grammar.hpp.
//
// The namespace is qi, because qinfer is that of the library itself and a host may link it statically. Option structs
// are the C ones: make them with qi::options<qinfer_load_options>(), which sets struct_size and zeroes the rest.
#ifndef QINFER_HPP
#define QINFER_HPP

#include <qinfer/qinfer.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qi {

using Token = qinfer_token;

/// Return false to stop. May throw: the call is stopped first, then the exception goes on to the caller.
using OnToken = std::function<bool(std::string_view text, Token token)>;
using OnTokenInfo = std::function<bool(const qinfer_token_info& info)>;
using OnProgress = std::function<bool(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// A call that failed. what() is the library's message, or the name of the status where it gave none.
class Error : public std::runtime_error {
 public:
  Error(qinfer_status status, const qinfer_error& error)
      : std::runtime_error(error.message[0] != '\0' ? error.message : qinfer_status_name(status)),
        status_(status),
        detail_(error.detail) {}

  Error(qinfer_status status, const char* text, std::int64_t detail)
      : std::runtime_error(text[0] != '\0' ? text : qinfer_status_name(status)), status_(status), detail_(detail) {}

  qinfer_status status() const noexcept { return status_; }
  std::int64_t detail() const noexcept { return detail_; }  ///< what it means depends on the status, see qinfer.h
  const char* status_name() const noexcept { return qinfer_status_name(status_); }

 private:
  qinfer_status status_;
  std::int64_t detail_;
};

/// A struct of qinfer.h with struct_size set and everything else zero, which always means "default".
template <class Options>
Options options() {
  Options result{};
  result.struct_size = static_cast<std::uint32_t>(sizeof(Options));
  return result;
}

namespace detail {

inline void check(qinfer_status status, const qinfer_error& error) {
  if (status != QINFER_OK) throw Error(status, error);
}

/// Room for a whole message on the stack; most are much shorter.
class FullError {
 public:
  FullError() noexcept {
    full_.struct_size = static_cast<std::uint32_t>(sizeof full_);
    full_.text = text_;
    full_.capacity = sizeof text_;
    text_[0] = '\0';
  }
  FullError(const FullError&) = delete;
  FullError& operator=(const FullError&) = delete;
  qinfer_error* arg() noexcept { return qinfer_full_error_arg(&full_); }
  std::int64_t detail() const noexcept { return full_.error.detail; }
  const char* text() const noexcept { return text_; }

 private:
  qinfer_full_error full_{};
  char text_[4096];
};

inline void check(qinfer_status status, const FullError& error) {
  if (status != QINFER_OK) throw Error(status, error.text(), error.detail());
}

/// Fills an output struct through a call (T* out, qinfer_error*) -> status.
template <class T, class Call>
T filled(Call&& call) {
  T out = options<T>();
  detail::FullError error;
  check(call(&out, error.arg()), error);
  return out;
}

/// Fills a string or vector through a call (data, capacity, out_n, error) -> status, with a second one if the guessed
/// capacity was too small.
template <class Container, class Call>
Container collected(std::size_t guess, Call&& call) {
  Container out(guess, typename Container::value_type{});
  std::size_t n = 0;
  detail::FullError error;
  qinfer_status status = call(out.data(), out.size(), &n, error.arg());
  if (status == QINFER_E_BUFFER_TOO_SMALL) {
    out.resize(n);
    status = call(out.data(), out.size(), &n, error.arg());
  }
  check(status, error);
  out.resize(n);
  return out;
}

/// Owns one C handle. A moved-from object holds NULL, which every C function accepts or answers with an error.
template <class T, void (*Free)(T*)>
class Handle {
 public:
  T* native() noexcept { return handle_.get(); }
  const T* native() const noexcept { return handle_.get(); }

 protected:
  Handle() = default;

  /// Runs a *_create or *_load call (T** out, qinfer_error*) -> status.
  template <class Call>
  void create(Call&& call) {
    T* handle = nullptr;
    detail::FullError error;
    check(call(&handle, error.arg()), error);
    handle_.reset(handle);
  }
  /// Runs any other call (qinfer_error*) -> status.
  template <class Call>
  static void call(Call&& c_call) {
    detail::FullError error;
    detail::check(c_call(error.arg()), error);
  }

 private:
  struct Release {
    void operator()(T* handle) const noexcept { Free(handle); }
  };
  std::unique_ptr<T, Release> handle_;
};

/// A host function behind a C callback. C frames must not see an exception, so it is kept until the call is over.
template <class Function>
class Guarded {
 public:
  explicit Guarded(const Function& function) : function_(function) {}

  template <class... Args>
  std::int32_t stops(Args... args) noexcept {
    try {
      return function_(args...) ? 0 : 1;
    } catch (...) {
      thrown_ = std::current_exception();
      return 1;
    }
  }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  const Function& function_;
  std::exception_ptr thrown_;
};

struct TokenCalls {
  Guarded<OnToken> text;
  Guarded<OnTokenInfo> info;
};
inline std::int32_t token_callback(const char* text, std::size_t len, qinfer_token token, void* user) noexcept {
  return static_cast<TokenCalls*>(user)->text.stops(std::string_view(text, len), token);
}
inline std::int32_t token_info_callback(const qinfer_token_info* info, void* user) noexcept {
  return static_cast<TokenCalls*>(user)->info.stops(std::cref(*info));
}
inline std::int32_t progress_callback(std::uint64_t done, std::uint64_t total, void* user) noexcept {
  return static_cast<Guarded<OnProgress>*>(user)->stops(done, total);
}

}  // namespace detail

inline std::string_view version() { return qinfer_version_string(); }
inline std::string_view build_info() { return qinfer_build_info(); }
inline qinfer_cpu_info cpu_info() { return detail::filled<qinfer_cpu_info>(qinfer_get_cpu_info); }
/// As the CPU names itself.
inline std::string cpu_name() { return detail::collected<std::string>(64, qinfer_cpu_name); }
/// Words separated by spaces: "avx2 fma avx512f".
inline std::string cpu_features() { return detail::collected<std::string>(256, qinfer_cpu_features); }
inline std::vector<qinfer_kernel_set_info> kernel_sets() {
  std::vector<qinfer_kernel_set_info> sets;
  for (std::size_t i = 0; i < qinfer_kernel_set_count(); ++i)
    sets.push_back(detail::filled<qinfer_kernel_set_info>(
        [&](auto* out, auto* error) { return qinfer_kernel_set_get_info(i, out, error); }));
  return sets;
}

/// One open file of a host's own, closed by its destructor. What its functions throw makes the call of the library
/// fail: an Error with its status, std::bad_alloc with QINFER_E_NO_MEMORY, anything else with QINFER_E_IO.
class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  virtual ~File() = default;
  virtual std::uint64_t size() = 0;
  virtual void read_at(std::uint64_t offset, void* data, std::size_t n) = 0;  ///< all n bytes
  /// The whole file at a multiple of 64, until it is closed. Only of Files that are made to map.
  virtual const void* map() { throw std::logic_error("this file cannot be mapped"); }
  /// For snapshots that are saved, as qinfer_files describes them.
  virtual void write_at(std::uint64_t, const void*, std::size_t) { throw std::logic_error("this file is only read"); }
  virtual void sync() { throw std::logic_error("this file is only read"); }
  virtual void truncate(std::uint64_t) {}
};

/// Opens the file of a name; null if there is none. For writing (QINFER_FILE_WRITE) one that is not there is made.
using OpenFile = std::function<std::unique_ptr<File>(const char* name, std::int32_t mode)>;

/// A host's files for the member `files` of options. Must outlive the calls it is given to and, where it maps, the
/// models loaded through it and all that depends on them.
class Files {
 public:
  explicit Files(OpenFile open, bool maps = false) : open_(std::move(open)) {
    calls_.user = this;
    calls_.open = [](const char* name, std::int32_t mode, void** out, void* user) noexcept {
      return status_of([&]() -> qinfer_status {
        std::unique_ptr<File> file = static_cast<Files*>(user)->open_(name, mode);
        if (file == nullptr) return QINFER_E_NOT_FOUND;
        *out = file.release();
        return QINFER_OK;
      });
    };
    calls_.size = [](void* file, std::uint64_t* out, void*) noexcept {
      return done([&] { *out = static_cast<File*>(file)->size(); });
    };
    calls_.read_at = [](void* file, std::uint64_t offset, void* data, std::size_t n, void*) noexcept {
      return done([&] { static_cast<File*>(file)->read_at(offset, data, n); });
    };
    calls_.close = [](void* file, void*) noexcept -> qinfer_status {
      delete static_cast<File*>(file);
      return QINFER_OK;
    };
    if (maps)
      calls_.map = [](void* file, std::uint64_t, const void** out, void*) noexcept {
        return done([&] { *out = static_cast<File*>(file)->map(); });
      };
    calls_.write_at = [](void* file, std::uint64_t offset, const void* data, std::size_t n, void*) noexcept {
      return done([&] { static_cast<File*>(file)->write_at(offset, data, n); });
    };
    calls_.sync = [](void* file, void*) noexcept { return done([&] { static_cast<File*>(file)->sync(); }); };
    calls_.truncate = [](void* file, std::uint64_t n, void*) noexcept {
      return done([&] { static_cast<File*>(file)->truncate(n); });
    };
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  const qinfer_files* native() const noexcept { return &calls_; }

 private:
  template <class Body>
  static qinfer_status status_of(Body&& body) noexcept {
    try {
      return body();
    } catch (const Error& error) {
      return error.status();
    } catch (const std::bad_alloc&) {
      return QINFER_E_NO_MEMORY;
    } catch (...) {
      return QINFER_E_IO;
    }
  }
  template <class Body>
  static qinfer_status done(Body&& body) noexcept {
    return status_of([&] {
      body();
      return qinfer_status{QINFER_OK};
    });
  }

  OpenFile open_;
  qinfer_files calls_ = options<qinfer_files>();
};

/// Stops the calls it was given to. Every member may be used from any thread, request() also from a signal handler.
class Cancel : public detail::Handle<qinfer_cancel, qinfer_cancel_free> {
 public:
  Cancel() { create(qinfer_cancel_create); }
  void request() noexcept { qinfer_cancel_request(native()); }
  void reset() noexcept { qinfer_cancel_reset(native()); }
};

/// What log, log_user and allocator point to must outlive the runtime and all that depends on it, not just this object.
class Runtime : public detail::Handle<qinfer_runtime, qinfer_runtime_free> {
 public:
  explicit Runtime(const qinfer_runtime_options& options = qi::options<qinfer_runtime_options>()) {
    create([&](auto** out, auto* error) { return qinfer_runtime_create(&options, out, error); });
  }
  qinfer_runtime_info info() const {
    return detail::filled<qinfer_runtime_info>(
        [&](auto* out, auto* error) { return qinfer_runtime_get_info(native(), out, error); });
  }
  qinfer_metrics metrics() const {
    return detail::filled<qinfer_metrics>(
        [&](auto* out, auto* error) { return qinfer_runtime_get_metrics(native(), out, error); });
  }
};

/// What loading path and creating with these options will take; NULL options are defaults.
inline qinfer_memory plan(const std::string& path, const qinfer_runtime_options* runtime = nullptr,
                          const qinfer_load_options* load = nullptr, const qinfer_kv_cache_options* cache = nullptr,
                          const qinfer_session_options* session = nullptr) {
  return detail::filled<qinfer_memory>([&](auto* out, auto* error) {
    return qinfer_model_plan(path.c_str(), runtime, load, cache, session, out, error);
  });
}

struct ModelDetails : qinfer_model_details {
  std::shared_ptr<const std::vector<char>> texts;  ///< what architecture, name and weight_types point to
};
/// What the headers of a model say, without its weights.
inline ModelDetails inspect(const std::string& path,
                            const qinfer_load_options& options = qi::options<qinfer_load_options>()) {
  ModelDetails details{};
  details.struct_size = sizeof(qinfer_model_details);
  details.texts = std::make_shared<const std::vector<char>>(detail::collected<std::vector<char>>(
      1024, [&](auto... texts) { return qinfer_model_inspect(path.c_str(), &options, &details, texts...); }));
  return details;
}

/// Every buffer of that plan, as JSON.
inline std::string plan_map(const std::string& path, const qinfer_runtime_options* runtime = nullptr,
                            const qinfer_load_options* load = nullptr, const qinfer_kv_cache_options* cache = nullptr,
                            const qinfer_session_options* session = nullptr) {
  return detail::collected<std::string>(
      1 << 16, [&](auto... out) { return qinfer_model_plan_map(path.c_str(), runtime, load, cache, session, out...); });
}

/// Writes the model directory to one file in the form that the runtime's kernel set wants, for loading by mapping.
inline void pack(Runtime& runtime, const std::string& directory, const std::string& out,
                 const qinfer_load_options& load = qi::options<qinfer_load_options>()) {
  detail::FullError error;
  const qinfer_status status = qinfer_model_pack(runtime.native(), directory.c_str(), &load, out.c_str(), error.arg());
  detail::check(status, error);
}

/// Writes the model directory to a GGUF file, quantised where load.weight_format says so.
inline void export_gguf(Runtime& runtime, const std::string& directory, const std::string& out,
                        const qinfer_load_options& load = qi::options<qinfer_load_options>()) {
  detail::FullError error;
  const qinfer_status status =
      qinfer_model_export_gguf(runtime.native(), directory.c_str(), &load, out.c_str(), error.arg());
  detail::check(status, error);
}

/// Weights, tokenizer and metadata; immutable, so every member may be used from many threads at once.
class Model : public detail::Handle<qinfer_model, qinfer_model_free> {
 public:
  /// Loads with a private runtime of default options.
  static Model load(const std::string& path, const qinfer_load_options& options = qi::options<qinfer_load_options>()) {
    return Model(nullptr, path, options);
  }
  static Model load(Runtime& runtime, const std::string& path,
                    const qinfer_load_options& options = qi::options<qinfer_load_options>()) {
    return Model(runtime.native(), path, options);
  }
  /// With progress, which takes the place of the two members for it in options.
  static Model load(Runtime& runtime, const std::string& path, qinfer_load_options options,
                    const OnProgress& on_progress) {
    detail::Guarded<OnProgress> guarded(on_progress);
    options.progress = on_progress ? detail::progress_callback : nullptr;
    options.progress_user = &guarded;
    try {
      return Model(runtime.native(), path, options);
    } catch (const Error&) {
      guarded.rethrow();  // the load was cancelled because the callback threw: that is what the caller must see
      throw;
    }
  }

  qinfer_model_info info() const {
    return detail::filled<qinfer_model_info>(
        [&](auto* out, auto* error) { return qinfer_model_get_info(native(), out, error); });
  }
  qinfer_memory memory() const {
    return detail::filled<qinfer_memory>(
        [&](auto* out, auto* error) { return qinfer_model_get_memory(native(), out, error); });
  }
  /// How the weights are stored in the model's files, the encoding with the most bytes first.
  std::vector<qinfer_encoding_info> encodings() const {
    std::vector<qinfer_encoding_info> list;
    for (std::size_t i = 0; i < qinfer_model_encoding_count(native()); ++i)
      list.push_back(detail::filled<qinfer_encoding_info>(
          [&](auto* out, auto* error) { return qinfer_model_encoding_info(native(), i, out, error); }));
    return list;
  }
  /// How many tokens each expert of a layer was chosen for since loading; empty where the layer has none.
  std::vector<std::uint64_t> expert_counts(std::uint32_t layer) const {
    return detail::collected<std::vector<std::uint64_t>>(
        128, [&](auto... out) { return qinfer_model_expert_counts(native(), layer, out...); });
  }
  std::size_t meta_count() const { return qinfer_model_meta_count(native()); }
  std::string_view meta_key(std::size_t index) const {  ///< empty past the end
    const char* key = qinfer_model_meta_key(native(), index);
    return key != nullptr ? key : "";
  }
  std::optional<std::string_view> meta(const std::string& key) const {
    const char* value = qinfer_model_meta_value(native(), key.c_str());
    return value != nullptr ? std::optional<std::string_view>(value) : std::nullopt;
  }

  /// Names of the prompts that the files have for texts of a kind.
  std::vector<std::string> prompt_names() const {
    std::vector<std::string> names;
    while (const char* name = qinfer_model_prompt_name(native(), names.size())) names.emplace_back(name);
    return names;
  }
  /// The name of the default one; empty: none.
  std::string_view default_prompt() const {
    const char* name = qinfer_model_default_prompt(native());
    return name != nullptr ? name : "";
  }
  std::string prompt(const std::string& name) const {
    return detail::collected<std::string>(
        256, [&](auto... out) { return qinfer_model_prompt(native(), name.c_str(), out...); });
  }
  /// The tokens of a text that an embedding is made of. *n_cut, where given: those that were cut off.
  std::vector<Token> embedding_tokens(
      std::string_view text,
      const qinfer_embedding_text_options& options = qi::options<qinfer_embedding_text_options>(),
      std::uint64_t* n_cut = nullptr) const {
    const char* data = text.data() != nullptr ? text.data() : "";
    return detail::collected<std::vector<Token>>(
        text.size() / 2 + 8, [&](qinfer_token* tokens, std::size_t capacity, std::size_t* n, qinfer_error* error) {
          return qinfer_embedding_tokenize(native(), data, text.size(), &options, tokens, capacity, n, n_cut, error);
        });
  }

  std::vector<Token> tokenize(std::string_view text, std::uint32_t flags = 0) const {
    const char* data = text.data() != nullptr ? text.data() : "";
    return detail::collected<std::vector<Token>>(
        text.size() / 2 + 8, [&](auto... out) { return qinfer_tokenize(native(), data, text.size(), flags, out...); });
  }
  /// The same with a bound on the work, or a way to cancel it.
  std::vector<Token> tokenize(std::string_view text, const qinfer_tokenize_options& options) const {
    const char* data = text.data() != nullptr ? text.data() : "";
    return detail::collected<std::vector<Token>>(text.size() / 2 + 8, [&](auto... out) {
      return qinfer_tokenize_with(native(), data, text.size(), &options, out...);
    });
  }
  std::string_view token_text(Token token) const {  ///< raw bytes, perhaps part of a character
    std::size_t n = 0;
    const char* text = qinfer_token_text(native(), token, &n);
    return text != nullptr ? std::string_view(text, n) : std::string_view();
  }
  /// The token whose entry in the tokenizer is exactly this text, such as "<|im_end|>".
  Token find_token(std::string_view text) const {
    Token token = -1;
    detail::FullError error;
    const char* data = text.data() != nullptr ? text.data() : "";
    detail::check(qinfer_token_find(native(), data, text.size(), &token, error.arg()), error);
    return token;
  }
  std::vector<Token> end_tokens() const {
    return detail::collected<std::vector<Token>>(
        4, [&](auto... out) { return qinfer_model_end_tokens(native(), out...); });
  }
  /// As it is written; name empty: the default one.
  std::string chat_template(const std::string& name = {}) const {
    return detail::collected<std::string>(1 << 12, [&](auto... out) {
      return qinfer_model_chat_template(native(), name.empty() ? nullptr : name.c_str(), out...);
    });
  }
  /// The text that the chat template makes of a conversation, a JSON object.
  std::string render_chat(std::string_view conversation,
                          const qinfer_chat_options& options = qi::options<qinfer_chat_options>()) const {
    return detail::collected<std::string>(conversation.size() + (1 << 12), [&](char* text, auto... out) {
      return chat_text(conversation, options, text, out...);
    });
  }
  /// The tokens of that text, in which nothing of the conversation is a control token.
  std::vector<Token> tokenize_chat(std::string_view conversation,
                                   const qinfer_chat_options& options = qi::options<qinfer_chat_options>()) const {
    const char* data = conversation.data() != nullptr ? conversation.data() : "";
    return detail::collected<std::vector<Token>>(conversation.size() / 2 + 256, [&](auto... out) {
      return qinfer_chat_tokenize(native(), data, conversation.size(), &options, out...);
    });
  }
  std::uint32_t token_flags(Token token) const { return qinfer_token_flags(native(), token); }

 private:
  qinfer_status chat_text(std::string_view conversation, const qinfer_chat_options& options, char* text,
                          std::size_t capacity, std::size_t* out_n, qinfer_error* error) const {
    const char* data = conversation.data() != nullptr ? conversation.data() : "";
    return qinfer_chat_render(native(), data, conversation.size(), &options, text, capacity, out_n, nullptr, 0, nullptr,
                              error);
  }
  Model(qinfer_runtime* runtime, const std::string& path, const qinfer_load_options& options) {
    create([&](auto** out, auto* error) { return qinfer_model_load(runtime, path.c_str(), &options, out, error); });
  }
};

/// Turns a token stream into text, whole characters at a time.
class Detokenizer : public detail::Handle<qinfer_detok, qinfer_detok_free> {
 public:
  explicit Detokenizer(const Model& model) : guess_(std::size_t{model.info().max_token_bytes} * 3 + 16) {
    create([&](auto** out, auto* error) { return qinfer_detok_create(model.native(), out, error); });
  }
  std::string push(Token token) {
    return detail::collected<std::string>(guess_,
                                          [&](auto... out) { return qinfer_detok_push(native(), token, out...); });
  }
  std::string finish() {
    return detail::collected<std::string>(guess_, [&](auto... out) { return qinfer_detok_finish(native(), out...); });
  }

 private:
  std::size_t guess_;
};

/// Takes the reply to a conversation apart, token by token: content, reasoning and calls of tools.
class Reply : public detail::Handle<qinfer_reply, qinfer_reply_free> {
 public:
  struct Part {
    std::int32_t kind = QINFER_PART_NONE;
    std::string text;      ///< of a call its arguments
    std::string name, id;  ///< of a call
    std::uint32_t call = 0;
  };
  /// The conversation, and in options.chat the options, that the prompt is made with.
  Reply(const Model& model, std::string_view conversation,
        const qinfer_reply_options& options = qi::options<qinfer_reply_options>()) {
    const char* data = conversation.data() != nullptr ? conversation.data() : "";
    create([&](auto** out, auto* error) {
      return qinfer_reply_create(model.native(), data, conversation.size(), &options, out, error);
    });
  }
  void push(Token token) {
    call([&](auto* error) { return qinfer_reply_push(native(), token, error); });
  }
  void finish() {
    call([&](auto* error) { return qinfer_reply_finish(native(), error); });
  }
  /// Of kind QINFER_PART_NONE: nothing more is known yet.
  Part next() {
    const auto part = detail::filled<qinfer_reply_part>(
        [&](auto* out, auto* error) { return qinfer_reply_next(native(), out, error); });
    Part out;
    out.kind = part.kind;
    out.text.assign(part.text_len != 0 ? part.text : "", part.text_len);
    out.name.assign(part.name_len != 0 ? part.name : "", part.name_len);
    if (part.id != nullptr) out.id = part.id;
    out.call = part.call;
    return out;
  }
  /// Whether its reasoning has begun and not ended.
  bool in_reasoning() const {
    std::int32_t in_reasoning = 0;
    detail::FullError error;
    detail::check(qinfer_reply_in_reasoning(native(), &in_reasoning, error.arg()), error);
    return in_reasoning != 0;
  }
  /// The tokens that end its reasoning.
  std::vector<Token> reasoning_end() const {
    return detail::collected<std::vector<Token>>(
        16, [&](auto... out) { return qinfer_reply_reasoning_end(native(), out...); });
  }
  /// What was pushed, as a message for the conversation: JSON.
  std::string message() const {
    return detail::collected<std::string>(1 << 12, [&](auto... out) { return qinfer_reply_message(native(), out...); });
  }
};

class KvCache : public detail::Handle<qinfer_kv_cache, qinfer_kv_cache_free> {
 public:
  explicit KvCache(const Model& model,
                   const qinfer_kv_cache_options& options = qi::options<qinfer_kv_cache_options>()) {
    create([&](auto** out, auto* error) { return qinfer_kv_cache_create(model.native(), &options, out, error); });
  }
  qinfer_kv_cache_stats stats() const {
    return detail::filled<qinfer_kv_cache_stats>(
        [&](auto* out, auto* error) { return qinfer_kv_cache_get_stats(native(), out, error); });
  }
  /// How many of these tokens, from the first on, a session would find in it now if more tokens followed them.
  std::size_t find(const std::vector<Token>& tokens, std::uint32_t prefix_space = 0) const {
    std::size_t n = 0;
    detail::FullError error;
    detail::check(qinfer_kv_cache_find(native(), tokens.data(), tokens.size(), prefix_space, &n, error.arg()), error);
    return n;
  }
};

/// What Session::generate is asked for.
struct GenerateOptions {
  std::uint32_t max_tokens = 0;   ///< new tokens; 0 = until an end token or the context limit
  std::vector<std::string> stop;  ///< output ends before the first of these that appears
  OnToken on_token;               ///< may be empty
  OnTokenInfo on_token_info;      ///< may be empty; told of the end token too
  std::uint32_t n_top = 0;        ///< most likely tokens told with log probabilities, at most 64
  const Cancel* cancel = nullptr;
  /// Gets each token before the callbacks do; while it is in its reasoning, the session's hook rests.
  Reply* reply = nullptr;
  std::uint32_t max_reasoning_tokens = 0;  ///< with a reply: then its reasoning is ended; 0 = no bound
  bool logprobs = false;                   ///< Generation::next() tells log probabilities
};

/// Code between the logits of a session and its sampler, as qinfer_logits_hook says. A member that returns false
/// cancels the call, and so does one that throws: either arrives as an Error with QINFER_E_CANCELLED.
class LogitsHook {
 public:
  virtual ~LogitsHook() = default;
  virtual bool apply(float* logits, std::uint32_t n_vocab) = 0;  ///< of a private copy; -infinity forbids a token
  virtual bool accept(Token) { return true; }                    ///< a token that sampling appended
  virtual bool rewind(std::size_t) { return true; }              ///< this many of the accepted tokens go
  virtual std::unique_ptr<LogitsHook> clone() const { return nullptr; }  ///< for a fork; null: it has none
};

class Session;

/// What drawn text has to fulfil: a Grammar of qinfer_grammar.hpp, or a class of a host's own.
class Constraint {
 public:
  virtual ~Constraint() = default;
  /// Sets the session's hook: what is drawn from now on fulfils it. Where a call ends with QINFER_E_CANCELLED because
  /// the hook failed, the function that is returned throws the reason. It may be empty.
  virtual std::function<void()> begin(Session& session) const = 0;
};

namespace detail {

/// GenerateOptions as C has them, without callbacks; what they refer to lives as long as this.
struct NativeGenerateOptions {
  explicit NativeGenerateOptions(const GenerateOptions& request) {
    for (const std::string& text : request.stop) {
      stop.push_back(text.data());
      stop_lens.push_back(text.size());
    }
    native.max_tokens = request.max_tokens;
    native.stop = stop.data();
    native.stop_lens = stop_lens.data();
    native.n_stop = static_cast<std::uint32_t>(stop.size());
    native.flags = request.logprobs ? QINFER_GENERATE_LOGPROBS : 0;
    native.n_top = request.n_top;
    native.cancel = request.cancel != nullptr ? request.cancel->native() : nullptr;
    native.reply = request.reply != nullptr ? request.reply->native() : nullptr;
    native.max_reasoning_tokens = request.max_reasoning_tokens;
  }
  std::vector<const char*> stop;
  std::vector<std::size_t> stop_lens;
  qinfer_generate_options native = qi::options<qinfer_generate_options>();
};

/// The C functions for a LogitsHook. A fork whose hook is null keeps functions that do nothing.
struct HookCalls {
  template <class Call>
  static std::int32_t cancels(void* user, Call&& call) noexcept {
    try {
      return user == nullptr || call(*static_cast<LogitsHook*>(user)) ? 0 : 1;
    } catch (...) {
      return 1;
    }
  }
  static std::int32_t apply(const qinfer_session*, float* logits, std::uint32_t n_vocab, void* user) {
    return cancels(user, [&](LogitsHook& hook) { return hook.apply(logits, n_vocab); });
  }
  static std::int32_t accept(qinfer_token token, void* user) {
    return cancels(user, [&](LogitsHook& hook) { return hook.accept(token); });
  }
  static std::int32_t rewind(std::size_t n_tokens, void* user) {
    return cancels(user, [&](LogitsHook& hook) { return hook.rewind(n_tokens); });
  }
  static std::int32_t clone(void* user, void** out_user) {
    return cancels(user, [&](const LogitsHook& hook) {
      *out_user = hook.clone().release();
      return true;
    });
  }
  static void release(void* user) { delete static_cast<LogitsHook*>(user); }
};

}  // namespace detail

/// One token sequence: a prefix that is evaluated, the rest pending, and a sampler.
class Session : public detail::Handle<qinfer_session, qinfer_session_free> {
 public:
  explicit Session(KvCache& cache, const qinfer_session_options& options = qi::options<qinfer_session_options>()) {
    create([&](auto** out, auto* error) { return qinfer_session_create(cache.native(), &options, out, error); });
  }
  static Session load(KvCache& cache, const std::string& path) {
    Session session;
    session.create(
        [&](auto** out, auto* error) { return qinfer_session_load(cache.native(), path.c_str(), out, error); });
    return session;
  }
  /// The same with options; the result says what was found in the file.
  static Session load(KvCache& cache, const std::string& path, const qinfer_session_load_options& options,
                      qinfer_session_load_result& result) {
    Session session;
    session.create([&](auto** out, auto* error) {
      return qinfer_session_load_with(cache.native(), path.c_str(), &options, out, &result, error);
    });
    return session;
  }
  void save(const std::string& path) const {
    detail::FullError error;
    detail::check(qinfer_session_save(native(), path.c_str(), error.arg()), error);
  }
  /// The same with options, such as files of the host's own.
  void save(const std::string& path, const qinfer_session_save_options& options) const {
    detail::FullError error;
    detail::check(qinfer_session_save_with(native(), path.c_str(), &options, error.arg()), error);
  }
  /// The same tokens, keys, values, logits and sampler; what both sides hold is shared until one writes to it.
  Session fork() const {
    Session copy;
    copy.create([&](auto** out, auto* error) { return qinfer_session_fork(native(), out, error); });
    return copy;
  }

  void append(const Token* tokens, std::size_t n) {
    call([&](auto* error) { return qinfer_session_append(native(), tokens, n, error); });
  }
  void append(const std::vector<Token>& tokens) { append(tokens.data(), tokens.size()); }
  void append(Token token) { append(&token, 1); }
  /// Makes these its tokens and returns how many at the beginning were there already: they are not evaluated again.
  std::size_t set_tokens(const std::vector<Token>& tokens) {
    std::size_t n_kept = 0;
    call(
        [&](auto* error) { return qinfer_session_set_tokens(native(), tokens.data(), tokens.size(), &n_kept, error); });
    return n_kept;
  }
  void truncate(std::size_t n_tokens) {
    call([&](auto* error) { return qinfer_session_truncate(native(), n_tokens, error); });
  }
  std::vector<Token> tokens() const {
    return detail::collected<std::vector<Token>>(
        length(), [&](auto... out) { return qinfer_session_get_tokens(native(), out...); });
  }
  std::size_t length() const { return qinfer_session_length(native()); }
  std::size_t pending() const { return qinfer_session_pending(native()); }

  void set_sampler(const qinfer_sampler_options& options) {
    call([&](auto* error) { return qinfer_session_set_sampler(native(), &options, error); });
  }
  /// The texts that no repetition of DRY reaches over; none of them: no text.
  void set_dry_breakers(const std::vector<std::string>& texts) {
    std::vector<const char*> data;
    std::vector<std::size_t> lens;
    for (const std::string& text : texts) {
      data.push_back(text.data());
      lens.push_back(text.size());
    }
    call([&](auto* error) {
      return qinfer_session_set_dry_breakers(native(), data.data(), lens.data(), data.size(), error);
    });
  }
  /// Replaces the list of biases by (token, added to its logit) pairs.
  void set_bias(const std::vector<std::pair<Token, float>>& biases) {
    std::vector<Token> tokens;
    std::vector<float> values;
    for (const auto& [token, value] : biases) {
      tokens.push_back(token);
      values.push_back(value);
    }
    call([&](auto* error) {
      return qinfer_session_set_bias(native(), tokens.data(), values.data(), tokens.size(), error);
    });
  }
  /// Replaces the session's hook; null: it has none.
  void set_logits_hook(std::unique_ptr<LogitsHook> hook) {
    using Calls = detail::HookCalls;
    auto native_hook = qi::options<qinfer_logits_hook>();
    native_hook.apply = Calls::apply;
    native_hook.accept = Calls::accept;
    native_hook.rewind = Calls::rewind;
    native_hook.clone = Calls::clone;
    native_hook.release = Calls::release;
    native_hook.user = hook.get();
    const qinfer_logits_hook* none = nullptr;
    call([&](auto* error) { return qinfer_session_set_logits_hook(native(), hook ? &native_hook : none, error); });
    static_cast<void>(hook.release());  // the library has it now
  }

  void eval(const qinfer_eval_options& options = qi::options<qinfer_eval_options>()) {
    qinfer_session* self = native();
    call([&](auto* error) { return qinfer_eval(&self, 1, &options, error); });
  }
  Token sample() {
    Token token = -1;
    call([&](auto* error) { return qinfer_session_sample(native(), &token, error); });
    return token;
  }
  /// n_vocab floats, or NULL if not kept; valid until the session is next evaluated, truncated or freed.
  const float* logits(std::size_t back = 0) const { return qinfer_session_logits(native(), back); }
  std::vector<float> copy_logits(std::size_t back = 0) const {
    return detail::collected<std::vector<float>>(
        0, [&](auto... out) { return qinfer_session_copy_logits(native(), back, out...); });
  }

  /// Log probabilities of tokens under the model in row `back`; after sample() row 0 is the one drawn from.
  std::vector<double> logprobs(const std::vector<Token>& tokens, std::size_t back = 0) const {
    std::vector<double> values(tokens.size());
    call([&](auto* error) {
      return qinfer_session_logprobs(native(), back, tokens.data(), tokens.size(), values.data(), error);
    });
    return values;
  }
  double logprob(Token token, std::size_t back = 0) const { return logprobs({token}, back)[0]; }
  /// The n most likely tokens of that row with their log probabilities, in descending order.
  std::vector<std::pair<Token, double>> top_logprobs(std::size_t n, std::size_t back = 0) const {
    std::vector<Token> tokens(n);
    std::vector<double> values(n);
    call([&](auto* error) {
      return qinfer_session_top_logprobs(native(), back, tokens.data(), values.data(), n, error);
    });
    std::vector<std::pair<Token, double>> top;
    for (std::size_t i = 0; i < n; ++i) top.emplace_back(tokens[i], values[i]);
    return top;
  }

  /// embedding_dims floats of length 1; pooling: QINFER_POOL_*.
  std::vector<float> embedding(std::int32_t pooling = QINFER_POOL_DEFAULT) const {
    auto options = qi::options<qinfer_embedding_options>();
    options.pooling = pooling;
    return embedding(options);
  }
  std::vector<float> embedding(const qinfer_embedding_options& options) const {
    return detail::collected<std::vector<float>>(
        0, [&](auto... out) { return qinfer_session_embedding_with(native(), &options, out...); });
  }

  /// Makes a query and a document the session's tokens, for score(). Returns how many tokens were cut off.
  std::uint64_t set_pair(std::string_view query, std::string_view document,
                         const qinfer_score_options& options = qi::options<qinfer_score_options>()) {
    std::uint64_t n_cut = 0;
    const char *first = query.data() != nullptr ? query.data() : "",
               *second = document.data() != nullptr ? document.data() : "";
    call([&](auto* error) {
      return qinfer_session_set_pair(native(), first, query.size(), second, document.size(), &options, &n_cut, error);
    });
    return n_cut;
  }
  /// How well the document answers the query, once both are evaluated.
  float score(const qinfer_score_options& options = qi::options<qinfer_score_options>()) const {
    float value = 0;
    call([&](auto* error) { return qinfer_session_score(native(), &options, &value, error); });
    return value;
  }

  /// Evaluates what is pending, then samples until done. *counts, where given, is filled also when the call throws.
  qinfer_generate_result generate(const GenerateOptions& request, qinfer_generate_result* counts = nullptr) {
    detail::TokenCalls calls{detail::Guarded<OnToken>(request.on_token),
                             detail::Guarded<OnTokenInfo>(request.on_token_info)};
    detail::NativeGenerateOptions with(request);
    with.native.on_token = request.on_token ? detail::token_callback : nullptr;
    with.native.on_token_info = request.on_token_info ? detail::token_info_callback : nullptr;
    with.native.user = &calls;
    qinfer_generate_result result = qi::options<qinfer_generate_result>();
    detail::FullError error;
    const qinfer_status status = qinfer_generate(native(), &with.native, &result, error.arg());
    if (counts != nullptr) *counts = result;
    calls.text.rethrow();
    calls.info.rethrow();
    detail::check(status, error);
    return result;
  }
  /// The same, with all new text as the result; request.on_token is still called.
  std::string generate_text(const GenerateOptions& request) {
    std::string all;
    GenerateOptions collecting = request;
    collecting.on_token = [&](std::string_view text, Token token) {
      all += text;
      return !request.on_token || request.on_token(text, token);
    };
    generate(collecting);
    return all;
  }

  qinfer_session_info info() const {
    return detail::filled<qinfer_session_info>(
        [&](auto* out, auto* error) { return qinfer_session_get_info(native(), out, error); });
  }
  qinfer_session_memory memory() const {
    return detail::filled<qinfer_session_memory>(
        [&](auto* out, auto* error) { return qinfer_session_get_memory(native(), out, error); });
  }
  qinfer_metrics metrics() const {
    return detail::filled<qinfer_metrics>(
        [&](auto* out, auto* error) { return qinfer_session_get_metrics(native(), out, error); });
  }

 private:
  Session() = default;
};

/// Session::generate step by step, without callbacks.
class Generation : public detail::Handle<qinfer_generation, qinfer_generation_free> {
 public:
  /// Cancel and reply must outlive it; callbacks must be empty.
  explicit Generation(Session& session, const GenerateOptions& request = {}) {
    detail::NativeGenerateOptions with(request);
    with.native.on_token = request.on_token ? detail::token_callback : nullptr;  // refused with its reason
    with.native.on_token_info = request.on_token_info ? detail::token_info_callback : nullptr;
    create(
        [&](auto** out, auto* error) { return qinfer_generation_create(session.native(), &with.native, out, error); });
  }
  /// What the next token brings; its text and arrays are valid until the next call.
  qinfer_token_info next() {
    return detail::filled<qinfer_token_info>(
        [&](auto* out, auto* error) { return qinfer_generation_next(native(), out, error); });
  }
  /// Ends it, and gives the text that was held back.
  qinfer_token_info finish() {
    return detail::filled<qinfer_token_info>(
        [&](auto* out, auto* error) { return qinfer_generation_finish(native(), out, error); });
  }
  /// Returns how many bytes of the texts so far are still right.
  std::size_t take_back(std::size_t n) {
    std::size_t text_len = 0;
    call([&](auto* error) { return qinfer_generation_take_back(native(), n, &text_len, error); });
    return text_len;
  }
  qinfer_generate_result result() {
    return detail::filled<qinfer_generate_result>(
        [&](auto* out, auto* error) { return qinfer_generation_get_result(native(), out, error); });
  }
};

/// A generation that was submitted to a scheduler; the generation must outlive it, or its end.
class Request : public detail::Handle<qinfer_request, qinfer_request_free> {
 public:
  void cancel() { qinfer_request_cancel(native()); }
  void pause(bool paused) { qinfer_request_pause(native(), paused ? 1 : 0); }

 private:
  friend class Scheduler;
  Request() = default;
};

/// A folder of kept keys and values, for conversations that go on later.
class KvStore : public detail::Handle<qinfer_kv_store, qinfer_kv_store_free> {
 public:
  KvStore(KvCache& cache, const std::string& path, std::uint64_t max_bytes) {
    auto options = qi::options<qinfer_kv_store_options>();
    options.path = path.c_str();
    options.max_bytes = max_bytes;
    create([&](auto** out, auto* error) { return qinfer_kv_store_open(cache.native(), &options, out, error); });
  }
  /// How many of the session's tokens are in the folder now, from the first on.
  std::size_t keep(Session& session, const std::string& tenant = {}, const Cancel* cancel = nullptr) {
    std::size_t n = 0;
    const qinfer_cancel* flag = cancel != nullptr ? cancel->native() : nullptr;
    detail::FullError error;
    detail::check(qinfer_kv_store_keep(native(), session.native(), tenant.c_str(), flag, &n, error.arg()), error);
    return n;
  }
  /// How many of the tokens the cache knows now, from the first on.
  std::size_t fetch(const std::vector<Token>& tokens, const std::string& tenant = {}, const Cancel* cancel = nullptr,
                    std::uint32_t prefix_space = 0) {
    std::size_t n = 0;
    const qinfer_cancel* flag = cancel != nullptr ? cancel->native() : nullptr;
    detail::FullError error;
    detail::check(qinfer_kv_store_fetch_into(native(), tokens.data(), tokens.size(), tenant.c_str(), prefix_space, flag,
                                             &n, error.arg()),
                  error);
    return n;
  }
  qinfer_kv_store_stats stats() const {
    return detail::filled<qinfer_kv_store_stats>(
        [&](auto* out, auto* error) { return qinfer_kv_store_get_stats(native(), out, error); });
  }
};

/// The generations of many requests as one batch.
class Scheduler : public detail::Handle<qinfer_scheduler, qinfer_scheduler_free> {
 public:
  explicit Scheduler(KvCache& cache,
                     const qinfer_scheduler_options& options = qi::options<qinfer_scheduler_options>()) {
    create([&](auto** out, auto* error) { return qinfer_scheduler_create(cache.native(), &options, out, error); });
  }
  /// The bytes that one with these options takes.
  static std::uint64_t plan(const qinfer_scheduler_options& options = qi::options<qinfer_scheduler_options>()) {
    std::uint64_t bytes = 0;
    detail::FullError error;
    detail::check(qinfer_scheduler_plan(&options, &bytes, error.arg()), error);
    return bytes;
  }
  Request submit(Generation& generation,
                 const qinfer_request_options& options = qi::options<qinfer_request_options>()) {
    Request request;
    request.create([&](auto** out, auto* error) {
      return qinfer_scheduler_submit(native(), generation.native(), &options, out, error);
    });
    return request;
  }
  /// Blocks for so many tokens of a session that the host evaluates itself; promised from QINFER_EVENT_RESERVED on.
  Request reserve(Session& session, std::uint64_t n_tokens,
                  const qinfer_request_options& options = qi::options<qinfer_request_options>()) {
    Request request;
    request.create([&](auto** out, auto* error) {
      return qinfer_scheduler_reserve(native(), session.native(), n_tokens, &options, out, error);
    });
    return request;
  }
  void step() {
    call([&](auto* error) { return qinfer_scheduler_step(native(), error); });
  }
  /// Whether there is a request.
  bool wait(std::uint64_t timeout_ns) {
    std::int32_t has_requests = 0;
    call([&](auto* error) { return qinfer_scheduler_wait(native(), timeout_ns, &has_requests, error); });
    return has_requests != 0;
  }
  /// kind is QINFER_EVENT_NONE after the last one of a step.
  qinfer_event next() {
    return detail::filled<qinfer_event>(
        [&](auto* out, auto* error) { return qinfer_scheduler_next(native(), out, error); });
  }
  qinfer_scheduler_stats stats() {
    return detail::filled<qinfer_scheduler_stats>(
        [&](auto* out, auto* error) { return qinfer_scheduler_get_stats(native(), out, error); });
  }
};

/// Evaluates the pending tokens of several sessions of one cache as one batch.
inline void eval(const std::vector<Session*>& sessions,
                 const qinfer_eval_options& options = qi::options<qinfer_eval_options>()) {
  std::vector<qinfer_session*> handles;
  handles.reserve(sessions.size());
  for (Session* session : sessions) handles.push_back(session != nullptr ? session->native() : nullptr);
  detail::FullError error;
  detail::check(qinfer_eval(handles.data(), handles.size(), &options, error.arg()), error);
}

}  // namespace qi
#endif  // QINFER_HPP
