#include "commands/suspects/judged.h"

#include <map>

#include "base/error.h"
#include "base/formats/csv.h"
#include "base/text.h"
#include "data/class_names.h"
#include "inference/open_model/run_archive.h"
#include "inference/predict/predict.h"
#include "train/class_order.h"

namespace trainer::commands {
namespace {

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
      throw DataError(place, "judges none of the images of the config, e.g. ",
                      printable(images_.all().front().path),
                      "; give the config of the run, in the folder where it was trained");
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
  throw DataError(place, "has the classes [", data::list_classes(theirs),
                  "], but the images have [", data::list_classes(ours), "]",
                  train::describe_class_difference(theirs, ours), "; give the config of the run");
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
                    "the training data is not what it was when the run was trained, and validation "
                    "is a part of it, so that nothing shows which images the run has not seen. "
                    "Restore the data, train again, or give the folder of `trainer crossval`");
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

JudgedImages judge_images(const JudgingRuns& runs, const LabelledImages& images,
                          const inference::OpenOptions& options) {
  if (!runs.is_crossval) return predict_validation(runs, images, options);
  JudgedImages judged = read_out_of_fold(runs.folder / "out_of_fold.csv", images);
  check_training_data(runs, options);
  return judged;
}

}  // namespace trainer::commands
