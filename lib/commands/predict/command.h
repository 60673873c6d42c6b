// The command `predict`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/model_arguments/model_arguments.h"
#include "commands/predict/skipped_files.h"
#include "inference/predict/heatmap_files.h"

namespace trainer::commands {

struct HeatmapOptions {
  std::string folder;      // the folder of the files; no heatmaps when empty
  std::string class_name;  // the predicted class when empty
  std::string layer;       // see HeatmapMaker
  inference::HeatmapMethod method = inference::HeatmapMethod::kGradCam;
};

struct PredictArguments : ModelArguments {
  // Image files, folders of them or array files; a split of the config's data when empty.
  std::vector<std::string> images;
  std::string split;                // as of evaluate
  std::string format = "table";     // table, csv, jsonl
  std::optional<std::int64_t> top;  // classes shown, the likeliest first
  bool json = false;                // the same as format jsonl
  OnError on_error = OnError::kName;
  std::optional<std::int64_t> limit;
  bool quiet = false;
  bool speed = false;              // the rates of reading and predicting, also in JSON
  bool logits = false;             // beside the probabilities
  bool flip = false;               // with mirror images
  bool uncalibrated = false;       // without the temperature of the run
  bool default_threshold = false;  // without the operating point of the run
  bool no_novelty = false;         // without the limit of novelty of the run
  std::optional<double> abstain;   // the share of wrong predictions that is allowed
  std::string ensemble;            // more runs, with commas between
  std::string features;            // the file for them, in place of predictions
  std::string layer;               // the layer whose output the features are
  HeatmapOptions heatmaps;
  std::string sheet;                 // an HTML page of predicted images
  std::int64_t sheet_samples = 200;  // images on it
  bool overwrite = false;
};
int execute(const PredictArguments& arguments, const Context& context);

}  // namespace trainer::commands
