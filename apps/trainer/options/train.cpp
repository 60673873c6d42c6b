// Commands that train one run, in a process or in several.
#include <tuple>

#include "base/error.h"
#include "commands/launch/launch.h"
#include "commands/train/command.h"
#include "options/options.h"

namespace trainer::app {

void add_train(CommandLine& line) {
  const auto arguments = std::make_shared<commands::TrainArguments>();
  const Command command = line.add_command("train", "Build and run the job");
  add_config(command, *arguments);
  const Option resume =
      command.add_flag("--resume", arguments->resume, "Go on from the run's last checkpoint");
  command.add_flag("--overwrite", arguments->overwrite, "Replace an earlier run in this folder")
      .excludes(resume);
  add_override(
      command, arguments->overrides, "--fold K", "data.fold",
      "Validate with part K of data.folds and train with the other parts (data.fold); the run "
      "is runs/<name>_foldK without --run-dir")
      .in_order();
  command.add_option(
      "--features-dir FOLDER", arguments->features_dir,
      "Folder for the cached outputs of frozen layers, which runs share; those of the "
      "run folder when left out");
  command.add_option("--rank", arguments->identity.rank,
                     "Which of several processes this is, 0 being the chief; else set by "
                     "TF_CONFIG, torchrun, Slurm or mpirun");
  command.add_option("--world-size", arguments->identity.world_size,
                     "How many processes train together");
  command.add_option("--master HOST:PORT", arguments->identity.master,
                     "Where the process of rank 0 listens");
  add_override(command, arguments->overrides, "--hosts LIST", "parallel.hosts",
               "Hosts of the job, by rank, where no launcher gives ranks: a,b or pod-{0..3}.digits "
               "(parallel.hosts)");
  command.add_option("--secret-file FILE", arguments->identity.secret_file,
                     "File with the secret that all processes of the job share; else "
                     "TRAINER_SECRET");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

void add_launch(CommandLine& line) {
  const auto arguments = std::make_shared<commands::LaunchOptions>();
  const Command command = line.add_command(
      "launch", "Start ranks of a job on this machine: trainer launch -n 2 -- train CONFIG");
  command.add_option("-n,--workers", arguments->workers, "Number of ranks")
      .required()
      .in_range(1, 1024);
  const Option servers =
      command
          .add_option("--ps", arguments->servers,
                      "Parameter servers besides, for parallel.strategy: parameter_server")
          .in_range(1, 1024);
  const Option evaluator = command.add_flag("--evaluator", arguments->evaluator,
                                            "And a task that evaluates each new checkpoint");
  const Option print =
      command
          .add_option("--print-job", arguments->job_file.scheduler,
                      "Starts nothing, and prints a file of the job for kubernetes or slurm")
          .choices({"kubernetes", "slurm"})
          .excludes(servers)
          .excludes(evaluator);
  commands::JobFileOptions& file = arguments->job_file;
  command.add_option("--name", file.name, "Name of the printed job; trainer when left out")
      .needs(print);
  for (const auto& [name, value, help] :
       {std::tuple{"--image", &file.image, "Image of the containers"},
        std::tuple{"--folder", &file.folder,
                   "Folder of the containers for the volume, to which paths of the command belong; "
                   "/job when left out"},
        std::tuple{"--claim", &file.claim,
                   "Volume claim with config, data and runs; trainer-job when left out"},
        std::tuple{"--secret", &file.secret,
                   "Name of the Secret whose key secret is that of the job; trainer-job when left "
                   "out"},
        std::tuple{"--queue", &file.queue, "Queue of Kueue; none when left out"}}) {
    command.add_option(name, *value, concat(help, " (kubernetes)")).needs(print);
  }
  command
      .add_option("--restarts", arguments->restarts,
                  "When a process crashes, is killed or is lost, start the job again from its "
                  "last checkpoint, at most so many times, after a wait that grows from 1 s")
      .in_range(0, 1000);
  command.add_option("command", arguments->command, "What each runs, behind --: train CONFIG ...")
      .required();
  command.run([arguments] { return commands::execute(*arguments); });
}

}  // namespace trainer::app
