#include "commands/explain/catalogue.h"

#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "commands/benchmark/benchmark.h"
#include "commands/compare/compare.h"
#include "commands/compare/diff.h"
#include "commands/data/check_print.h"
#include "commands/devices/print_devices.h"
#include "commands/evaluate/follow.h"
#include "commands/explain/explain.h"
#include "commands/export/command.h"
#include "commands/find/find.h"
#include "commands/models/models.h"
#include "commands/plan/device_plan.h"
#include "commands/plan/simulate.h"
#include "commands/profile/profile_print.h"
#include "commands/report/command.h"
#include "commands/run_list/run_list.h"
#include "commands/suspects/suspects.h"
#include "commands/validate/command.h"
#include "commands/verify/verify.h"
#include "commands/weights/sources.h"
#include "commands/weights/weights.h"
#include "inference/predict/ensemble.h"
#include "results/crossval/crossval_result.h"
#include "results/decisions/abstention_report.h"
#include "results/decisions/calibrate.h"
#include "results/decisions/curves.h"
#include "results/decisions/label_thresholds.h"
#include "results/decisions/novelty_report.h"
#include "results/decisions/prediction.h"
#include "results/decisions/stored.h"
#include "results/evaluation/evaluation_report.h"
#include "results/exported_model.h"
#include "results/prediction_speed.h"
#include "results/run_files/run_progress.h"
#include "results/run_files/run_warnings.h"
#include "results/run_record.h"
#include "results/sweeps/plan.h"
#include "results/sweeps/table.h"
#include "results/train_events.h"

namespace trainer::commands {
namespace {

using results::AbstentionReport;
using results::CalibrationReport;
using results::CurvesReport;
using results::NoveltyReport;
using results::OperatingPoint;
using results::ResultEvent;
using results::Timed;

using TrainLine =
    std::variant<results::ModelEvent, Timed<results::StartEvent>, Timed<results::StepEvent>,
                 Timed<results::Evaluation>, Timed<results::CheckpointEvent>,
                 Timed<results::FinishedEvent>, results::DataReportEvent>;

// Describes the lines of `<command> --json`, each of which is one of Line.
template <class... Line>
ResultDescription lines(const std::string& command) {
  return {command, concat("A line of `", command, " --json`."),
          results::describe<std::variant<Line...>>()};
}

// Describes what `evaluate` stores in a run.
template <class Result>
ResultDescription stored(const std::string& name) {
  return {name, concat("The file ", name, ".json of a run."),
          results::describe<results::Stored<Result>>()};
}

}  // namespace

std::vector<ResultDescription> list_results() {
  return {
      {"run", "The file run.json of a run.", results::describe<results::RunRecord>()},
      {"warnings", "A line of the file warnings.jsonl of a run.",
       results::describe<results::RunWarning>()},
      {"metrics", "A line of metrics.jsonl of a run: the columns that all runs have.",
       results::describe<results::MetricsFileRow>()},
      lines<TrainLine>("train"),
      lines<results::RunProgress>("watch"),
      lines<results::EvaluationReport, inference::EnsembleScores, ResultEvent<CalibrationReport>,
            ResultEvent<CurvesReport>, ResultEvent<OperatingPoint>, ResultEvent<AbstentionReport>,
            ResultEvent<NoveltyReport>, TrainLine, Followed>("evaluate"),
      stored<CalibrationReport>("calibration"),
      stored<CurvesReport>("curves"),
      stored<OperatingPoint>("operating_point"),
      stored<AbstentionReport>("abstention"),
      stored<results::StoredThresholds>("thresholds"),
      stored<NoveltyReport>("novelty"),
      lines<results::PredictionLine, results::LabelLine, results::PredictionRates>("predict"),
      {"crossval", "The file crossval.json and a line of `crossval --json`.",
       results::describe<std::variant<results::CrossvalResult, results::PointEvent>>()},
      {"sweep", "The file table.json and a line of `sweep --json`.",
       results::describe<std::variant<results::Summary, results::PointEvent>>()},
      {"sweep_plan", "The file sweep.json of a sweep.", results::describe<results::SweepPlan>()},
      lines<PlanEvent, Simulation>("plan"),
      lines<Validation>("validate"),
      lines<ImageSplit, data::DataCheck, ArraySplit, data::ArrayCheck, SuspectEvent, Suspects>(
          "data"),
      lines<Throughput, results::PredictionSpeed>("benchmark"),
      lines<Profile>("profile"),
      lines<RangeTest, BatchSizes>("find"),
      lines<Verification::Row, Verification>("verify"),
      lines<RunList, OldCheckpoints>("runs"),
      lines<Comparison>("compare"),
      lines<RunDiff>("diff"),
      lines<ReportEvent>("report"),
      lines<ExportEvent>("export"),
      {"exported_model", "The file that `export` writes beside an ONNX file.",
       results::describe<results::ExportedModel>()},
      lines<BackboneList>("models"),
      lines<WeightList, SourceList, DownloadEvent>("weights"),
      lines<DeviceList>("devices"),
      lines<ExplainEvent>("explain")};
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

}  // namespace trainer::commands
