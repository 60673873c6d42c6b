#include "config/config.h"

#include "config/field.h"

namespace trainer::config {

void fields(FieldVisitor& v, Config& s) {
  v("name", s.name, "Name of the run; the file's name when left out.", free());
  v("seed", s.seed, "Seed of everything random.", at_least(0).on_resume(Resume::kSame));
  v("model", s.model, "The network and its loss.", same().required());
  v("data", s.data, "The data set.", any().required());
  v("optimizer", s.optimizer, "How gradients change the weights.", any());
  v("schedule", s.schedule, "The learning rate over time.", any());
  v("train", s.train, "How long and in which batches.", any().required());
  v("parallel", s.parallel, "What computes.", free());
  v("evaluate", s.evaluate, "How the model is measured.", free());
  v("run", s.run, "What a run leaves behind, and how often.", free());
}

}  // namespace trainer::config
