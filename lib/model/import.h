// Imports pretrained weights into a model, by name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/notice.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::model {

// Which tensors of a weight file were loaded, and which tensors of the model were not.
struct ImportReport {
  struct Shapes {
    std::string name;
    Shape file, model;
  };
  std::string path;
  std::vector<std::string> loaded;       // the model's names
  std::vector<std::string> missing;      // not in the file, and not allowed to be
  std::vector<Shapes> ill_shaped;        // of another shape in the file, and not allowed to be
  std::vector<std::string> initialised;  // missing or ill-shaped as allow_missing lets them be
  std::vector<std::string> extra;        // in the file, with no place in these layers
  // Layers of the file that were matched by position, each with the model's layer.
  std::vector<std::pair<std::string, std::string>> by_position;
  std::int64_t others = 0;  // the model's that take nothing from the file

  bool complete() const { return missing.empty() && ill_shaped.empty(); }
  // One line of counts, then every tensor that was not loaded, by name.
  std::string text() const;
  // "w.h5: 26 tensors loaded; 4 of the model left as initialised, 0 of the file unused"
  std::string line() const;
  // One line for each kind of tensor that was not loaded, with the first names. A note where
  // allow_missing lets the model's be missing, a warning where none was loaded or where the file's
  // are unused.
  std::vector<Notice> notices() const;
};

struct Import {
  std::vector<checkpoint::Tensor> tensors;  // under the model's names, in its shapes
  ImportReport report;
};

// The tensors that the layers of `graph` take from the config's weight file: nothing when it names
// none. Layers are matched by name and weights by Keras's names for them. Where names do not fit,
// the layers of a Keras file with automatic names ("conv2d_2", of a later model of a session) are
// matched by position among those of their class, as Keras does. torchvision's state dicts
// of VGG16 and ResNet50 are renamed and transposed. Throws DataError when the file cannot be read,
// saying how to get it when it is not there, and when a tensor is missing or ill-shaped and
// allow_missing does not cover it.
Import import_weights(const graph::Graph& graph, const config::Model& model);

// What is wrong when the config names a weight file that does not exist, and how to get it; else
// "".
std::string missing_weights(const config::Model& model, const config::Environment& environment);
// Throws that as the DataError of import_weights().
void check_weights_exist(const config::Model& model, const config::Environment& environment);

// Overload for tensors already read. Does not throw for tensors that do not fit.
Import match_weights(const graph::Graph& graph, std::vector<checkpoint::Tensor> file,
                     const std::vector<std::string>& allow_missing);

// Renames torchvision's tensors to Keras's and transposes them; leaves other files alone.
std::vector<checkpoint::Tensor> from_torchvision(config::Backbone::Name backbone,
                                                 std::vector<checkpoint::Tensor> file);

}  // namespace trainer::model
