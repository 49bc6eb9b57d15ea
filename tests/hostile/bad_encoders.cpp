// What encoders refuse, by the name of the field, key or tensor: each tensor of a fixture that is missing, of another
// shape or type, in both formats' names, and fields of models that are not like those that were compared.
#include <fstream>
#include <sstream>

#include "support/c_api.h"
#include "support/gguf_loads.h"

using namespace qinfer::test;
using Json = nlohmann::json;

namespace {

const std::string kModels = QINFER_TEST_FIXTURES "/models/";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  REQUIRE(!out.str().empty());
  return out.str();
}

/// A fixture's folder whose files can be changed.
class Fixture {
 public:
  explicit Fixture(const std::string& name)
      : config(Json::parse(read_file(kModels + name + "/config.json"))),
        file_(read_file(kModels + name + "/model.safetensors")) {
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), 8);
    header = Json::parse(file_.substr(8, length));
    data_ = file_.substr(8 + length);
  }
  Json config, header;

  void refused(qinfer_status status, const std::string& message) const {
    write();
    REQUIRE_LOAD_FAILS(status, message, *dir_);
  }
  void loads() const {
    write();
    REQUIRE(load_model(make_runtime(1), dir_->path()) != nullptr);
  }

 private:
  void write() const {
    dir_->write("config.json", config.dump());
    dir_->write("model.safetensors", safetensors_file(header.dump(), data_));
  }
  std::string file_, data_;
  std::unique_ptr<ModelDir> dir_ = std::make_unique<ModelDir>();
};

bool is_used(const std::string& model, const std::string& tensor) {
  return tensor != "__metadata__" && (model.find("classifier") != std::string::npos || tensor.find("pooler") != 0);
}

}  // namespace

TEST_CASE("Tensors of encoders that are missing, or of another shape or type", "[bad]") {
  for (const char* name : {"bert-f32", "bert-classifier-f32", "xlmr-classifier-f32", "nomic-f32", "nomic-released-bf16",
                           "modernbert-classifier-f32", "modernbert-biases-f32", "mpnet-f32", "mpnet-classifier-f32"}) {
    const Fixture good(name);
    good.loads();
    for (const auto& [tensor, entry] : good.header.items()) {
      if (!is_used(name, tensor)) continue;
      INFO(name << ": " << tensor);
      // Where the embedding is not found, the model is taken for a bare one.
      const std::size_t at = std::min(tensor.find("embeddings.word"), tensor.find("embeddings.tok_"));
      const std::string named = at == std::string::npos ? tensor : tensor.substr(at);
      const auto changed = [&](auto&& change) {
        Fixture bad(name);
        change(bad.header);
        return bad;
      };
      changed([&](Json& header) {
        header.erase(tensor);
        header["another"] = entry;
      }).refused(QINFER_E_NOT_FOUND, "\"" + named + "\"");
      changed([&](Json& header) { header[tensor]["shape"].push_back(1); }).refused(QINFER_E_FORMAT, "has the shape");
      changed([&](Json& header) {
        header[tensor]["dtype"] = entry["dtype"] == "F32" ? "I32" : "I16";
      }).refused(QINFER_E_UNSUPPORTED, "\"" + tensor + "\" is I");
    }
  }
}

TEST_CASE("Fields of encoders that are missing, of another type or mean another model", "[bad]") {
  const auto with = [](const char* name, const char* field, const Json& value) {
    Fixture changed(name);
    changed.config[field] = value;
    return changed;
  };
  const auto without = [](const char* name, const char* field) {
    Fixture changed(name);
    changed.config.erase(field);
    return changed;
  };
  for (const char* field : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "max_position_embeddings", "vocab_size", "layer_norm_eps"}) {
    INFO(field);
    without("bert-f32", field).refused(QINFER_E_FORMAT, std::string("\"") + field + "\" is missing");
    with("bert-f32", field, "many").refused(QINFER_E_FORMAT, field);
  }
  for (const char* field : {"n_embd", "n_inner", "n_layer", "n_head", "n_positions", "layer_norm_epsilon"}) {
    INFO(field);
    with("nomic-released-bf16", field, "many").refused(QINFER_E_FORMAT, field);
  }
  without("modernbert-f32", "norm_eps").refused(QINFER_E_FORMAT, "\"norm_eps\" is missing");
  with("bert-f32", "hidden_act", "relu").refused(QINFER_E_UNSUPPORTED, "\"hidden_act\" is \"relu\"");
  with("bert-f32", "position_embedding_type", "relative_key")
      .refused(QINFER_E_UNSUPPORTED, "\"position_embedding_type\" is \"relative_key\"");
  with("bert-f32", "is_decoder", true).refused(QINFER_E_UNSUPPORTED, "\"is_decoder\" is true");
  with("bert-f32", "type_vocab_size", 0).refused(QINFER_E_FORMAT, "\"type_vocab_size\"");
  with("bert-f32", "type_vocab_size", 3).refused(QINFER_E_FORMAT, "token_type_embeddings.weight\" has the shape");
  with("bert-f32", "max_position_embeddings", 95)
      .refused(QINFER_E_FORMAT, "position_embeddings.weight\" has the shape");
  with("bert-classifier-f32", "id2label", Json::array()).refused(QINFER_E_FORMAT, "\"id2label\" must be an object");
  with("bert-classifier-f32", "id2label", Json::object()).refused(QINFER_E_FORMAT, "\"id2label\" must be an object");
  with("xlmr-odd-bf16", "pad_token_id", 95).refused(QINFER_E_FORMAT, "leaves no position after \"pad_token_id\" (95)");
  with("xlmr-odd-bf16", "pad_token_id", -2).refused(QINFER_E_FORMAT, "\"pad_token_id\"");
  with("nomic-released-bf16", "prenorm", true).refused(QINFER_E_UNSUPPORTED, "\"prenorm\" is true");
  with("nomic-released-bf16", "qkv_proj_bias", true).refused(QINFER_E_UNSUPPORTED, "\"qkv_proj_bias\" is true");
  with("nomic-released-bf16", "activation_function", "gelu")
      .refused(QINFER_E_UNSUPPORTED, "\"activation_function\" is \"gelu\"");
  with("nomic-released-bf16", "rotary_emb_fraction", 0.5)
      .refused(QINFER_E_UNSUPPORTED, "\"rotary_emb_fraction\" is 0.5");
  with("nomic-released-bf16", "rotary_emb_base", -1).refused(QINFER_E_FORMAT, "\"rotary_emb_base\" is -1");
  with("nomic-released-bf16", "rotary_emb_scale_base", 512)
      .refused(QINFER_E_UNSUPPORTED, "\"rotary_emb_scale_base\" is there");
  with("modernbert-v4-bf16", "global_attn_every_n_layers", 0)
      .refused(QINFER_E_FORMAT, "\"global_attn_every_n_layers\"");
  with("modernbert-v4-bf16", "local_rope_theta", 0).refused(QINFER_E_FORMAT, "\"local_rope_theta\" is 0");
  with("modernbert-f32", "local_attention", -1).refused(QINFER_E_FORMAT, "\"local_attention\"");
  for (const char* field : {"attention_bias", "mlp_bias", "norm_bias", "classifier_bias"}) {
    INFO(field);
    with("modernbert-biases-f32", field, "yes").refused(QINFER_E_FORMAT, field);
  }
  with("modernbert-f32", "attention_bias", true).refused(QINFER_E_NOT_FOUND, "\"layers.0.attn.Wqkv.bias\"");
  with("modernbert-f32", "mlp_bias", true).refused(QINFER_E_NOT_FOUND, "\"layers.0.mlp.Wi.bias\"");
  with("modernbert-f32", "norm_bias", true).refused(QINFER_E_NOT_FOUND, "norm.bias\"");
  with("modernbert-classifier-f32", "classifier_bias", true).refused(QINFER_E_NOT_FOUND, "\"head.dense.bias\"");
  with("bert-f32", "attention_bias", true).refused(QINFER_E_UNSUPPORTED, "\"attention_bias\" is true");
  with("modernbert-f32", "hidden_activation", "relu")
      .refused(QINFER_E_UNSUPPORTED,
               "\"hidden_activation\" is \"relu\", \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"silu\", "
               "\"swish\" are supported");
  for (const char* activation : {"gelu_new", "silu"}) with("bert-f32", "hidden_act", activation).loads();
  with("mpnet-f32", "relative_attention_num_buckets", 64)
      .refused(QINFER_E_UNSUPPORTED, "\"relative_attention_num_buckets\" is 64, only 32");
  with("mpnet-f32", "relative_attention_num_buckets", "many")
      .refused(QINFER_E_FORMAT, "\"relative_attention_num_buckets\"");
  without("mpnet-f32", "relative_attention_num_buckets").loads();
  without("mpnet-f32", "layer_norm_eps").refused(QINFER_E_FORMAT, "\"layer_norm_eps\" is missing");
  with("mpnet-f32", "max_position_embeddings", 2).refused(QINFER_E_FORMAT, "\"max_position_embeddings\" is 2");
  with("mpnet-f32", "num_attention_heads", 4)
      .refused(QINFER_E_FORMAT, "relative_attention_bias.weight\" has the shape [32, 3]");
  // What others wrote with BERT's fields, and is another model.
  with("bert-f32", "position_embedding_type", "alibi")
      .refused(QINFER_E_UNSUPPORTED, "\"position_embedding_type\" is \"alibi\"");
  for (const char* other : {"JinaBertForMaskedLM", "NewModel", "DistilBertModel"})
    with("bert-f32", "architectures", Json::array({other}))
        .refused(QINFER_E_UNSUPPORTED, std::string("\"architectures\" names ") + other + ", known are");
  with("modernbert-classifier-f32", "classifier_activation", "relu")
      .refused(QINFER_E_UNSUPPORTED, "\"classifier_activation\" is \"relu\"");
  with("modernbert-classifier-f32", "classifier_pooling", "max")
      .refused(QINFER_E_UNSUPPORTED, "\"classifier_pooling\" is \"max\"");
}

TEST_CASE("Each field of an encoder that is of another type is refused by its name", "[bad]") {
  enum class Kind { integer, number, boolean, text };
  struct Row {
    const char* model;
    Kind kind;
    std::vector<const char*> fields;
  };
  const Row rows[] = {
      {"bert-f32",
       Kind::integer,
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "max_position_embeddings", "type_vocab_size", "num_key_value_heads", "head_dim"}},
      {"bert-f32", Kind::number, {"layer_norm_eps"}},
      {"bert-f32",
       Kind::boolean,
       {"is_decoder", "add_cross_attention", "attention_bias", "mlp_bias", "tie_word_embeddings",
        "use_bidirectional_attention", "is_causal"}},
      {"bert-f32", Kind::text, {"hidden_act", "position_embedding_type"}},
      {"bert-classifier-f32", Kind::integer, {"num_labels"}},
      {"xlmr-classifier-f32", Kind::integer, {"num_labels", "pad_token_id"}},
      {"xlmr-classifier-f32", Kind::text, {"sbert_ce_default_activation_function"}},
      {"mpnet-f32", Kind::integer, {"relative_attention_num_buckets", "max_position_embeddings"}},
      {"mpnet-classifier-f32", Kind::integer, {"num_labels"}},
      {"nomic-released-bf16",
       Kind::integer,
       {"n_embd", "n_inner", "n_layer", "n_head", "n_positions", "type_vocab_size", "max_trained_positions"}},
      {"nomic-released-bf16",
       Kind::number,
       {"layer_norm_epsilon", "rotary_emb_base", "rotary_emb_fraction", "rotary_scaling_factor"}},
      {"nomic-released-bf16",
       Kind::boolean,
       {"prenorm", "use_rms_norm", "parallel_block", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "causal",
        "rotary_emb_interleaved"}},
      {"nomic-released-bf16", Kind::text, {"activation_function"}},
      {"modernbert-v4-bf16", Kind::integer, {"local_attention", "global_attn_every_n_layers"}},
      {"modernbert-v4-bf16", Kind::number, {"norm_eps", "global_rope_theta", "local_rope_theta"}},
      {"modernbert-classifier-f32", Kind::integer, {"num_labels"}},
      {"modernbert-classifier-f32", Kind::boolean, {"norm_bias", "classifier_bias", "attention_bias", "mlp_bias"}},
      {"modernbert-classifier-f32", Kind::text, {"hidden_activation", "classifier_activation", "classifier_pooling"}},
  };
  const auto wrong = [](Kind kind) {
    std::vector<Json> values = {Json::array(), Json::object(), Json::array({1})};
    values.push_back(kind == Kind::text ? Json(5) : Json("many"));
    values.push_back(kind == Kind::boolean ? Json(1) : Json(true));
    if (kind == Kind::integer) values.insert(values.end(), {Json(1.5), Json(-1), Json(1e300), Json(INT64_MAX)});
    return values;
  };
  for (const Row& row : rows)
    for (const char* field : row.fields)
      for (const Json& value : wrong(row.kind)) {
        INFO(row.model << ": " << field << " is " << value.dump());
        Fixture changed(row.model);
        changed.config[field] = value;
        changed.refused(QINFER_E_FORMAT, std::string("\"") + field + "\"");
      }
}

TEST_CASE("Objects and lists of an encoder's fields that are of another shape are refused by name", "[bad]") {
  const auto refused = [](const char* model, const char* field, const Json& value) {
    INFO(model << ": " << field << " is " << value.dump());
    Fixture changed(model);
    changed.config[field] = value;
    changed.refused(QINFER_E_FORMAT, std::string("\"") + field + "\"");
  };
  for (const Json& value : {Json(5), Json("x"), Json(true), Json::array({"a"})})
    for (const char* model : {"bert-classifier-f32", "modernbert-classifier-f32"}) {
      Fixture changed(model);
      changed.config.erase("num_labels");
      changed.config["id2label"] = value;
      changed.refused(QINFER_E_FORMAT, "\"id2label\"");
    }
  for (const Json& value : {Json(5), Json("x"), Json(true), Json::array()}) {
    refused("modernbert-f32", "rope_parameters", value);
    refused("nomic-f32", "rope_parameters", value);
  }
  for (const Json& value :
       {Json(5), Json("x"), Json::object(), Json::array({"full_attention"}), Json::array({1, 2, 3})})
    refused("modernbert-f32", "layer_types", value);
  for (const Json& value : {Json(5), Json("BertModel"), Json::array(), Json::array({1}), Json::array({"a", "b"})})
    refused("bert-f32", "architectures", value);
}

TEST_CASE("GGUF files of BERT's classifiers lack a layer, and are refused", "[bad][gguf]") {
  GgufLoads loads;
  std::string file = read_file(QINFER_TEST_FIXTURES "/gguf/xlmr-classifier-f32.gguf");
  REQUIRE(loads.load(file) != nullptr);
  file.replace(file.find("cls.weight"), 10, "cls.absent");
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "\"cls.output.weight\" is there without \"cls.weight\"", loads, file);
}
