// What a run records about its origin.
#pragma once

#include <string>
#include <vector>

#include "base/notice.h"
#include "data/open.h"
#include "model/table.h"
#include "results/run_record.h"
#include "train/loop.h"

namespace trainer::commands {

// Returns the notices of the data that are not empty.
std::vector<Notice> list_notices(const data::Datasets& data);

// Returns the origin of a job whose model has these layers. The program is job.build.
results::RunRecord make_origin(const train::Job& job, const std::vector<model::LayerRow>& layers);

// Returns "cpu, 2 lanes ...; trainer 0.1.0 on host, process 12; samples of photos: train 2,058".
std::string describe_session(const train::Job& job);

}  // namespace trainer::commands
