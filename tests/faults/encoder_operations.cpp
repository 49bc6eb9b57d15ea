// See operations.h: loading an encoder and embedding texts with it, of each family of a fixture.
#include <stdexcept>

#include "operations.h"

namespace qinfer::faults {
namespace {

std::vector<qinfer_token> text_of(std::size_t n) {
  std::vector<qinfer_token> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<qinfer_token>((i * 37 + 11) % 113);
  return tokens;
}

std::string vector_of(const qinfer_session* session) {
  std::vector<float> values(256);
  std::size_t n = 0;
  MUST(qinfer_session_embedding(session, QINFER_POOL_DEFAULT, values.data(), values.size(), &n, &err));
  return {reinterpret_cast<const char*>(values.data()), n * sizeof(float)};
}

/// Two texts as one batch.
class TwoTexts {
 public:
  explicit TwoTexts(const qinfer_model* model) {
    MUST(qinfer_kv_cache_create(model, nullptr, &cache_, &err));
    for (std::size_t i = 0; i < 2; ++i) {
      MUST(qinfer_session_create(cache_, nullptr, &sessions_[i], &err));
      const std::vector<qinfer_token> tokens = text_of(i == 0 ? 40 : 7);
      MUST(qinfer_session_append(sessions_[i], tokens.data(), tokens.size(), &err));
    }
  }
  ~TwoTexts() {
    for (qinfer_session* session : sessions_) qinfer_session_free(session);
    qinfer_kv_cache_free(cache_);
  }
  TwoTexts(const TwoTexts&) = delete;
  TwoTexts& operator=(const TwoTexts&) = delete;
  qinfer_status eval(qinfer_error* err) { return qinfer_eval(sessions_, 2, nullptr, err); }
  std::string vectors() const { return vector_of(sessions_[0]) + vector_of(sessions_[1]); }

 private:
  qinfer_kv_cache* cache_ = nullptr;
  qinfer_session* sessions_[2] = {};
};

class LoadEncoder : public Subject {
 public:
  explicit LoadEncoder(std::string path) : runtime_(make_runtime()), path_(std::move(path)) {}
  ~LoadEncoder() override { qinfer_runtime_free(runtime_); }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] { return qinfer_model_load(runtime_, path_.c_str(), nullptr, &model_, err); });
  }
  std::string leftovers(qinfer_status status, bool) override {
    return (model_ != nullptr) == (status == QINFER_OK) ? "" : "the output handle does not fit the status";
  }
  std::string result() override {
    TwoTexts texts(model_);
    MUST(texts.eval(&err));
    return texts.vectors();
  }
  void after() override {
    qinfer_model_free(model_);
    model_ = nullptr;
  }

 private:
  qinfer_runtime* runtime_;
  qinfer_model* model_ = nullptr;
  std::string path_;
};

/// Making what two texts need, evaluating them and asking for a vector.
class Embed : public Subject {
 public:
  explicit Embed(const std::string& path) : runtime_(make_runtime()), values_(256) {
    MUST(qinfer_model_load(runtime_, path.c_str(), nullptr, &model_, &err));
  }
  ~Embed() override {
    qinfer_model_free(model_);
    qinfer_runtime_free(runtime_);
  }
  qinfer_status call(qinfer_error* err) override {
    return faulty([&] {
      qinfer_status status = qinfer_kv_cache_create(model_, nullptr, &cache_, err);
      for (std::size_t i = 0; i < 2 && status == QINFER_OK; ++i) {
        status = qinfer_session_create(cache_, nullptr, &sessions_[i], err);
        if (status == QINFER_OK) status = qinfer_session_append(sessions_[i], tokens_[i], i == 0 ? 40 : 7, err);
      }
      if (status == QINFER_OK) status = qinfer_eval(sessions_, 2, nullptr, err);
      std::size_t n = 0;
      if (status != QINFER_OK) return status;
      return qinfer_session_embedding(sessions_[0], QINFER_POOL_MEAN, values_.data(), values_.size(), &n, err);
    });
  }
  std::string result() override { return vector_of(sessions_[0]) + vector_of(sessions_[1]); }
  void after() override {
    for (qinfer_session*& session : sessions_) {
      qinfer_session_free(session);
      session = nullptr;
    }
    qinfer_kv_cache_free(cache_);
    cache_ = nullptr;
  }

 private:
  const std::vector<qinfer_token> long_ = text_of(40), short_ = text_of(7);
  const qinfer_token* tokens_[2] = {long_.data(), short_.data()};
  qinfer_runtime* runtime_;
  qinfer_model* model_ = nullptr;
  qinfer_kv_cache* cache_ = nullptr;
  qinfer_session* sessions_[2] = {};
  std::vector<float> values_;
};

}  // namespace

std::vector<Operation> encoder_operations() {
  std::vector<Operation> all;
  for (const char* name : {"bert-odd-bf16", "xlmr-odd-bf16", "nomic-f32", "modernbert-biases-f32", "mpnet-odd-bf16"}) {
    const std::string path = QINFER_TEST_FIXTURES "/models/" + std::string(name);
    all.push_back({"model_load of " + std::string(name), [path] { return std::make_unique<LoadEncoder>(path); }, 4});
    all.push_back({"embedding by " + std::string(name), [path] { return std::make_unique<Embed>(path); }});
  }
  return all;
}

}  // namespace qinfer::faults
