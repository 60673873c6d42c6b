#include "results/catalogue.h"

#include "base/error.h"
#include "base/text.h"
#include "results/crossval/crossval_result.h"
#include "results/decisions/abstention_report.h"
#include "results/decisions/calibrate.h"
#include "results/decisions/curves.h"
#include "results/decisions/label_thresholds.h"
#include "results/decisions/novelty_report.h"
#include "results/decisions/stored.h"
#include "results/evaluation/evaluation_report.h"
#include "results/exported_model.h"
#include "results/prediction_speed.h"
#include "results/run_files/run_progress.h"
#include "results/run_record.h"
#include "results/train_events.h"

namespace trainer::results {
namespace {

using TrainLine = std::variant<ModelEvent, Timed<StartEvent>, Timed<StepEvent>, Timed<Evaluation>,
                               Timed<CheckpointEvent>, Timed<FinishedEvent>>;
using EvaluateLine = std::variant<EvaluationReport, ResultEvent<CalibrationReport>,
                                  ResultEvent<CurvesReport>, ResultEvent<OperatingPoint>,
                                  ResultEvent<AbstentionReport>, ResultEvent<NoveltyReport>>;

}  // namespace

std::vector<ResultDescription> list_results() {
  return {
      {"run", "The file run.json of a run.", describe<RunRecord>()},
      {"train", "A line of `train --json`.", describe<TrainLine>()},
      {"watch", "A line of `watch --json`.", describe<RunProgress>()},
      {"evaluate", "A line of `evaluate --json`.", describe<EvaluateLine>()},
      {"calibration", "The file calibration.json of a run.", describe<Stored<CalibrationReport>>()},
      {"curves", "The file curves.json of a run.", describe<Stored<CurvesReport>>()},
      {"operating_point", "The file operating_point.json of a run.",
       describe<Stored<OperatingPoint>>()},
      {"abstention", "The file abstention.json of a run.", describe<Stored<AbstentionReport>>()},
      {"thresholds", "The file thresholds.json of a run.", describe<Stored<StoredThresholds>>()},
      {"novelty", "The file novelty.json of a run.", describe<Stored<NoveltyReport>>()},
      {"crossval", "The file crossval.json and the line of `crossval --json`.",
       describe<CrossvalResult>()},
      {"prediction_speed", "The last line of `benchmark --predict --json`.",
       describe<PredictionSpeed>()},
      {"predicted", "The last line of `predict --speed --json`.", describe<PredictionRates>()},
      {"exported_model", "The file that `export` writes beside an ONNX file.",
       describe<ExportedModel>()}};
}

ResultDescription find_description(const std::string& name) {
  std::vector<std::string> names;
  for (ResultDescription& result : list_results()) {
    if (result.name == name) return std::move(result);
    names.push_back(result.name);
  }
  throw ConfigError({}, "--result: '", printable(name), "' is not a result; give one of ",
                    join(names));
}

}  // namespace trainer::results
