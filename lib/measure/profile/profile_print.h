// A profile for people and programs.
#pragma once

#include <ostream>

#include "measure/profile/input_profile.h"
#include "measure/profile/layer_profile.h"

namespace trainer::measure {

struct Profile {
  LayerProfile layers;
  InputProfile input;
  double peak_flops = 0;  // a second, of all ranks; 0 where it was not measured
};

void print_profile(const Profile& profile, std::ostream& out);
// {"event":"profile",...} on one line.
void print_profile_json(const Profile& profile, std::ostream& out);

}  // namespace trainer::measure
