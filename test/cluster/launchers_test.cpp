// The same job, whose ranks each launcher assigns.
#include <doctest/doctest.h>

#include "cluster/processes.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {
namespace {

void expect_ranks(Processes& ranks, const std::string& source) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int code = ranks[i]->wait();
    INFO(ranks[i]->err());
    CHECK(code == 0);
    CHECK(ranks[i]->out().find("joined as rank " + std::to_string(i) + " of " +
                               std::to_string(ranks.size()) + " by " + source) !=
          std::string::npos);
  }
}

}  // namespace

TEST_CASE("TF_CONFIG: two workers join with equal clusters and fail with different ones") {
  const ReservedPort first, second, third;
  SUBCASE("right") {
    Processes ranks;
    for (const int index : {0, 1}) {
      const std::string text = tf_config({first.number(), second.number()}, index);
      ranks.push_back(std::make_unique<Process>(std::vector<std::string>{CLUSTER_RANK},
                                                Variables{{"TF_CONFIG", text}}));
    }
    expect_ranks(ranks, "TF_CONFIG");
  }
  SUBCASE("wrong") {
    Processes ranks;
    for (const int index : {0, 1}) {
      const std::string text =
          tf_config({first.number(), index == 0 ? second.number() : third.number()}, index);
      ranks.push_back(std::make_unique<Process>(std::vector<std::string>{CLUSTER_RANK},
                                                Variables{{"TF_CONFIG", text}}));
    }
    for (const auto& rank : ranks) {
      CHECK(rank->wait() == 2);
      const std::string err = rank->err();
      INFO(err);
      CHECK(err.find("worker:1 on ") != std::string::npos);
      CHECK(err.find("has another cluster than rank 0: 'worker:1: localhost:" +
                     std::to_string(third.number()) + "', not 'worker:1: localhost:" +
                     std::to_string(second.number()) + "'") != std::string::npos);
    }
  }
}

TEST_CASE("identify: two processes with the variables of each launcher join as ranks") {
  const ReservedPort port;
  const std::string number = std::to_string(port.number());
  for (const char* launcher : {"RANK", "Open MPI", "PMI", "Slurm"}) {
    CAPTURE(std::string(launcher));
    Processes ranks;
    for (const int rank : {0, 1}) {
      const std::string text = std::to_string(rank);
      Variables more{{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", number}};
      if (launcher == std::string("RANK")) more.insert({{"RANK", text}, {"WORLD_SIZE", "2"}});
      if (launcher == std::string("Open MPI")) {
        more.insert({{"OMPI_COMM_WORLD_RANK", text}, {"OMPI_COMM_WORLD_SIZE", "2"}});
      }
      if (launcher == std::string("PMI")) more.insert({{"PMI_RANK", text}, {"PMI_SIZE", "2"}});
      if (launcher == std::string("Slurm")) {
        more.insert({{"SLURM_PROCID", text},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NODELIST", "n[1-2]"},
                     {"SLURM_JOB_ID", "5"},
                     {"SLURM_STEP_ID", "0"}});
      }
      ranks.push_back(std::make_unique<Process>(std::vector<std::string>{CLUSTER_RANK}, more));
    }
    expect_ranks(ranks, launcher);
  }
}

}  // namespace trainer::cluster
