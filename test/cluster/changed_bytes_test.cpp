#include "support/changed_bytes.h"

#include <doctest/doctest.h>

#include <sstream>

#include "cluster/identity.h"

namespace trainer::cluster {

TEST_CASE(
    "launchers' variables: identify returns the expected counts of results when each byte is "
    "changed") {
  const auto read = [](const Path& path) {
    config::Environment variables;
    IdentityFlags flags;
    std::istringstream lines(read_text_file(path));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t equals = std::min(line.find('='), line.size() - 1);
      const std::string name = line.substr(0, equals), value = line.substr(equals + 1);
      if (name == "--master") flags.master = value;
      variables[name] = value;
    }
    const Identity who = identify(flags, variables);
    std::string text = concat(who.rank, " of ", who.size, " ", accepts_unauthenticated_peers(who),
                              " ", cluster_text(who));
    for (int rank = 0; rank < std::min(who.size, 3); ++rank) text += ", " + rank_name(who, rank);
    return text;
  };
  test::check_answers("variables", "test/fuzz/seeds/environment",
                      {"mpi", "pmi", "slurm", "tf", "torchrun"}, read);
}

}  // namespace trainer::cluster
