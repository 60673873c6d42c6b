// A trained model that predicts images for several threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/data.h"
#include "data/open_images.h"
#include "engine/engine.h"
#include "inference/decisions/novelty.h"
#include "inference/open_model/open_model.h"
#include "inference/predict/predict.h"
#include "library/engine_thread.h"

namespace trainer::library {

struct Options {
  std::string checkpoint;  // "best", "last" or ""
  std::int32_t threads = 0;
  bool calibrated = true;
  bool novelty = true;    // with the run's limit of novelty, if it has one
  bool features = false;  // beside the probabilities
};

// Predictions of images, a row each.
struct Predictions {
  std::vector<std::string> errors;  // "" for images with a prediction
  std::vector<double> probabilities;
  std::vector<std::int32_t> classes;
  std::vector<std::uint8_t> labels;  // empty for models of one class per image
  std::vector<double> distances;     // to the training images; empty without a limit of novelty
  std::vector<std::uint8_t> novel;   // empty without a limit of novelty
  std::vector<float> features;       // empty unless Options::features
};

// Several threads may call const functions at once.
class Model {
 public:
  // Opens a run folder or a checkpoint. Throws Error.
  Model(const std::string& path, const Options& options);
  ~Model();

  const std::vector<std::string>& names() const { return names_; }
  const std::string& notes() const { return notes_; }
  std::int64_t step() const { return opened_.step; }
  bool has_labels() const { return opened_.is_multi_label(); }
  // The distance from which on an image is novel; NaN without a limit of novelty.
  double novelty_limit() const;
  // The width of a row of features; 0 unless Options::features.
  std::size_t feature_count() const { return features_; }
  Shape image_shape() const { return *opened_.image_shape; }
  // Returns whether this process is the one that opened the model. Otherwise no function but this
  // may be called, and the object must not be destroyed, as its threads are not here.
  bool is_here() const;

  Predictions predict(std::vector<data::GivenImage> images) const;

 private:
  void make_engine(bool features);

  std::string notes_;
  inference::OpenedModel opened_;
  std::vector<std::string> names_;  // a name for each probability
  config::Data data_;
  results::PredictOptions options_;
  std::optional<inference::StoredNovelty> novelty_;
  std::size_t features_ = 0;        // kept in predictions
  std::vector<double> thresholds_;  // a logit for each label
  pid_t process_;
  mutable EngineThread thread_;
  std::unique_ptr<engine::Engine> engine_;  // used on the thread alone
  std::int64_t batch_ = 1, outputs_ = 1;    // as the engine has them
};

}  // namespace trainer::library
