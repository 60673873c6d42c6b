// Names of published weights, and the folders of other programs in which their files are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/weight_table.h"

namespace trainer::config {

// "timm/resnet50.a1_in1k", "torchvision/resnet50.IMAGENET1K_V2" or "microsoft/resnet-50".
struct WeightName {
  std::string library;  // timm, torchvision or an organisation of Hugging Face
  std::string model;

  std::string text() const { return library + '/' + model; }
  bool is_torchvision() const { return library == "torchvision"; }
};

// Returns the parts of a name; nothing for a text that is the path of a file by its form.
std::optional<WeightName> parse_weight_name(const std::string& text);
// Returns the row of the table; null if there is none.
const WeightRow* find_weight_row(const std::string& name);
// Returns whether a name is one of weights and not the path of a run folder, which may have the
// form of a name of Hugging Face.
bool is_published(const WeightName& name);

// Returns the folder of a repository in a cache of Hugging Face's hub: models--timm--NAME.
std::string hub_repository(const std::string& cache, const WeightName& name);
// Returns the caches of the hub in the order in which they are searched: $HF_HUB_CACHE,
// $HF_HOME/hub, ~/.cache/huggingface/hub.
std::vector<std::string> hub_caches(const Environment& environment);
// Returns the folder of torch.hub.get_dir() with its checkpoints; "" without a home folder.
std::string torch_folder(const Environment& environment);
// Returns the folders in which the file of a name is looked for, the first first.
std::vector<std::string> list_weight_places(const WeightName& name, const Environment& environment);
// Returns the file of a name; "" if it is in none of these folders.
std::string find_named_file(const WeightName& name, const Environment& environment);

// Replaces a name in model.weights and model.backbone.weights by its file, unless there is a file
// of that path, and sets Model::weights_name. The name stays if no file is found.
void find_named_weights(Model& model, const Environment& environment);
// Returns the error for weights of which no file is found, without their name: the folders, and the
// command that downloads the file.
std::string missing_named_weights(const WeightName& name, const Environment& environment);

}  // namespace trainer::config
