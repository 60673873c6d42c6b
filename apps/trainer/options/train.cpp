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
  command
      .add_action(
          "--fold",
          [arguments](const std::string& value) {
            arguments->overrides.push_back({"data.fold", value, "--fold"});
          },
          "Validate with part K of data.folds and train with the other parts (data.fold); the run "
          "is runs/<name>_foldK without --run-dir")
      .type_name("K")
      .in_order();
  command
      .add_option("--features-dir", arguments->features_dir,
                  "Folder for the cached outputs of frozen layers, which runs share; those of the "
                  "run folder when left out")
      .type_name("FOLDER");
  command.add_option("--rank", arguments->identity.rank,
                     "Which of several processes this is, 0 being the chief; else set by "
                     "TF_CONFIG, torchrun, Slurm or mpirun");
  command.add_option("--world-size", arguments->identity.world_size,
                     "How many processes train together");
  command.add_option("--master", arguments->identity.master, "Where the process of rank 0 listens")
      .type_name("HOST:PORT");
  command
      .add_option("--secret-file", arguments->identity.secret_file,
                  "File with the secret that all processes of the job share; else "
                  "TRAINER_SECRET")
      .type_name("FILE");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
