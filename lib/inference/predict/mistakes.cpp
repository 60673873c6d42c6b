#include "inference/predict/mistakes.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/numbers/seconds.h"
#include "engine/metrics/metrics.h"
#include "inference/predict/heatmap.h"
#include "inference/predict/predict.h"
#include "inference/predict/sample_pixels.h"

namespace trainer::inference {
namespace {

constexpr std::size_t kMaxGroups = 8;         // with pictures
constexpr std::size_t kMaxNamedSamples = 40;  // of a group, without a picture

// Makes heatmaps of the last feature map or, of a model that has none, by occlusion.
HeatmapMaker make_heatmaps(const OpenedModel& trained, const std::vector<PredictionInput>& inputs,
                           std::string& method) {
  try {
    method = "Grad-CAM";
    return {trained, inputs, HeatmapMethod::kGradCam, ""};
  } catch (const ConfigError&) {
    method = "occlusion";
    return {trained, inputs, HeatmapMethod::kOcclusion, ""};
  }
}

// A prediction that may be shown.
struct Kept {
  double of_label, of_predicted;
  std::int64_t index;
  std::size_t label, predicted;
  bool operator<(const Kept& other) const {
    return std::tie(of_label, index) < std::tie(other.of_label, other.index);
  }
};

Kept to_kept(const results::Prediction& prediction) {
  const std::size_t label = *prediction.label;
  const std::size_t predicted = prediction.predicted;
  return {prediction.probabilities[label], prediction.probabilities[predicted], prediction.index,
          label, predicted};
}

// Makes what a page shows of a sample.
class SampleRenderer {
 public:
  SampleRenderer(const PredictionInput& input, const std::vector<std::string>& classes,
                 HeatmapMaker& heatmaps)
      : input_(input), classes_(classes), heatmaps_(heatmaps) {}

  std::string name(const Kept& one) const {
    return input_.one_per_file ? input_.name_of(one.index) : concat("number ", one.index);
  }

  results::ShownSample render(const Kept& one) const {
    const data::DatasetSpec& spec = input_.dataset().spec();
    const std::vector<std::byte> image = read_image(input_.dataset(), one.index);
    const std::vector<std::uint8_t> pixels = to_pixels(image, spec);
    const engine::PositionMap map =
        heatmaps_.compute(image, static_cast<std::int64_t>(one.predicted));
    const HeatmapPicture heatmap = lay_over(pixels, spec.image_shape[2], map);
    return {name(one),
            classes_[one.label],
            classes_[one.predicted],
            one.of_label,
            one.of_predicted,
            results::encode_picture(pixels, spec.image_shape),
            results::encode_picture(heatmap.pixels, {heatmap.height, heatmap.width, 3})};
  }

 private:
  const PredictionInput& input_;
  const std::vector<std::string>& classes_;
  HeatmapMaker& heatmaps_;
};

// Groups mistakes by true and predicted class, and keeps those of each group whose own class got
// the least probability.
class GroupedMistakes {
 public:
  explicit GroupedMistakes(std::size_t most) : most_(most) {}

  void add(const Kept& one) {
    Group& group = groups_[{one.label, one.predicted}];
    ++group.count;
    group.kept.insert(one);
    if (group.kept.size() > most_ + kMaxNamedSamples) group.kept.erase(std::prev(group.kept.end()));
  }

  std::int64_t count() const { return std::ssize(groups_); }

  // Shows `most` samples in all, about as many of each of the largest groups.
  std::vector<results::MistakeGroup> take(const SampleRenderer& renderer) const {
    std::vector<const Group*> largest;
    for (const auto& [classes, group] : groups_) largest.push_back(&group);
    std::ranges::stable_sort(largest,
                             [](const Group* a, const Group* b) { return a->count > b->count; });
    largest.resize(std::min({largest.size(), kMaxGroups, most_}));
    std::vector<results::MistakeGroup> result;
    std::size_t left = most_;
    for (std::size_t i = 0; i < largest.size(); ++i) {
      const std::size_t groups_left = largest.size() - i;
      const std::size_t share = (left + groups_left - 1) / groups_left;
      result.push_back(take(*largest[i], share, renderer));
      left -= result.back().shown.size();
    }
    return result;
  }

 private:
  struct Group {
    std::int64_t count = 0;
    std::set<Kept> kept;
  };

  static results::MistakeGroup take(const Group& group, std::size_t pictures,
                                    const SampleRenderer& renderer) {
    results::MistakeGroup result;
    result.count = group.count;
    for (const Kept& one : group.kept) {
      if (result.shown.size() < pictures) {
        result.shown.push_back(renderer.render(one));
      } else if (result.more.size() < kMaxNamedSamples) {
        result.more.push_back(renderer.name(one));
      }
    }
    result.label = result.shown.front().label;
    result.predicted = result.shown.front().predicted;
    return result;
  }

  std::size_t most_;
  std::map<std::pair<std::size_t, std::size_t>, Group> groups_;  // by true and predicted class
};

// Keeps the first right answers of each class.
class RightAnswers {
 public:
  explicit RightAnswers(std::size_t most) : most_(most) {}

  void add(const Kept& one) {
    std::vector<Kept>& of_class = classes_[one.label];
    if (of_class.size() < most_) of_class.push_back(one);
  }

  // Returns the first of each class, then the second of each, and so on, ordered by class.
  std::vector<Kept> take() const {
    std::vector<Kept> result;
    for (std::size_t round = 0; round < most_; ++round) {
      for (const auto& [label, of_class] : classes_) {
        if (round < of_class.size() && result.size() < most_) result.push_back(of_class[round]);
      }
    }
    std::ranges::stable_sort(result, {}, &Kept::label);
    return result;
  }

 private:
  std::size_t most_;
  std::map<std::size_t, std::vector<Kept>> classes_;
};

results::SplitResult count_result(const engine::Confusion& confusion) {
  results::SplitResult result;
  result.loss = std::nan("");
  result.classes = confusion.class_counts();
  for (const engine::ClassCounts& one : result.classes) {
    result.count += one.support;
    result.correct += one.correct;
  }
  result.accuracy = static_cast<double>(result.correct) / static_cast<double>(result.count);
  result.confusions = confusion.cells();
  engine::keep_largest_confusions(result.confusions, result.confusions.size());
  return result;
}

results::Mistakes look(const OpenedModel& trained, const MistakeOptions& options) {
  results::Mistakes found;
  found.checkpoint = trained.checkpoint;
  found.step = trained.step;
  if (trained.classes.empty()) {
    found.reason = "the model has no classes";
    return found;
  }
  found.has_probabilities = trained.config.model.loss != LossKind::kMeanSquaredError;
  const auto inputs = open_prediction_inputs(trained, {}, options.split, false);
  const PredictionInput& input = inputs.front();
  found.split = input.name;
  found.samples = input.dataset().size();
  if (!input.dataset().spec().label_is_index()) {
    found.reason = trained.is_multi_label()
                       ? "images with several labels are not ranked by their mistakes"
                       : "the labels are not classes";
    return found;
  }
  const auto engine = make_engine(trained, inputs);
  GroupedMistakes mistakes(options.most);
  RightAnswers right(options.most / 2);
  engine::Confusion confusion(std::ssize(trained.classes));
  engine::RocAuc auc(trained.config.model.loss, engine->replica().outputs(), engine::kMaxScores);
  const auto each = [&](const results::Prediction& prediction) {
    ++found.looked_at;
    if (!prediction.error.empty()) return;
    confusion.add(*prediction.label, prediction.predicted);
    auc.add(prediction.logits, *prediction.label);
    if (prediction.predicted == *prediction.label) return right.add(to_kept(prediction));
    ++found.wrong;
    mistakes.add(to_kept(prediction));
  };
  const auto start = std::chrono::steady_clock::now();
  const auto enough = [&] { return seconds_since(start) >= options.seconds; };
  predict(*engine, input, {trained.config.model.loss}, each, enough);
  const std::vector<Kept> right_answers = right.take();
  if (found.wrong > 0 || !right_answers.empty()) {
    HeatmapMaker heatmaps = make_heatmaps(trained, inputs, found.heatmap_method);
    const SampleRenderer renderer(input, trained.classes, heatmaps);
    found.groups = mistakes.take(renderer);
    for (const Kept& one : right_answers) found.right.push_back(renderer.render(one));
  }
  found.all_groups = mistakes.count();
  if (found.looked_at == found.samples) {
    found.result = count_result(confusion);
    found.auc = auc.area();
  }
  return found;
}

}  // namespace

results::Mistakes find_mistakes(const Path& folder, const MistakeOptions& options) {
  try {
    return look(open_trained(folder.string(), options.checkpoint, options.open), options);
  } catch (const Error& error) {
    results::Mistakes none;
    none.reason = error.what();
    none.failed = true;
    return none;
  }
}

}  // namespace trainer::inference
