// `weights`: the ImageNet weights of the backbones, listed and downloaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "commands/context/context.h"
#include "commands/weights/download.h"
#include "config/config.h"
#include "results/field.h"

namespace trainer::commands {

// A file of Keras's weights without the classifier.
struct WeightFile {
  std::string name;  // the name of the backbone: "mobilenet_v2"
  std::string file;  // the name without a folder
  std::string url;
  int megabytes = 0;  // rounded
  Checksum checksum;
  Path found;  // its place; empty if it is in none of config::weight_folders()
};

// The functions below use the server $WEIGHTS_MIRROR, which has the files in the folders of
// Keras's, if it is set.

// Returns the entry of a backbone. Throws ConfigError for an unknown name, and DataError with what
// to do instead for a backbone whose weights cannot be downloaded.
WeightFile find_weight_file(const std::string& name, const config::Environment& environment);
// Downloads the file into config::download_folder(), unless it is found. Throws as download() does.
Downloaded download_weights(const WeightFile& weights, const config::Environment& environment,
                            const DownloadProgress& progress = {});

struct WeightsArguments {
  // Backbones, or names of config::parse_weight_name(), to download; a list of all when empty.
  std::vector<std::string> names;
  std::string search;  // lists the names that have it; "" for no list
  bool json = false;
};
int execute(const WeightsArguments& arguments, const Context& context);

// What `weights --json` prints: the list, or a line for each file that it downloads.
struct WeightList {
  std::string folder;
  std::vector<WeightFile> files;
};
struct DownloadEvent {
  std::string name, file;
  std::int64_t bytes = 0;
  bool was_there = false;
};
void fields(results::FieldVisitor& v, WeightList& list);
void fields(results::FieldVisitor& v, DownloadEvent& event);

// Does what `weights NAME` does, with progress on a terminal.
Downloaded download_weights(const WeightFile& weights, const Context& context);
// Returns "weights/x.h5: downloaded; ...".
std::string describe(const Downloaded& result);

}  // namespace trainer::commands
