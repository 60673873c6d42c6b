// A profile for people and programs.
#pragma once

#include <ostream>

#include "commands/profile/input_profile.h"
#include "commands/profile/layer_profile.h"
#include "commands/profile/limits.h"
#include "results/field.h"

namespace trainer::commands {

struct Profile {
  LayerProfile layers;
  InputProfile input;
  Limits limits;
};
void fields(results::FieldVisitor& v, Profile& profile);

void print_profile(const Profile& profile, std::ostream& out);

}  // namespace trainer::commands
