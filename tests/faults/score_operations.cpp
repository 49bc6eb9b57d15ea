// Encoders' tokenizers, pairs of texts, scores and embeddings for the programs that let the heap and the system fail.
#include <sys/stat.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "operation_parts.h"
#include "support/word_tokenizer.h"

namespace qinfer::faults {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kText =
    "Caf\u00e9 na\u00efve \uff21\ufb01 stra\u00dfe \u4f60\u597d [MASK] retrieval... \u0440\u0443 e\u0301 x1 "
    "unbelievable";

/// A folder below that of the program, with what a fixture has.
std::string copy_of(const Files& files, const std::string& fixture, const std::string& name) {
  const std::string folder = files.folder + "/" + name;
  fs::create_directories(folder);
  fs::copy(std::string(QINFER_TEST_FIXTURES "/") + fixture, folder,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  return folder;
}

/// The shipped model's config.json with a tokenizer of the fixtures, to be loaded without weights.
class TokenizerSubject : public Subject {
 public:
  TokenizerSubject(const Files& files, const std::string& name) : runtime_(make_runtime()) {
    folder_ = files.folder + "/tokenizer-" + name;
    fs::create_directories(folder_);
    json config = json::parse(read_file(files.shipped + "/config.json"));
    config["vocab_size"] = 4096;
    write_file(folder_ + "/config.json", config.dump());
    write_file(folder_ + "/tokenizer.json", read_file(QINFER_TEST_FIXTURES "/tokenizers/" + name + ".json"));
    options_.flags = QINFER_LOAD_NO_WEIGHTS;
  }
  ~TokenizerSubject() override {
    qinfer_model_free(model_);
    qinfer_runtime_free(runtime_);
  }

 protected:
  qinfer_status load(qinfer_error* err) {
    return qinfer_model_load(runtime_, folder_.c_str(), &options_, &model_, err);
  }
  qinfer_status encode(qinfer_error* err) {
    n_ = 0;
    return qinfer_tokenize(model_, kText, SIZE_MAX, QINFER_TEXT_ADD_SPECIAL | QINFER_TEXT_PARSE_SPECIAL, tokens_.data(),
                           tokens_.size(), &n_, err);
  }
  std::string tokens() const { return {reinterpret_cast<const char*>(tokens_.data()), n_ * sizeof(qinfer_token)}; }

  qinfer_runtime* runtime_;
  qinfer_model* model_ = nullptr;

 private:
  std::string folder_;
  qinfer_load_options options_ = sized<qinfer_load_options>();
  std::vector<qinfer_token> tokens_ = std::vector<qinfer_token>(500);
  std::size_t n_ = 0;
};

class LoadTokenizer : public TokenizerSubject {
 public:
  using TokenizerSubject::TokenizerSubject;
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return load(err); });
  }
  std::string leftovers(qinfer_status status, bool) override {
    return (model_ != nullptr) == (status == QINFER_OK) ? "" : "the output handle does not fit the status";
  }
  std::string result() override {
    MUST(encode(&err));
    return tokens();
  }
  void after() override {
    qinfer_model_free(model_);
    model_ = nullptr;
  }
};

class Encode : public TokenizerSubject {
 public:
  Encode(const Files& files, const std::string& name) : TokenizerSubject(files, name) { MUST(load(&err)); }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return encode(err); });
  }
  std::string result() override { return tokens(); }
};

/// A session of a model whose words are its ids.
class SessionSubject : public Subject {
 public:
  explicit SessionSubject(const std::string& folder, std::uint32_t flags = 0) : runtime_(make_runtime()) {
    const json config = json::parse(read_file(folder + "/config.json"));
    if (!fs::exists(folder + "/tokenizer.json"))
      write_file(folder + "/tokenizer.json", test::word_tokenizer(config["vocab_size"], 2, 3).dump());
    MUST(qinfer_model_load(runtime_, folder.c_str(), nullptr, &model_, &err));
    MUST(qinfer_kv_cache_create(model_, nullptr, &cache_, &err));
    auto options = sized<qinfer_session_options>();
    options.flags = flags;
    MUST(qinfer_session_create(cache_, &options, &session_, &err));
  }
  ~SessionSubject() override {
    qinfer_session_free(session_);
    qinfer_kv_cache_free(cache_);
    qinfer_model_free(model_);
    qinfer_runtime_free(runtime_);
  }

 protected:
  qinfer_status set_pair(const qinfer_score_options& options, qinfer_error* err) {
    return qinfer_session_set_pair(session_, kQuery, SIZE_MAX, kDocument, SIZE_MAX, &options, &cut_, err);
  }
  std::string tokens() const {
    std::vector<qinfer_token> tokens(qinfer_session_length(session_));
    std::size_t n = 0;
    MUST(qinfer_session_get_tokens(session_, tokens.data(), tokens.size(), &n, &err));
    return std::to_string(cut_) + " " +
           std::string(reinterpret_cast<const char*>(tokens.data()), n * sizeof(qinfer_token));
  }
  void eval() {
    if (qinfer_session_pending(session_) != 0) MUST(qinfer_eval(&session_, 1, nullptr, &err));
  }

  static constexpr const char *kQuery = "w5 w6 w7", *kDocument = "w8 w9 w10 w11 w12 w13 w14 w15 w16";
  qinfer_runtime* runtime_;
  qinfer_model* model_ = nullptr;
  qinfer_kv_cache* cache_ = nullptr;
  qinfer_session* session_ = nullptr;

 private:
  std::uint64_t cut_ = 0;
};

class SetPair : public SessionSubject {
 public:
  SetPair(const std::string& folder, const char* template_text, std::uint32_t most) : SessionSubject(folder) {
    options_.template_text = template_text;
    options_.max_tokens = most;
    options_.flags = QINFER_SCORE_TRUNCATE;
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return set_pair(options_, err); });
  }
  std::string result() override { return tokens(); }

 private:
  qinfer_score_options options_ = sized<qinfer_score_options>();
};

class Score : public SessionSubject {
 public:
  explicit Score(const std::string& folder) : SessionSubject(folder) {
    MUST(set_pair(options_, &err));
    eval();
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_session_score(session_, &options_, &score_, err); });
  }
  std::string result() override { return std::to_string(score_); }

 private:
  qinfer_score_options options_ = sized<qinfer_score_options>();
  float score_ = 0;
};

class Embedding : public SessionSubject {
 public:
  explicit Embedding(const std::string& folder) : SessionSubject(folder, QINFER_SESSION_EMBEDDINGS) {
    constexpr qinfer_token kTokens[] = {5, 6, 7, 8, 9};
    MUST(qinfer_session_append(session_, kTokens, std::size(kTokens), &err));
    eval();
    options_.dims = 24;
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty(
        [&] { return qinfer_session_embedding_with(session_, &options_, values_.data(), values_.size(), &n_, err); });
  }
  std::string result() override { return {reinterpret_cast<const char*>(values_.data()), n_ * sizeof(float)}; }

 private:
  qinfer_embedding_options options_ = sized<qinfer_embedding_options>();
  std::vector<float> values_ = std::vector<float>(500);
  std::size_t n_ = 0;
};

class EmbeddingTokens : public SessionSubject {
 public:
  explicit EmbeddingTokens(const std::string& folder) : SessionSubject(folder) {
    options_.flags = QINFER_EMBED_TRUNCATE;
    options_.max_tokens = 6;
    options_.prompt = "w20 ";
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] {
      return qinfer_embedding_tokenize(model_, kDocument, SIZE_MAX, &options_, tokens_.data(), tokens_.size(), &n_,
                                       &cut_, err);
    });
  }
  std::string result() override {
    return std::to_string(cut_) + std::string(reinterpret_cast<const char*>(tokens_.data()), n_ * sizeof(qinfer_token));
  }

 private:
  qinfer_embedding_text_options options_ = sized<qinfer_embedding_text_options>();
  std::vector<qinfer_token> tokens_ = std::vector<qinfer_token>(100);
  std::size_t n_ = 0;
  std::uint64_t cut_ = 0;
};

}  // namespace

std::vector<Operation> score_operations(const Files& files) {
  constexpr const char *kEncoder = "models/xlmr-classifier-f32", *kDecoder = "classifier_models/qwen3-f32";
  const std::string encoder = copy_of(files, kEncoder, "ranks"), decoder = copy_of(files, kDecoder, "ranks-last");
  const std::string chat = copy_of(files, kDecoder, "ranks-chat");
  write_file(chat + "/chat_template.jinja", "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}");
  const std::string dense = copy_of(files, "models/gemma3-encoder-f32", "dense");
  copy_of(files, "embedding_modules/gemma-dense", "dense");
  constexpr const char* kNone = nullptr;
  return {
      make<LoadTokenizer>("model_load of a WordPiece tokenizer", 1, files, std::string("word_piece")),
      make<LoadTokenizer>("model_load of a Unigram tokenizer", 1, files, std::string("unigram")),
      make<LoadTokenizer>("model_load of a tokenizer with word ends", 1, files, std::string("word_end")),
      make<Encode>("tokenize, WordPiece", 1, files, std::string("word_piece")),
      make<Encode>("tokenize, Unigram", 1, files, std::string("unigram")),
      make<Encode>("tokenize, Unigram with bytes", 1, files, std::string("unigram_bytes")),
      make<Encode>("tokenize, word ends", 1, files, std::string("word_end")),
      make<SetPair>("set_pair, joined", 1, encoder, kNone, 0U),
      make<SetPair>("set_pair, joined and cut", 1, encoder, kNone, 9U),
      make<SetPair>("set_pair, decoder", 1, decoder, kNone, 0U),
      make<SetPair>("set_pair, template and cut", 1, decoder, "w30 {query} w31 {document} w32", 12U),
      make<SetPair>("set_pair, chat template", 1, chat, kNone, 0U),
      make<Score>("score, encoder", 1, encoder),
      make<Score>("score, decoder", 1, decoder),
      make<Embedding>("embedding_with, dense layers", 1, dense),
      make<EmbeddingTokens>("embedding_tokenize", 1, dense),
  };
}

}  // namespace qinfer::faults
