#include "commands/weights/weights.h"

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <utility>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "checkpoint/weights.h"
#include "commands/weights/published.h"
#include "commands/weights/sources.h"
#include "config/pretrained.h"
#include "config/values.h"
#include "http/certificates.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

namespace fs = std::filesystem;
using Name = config::Backbone::Name;

constexpr const char* kServer = "https://storage.googleapis.com";

// A row of keras.applications, with the checksum that Keras gives. Keras gives none for
// MobileNetV2.
struct KerasFile {
  Name name;
  const char* folder;  // below that of the server, and below a mirror
  int megabytes;
  Checksum::Kind kind;
  const char* hex;
};
constexpr auto kFiles = [] {
  using enum config::Backbone::Name;
  using enum Checksum::Kind;
  return std::to_array<KerasFile>(
      {{kVgg16, "vgg16", 59, kMd5, "6d6bbae143d832006294945121d1f1fc"},
       {kMobileNetV2, "mobilenet_v2", 9, kRecorded, ""},
       {kResNet50, "resnet", 95, kMd5, "4d473c1dd8becc155b73f8504c6f6626"},
       {kResNet101, "resnet", 171, kMd5, "88cf7a10940856eca736dc7b7e228a21"},
       {kDenseNet121, "densenet", 29, kMd5, "30ee3e1110167f948a6b9946edeeb738"},
       {kEfficientNetB0, "", 17, kMd5, "50bc09e76180e00e4465e1a485ddc09d"},
       {kEfficientNetB1, "", 27, kMd5, "74c4e6b3e1f6a1eea24c589628592432"},
       {kEfficientNetB2, "", 32, kMd5, "111f8e2ac8aa800a7a99e3239f7bfb39"},
       {kEfficientNetB3, "", 44, kMd5, "af6d107764bb5b1abb91932881670226"},
       {kMobileNetV3Small, "mobilenet_v3", 4, kMd5, "d3e8ec802a04aa4fc771ee12a9a9b836"},
       {kMobileNetV3Large, "mobilenet_v3", 13, kMd5, "07fb09a5933dd0c8eaafa16978110389"},
       {kConvNeXtTiny, "convnext", 112, kSha256,
        "d547c096cabd03329d7be5562c5e14798aa39ed24b474157cef5e85ab9e49ef1"},
       {kConvNeXtSmall, "convnext", 198, kSha256,
        "6fc8009faa2f00c1c1dfce59feea9b0745eb260a7dd11bee65c8e20843da6eab"},
       {kConvNeXtBase, "convnext", 351, kSha256,
        "40a20c5548a5e9202f69735ecc06c990e6b7c9d2de39f0361e27baeb24cb7c45"},
       {kResNet152, "resnet", 234, kMd5, "ee4c566cf9a93f14d82f913c2dc6dd0c"},
       {kEfficientNetB4, "", 72, kMd5, "ebc24e6d6c33eaebbd558eafbeedf1ba"},
       {kEfficientNetV2B0, "efficientnet_v2", 24, kMd5, "893217f2bb855e2983157299931e43ff"},
       {kEfficientNetV2B1, "efficientnet_v2", 28, kMd5, "0e80663031ca32d657f9caa404b6ec37"},
       {kEfficientNetV2B2, "efficientnet_v2", 36, kMd5, "1dfe2e7a5d45b6632553a8961ea609eb"},
       {kEfficientNetV2B3, "efficientnet_v2", 53, kMd5, "f6abf7b5849ac99a89b50dd3fd532856"},
       {kEfficientNetV2S, "efficientnet_v2", 83, kMd5, "af0682fb74e8c54910f2d4393339c070"},
       {kXception, "xception", 84, kMd5, "b0042744bf5b25fce3cb969f33bebb97"}});
}();

WeightFile make_weight_file(const KerasFile& entry, const config::Environment& environment) {
  config::Backbone backbone;
  backbone.name = entry.name;
  WeightFile weights;
  weights.name = spell(entry.name);
  weights.file = config::imagenet_weight_file(backbone);
  weights.megabytes = entry.megabytes;
  weights.checksum = {entry.kind, entry.hex};
  std::string server = read_server(environment, "WEIGHTS_MIRROR");
  const bool has_folder = *entry.folder != '\0';  // the server keeps the others in another place
  if (server.empty())
    server = concat(kServer, has_folder ? "/tensorflow" : "", "/keras-applications");
  weights.url = concat(server, '/', entry.folder, has_folder ? "/" : "", weights.file);
  for (const Path folder : config::weight_folders(environment)) {
    if (!is_file(folder / weights.file)) continue;
    weights.found = folder / weights.file;
    break;
  }
  return weights;
}

// Returns what is wrong with a file that no checksum identifies: it is damaged, or lacks the layers
// of the backbone.
std::string find_fault(const std::string& name, const Path& file) {
  config::Backbone backbone;
  backbone.name = *parse_enum<Name>(name);
  const std::string layer = config::first_block_layer(backbone);
  try {
    for (const checkpoint::Tensor& tensor : checkpoint::read_weights(file).tensors) {
      if (tensor.name.starts_with(layer + '/')) return "";
    }
  } catch (const DataError& error) {
    return error.what();
  }
  return concat("it has no layer ", layer);
}

// Returns the files that can be downloaded, in the order of the backbones.
std::vector<WeightFile> weight_files(const config::Environment& environment) {
  std::vector<WeightFile> files;
  for (const KerasFile& row : kFiles) files.push_back(make_weight_file(row, environment));
  return files;
}

}  // namespace

WeightFile find_weight_file(const std::string& name, const config::Environment& environment) {
  const std::optional<Name> backbone = parse_enum<Name>(name);
  if (!backbone) {
    throw ConfigError(
        {}, config::unknown("backbone", name, "`trainer weights` lists them", enum_words<Name>()));
  }
  const auto* const row = std::ranges::find(kFiles, *backbone, &KerasFile::name);
  if (row != kFiles.end()) return make_weight_file(*row, environment);
  config::Backbone other;
  other.name = *backbone;
  throw DataError(name, Controls::kLines, config::missing_imagenet_weights(other, environment));
}

Downloaded download_weights(const WeightFile& weights, const config::Environment& environment,
                            const DownloadProgress& progress) {
  Download what;
  what.url = weights.url;
  what.file = weights.found.empty() ? Path(config::download_folder(environment)) / weights.file
                                    : weights.found;
  what.checksum = weights.checksum;
  what.start = "\x89HDF\r\n\x1a\n";
  what.max_bytes = std::int64_t{weights.megabytes} * 2'000'000;
  if (weights.checksum.kind == Checksum::Kind::kRecorded) {
    what.min_bytes = std::int64_t{weights.megabytes} * 1'000'000;
    what.max_bytes = what.min_bytes + 900'000;
    what.find_fault = [&](const Path& file) { return find_fault(weights.name, file); };
  }
  what.certificates = http::find_certificates(environment);
  return download(what, progress);
}

void fields(results::FieldVisitor& v, WeightFile& weights) {
  v("name", weights.name, "The backbone.");
  v("file", weights.file, "The name of the file.");
  v("url", weights.url, "Where it is downloaded from.");
  v("megabytes", weights.megabytes, {"MB", 0}, "Its size.");
  v.derived("checksum", std::string(spell(weights.checksum.kind)), "The kind of the digest.");
  v.when_present("digest", weights.checksum.hex, "The digest of the file.");
  std::string found = weights.found.string();
  v.when_present("found", found, "Where the file is on this machine.");
}

void fields(results::FieldVisitor& v, WeightList& list) {
  v.event("weights");
  v("folder", list.folder, "The folder that files are downloaded to.");
  v("files", list.files, "The files, in the order of the backbones.");
}

void fields(results::FieldVisitor& v, DownloadEvent& event) {
  v.event("downloaded");
  v("name", event.name, "The backbone.");
  v("file", event.file, "The downloaded file.");
  v("bytes", event.bytes, results::kBytes, "Its size.");
  v("was_there", event.was_there, "Whether it had been downloaded before.");
}

namespace {

void print_weights(std::ostream& out, const config::Environment& environment) {
  Table table({"backbone", "MB", "checksum", "file"}, {1});
  for (const WeightFile& weights : weight_files(environment)) {
    table.add({weights.name, std::to_string(weights.megabytes),
               std::string(spell(weights.checksum.kind)),
               weights.found.empty() ? "not downloaded" : weights.found.string()});
  }
  table.print(out);
  out << "\n`trainer weights --search resnet50` lists weights of timm, torchvision and "
         "transformers.\n"
         "`trainer weights NAME` downloads a file into "
      << config::download_folder(environment)
      << ", where `weights: imagenet` finds it.\nWEIGHTS_DIR or an existing folder `weights` takes "
         "its place, WEIGHTS_MIRROR that of the server.\nWithout a checksum of its publisher, the "
         "SHA-256 of the first download is recorded beside the\nfile.\n";
}

// Rewrites a line of a terminal.
class ProgressLine {
 public:
  ProgressLine(std::string name, std::ostream& out) : name_(std::move(name)), out_(out) {}
  ~ProgressLine() {
    if (last_ >= 0) out_ << '\n';
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::int64_t bytes, std::int64_t total) {
    const std::int64_t percent = bytes * 100 / total;
    if (percent == last_) return;
    last_ = percent;
    out_ << '\r' << name_ << ": " << fixed(static_cast<double>(bytes) / 1e6, 1) << " of "
         << fixed(static_cast<double>(total) / 1e6, 1) << " MB, " << percent << " %  "
         << std::flush;
  }

 private:
  std::string name_;
  std::ostream& out_;
  std::int64_t last_ = -1;
};

void print_downloaded(const std::string& name, const Downloaded& result, bool json,
                      std::ostream& out) {
  if (!json) {
    out << describe(result) << '\n';
    return;
  }
  const std::string file = result.file.string();
  results::print_json(DownloadEvent{name, file, result.bytes, result.was_there}, out);
}

// Calls run() with what shows the progress in a terminal.
Downloaded show_progress(const std::string& name, const Context& context,
                         const std::function<Downloaded(const DownloadProgress&)>& run) {
  ProgressLine line(name, context.errors);
  DownloadProgress progress;
  if (context.errors_are_terminal) {
    progress = [&](std::int64_t bytes, std::int64_t total) { line.show(bytes, total); };
  }
  return run(progress);
}

Downloaded download_with_progress(const config::WeightName& name, const Context& context) {
  return show_progress(name.text(), context, [&](const DownloadProgress& progress) {
    return download_published(name, context.environment, progress);
  });
}

}  // namespace

Downloaded download_weights(const WeightFile& weights, const Context& context) {
  return show_progress(weights.name, context, [&](const DownloadProgress& progress) {
    return download_weights(weights, context.environment, progress);
  });
}

std::string describe(const Downloaded& result) {
  const std::string file = result.file.string();
  if (result.was_there) return concat(file, ": already there");
  std::string text = concat(file, ": downloaded");
  if (result.resumed > 0) text += concat(", continued after ", result.resumed, " bytes");
  if (!result.sha256.empty()) {
    text += concat("; its publisher gives no checksum, its SHA-256 ", result.sha256,
                   " is recorded in ", result.file.filename().string(), ".sha256");
  }
  return text;
}

int execute(const WeightsArguments& arguments, const Context& context) {
  const config::Environment& environment = context.environment;
  if (!arguments.search.empty()) {
    const SourceList list{search_sources(arguments.search, environment)};
    if (list.sources.empty()) {
      throw ConfigError({}, "--search: no name of weights and no backbone has '",
                        printable(arguments.search), "'; `trainer models` lists the backbones");
    }
    if (arguments.json) {
      results::print_json(list, context.out);
    } else {
      print_sources(list.sources, context.out);
    }
    return kExitOk;
  }
  if (arguments.names.empty() && arguments.json) {
    const WeightList list{config::download_folder(environment), weight_files(environment)};
    results::print_json(list, context.out);
  } else if (arguments.names.empty()) {
    print_weights(context.out, environment);
  }
  for (const std::string& name : arguments.names) {
    if (const std::optional<config::WeightName> published = config::parse_weight_name(name)) {
      print_downloaded(name, download_with_progress(*published, context), arguments.json,
                       context.out);
      continue;
    }
    const WeightFile weights = find_weight_file(name, environment);
    print_downloaded(name, download_weights(weights, context), arguments.json, context.out);
  }
  return kExitOk;
}

}  // namespace trainer::commands
