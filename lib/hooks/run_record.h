// Writes run.json, the origin and end of a run, for programs that compare runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hooks/hooks.h"
#include "results/run_record.h"

namespace trainer::hooks {

// Writes run.json into the run folder at the start, before every checkpoint and at the end. A
// resumed run adds a session to those in the file. "finished" is written when the run has ended by
// itself, and not after a signal. `origin`: the facts besides the config that the run depends on.
std::unique_ptr<Hook> make_run_record_hook(results::RunRecord origin);
}  // namespace trainer::hooks
