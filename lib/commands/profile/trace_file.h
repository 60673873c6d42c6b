// A profile's timeline as a file for Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "commands/profile/layer_profile.h"

namespace trainer::commands {

// The timeline in the Trace Event Format's JSON object form: a process for the host, with the
// steps, what the loop waits for and the loader's threads, and one for each rank, with its threads'
// phases and layers and the buckets of gradients on their way over the ranks.
std::string trace_json(const LayerProfile& profile);

}  // namespace trainer::commands
