// The files of a run folder.
//
//   <run>/config.yaml          the effective config, every value written out
//   <run>/checkpoints/         step-XXXXXXXX.safetensors, best.safetensors
//   <run>/metrics.csv, metrics.jsonl, tensorboard/
//   <run>/ledger.csv           a row per step: loss, learning rate, hash of the samples, times
//   <run>/run.json             the origin of the run, its sessions, and how it ended
//   <run>/mlflow.json          the id of the run on the server of run.mlflow
//   <run>/warnings.jsonl       the warnings of training; absent when there were none
//   <run>/data_report.txt      files that were skipped or replaced, and why; absent when none were
//   <run>/calibration.json     the temperature of the probabilities, from `evaluate --calibrate`
//   <run>/curves.json, operating_point.json, abstention.json, thresholds.json
//                              the results of `evaluate` with --curves, --operating-point,
//                              --abstain and --thresholds
//   <run>/novelty.json, novelty.safetensors
//                              the result of `evaluate --novelty`, and the features that it needs
//   <run>/predictions.jsonl    the output of `predict --json`, where a user has stored it
//   <run>/lock                 held while a process trains here
//   <run>/evaluator/<split>/   files of `evaluate --follow`: metrics.csv, metrics.jsonl,
//                              tensorboard/, and a lock of its own
#pragma once

#include <string>

#include "base/files/files.h"
#include "config/config.h"

namespace trainer::train {

// Returns run.dir, or else runs/<name>, with data.fold runs/<name>_fold<k>.
Path run_folder(const config::Config& config);
Path checkpoint_folder(const Path& run);
Path config_file(const Path& run);
Path evaluator_folder(const Path& run, Split split);

// Removes <run>/predictions.jsonl, which carry no step by which `compare` could recognize those of
// an earlier checkpoint. A file that cannot be removed stays.
void remove_stored_predictions(const Path& run);

// Returns the current folder, to which relative paths of the config belong, relative to the run
// folder: "../.." for runs/x. Returns "" if it cannot be found.
std::string find_base(const Path& run);

enum class Start { kFresh, kResume, kOverwrite };

// Prepares the run folder. Throws ConfigError for a folder that holds files with the names of a
// run's files but was never a run folder. kFresh also throws for a folder with checkpoints, with
// advice; kOverwrite removes the files of an earlier run; kResume accepts a folder without
// checkpoints, in which the run starts anew, and removes stored predictions. Throws DataError for a
// link in the place of a file that a run writes.
void prepare_run_folder(const Path& run, const config::Config& config, Start start);

// Returns a warning if the file system of the run folder cannot sync folders, else "".
std::string sync_warning(const Path& run);

// Throws ConfigError if a folder that a run writes, given with `option`, is a folder of images of
// the config or lies in one, because the next start would list its folders as classes.
void check_outside_data(const Path& folder, const config::Config& config,
                        const std::string& option = "--run-dir");

// Returns the part of a message on what to do where a run cannot be resumed.
std::string new_run_advice(const Path& run);

// Writes the effective config.
void write_config(const Path& run, const config::Config& config);

}  // namespace trainer::train
