#include "commands/sweep/launchers.h"

#include <doctest/doctest.h>

#include "base/text.h"
#include "results/sweeps/support.h"
#include "support/contains.h"

namespace trainer::commands {
namespace {

using test::contains;
using test::FakeSweep;

TEST_CASE("slurm_script is a job array with one task per point") {
  const FakeSweep sweep({"parallel.gpus=1,2", "data.path='a b'"});
  const std::string script = slurm_script(sweep.plan, "/opt/trainer");
  CHECK(contains(script, "#SBATCH --array=0-1\n"));
  CHECK(contains(script, "--set parallel.gpus=2"));
  CHECK(contains(script, "--set 'data.path='\\''a b'\\'''"));
}

TEST_CASE("kubernetes_jobs has one Job per point") {
  const FakeSweep sweep({"parallel.gpus=1,2"});
  const std::string jobs = kubernetes_jobs(sweep.plan, "registry/trainer:1");
  CHECK(contains(jobs, "name: fake-gpus-1-0\n"));
  CHECK(contains(jobs, "name: fake-gpus-2-1\n"));
  CHECK(contains(jobs, "nvidia.com/gpu: \"2\""));
  CHECK(contains(jobs, "image: \"registry/trainer:1\""));
  const FakeSweep cpu({"parallel.gpus=2", "parallel.device=cpu"});
  CHECK_FALSE(contains(kubernetes_jobs(cpu.plan, "x"), "nvidia.com"));
}

TEST_CASE("slurm_script quotes names and folders with '#', quotes and '%' as sbatch reads them") {
  FakeSweep sweep({"parallel.gpus=1"});
  sweep.plan.name = "exp #2 \"x\" \\";
  sweep.plan.folder = "runs/50% #3";
  const std::string script = slurm_script(sweep.plan, "/opt/trainer");
  CHECK(contains(script, R"(
#SBATCH --job-name="exp #2 \"x\" \\_sweep"
)"));
  CHECK(contains(script, R"(
#SBATCH --output="runs/50%% #3/slurm-%a.out"
)"));
  CHECK(contains(script, "--run-dir 'runs/50% #3/gpus=1'"));
  sweep.plan.name = "a\ntouch b";
  CHECK_THROWS_WITH_AS(slurm_script(sweep.plan, "x"), doctest::Contains("line break"), ConfigError);
  sweep.plan.name = "a";
  sweep.plan.folder = "a\nb";
  CHECK_THROWS_WITH_AS(slurm_script(sweep.plan, "x"), doctest::Contains("line break"), ConfigError);
}

TEST_CASE("kubernetes_jobs: each word with quotes, dollars and line breaks is one string") {
  FakeSweep sweep({"parallel.gpus=1"});
  sweep.plan.folder = "a\n  b: \"$(HOME)\" \\ #c";
  const std::string jobs = kubernetes_jobs(sweep.plan, "x\ny");
  CHECK(contains(jobs, R"("--run-dir", "a\n  b: \"$$(HOME)\" \\ #c/gpus=1")"));
  CHECK(contains(jobs, "image: \"x\\ny\"\n"));
  sweep.plan.folder = "a\xff";
  CHECK_THROWS_WITH_AS(kubernetes_jobs(sweep.plan, "x"), doctest::Contains("not UTF-8"),
                       ConfigError);
}

TEST_CASE("make_arguments does not change a folder and texts of variables") {
  FakeSweep sweep({"parallel.gpus=1"});
  sweep.plan.folder = " my exp #3: 'a'_sweep";
  sweep.plan.overrides = {{"name", "a #b", "$NAME"},
                          {"seed", "3", "--set", config::Override::Syntax::kYaml}};
  const std::vector<std::string> words = make_arguments(sweep.plan, sweep.plan.points[0]);
  CHECK(words[4] == "--run-dir");
  CHECK(words[5] == " my exp #3: 'a'_sweep/gpus=1");
  CHECK(words[6] == "--features-dir");
  CHECK(words[7] == " my exp #3: 'a'_sweep/features");
  CHECK(words[9] == "name=\"a #b\"");
  CHECK(words[11] == "seed=3");
  CHECK(words[13] == "parallel.gpus=1");
}

}  // namespace
}  // namespace trainer::commands
