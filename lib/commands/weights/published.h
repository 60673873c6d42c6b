// Downloads of the weights that timm, torchvision and Hugging Face publish.
#pragma once

#include <string>

#include "commands/weights/download.h"
#include "config/weight_names.h"

namespace trainer::commands {

// Returns the address of a server in a variable, without a slash at its end; "" if it is not set.
std::string read_server(const config::Environment& environment, const std::string& variable);

// Downloads the file of a name to where config::find_named_file() and the library itself find it,
// unless it is found. $WEIGHTS_DIR, if it is set, is the folder of all. $WEIGHTS_MIRROR replaces
// the servers. $HF_TOKEN is sent to Hugging Face's hub alone ($HF_ENDPOINT, if it is set): not to a
// mirror, and not where the hub redirects to. Throws ConfigError for a name of torchvision that is
// not in the table, and otherwise as download() does.
Downloaded download_published(const config::WeightName& name,
                              const config::Environment& environment,
                              const DownloadProgress& progress = {});

}  // namespace trainer::commands
