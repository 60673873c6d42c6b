// Every key of a config file: one list per struct. Reading, printing the effective config, its
// leaves and the JSON Schema are four visitors of these lists (decode.h, emit.cpp, schema.cpp). A
// file a section; the keys of the whole are here.
//
// A visitor offers
//   v(key, field, help, rule)             a key with its value
//   v.group(keys, required)               of these keys at most one, or exactly one, is given
//   v.choice(what, required, resume)      the alternatives that follow are such a group; whether
//                                         another may be chosen on resume
//   v.alternative(key, help, active, activate, list)   `list(inner)` lists the fields below key
//   v.shorthand(key)                      a bare value stands for {key: value}
//   v.definition(name)                    a name in the JSON Schema, for what is used many times
//   v.located(loc)                        where the struct stands in the file
#pragma once

#include "config/fields/data.h"
#include "config/fields/layers.h"
#include "config/fields/model.h"
#include "config/fields/optimizer.h"
#include "config/fields/train.h"

namespace trainer::config {

template <class V>
void fields(V& v, Config& s) {
  v("name", s.name, "Name of the run; the file's name when left out.", free());
  v("seed", s.seed, "Seed of everything random.", at_least(0).on_resume(Resume::kSame));
  v("model", s.model, "The network and its loss.", same().must());
  v("data", s.data, "The data set.", any().must());
  v("optimizer", s.optimizer, "How gradients change the weights.", any());
  v("schedule", s.schedule, "The learning rate over time.", any());
  v("train", s.train, "How long and in which batches.", any().must());
  v("parallel", s.parallel, "What computes.", free());
  v("evaluate", s.evaluate, "How the model is measured.", free());
  v("run", s.run, "What a run leaves behind, and how often.", free());
}

}  // namespace trainer::config
