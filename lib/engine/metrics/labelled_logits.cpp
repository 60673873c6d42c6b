#include "engine/metrics/labelled_logits.h"

#include "base/error.h"

namespace trainer::engine {

std::string why_no_class_probabilities(LossKind loss, std::int64_t outputs) {
  if (loss == LossKind::kMeanSquaredError) {
    return "the loss mean_squared_error gives numbers, not probabilities of classes";
  }
  if (loss == LossKind::kBinaryCrossEntropy && outputs > 1) {
    return concat("binary_cross_entropy with ", outputs,
                  " outputs gives each class a probability of its own, whose sum is not 1");
  }
  return loss == LossKind::kSoftmaxCrossEntropy && outputs == 1 ? "the model has a single class"
                                                                : "";
}

}  // namespace trainer::engine
