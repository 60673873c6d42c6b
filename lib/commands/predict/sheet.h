// `trainer predict --sheet`: an HTML page with pictures of predicted images.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inference/predict/predict.h"
#include "results/document/document.h"
#include "results/page/picture.h"

namespace trainer::commands {

// Collects predictions and the pictures of some of them.
class PredictionSheet {
 public:
  // `inputs` must outlive the sheet; `limit`: samples of each input. Shows at most `samples`
  // images, evenly spaced over all. Throws ConfigError for images of a type that cannot be shown.
  PredictionSheet(const std::vector<inference::PredictionInput>& inputs,
                  std::vector<std::string> classes, std::optional<std::int64_t> limit,
                  std::int64_t samples);

  // Adds a prediction without an error for `inputs[input]`. Reads its image if that is shown.
  void add(std::size_t input, const results::Prediction& prediction);

  // Returns the page: the shown images by predicted class, the least certain of each class first.
  std::string html(const std::string& title) const;
  // Returns "200 of 863 images".
  std::string count_text() const;

 private:
  struct Shown {
    results::SampleTile tile;
    double probability = 0;  // the probability of the predicted class
  };
  // The predictions of one class, those without a class because the model abstained, or novel ones.
  struct Group {
    std::int64_t count = 0;
    std::vector<Shown> shown;
  };

  bool is_chosen(std::size_t input, std::int64_t index) const;
  // Returns the number of images and, where they have labels, the share that is predicted right.
  std::string make_headline() const;
  // Adds the tiles of a group below its name, the least certain first.
  static void add_group(const std::string& name, const Group& group, results::Document& page);
  results::SampleTile make_tile(const inference::PredictionInput& input,
                                const results::Prediction& prediction) const;

  const std::vector<inference::PredictionInput>& inputs_;
  std::vector<std::string> classes_;
  std::vector<std::int64_t> starts_;     // number of the first sample of each input among all
  std::int64_t total_ = 0, chosen_ = 0;  // samples, and how many of them are to be shown
  std::int64_t predicted_ = 0, labelled_ = 0, right_ = 0;
  std::map<std::optional<std::int32_t>, Group> groups_;  // keyed as in name_group()
};

}  // namespace trainer::commands
