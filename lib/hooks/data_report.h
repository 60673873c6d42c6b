// What a user should know of the data of a run: damaged files, classes without a sample.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/data.h"
#include "hooks/hooks.h"

namespace trainer::hooks {

// One line each; empty when all is well.
std::vector<std::string> data_warnings(const data::Datasets& data);

// One line that says how many samples of a split evaluation leaves out, and the first of them with
// reasons; "" when all can be read. `files` may be null.
std::string left_out(const data::DamagedFiles* files, Split split);

// Writes data_report.txt into the run folder when files were skipped or replaced, at the start and
// again at the end, when more may have been. Tells `warn` of them and of data_warnings(), and with
// `json` writes {"event":"data_report",...} to it, one line a split. `data` must outlive the hook.
std::unique_ptr<Hook> make_data_report_hook(const data::Datasets& data,
                                            std::function<void(const std::string&)> warn,
                                            std::ostream* json);

}  // namespace trainer::hooks
