// The backbones that a config may name, and their sizes.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "results/field.h"

namespace trainer::commands {

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
std::vector<BackboneRow> backbone_rows();

// What `models --json` prints.
struct BackboneList {
  std::vector<BackboneRow> backbones;
};
void fields(results::FieldVisitor& v, BackboneList& list);

void print_backbones(std::ostream& out);
// Prints one line of JSON.
void print_backbones_json(std::ostream& out);

}  // namespace trainer::commands
