// The backbones that a config may name, and their sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "commands/context/context.h"
#include "commands/weights/sources.h"

namespace trainer::commands {

struct ModelsArguments {
  std::string name;  // a backbone, whose weights are listed too; all when empty
  bool json = false;
};
// Throws ConfigError for an unknown name.
int execute(const ModelsArguments& arguments, const Context& context);

struct BackboneRow {
  std::string name, variant;
  std::vector<std::int64_t> input;  // the shape of the image that the numbers are for
  std::int64_t parameters = 0;  // excludes the classifier, includes batch norm's moving statistics
  std::int64_t flops = 0;       // forward, one image
  std::int64_t features = 0;    // channels at its end
  std::string preprocess;       // the preset of data.preprocess
  std::string weights;          // the file of `weights: imagenet`
  std::string source;           // the network in Python, whose weight files it takes
};

// What `models --json` prints.
struct BackboneList {
  std::vector<BackboneRow> backbones;
  std::vector<Source> sources = {};  // the weights of the backbone that is named
};
void fields(results::FieldVisitor& v, BackboneList& list);

}  // namespace trainer::commands
