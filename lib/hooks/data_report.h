// Reports problems of the data of a run: damaged files, classes without a sample.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/open.h"
#include "hooks/hooks.h"

namespace trainer::hooks {

// Returns one line per problem; empty if there is none.
std::vector<std::string> data_warnings(const data::Datasets& data);

// Returns one line with the number of samples of a split that evaluation leaves out, and the first
// of them with reasons; "" if all can be read. `files` may be null.
std::string left_out(const data::DamagedFiles* files, Split split);

// Writes data_report.txt into the run folder if files were skipped or replaced, at the start and,
// as there may be more, again at the end. Calls `warn` for them and for data_warnings(). If `json`
// is not null, writes {"event":"data_report",...} to it, one line per split. `data` must outlive
// the hook.
std::unique_ptr<Hook> make_data_report_hook(const data::Datasets& data,
                                            std::function<void(const std::string&)> warn,
                                            std::ostream* json);

}  // namespace trainer::hooks
