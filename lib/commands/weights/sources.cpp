#include "commands/weights/sources.h"

#include <functional>
#include <ostream>

#include "base/error.h"
#include "base/formats/table.h"
#include "config/weight_names.h"
#include "results/write_json.h"

namespace trainer::commands {

namespace {

Source make_source(const config::WeightRow& row, const config::Environment& environment) {
  Source source;
  source.name = row.name;
  source.backbone = spell(row.backbone);
  source.variant = spell(row.variant);
  source.licence = row.licence;
  source.found = config::find_named_file(*config::parse_weight_name(row.name), environment);
  if (row.side == 0) return source;
  source.side = row.side;
  source.crop_fraction = row.crop_fraction;
  source.interpolation = spell(row.interpolation);
  source.preprocess = spell(row.preset);
  return source;
}

std::vector<Source> filter(const config::Environment& environment,
                           const std::function<bool(const config::WeightRow&)>& is_wanted) {
  std::vector<Source> sources;
  for (const config::WeightRow& row : config::weight_table()) {
    if (is_wanted(row)) sources.push_back(make_source(row, environment));
  }
  return sources;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

}  // namespace

void fields(results::FieldVisitor& v, Source& source) {
  v("name", source.name, "The name in model.backbone.weights.");
  v("backbone", source.backbone, "The backbone.");
  v("variant", source.variant, "The variant of the backbone.");
  v.when_present("licence", source.licence, "The licence of the weights, where it is known.");
  v("side", source.side, {"pixels", 0}, "Height and width of the images; 0 if not known.");
  v("crop_fraction", source.crop_fraction,
    "The share of the shorter side that is kept; 0 if not known.");
  v.when_present("interpolation", source.interpolation, "The interpolation of the resize.");
  v.when_present("preprocess", source.preprocess, "The preset of data.preprocess.");
  v.when_present("found", source.found, "Where the file is on this machine.");
}

void fields(results::FieldVisitor& v, SourceList& list) {
  v.event("sources");
  v("sources", list.sources, "The names.");
}

std::vector<Source> search_sources(const std::string& text,
                                   const config::Environment& environment) {
  return filter(environment, [&](const config::WeightRow& row) {
    return std::string_view(row.name).find(text) != std::string_view::npos ||
           spell(row.backbone).find(text) != std::string_view::npos;
  });
}

std::vector<Source> list_sources(config::Backbone::Name backbone,
                                 const config::Environment& environment) {
  return filter(environment,
                [&](const config::WeightRow& row) { return row.backbone == backbone; });
}

void print_sources(const std::vector<Source>& sources, std::ostream& out) {
  Table table({"weights", "backbone", "variant", "size", "crop", "interpolation", "preprocess",
               "licence", "file"},
              {3, 4});
  for (const Source& source : sources) {
    const bool is_known = source.side > 0;
    table.add({source.name, source.backbone, source.variant,
               is_known ? std::to_string(source.side) : "-",
               is_known ? concat(source.crop_fraction) : "-", or_dash(source.interpolation),
               or_dash(source.preprocess), or_dash(source.licence), or_dash(source.found)});
  }
  table.print(out);
  out << "\n`trainer weights NAME` downloads one. model.backbone.weights: NAME takes it, its "
         "variant "
         "and its\npreprocessing.\n";
}

}  // namespace trainer::commands
