#include "commands/suspects/suspects.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/csv.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "base/threads/parallel.h"
#include "commands/suspects/copies.h"
#include "commands/suspects/wrong_labels.h"
#include "data/class_names.h"
#include "inference/open_model/run_archive.h"
#include "inference/predict/predict.h"
#include "results/page/sheet.h"
#include "results/write_json.h"
#include "train/class_order.h"

namespace trainer::commands {
namespace {

struct JudgedImages {
  std::vector<std::size_t> images;    // sorted indices into LabelledImages
  std::vector<double> probabilities;  // a row of classes per image
  // Judged samples that are not among the images of the config.
  std::int64_t unknown = 0;
};

// Collects the probabilities of samples by their names.
class ProbabilityCollector {
 public:
  // `split` is that of the samples in the config.
  ProbabilityCollector(const LabelledImages& images, Split split)
      : images_(images), split_(split) {}

  // If several images have this name, the first one gets the first row, and so on.
  void add(const std::string& name, const std::vector<double>& probabilities) {
    const std::vector<std::size_t> found = images_.find(name, split_);
    for (const std::size_t image : found) {
      if (rows_.emplace(image, probabilities).second) return;
    }
    ++unknown_;
  }

  JudgedImages result(const std::string& place) const {
    if (rows_.empty()) {
      throw DataError(place,
                      concat("judges none of the images of the config, e.g. ",
                             printable(images_.all().front().path),
                             "; give the config of the run, in the folder where it was trained"));
    }
    JudgedImages judged;
    judged.unknown = unknown_;
    for (const auto& [image, row] : rows_) {
      judged.images.push_back(image);
      judged.probabilities.insert(judged.probabilities.end(), row.begin(), row.end());
    }
    return judged;
  }

 private:
  const LabelledImages& images_;
  Split split_;
  std::map<std::size_t, std::vector<double>> rows_;  // by image
  std::int64_t unknown_ = 0;
};

void check_run_classes(const std::string& place, const std::vector<std::string>& theirs,
                       const LabelledImages& images) {
  std::vector<std::string> ours;
  for (const std::string& name : images.classes()) ours.push_back(printable(name));
  if (theirs == ours) return;
  throw DataError(
      place, concat("has the classes [", data::list_classes(theirs), "], but the images have [",
                    data::list_classes(ours), "]", train::describe_class_difference(theirs, ours),
                    "; give the config of the run"));
}

JudgedImages read_out_of_fold(const Path& file, const LabelledImages& images) {
  constexpr std::size_t kFirstClass = 5;  // after file, fold, label, class and probability
  const std::vector<std::string> lines = split_text(read_text_file(file), '\n');
  const auto fail = [&](std::size_t line) {
    throw DataError(concat(file.string(), ":", line + 1),
                    "is not a line that `trainer crossval` writes; give the same crossval command "
                    "with --collect, which writes the file again");
  };
  const std::vector<std::string> header = split_csv_row(lines.front());
  if (header.size() <= kFirstClass || header[0] != "file") fail(0);
  std::vector<std::string> classes;
  for (std::size_t i = kFirstClass; i < header.size(); ++i) {
    if (!header[i].starts_with("p_")) fail(0);
    classes.push_back(header[i].substr(2));
  }
  check_run_classes(file.string(), classes, images);
  ProbabilityCollector collector(images, Split::kTrain);
  for (std::size_t line = 1; line < lines.size(); ++line) {
    if (lines[line].empty()) continue;
    const std::vector<std::string> cells = split_csv_row(lines[line]);
    if (cells.size() != header.size()) fail(line);
    std::vector<double> row;
    for (std::size_t i = kFirstClass; i < cells.size(); ++i) {
      const std::optional<double> p = parse_real(cells[i]);
      if (!p) fail(line);
      row.push_back(*p);
    }
    collector.add(cells[0], row);
  }
  return collector.result(file.string());
}

// Warns if the training data of runs of crossval has changed. Throws DataError for arrays, in which
// another image may have the number of one that was judged.
void check_training_data(const JudgingRuns& runs, const inference::OpenOptions& options) {
  for (const Path& run : runs.runs) {
    const inference::OpenedModel opened = inference::open_trained(
        run.string(), results::CheckpointChoice::kLast, {{}, options.environment});
    const data::Datasets data = inference::open_undivided_training_data(opened);
    if (inference::is_same_training_data(opened, *data.train)) continue;
    if (!config::is_image_format(opened.config.data.format)) {
      throw DataError(opened.path,
                      "the arrays of the training data are not what they were when the run was "
                      "trained, and images of arrays are known by their numbers alone: its "
                      "predictions may be those of other images. Restore the data, or train the "
                      "folds again with `trainer crossval`");
    }
    options.warn(
        concat(opened.path,
               ": the training data is not what it was when the run was trained; images are "
               "found by their names, and a file that was replaced is judged by what it was"));
    return;
  }
}

// Opens the validation split of a run. Throws DataError if it is a part of training data that has
// changed, as images that the run was trained on would be in it.
std::vector<inference::PredictionInput> open_validation(const inference::OpenedModel& opened) {
  try {
    return inference::open_prediction_inputs(opened, {}, Split::kValidation, false);
  } catch (const DataError&) {
    if (!config::divides_training_samples(opened.config.data)) throw;
    const data::Datasets data = inference::open_undivided_training_data(opened);
    if (inference::is_same_training_data(opened, *data.train)) throw;
    throw DataError(opened.path,
                    "the training data is not what it was when the run was trained, and "
                    "validation is a part of it, so that nothing shows which images the run has "
                    "not seen. Restore the data, train again, or give the folder of `trainer "
                    "crossval`");
  }
}

JudgedImages predict_validation(const JudgingRuns& runs, const LabelledImages& images,
                                const inference::OpenOptions& options) {
  const std::string run = runs.runs.front().string();
  const inference::OpenedModel opened =
      inference::open_trained(run, results::CheckpointChoice::kDefault, options);
  std::vector<std::string> classes;
  for (const std::string& name : opened.classes) classes.push_back(printable(name));
  check_run_classes(run, classes, images);
  const auto inputs = open_validation(opened);
  const auto engine = inference::make_engine(opened, inputs);
  results::PredictOptions predicting;
  predicting.loss = opened.config.model.loss;
  ProbabilityCollector collector(images, Split::kValidation);
  inference::predict(*engine, inputs.front(), predicting,
                     [&](const results::Prediction& prediction) {
                       collector.add(inputs.front().dataset().describe(prediction.index),
                                     prediction.probabilities);
                     });
  return collector.result(run);
}

// Reads out_of_fold.csv of crossval, or predicts the validation split of the run. Throws DataError
// if the runs have other classes than the images, or no image in common with them. Warns if images
// of runs of crossval were changed after the training, and throws DataError if arrays were.
JudgedImages judge_images(const JudgingRuns& runs, const LabelledImages& images,
                          const inference::OpenOptions& options) {
  if (!runs.is_crossval) return predict_validation(runs, images, options);
  JudgedImages judged = read_out_of_fold(runs.folder / "out_of_fold.csv", images);
  check_training_data(runs, options);
  return judged;
}

// Collects the reasons of each image, in the order in which they are given.
class SuspectList {
 public:
  explicit SuspectList(std::size_t images) : places_(images) {}

  // Returns the suspect, whose score is that of its first reason.
  Suspect& add(std::size_t image, SuspectReason reason, double score) {
    if (places_[image] == 0) {
      list_.emplace_back();
      list_.back().image = image;
      list_.back().score = score;
      places_[image] = list_.size();
    }
    Suspect& suspect = list_[places_[image] - 1];
    suspect.reasons.push_back(reason);
    return suspect;
  }
  std::vector<Suspect> take() { return std::move(list_); }

 private:
  std::vector<std::size_t> places_;  // in list_, from 1; 0 for images that are not suspect
  std::vector<Suspect> list_;
};

void add_wrong_labels(const LabelledImages& images, const JudgedImages& judged, Suspects& result,
                      SuspectList& list) {
  std::vector<std::int32_t> labels;
  for (const std::size_t image : judged.images) labels.push_back(images.all()[image].label);
  const std::size_t classes = judged.probabilities.size() / judged.images.size();
  for (const WrongLabel& wrong : find_wrong_labels(labels, judged.probabilities, classes)) {
    list.add(judged.images[wrong.sample], SuspectReason::kWrongLabel, wrong.margin).suggested =
        wrong.suggested;
    ++result.wrong_labels;
  }
}

// Returns groups of images that show the same picture. Images that cannot be read are in none.
std::vector<std::vector<std::size_t>> find_copied_images(const LabelledImages& images,
                                                         const Warn& warn) {
  const data::DatasetSpec& spec = images.spec();
  if (spec.image_type != DType::kUInt8) {
    warn(Notice::note("copies are looked for only among images of bytes, and these are numbers"));
    return {};
  }
  const std::size_t count = images.all().size();
  std::vector<PictureHash> hashes(count);
  std::vector<std::string> errors(count);
  parallel_for(count, [&](std::size_t i) {
    thread_local std::vector<std::uint8_t> pixels;
    thread_local std::vector<std::byte> label;
    pixels.resize(spec.image_bytes());
    const LabelledImage& image = images.all()[i];
    const data::Dataset& set = images.dataset(image.split);
    label.resize(set.spec().label_bytes());
    try {
      set.get(image.index, pixels.data(), label.data());
      const Shape& shape = spec.image_shape;
      hashes[i] = hash_picture(pixels, static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                               static_cast<int>(shape[2]));
    } catch (const DataError& error) {
      errors[i] = error.what();
    }
  });
  std::vector<std::size_t> readable;
  std::vector<PictureHash> pictures;
  for (std::size_t i = 0; i < count; ++i) {
    if (!errors[i].empty()) continue;
    readable.push_back(i);
    pictures.push_back(hashes[i]);
  }
  if (readable.size() < count) {
    const auto first =
        std::ranges::find_if(errors, [](const std::string& error) { return !error.empty(); });
    warn(concat(
        count - readable.size(), " of ", count,
        " images cannot be read and are not compared with others; the first: ", printable(*first)));
  }
  std::vector<std::vector<std::size_t>> groups = find_copies(pictures);
  for (std::vector<std::size_t>& group : groups) {
    for (std::size_t& picture : group) picture = readable[picture];
  }
  return groups;
}

// Adds the groups of copies that have several labels, then those that are in several splits.
void add_copies(const LabelledImages& images, const std::vector<std::vector<std::size_t>>& groups,
                Suspects& result, SuspectList& list) {
  std::vector<std::vector<std::size_t>> in_splits;
  const auto add = [&](const std::vector<std::size_t>& group, SuspectReason reason) {
    result.copies.push_back(group);
    for (const std::size_t image : group) {
      Suspect& suspect = list.add(image, reason, 1);
      suspect.copies = group;
      std::erase(suspect.copies, image);
    }
  };
  for (const std::vector<std::size_t>& group : groups) {
    std::set<std::int32_t> labels;
    std::set<Split> splits;
    for (const std::size_t image : group) {
      labels.insert(images.all()[image].label);
      splits.insert(images.all()[image].split);
    }
    if (labels.size() > 1) {
      add(group, SuspectReason::kCopyOfOtherLabel);
    } else if (splits.size() > 1) {
      in_splits.push_back(group);
    } else {
      ++result.harmless_copies;
    }
  }
  for (const std::vector<std::size_t>& group : in_splits) {
    add(group, SuspectReason::kCopyInOtherSplit);
  }
}

}  // namespace

JudgingRuns find_judging_runs(const Path& folder) {
  JudgingRuns found{folder, false, {}};
  if (std::filesystem::exists(folder / "out_of_fold.csv")) {
    found.is_crossval = true;
    for (int fold = 1;; ++fold) {
      Path run = folder / concat("fold=", fold);
      if (!std::filesystem::exists(run)) break;
      found.runs.push_back(std::move(run));
    }
    return found;
  }
  if (std::filesystem::exists(folder / "sweep.json")) {
    throw DataError(folder.string(),
                    "has no out_of_fold.csv, which `trainer crossval` writes when all folds are "
                    "trained; give the same crossval command again to go on");
  }
  found.runs.push_back(folder);
  return found;
}

Suspects find_suspects(const LabelledImages& images, const JudgingRuns& runs,
                       const inference::OpenOptions& options) {
  const JudgedImages judged = judge_images(runs, images, options);
  Suspects result;
  result.by_crossval = runs.is_crossval;
  result.images = std::ssize(images.all());
  result.judged = std::ssize(judged.images);
  result.unknown = judged.unknown;
  SuspectList list(images.all().size());
  add_wrong_labels(images, judged, result, list);
  add_copies(images, find_copied_images(images, options.warn), result, list);
  result.list = list.take();
  return result;
}

void write_suspects(const Suspects& suspects, const LabelledImages& images, const Path& path) {
  std::string text = "path,label,suggested_label,reasons,score\n";
  for (const Suspect& suspect : suspects.list) {
    const LabelledImage& image = images.all()[suspect.image];
    std::string reasons;
    for (const SuspectReason reason : suspect.reasons) {
      reasons += concat(reasons.empty() ? "" : " ", spell(reason));
    }
    text += concat(csv_cell(image.path), ',', csv_cell(images.class_name(image.label)), ',',
                   suspect.suggested ? csv_cell(images.class_name(*suspect.suggested)) : "", ',',
                   reasons, ',', csv_number(suspect.score), '\n');
  }
  write_file_atomic(path, text);
}

void write_suspect_sheet(const Suspects& suspects, const LabelledImages& images,
                         std::int64_t samples, const Path& path) {
  if (images.spec().image_type != DType::kUInt8) {
    throw ConfigError({}, "--sheet: a sheet can only be drawn of images of bytes");
  }
  std::vector<std::byte> label(images.spec().label_bytes());
  std::vector<results::Tile> tiles;
  for (std::int64_t i = 0; i < std::min(samples, std::ssize(suspects.list)); ++i) {
    const Suspect& suspect = suspects.list[i];
    const LabelledImage& image = images.all()[suspect.image];
    results::Tile& tile = tiles.emplace_back();
    tile.image.resize(images.spec().image_bytes());
    images.dataset(image.split).get(image.index, tile.image.data(), label.data());
    const std::string name = images.class_name(image.label);
    tile.lines = {suspect.suggested ? concat(name, " > ", images.class_name(*suspect.suggested))
                                    : name + " copy",
                  Path(image.path).filename().string()};
  }
  write_file_atomic(path, results::draw_tiles(images.spec().image_shape, tiles));
}

namespace {

constexpr std::int64_t kMaxSuspectsListed = 20;  // of each reason

bool has_reason(const Suspect& suspect, SuspectReason reason) {
  return std::ranges::find(suspect.reasons, reason) != suspect.reasons.end();
}

// Returns which images have been judged, and by whom.
std::string describe_judged(const Suspects& suspects) {
  std::string text =
      concat("judged: ", grouped(suspects.judged), " of ", grouped(suspects.images), " images, ");
  text += suspects.by_crossval
              ? "each by the run of crossval that has not trained on it\n"
              : "those of the validation split of the run; give the folder of `trainer crossval`, "
                "which judges all training images\n";
  if (suspects.unknown > 0) {
    text +=
        concat("judged samples that are not among these images: ", grouped(suspects.unknown), '\n');
  }
  return text;
}

std::string list_wrong_labels(const Suspects& suspects, const LabelledImages& images) {
  std::ostringstream out;
  out << "likely wrong labels: " << grouped(suspects.wrong_labels) << '\n';
  if (suspects.wrong_labels == 0) return out.str();
  Table table({"path", "label", "suggested", "score"}, {3});
  std::int64_t listed = 0;
  for (const Suspect& suspect : suspects.list) {
    if (!has_reason(suspect, SuspectReason::kWrongLabel) || listed == kMaxSuspectsListed) continue;
    const LabelledImage& image = images.all()[suspect.image];
    table.add({printable(image.path), printable(images.class_name(image.label)),
               printable(images.class_name(*suspect.suggested)), fixed(suspect.score, 3)});
    ++listed;
  }
  table.print(out, "  ");
  if (listed < suspects.wrong_labels) {
    out << "  and " << grouped(suspects.wrong_labels - listed) << " more\n";
  }
  return out.str();
}

std::string list_copies(const Suspects& suspects, const LabelledImages& images) {
  const std::int64_t groups = std::ssize(suspects.copies);
  std::string text = concat("copies with several labels or in several splits: ", grouped(groups),
                            groups == 1 ? " group\n" : " groups\n");
  for (std::int64_t i = 0; i < std::min(groups, kMaxSuspectsListed); ++i) {
    const char* separator = "  ";
    for (const std::size_t one : suspects.copies[i]) {
      const LabelledImage& image = images.all()[one];
      text += concat(separator, printable(image.path), " (", to_string(image.split), ", ",
                     printable(images.class_name(image.label)), ')');
      separator = " = ";
    }
    text += '\n';
  }
  if (groups > kMaxSuspectsListed) {
    text += concat("  and ", grouped(groups - kMaxSuspectsListed), " more groups\n");
  }
  if (suspects.harmless_copies > 0) {
    text += concat("  besides, groups of copies with one label in one split: ",
                   grouped(suspects.harmless_copies), '\n');
  }
  return text;
}

}  // namespace

std::string to_text(const Suspects& suspects, const LabelledImages& images) {
  return describe_judged(suspects) + list_wrong_labels(suspects, images) +
         list_copies(suspects, images);
}

// A suspect as a line of JSON.
struct SuspectEvent {
  std::string path, label;
  Split split = Split::kTrain;
  std::optional<std::string> suggested;
  std::vector<SuspectReason> reasons;
  double score = 0;
  std::vector<std::string> copies;
};

void fields(results::FieldVisitor& v, SuspectEvent& suspect) {
  v.event("suspect");
  v("path", suspect.path, "The image.");
  v("split", suspect.split, "Its split.");
  v("label", suspect.label, "Its class.");
  v("suggested_label", suspect.suggested, "The class that is likelier; null without one.");
  v("reasons", suspect.reasons, "Why it is suspected.");
  v("score", suspect.score, "Larger for stronger suspicion.");
  v("copies", suspect.copies, "Other images that show the same picture.");
}

void fields(results::FieldVisitor& v, Suspects& suspects) {
  v.event("suspects");
  v.derived("judged_by", std::string(suspects.by_crossval ? "crossval" : "run"), "Who judged.");
  v("images", suspects.images, "Images of the config.");
  v("judged", suspects.judged, "Those that were judged.");
  v("unknown", suspects.unknown, "Judged samples that are not among the images.");
  v("wrong_labels", suspects.wrong_labels, "Likely wrong labels.");
  v.derived("copy_groups", suspects.copies.size(), "Copies with several labels or splits.");
  v("harmless_copy_groups", suspects.harmless_copies, "Copies with one label in one split.");
}

std::string to_json(const Suspects& suspects, const LabelledImages& images) {
  std::string text;
  for (const Suspect& suspect : suspects.list) {
    const LabelledImage& image = images.all()[suspect.image];
    SuspectEvent event{
        image.path, images.class_name(image.label), image.split, {}, suspect.reasons, suspect.score,
        {}};
    if (suspect.suggested) event.suggested = images.class_name(*suspect.suggested);
    for (const std::size_t copy : suspect.copies) event.copies.push_back(images.all()[copy].path);
    text += results::to_line(event);
  }
  return text + results::to_line(suspects);
}

}  // namespace trainer::commands
