// The names of published weights, as `weights --search` and `models NAME` list them.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "config/config.h"
#include "results/field.h"

namespace trainer::commands {

struct Source {
  std::string name;  // "timm/resnet50.a1_in1k"
  std::string backbone, variant;
  std::int64_t side = 0;     // the size of the images; 0 if it is not known before the download
  double crop_fraction = 0;  // 0 if it is not known
  std::string interpolation, preprocess, licence;  // "" if they are not known
  std::string found;  // the file on this machine; "" if it is not there
};
void fields(results::FieldVisitor& v, Source& source);

// Return the weights whose name or backbone has the text, and those of one backbone.
std::vector<Source> search_sources(const std::string& text, const config::Environment& environment);
std::vector<Source> list_sources(config::Backbone::Name backbone,
                                 const config::Environment& environment);

void print_sources(const std::vector<Source>& sources, std::ostream& out);
// What `weights --search --json` prints.
struct SourceList {
  std::vector<Source> sources;
};
void fields(results::FieldVisitor& v, SourceList& list);

}  // namespace trainer::commands
