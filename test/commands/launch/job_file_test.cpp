#include "commands/launch/job_file.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "support/contains.h"

namespace trainer::commands {
namespace {

using trainer::test::contains;

TEST_CASE("make_job_file fills in the indexed Job of Kubernetes") {
  JobFileOptions options{.scheduler = "kubernetes", .name = "night"};
  options.image = "registry/trainer:1";
  options.folder = "/data";
  options.claim = "disk";
  options.secret = "key";
  const std::string file = make_job_file(options, 12, {"train", "a b.yaml", "--set", "x=$(HOME)"});
  for (const char* text :
       {"completions: 12\n  parallelism: 12\n", "image: \"registry/trainer:1\"\n",
        "workingDir: \"/data\"\n", "mountPath: \"/data\"}", "claimName: \"disk\"}\n",
        "secretKeyRef: {name: \"key\", key: secret}",
        "command: [\"trainer\", \"train\", \"a b.yaml\", \"--set\", \"x=$$(HOME)\", \"--resume\", "
        "\"--hosts\", \"night-{0..11}.night\", \"--set\", \"parallel.require_cluster=12\"]\n",
        "subdomain: night\n", "job-name: night}\n", "# 4: a device or a peer was lost.\n"}) {
    INFO(file, "lacks ", std::string(text));
    CHECK(contains(file, text));
  }
  for (const char* text : {"digits", "kueue", "trainer-job", "\"/job", "README"}) {
    INFO(std::string(text));
    CHECK_FALSE(contains(file, text));
  }
  options.queue = "q";
  CHECK(contains(make_job_file(options, 1, {"train", "a.yaml"}),
                 "labels: {kueue.x-k8s.io/queue-name: \"q\"}\n"));
}

TEST_CASE("make_job_file fills in the job file of Slurm") {
  const JobFileOptions options{.scheduler = "slurm", .name = "night"};
  const std::string file = make_job_file(options, 3, {"train", "a b.yaml", "--resume"});
  CHECK(file.starts_with("#!/usr/bin/env bash\n#SBATCH --job-name=night\n#SBATCH --nodes=3\n"));
  CHECK(contains(file, "\"${TRAINER:-trainer}\" train 'a b.yaml' --resume \\\n"));
  CHECK(contains(file, "--set \"parallel.require_cluster=3\"\n"));
  CHECK(contains(file, "scontrol requeue"));
  CHECK_FALSE(contains(file, "$@"));
}

TEST_CASE("make_job_file rejects other commands and names that a cluster does not take") {
  JobFileOptions options{.scheduler = "slurm"};
  CHECK_THROWS_WITH_AS(make_job_file(options, 2, {"plan", "a.yaml"}),
                       "error: --print-job: expected train behind --, found 'plan'", ConfigError);
  for (const char* name : {"", "Digits", "a_b", "1a", "a-", "a\nb"}) {
    CAPTURE(name);
    options.name = name;
    CHECK_THROWS_WITH_AS(make_job_file(options, 2, {"train", "a.yaml"}),
                         doctest::Contains("--name: expected at most 50 lower-case letters"),
                         ConfigError);
  }
}

}  // namespace
}  // namespace trainer::commands
