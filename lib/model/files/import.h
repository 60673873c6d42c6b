// Imports pretrained weights into a model, by name.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/notice.h"
#include "checkpoint/tensor_file.h"
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
  std::vector<std::string> loaded;   // the model's names
  std::vector<std::string> missing;  // tensors that the file lacks and allow_missing does not cover
  std::vector<Shapes> ill_shaped;    // other shapes in the file, not covered by allow_missing
  std::vector<std::string> integers;     // integers in the file, not covered by allow_missing
  std::vector<std::string> initialised;  // any of these three, but covered by allow_missing
  std::vector<std::string> extra;        // tensors of the file that no layer takes
  // The layers of the file that were matched by position, each with its layer of the model.
  std::vector<std::pair<std::string, std::string>> by_position;
  std::int64_t others = 0;  // tensors of the model that take nothing from the file
  // The names of the classes in the file, in the order of its outputs; empty if it has none.
  std::vector<std::string> classes;
  std::vector<std::string> notes;  // what the reader of the file chose or left out
  bool has_head = false;           // the last layer with parameters is loaded from the file

  bool complete() const { return missing.empty() && ill_shaped.empty() && integers.empty(); }
  // Returns one line of counts, then every tensor that was not loaded, by name.
  std::string text() const;
  // Returns "w.h5: 26 tensors loaded; 4 of the model left as initialised, 0 of the file unused".
  std::string line() const;
  // Returns one line for each kind of tensor that was not loaded, with the first names. Tensors
  // covered by allow_missing give a note. A file of which nothing was loaded, and tensors of the
  // file that are unused, give a warning.
  std::vector<Notice> notices() const;
};

struct Import {
  std::vector<checkpoint::Tensor> tensors;  // have the model's names and shapes
  ImportReport report;
};

// Returns the tensors that the layers of `graph` take from the config's weight file; none if the
// config names no file. Layers are matched by name and weights by Keras's names for them. Where
// names do not fit, the layers of a Keras file with automatic names ("conv2d_2", of a later model
// of a session) are matched by position among those of their class, as Keras does. State dicts of
// PyTorch are renamed and transposed. Throws DataError if the file cannot be read, with advice on
// how to get a file that does not exist; if a tensor is missing, ill-shaped or of integers and
// allow_missing does not cover it; if no tensor fits; or if the file has layers of a network that
// the backbone is not.
Import import_weights(const graph::Graph& graph, const config::Model& model);
// Throws what import_weights() throws for a file that exists, from its header alone. Without a
// graph it checks that the file can be read.
void check_weights(const std::optional<graph::Graph>& graph, const config::Model& model);

// Returns the error for a weight file of the config that does not exist, with advice on how to get
// it; "" if the file exists or the config names none.
std::string missing_weights(const config::Model& model, const config::Environment& environment);
// Throws missing_weights(), if it is not empty, as the DataError of import_weights().
void check_weights_exist(const config::Model& model, const config::Environment& environment);

// Matches tensors that were already read. Does not throw for tensors that do not fit.
Import match_weights(const graph::Graph& graph, std::vector<checkpoint::Tensor> file,
                     const std::vector<std::string>& allow_missing);

}  // namespace trainer::model
