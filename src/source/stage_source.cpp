// See stage_source.h.
#include "source/stage_source.h"

#include "base/format.h"
#include "source/derived_source.h"

namespace qinfer::source {
namespace {

using model::TensorId;

class StageSource final : public DerivedSource {
 public:
  StageSource(std::unique_ptr<ModelSource> inner, model::ModelSpec spec) : DerivedSource(std::move(inner)) {
    spec_ = std::move(spec);
  }

  std::string name(const TensorId& id) const override { return inner().name(whole(id)); }
  model::RowOrder row_order(const TensorId& id) const override { return inner().row_order(whole(id)); }
  Result<model::TensorInfo> find(const TensorId& id) const override { return inner().find(whole(id)); }

  /// What a stage has saved is no other stage's.
  Result<Fingerprints> fingerprints(CancelFlag cancel) const override {
    QINFER_ASSIGN(Fingerprints prints, inner().fingerprints(cancel));
    prints.model += format_text(":{}-{}", spec_.first_layer, spec_.first_layer + spec_.n_layers());
    return prints;
  }

 private:
  /// The tensor as the whole model counts layers.
  TensorId whole(TensorId id) const {
    if (static_cast<std::size_t>(id.role) >= model::kGlobalRoles)
      id.layer = static_cast<std::uint16_t>(id.layer + spec_.first_layer);
    return id;
  }
};

}  // namespace

Result<std::unique_ptr<ModelSource>> make_stage_source(std::unique_ptr<ModelSource> source, std::uint32_t first,
                                                       std::uint32_t n) {
  model::ModelSpec spec = source->spec();
  QINFER_TRY(model::keep_layers(spec, first, n));
  if (!spec.is_stage()) return source;
  return std::unique_ptr<ModelSource>(std::make_unique<StageSource>(std::move(source), std::move(spec)));
}

}  // namespace qinfer::source
