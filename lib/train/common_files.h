// Compares the data of the processes of a job, down to the content of files.
#pragma once

#include <string>

#include "config/config.h"
#include "data/open.h"
#include "train/process_group.h"

namespace trainer::train {

// Throws ConfigError, the same on all ranks, if a rank has other data than rank 0: other classes,
// samples or labels, other files, or another `environment`, a text that must be equal. It names a
// rank that differs, and the file. Collective.
//
// Names and sizes of all files are compared, and the first and last 64 KiB of 256 files spread over
// each split. A rank reads at most 32 MiB per split.
void agree_on_data(ProcessGroup& group, const config::Config& config, const data::Datasets& data,
                   const std::string& environment);

}  // namespace trainer::train
