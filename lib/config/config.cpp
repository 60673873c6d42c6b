#include "config/config.h"

#include "config/field.h"

namespace trainer::config {

void fields(FieldVisitor& v, Config& s) {
  v("name", s.name, "Name of the run; the file's name when left out.", free_on_resume());
  v("seed", s.seed,
    "Seed of all random numbers, such as those of initial weights, splits, the order of samples, "
    "augmentation and dropout.",
    at_least(0).on_resume(Resume::kSame));
  v("model", s.model, "The network and its loss.", same_on_resume().required());
  v("data", s.data, "The images and labels to train, validate and test with.", any().required());
  v("optimizer", s.optimizer, "How gradients change the weights.");
  v("schedule", s.schedule, "The learning rate over time.");
  v("train", s.train, "The length of the training, its batches, and what ends it early.",
    any().required());
  v("parallel", s.parallel, "The devices that train the model, and how they share the work.",
    free_on_resume());
  v("evaluate", s.evaluate, "How the model is measured.", free_on_resume());
  v("run", s.run, "What a run leaves behind, and how often.", free_on_resume());
}

}  // namespace trainer::config
