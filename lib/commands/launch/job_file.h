// Job files for clusters, from those of scripts/cluster.
#pragma once

#include <string>
#include <vector>

namespace trainer::commands {

// Where and how a cluster runs a job.
struct JobFileOptions {
  std::string scheduler;  // "kubernetes" or "slurm"; "" for none
  std::string name = "trainer";
  // The following are for Kubernetes: the image, the folder of the pods into which the volume claim
  // is mounted and to which paths of the command belong, the claim, the Secret that has the job's
  // secret, and the queue of Kueue; "" for none.
  std::string image = "registry.example/trainer:latest", folder = "/job";
  std::string claim = "trainer-job", secret = "trainer-job", queue = "";
};

// Returns the file of a job of `ranks` ranks which run the command, such as train CONFIG. Throws
// ConfigError for a command other than train, and for texts that the scheduler does not take.
std::string make_job_file(const JobFileOptions& options, int ranks,
                          const std::vector<std::string>& command);

}  // namespace trainer::commands
