// A source whose matrices are another's, quantised as they are read: what packs or exports a source packs or exports it
// quantised. Rows are read, widened and quantised as they are asked for, so a conversion takes no memory for a model.
#pragma once

#include <functional>
#include <memory>

#include "model/tensors.h"
#include "source/model_source.h"
#include "source/quantisation.h"

namespace qinfer::source {

/// What became of a matrix.
struct QuantisedMatrix {
  std::string name;
  Encoding from = Encoding::f32, to = Encoding::f32;
  std::uint64_t values = 0;
  double squares = 0, squared_errors = 0;  ///< sums over all values
  double bits() const;                     ///< for a value
  double relative_error() const;           ///< root of the mean squared error, relative to that of the values
};

struct QuantiseOptions {
  Quantisation mix = Quantisation::q8_0;
  /// Called when all rows of a matrix were read, by the thread that read the last ones.
  std::function<void(const QuantisedMatrix& matrix)> report;
  CancelFlag cancel;
};

/// QINFER_E_UNSUPPORTED, naming a tensor, if the source is quantised already. What is not quantised can be mapped.
/// Reading fails with QINFER_E_FORMAT at a value that quantise() cannot take.
Result<std::unique_ptr<ModelSource>> quantise_source(std::unique_ptr<ModelSource> source, QuantiseOptions options);

}  // namespace qinfer::source
