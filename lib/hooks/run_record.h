// Writes run.json, the origin and end of a run, for programs that compare runs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hooks/hooks.h"
#include "results/run_record.h"

namespace trainer::hooks {

// Writes run.json into the run folder at the start, before every checkpoint and at the end. A
// resumed run adds a session to those in the file; if the file is damaged, the hook renames it to
// run.json.damaged, calls `warn` and begins a new one. "finished" is written when the run has ended
// by itself, and not after a signal. `origin`: what is known of the run at its start.
std::unique_ptr<Hook> make_run_record_hook(results::RunRecord origin,
                                           std::function<void(const std::string&)> warn = {});

}  // namespace trainer::hooks
