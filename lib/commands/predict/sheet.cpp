#include "commands/predict/sheet.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "inference/predict/sample_pixels.h"
#include "results/evaluation/find_class.h"

namespace trainer::commands {
namespace {

constexpr std::int32_t kNovel = -1;  // the key of the group of images of none of the classes

std::string name_group(std::optional<std::int32_t> key, const std::vector<std::string>& classes) {
  if (!key) return "No class (the model abstains)";
  return *key == kNovel ? "None of the classes" : results::class_name(classes, *key);
}

}  // namespace

PredictionSheet::PredictionSheet(const std::vector<inference::PredictionInput>& inputs,
                                 std::vector<std::string> classes,
                                 std::optional<std::int64_t> limit, std::int64_t samples)
    : inputs_(inputs), classes_(std::move(classes)) {
  for (const inference::PredictionInput& input : inputs) {
    const DType type = input.dataset().spec().image_type;
    if (type != DType::kUInt8 && type != DType::kFloat32) {
      throw ConfigError({}, "--sheet: images of ", to_string(type), " cannot be shown");
    }
    starts_.push_back(total_);
    const std::int64_t size = input.dataset().size();
    total_ += std::min(size, limit.value_or(size));
  }
  chosen_ = std::min(samples, total_);
}

bool PredictionSheet::is_chosen(std::size_t input, std::int64_t index) const {
  const std::int64_t place = starts_[input] + index;
  return (place + 1) * chosen_ / total_ > place * chosen_ / total_;
}

results::SampleTile PredictionSheet::make_tile(const inference::PredictionInput& input,
                                               const results::Prediction& prediction) const {
  const data::DatasetSpec& spec = input.dataset().spec();
  const std::string name = results::class_name(classes_, prediction.predicted);
  const double p = prediction.probabilities[prediction.predicted];
  results::SampleTile tile;
  tile.picture = results::encode_picture(
      inference::to_pixels(inference::read_image(input.dataset(), prediction.index), spec),
      spec.image_shape);
  tile.name = input.one_per_file ? input.name_of(prediction.index)
                                 : concat(input.name, " number ", prediction.index);
  tile.picture_text = concat("Sample ", tile.name, ": predicted ", name);
  const char* const before = prediction.is_novel()  ? "none of the classes; likeliest "
                             : prediction.abstained ? "abstains; likeliest "
                                                    : "";
  tile.lines.push_back({before, name, ' ' + fixed(p, 4)});
  if (!prediction.label) return tile;
  tile.is_wrong = *prediction.label != prediction.predicted && prediction.has_class();
  tile.lines.push_back({tile.is_wrong ? "wrong, true: " : "true: ",
                        results::class_name(classes_, *prediction.label), ""});
  return tile;
}

void PredictionSheet::add(std::size_t input, const results::Prediction& prediction) {
  std::optional<std::int32_t> key;
  if (prediction.has_class()) key = prediction.predicted;
  if (prediction.is_novel()) key = kNovel;
  Group& group = groups_[key];
  ++group.count;
  ++predicted_;
  if (prediction.label && prediction.has_class()) {
    ++labelled_;
    right_ += *prediction.label == prediction.predicted ? 1 : 0;
  }
  if (!is_chosen(input, prediction.index)) return;
  group.shown.push_back(
      {make_tile(inputs_[input], prediction), prediction.probabilities[prediction.predicted]});
}

std::string PredictionSheet::count_text() const {
  std::int64_t shown = 0;
  for (const auto& [key, group] : groups_) shown += std::ssize(group.shown);
  return concat(grouped(shown), " of ", grouped(predicted_),
                predicted_ == 1 ? " image" : " images");
}

std::string PredictionSheet::make_headline() const {
  const std::string counts = count_text() + (chosen_ < total_ ? ", evenly spaced" : "");
  if (labelled_ == 0) return counts;
  return concat(counts, "; ", percent(static_cast<double>(right_) / static_cast<double>(labelled_)),
                " right (", grouped(right_), " of ", grouped(labelled_), ")");
}

void PredictionSheet::add_group(const std::string& name, const Group& group,
                                results::Document& page) {
  page.add(results::Heading{concat(name, " (", grouped(group.count), ")")});
  if (group.shown.empty()) return page.add(results::Paragraph{"None of them is shown."});
  std::vector<const Shown*> order;
  for (const Shown& shown : group.shown) order.push_back(&shown);
  std::ranges::stable_sort(order, {}, &Shown::probability);
  results::Samples tiles;
  for (const Shown* shown : order) tiles.push_back(shown->tile);
  page.add(std::move(tiles));
}

std::string PredictionSheet::html(const std::string& title) const {
  results::Document page{title};
  page.add(results::Paragraph{make_headline(), results::Paragraph::Kind::kHeadline});
  page.add(results::Paragraph{
      concat("By predicted class; of each class the least certain first.",
             right_ < labelled_ ? " Wrong ones have a bar at their left." : "")});
  for (const auto& [label, group] : groups_) {
    add_group(name_group(label, classes_), group, page);
  }
  return results::render_html(page);
}

}  // namespace trainer::commands
