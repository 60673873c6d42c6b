// Messages that advise the user, and the commands that follow the advice.
#pragma once

#include <string>
#include <vector>

#include "e2e/pictures.h"

namespace trainer::e2e {

// Configs and images of one test. In commands and messages, the words of kFiles stand for paths.
struct AdvicePlace {
  struct File {
    const char *word, *path;
  };
  static const std::vector<File> kFiles;
  Workspace work;

  AdvicePlace();

  // Writes a list of the images, whose paths begin with `folder`.
  static void write_list(const Path& list, const std::string& folder);
  std::string with_paths(const std::string& text) const;
  // Runs the program in the folder, because a list is trained with a config that is written into
  // the current one.
  Result run(const std::string& command) const;
  void check_success(const std::string& command) const;
};

struct Advice {
  const char* name;
  Arguments before;    // commands that succeed
  std::string failed;  // the command whose message is read
  std::string text;    // a part of its message
  // The command to give then, or after "+" options that are added to the failed command; "" for
  // those of `text`.
  std::string followed = "";
  void (*prepare)(const AdvicePlace&) = nullptr;  // called before the failed command
};

// Checks that the command prints the advice, and that the command that follows it succeeds.
void check_advice(const AdvicePlace& place, const Advice& advice);
inline void check_each(const std::vector<Advice>& advices) {
  for (const Advice& advice : advices) check_advice(AdvicePlace(), advice);
}

}  // namespace trainer::e2e
