// The command line: what each command is called and takes. The work is in one file a command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>

#include "base/denormals.h"
#include "base/error.h"
#include "base/process.h"
#include "commands.h"
#include "config/values.h"

namespace trainer::app {

config::Environment environment() { return environment_variables(); }

void warn(const std::string& line) {
  if (!line.empty()) std::cerr << "warning: " << line << '\n';
}

namespace {

// CLI11's own checks of numbers name a range of 20 digits.
CLI::Validator at_least_one() {
  return {[](const std::string& text) {
            std::int64_t value = 0;
            const bool right = CLI::detail::lexical_cast(text, value) && value >= 1;
            return right ? "" : "expected a whole number of at least 1, found " + text;
          },
          ""};
}
CLI::Validator more_than_zero() {
  return {[](const std::string& text) {
            double value = 0;
            const bool right = CLI::detail::lexical_cast(text, value) && value > 0;
            return right ? "" : "expected seconds, more than 0, found " + text;
          },
          ""};
}

// The nearest command's name is what a mistyped one needs; CLI11 would complain of its arguments.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
  throw ConfigError({}, config::unknown("command", argv[1], "Commands", names));
}

// Which flags stand for one key each, beside --set: all, or those that matter to a trained model.
enum class Shorthands { kAll, kDevice, kNone };

void add_overrides(CLI::App& command, std::vector<config::Override>& overrides,
                   Shorthands shorthands = Shorthands::kAll) {
  command
      .add_option_function<std::vector<std::string>>(
          "--set",
          [&overrides](const std::vector<std::string>& settings) {
            for (const std::string& setting : settings) {
              const auto equals = setting.find('=');
              if (equals == std::string::npos) {
                throw ConfigError(
                    {}, "--set " + setting + ": expected key=value, e.g. --set train.epochs=3");
              }
              overrides.push_back({setting.substr(0, equals), setting.substr(equals + 1), "--set"});
            }
          },
          "Replace a value of the config, e.g. --set optimizer.adam.learning_rate=1e-4")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->trigger_on_parse();
  const auto flag = [&](const char* name, const char* key, const char* help) {
    command
        .add_option_function<std::string>(
            name,
            [&overrides, key, name](const std::string& value) {
              overrides.push_back({key, value, name});
            },
            help)
        ->trigger_on_parse();
  };
  if (shorthands == Shorthands::kNone) return;
  flag("--batch-size", "train.batch_size", "Samples a replica takes a step (train.batch_size)");
  if (shorthands == Shorthands::kAll) {
    flag("--epochs", "train.epochs", "Epochs to train (train.epochs)");
    flag("--seed", "seed", "Seed of everything random (seed)");
    flag("--run-dir", "run.dir", "Folder of the run (run.dir)");
  }
  flag("--replicas", "parallel.replicas", "Copies of the model (parallel.replicas)");
  flag("--gpus", "parallel.gpus", "GPUs to use: a number or all (parallel.gpus)");
}

void add_config(CLI::App& command, ConfigArguments& arguments) {
  command.add_option("config", arguments.path, "Config file (YAML)")->required();
  add_overrides(command, arguments.overrides);
  command.add_flag("--json", arguments.json,
                   "One JSON object a line on standard output, nothing else");
  command.add_flag("--quiet", arguments.quiet, "No progress");
}

int run(int argc, char** argv) {
  CLI::App app{"Trains, evaluates and applies image classifiers from a YAML file."};
  app.name("trainer");
  app.set_version_flag("--version", "trainer " TRAINER_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  trainer train configs/digits.yaml\n"
      "  trainer train configs/mnist.yaml --epochs 3 --set optimizer.adam.learning_rate=5e-4\n"
      "  trainer train configs/mnist.yaml --resume\n"
      "  trainer evaluate runs/mnist\n"
      "  trainer plan configs/mnist.yaml\n"
      "Exit codes: 0 done, 2 config, 3 data, 4 device, 5 a check did not hold, 75 interrupted and "
      "saved.");
  int code = kExitOk;

  TrainArguments train_arguments;
  CLI::App* train_command = app.add_subcommand("train", "Build and run the job");
  add_config(*train_command, train_arguments);
  CLI::Option* resume = train_command->add_flag("--resume", train_arguments.resume,
                                                "Go on from the run's last checkpoint");
  train_command
      ->add_flag("--overwrite", train_arguments.overwrite, "Replace an earlier run in this folder")
      ->excludes(resume);
  train_command->add_option("--rank", train_arguments.identity.rank,
                            "Which of several processes this is, 0 being the chief; else told by "
                            "TF_CONFIG, torchrun, Slurm or mpirun");
  train_command->add_option("--world-size", train_arguments.identity.world_size,
                            "How many processes train together");
  train_command
      ->add_option("--master", train_arguments.identity.master,
                   "Where the process of rank 0 listens")
      ->type_name("HOST:PORT");
  train_command->callback([&] { code = train(train_arguments); });

  EvaluateArguments evaluate_arguments;
  CLI::App* evaluate_command =
      app.add_subcommand("evaluate", "Metrics of a run or checkpoint on a split");
  evaluate_command->add_option("run", evaluate_arguments.run, "Run folder or checkpoint")
      ->required();
  evaluate_command
      ->add_option("--split", evaluate_arguments.split,
                   "test, validation or train; when left out test, or validation where there is no "
                   "test split; with --follow what training evaluates")
      ->check(CLI::IsMember({"test", "validation", "train"}));
  CLI::Option* best = evaluate_command->add_flag("--best", evaluate_arguments.best,
                                                 "The best checkpoint, not the last");
  CLI::Option* follow =
      evaluate_command
          ->add_flag("--follow", evaluate_arguments.follow,
                     "Evaluate each new checkpoint of a run that is going on, until it ends")
          ->excludes(best);
  const auto seconds = [&](const char* name, const char* key, const char* help) {
    evaluate_command
        ->add_option_function<std::string>(
            name,
            [&evaluate_arguments, key, name](const std::string& value) {
              evaluate_arguments.overrides.push_back({key, value, name});
            },
            help)
        ->type_name("SECONDS")
        ->check(CLI::NonNegativeNumber)
        ->needs(follow);
  };
  seconds("--start-delay", "evaluate.start_delay_secs",
          "Before the first evaluation (evaluate.start_delay_secs)");
  seconds("--throttle", "evaluate.throttle_secs",
          "Between the starts of two evaluations (evaluate.throttle_secs)");
  seconds("--timeout", "evaluate.timeout_secs",
          "Without a new checkpoint, until it gives up (evaluate.timeout_secs)");
  add_overrides(*evaluate_command, evaluate_arguments.overrides, Shorthands::kDevice);
  evaluate_command->add_flag("--json", evaluate_arguments.json,
                             "One JSON object on standard output");
  evaluate_command->add_flag("--quiet", evaluate_arguments.quiet, "Only the line of results");
  evaluate_command->callback([&] { code = evaluate(evaluate_arguments); });

  PredictArguments predict_arguments;
  CLI::App* predict_command = app.add_subcommand("predict", "Class probabilities of images");
  predict_command->add_option("run", predict_arguments.run, "Run folder or checkpoint")->required();
  predict_command->add_option(
      "images", predict_arguments.images,
      "Image files, folders of them, or IDX, NPY or NPZ files; a split of the run's data when left "
      "out");
  predict_command
      ->add_option("--split", predict_arguments.split,
                   "Which split when no files are given; test, or validation where there is none, "
                   "when left out")
      ->check(CLI::IsMember({"test", "validation", "train"}));
  CLI::Option* format =
      predict_command->add_option("--format", predict_arguments.format, "table, csv or jsonl")
          ->check(CLI::IsMember({"table", "csv", "jsonl"}));
  predict_command->add_option("--top", predict_arguments.top, "Show the K likeliest classes")
      ->type_name("K")
      ->check(at_least_one());
  predict_command
      ->add_option_function<std::string>(
          "--on-error",
          [&predict_arguments](const std::string& value) {
            predict_arguments.skip_damaged = value == "skip";
          },
          "fail at an image file that cannot be read, or name and skip it; default fail")
      ->check(CLI::IsMember({"fail", "skip"}));
  predict_command->add_option("--limit", predict_arguments.limit, "Only the first N images")
      ->check(at_least_one());
  predict_command->add_flag("--json", predict_arguments.json, "The same as --format jsonl")
      ->excludes(format);
  predict_command->add_flag("--best", predict_arguments.best, "The best checkpoint, not the last");
  add_overrides(*predict_command, predict_arguments.overrides, Shorthands::kDevice);
  predict_command->callback([&] { code = predict(predict_arguments); });

  ExportArguments export_arguments;
  CLI::App* export_command = app.add_subcommand("export", "A trained model for other programs");
  export_command->add_option("run", export_arguments.run, "Run folder or checkpoint")->required();
  export_command
      ->add_option(
          "--format", export_arguments.format,
          "keras_h5 (Keras 3's own layout when FILE ends in .weights.h5), safetensors or onnx")
      ->check(CLI::IsMember({"keras_h5", "safetensors", "onnx"}))
      ->required();
  export_command->add_option("--output", export_arguments.output, "File to write")
      ->type_name("FILE")
      ->required();
  export_command->add_flag("--overwrite", export_arguments.overwrite, "Replace a file that exists");
  export_command->add_flag("--best", export_arguments.best, "The best checkpoint, not the last");
  add_overrides(*export_command, export_arguments.overrides, Shorthands::kNone);
  export_command->callback([&] { code = export_model(export_arguments); });

  BenchmarkArguments benchmark_arguments;
  CLI::App* benchmark_command = app.add_subcommand("benchmark", "Throughput, after a warm-up");
  add_config(*benchmark_command, benchmark_arguments);
  benchmark_command->add_option("--seconds", benchmark_arguments.seconds, "Time to measure")
      ->check(more_than_zero());
  benchmark_command->add_flag("--input-only", benchmark_arguments.input_only,
                              "The input pipeline alone");
  benchmark_command->add_flag("--synthetic", benchmark_arguments.synthetic, "Synthetic data");
  benchmark_command->callback([&] { code = benchmark(benchmark_arguments); });

  DataArguments data_arguments;
  CLI::App* data_command = app.add_subcommand(
      "data", "Check the image files of a config: counts, sizes, damage, leaks; or look at them");
  add_config(*data_command, data_arguments);
  data_command->add_option("--group-by", data_arguments.group_by,
                           "Regular expression on paths whose group must stay within one split");
  data_command->add_option("--sheet", data_arguments.sheet,
                           "Write training images as the model gets them to this PNG");
  data_command->add_option("--samples", data_arguments.samples, "Images on the sheet")
      ->check(at_least_one());
  data_command->callback([&] { code = data(data_arguments); });

  PlanArguments plan_arguments;
  CLI::App* plan_command = app.add_subcommand(
      "plan", "What a config means: values and their origins, layers, steps, memory");
  add_config(*plan_command, plan_arguments);
  plan_command->add_option("--print-after", plan_arguments.print_after,
                           "Print the graphs after a compiler pass, or all");
  plan_command->add_flag("--program", plan_arguments.program,
                         "Print what the device runs, step by step");
  plan_command
      ->add_option("--plot", plan_arguments.plot, "Write the learning-rate curve to this SVG file")
      ->type_name("FILE");
  plan_command
      ->add_option("--world-size", plan_arguments.world_size,
                   "Plan for so many processes; else as TF_CONFIG, torchrun, Slurm or mpirun tell")
      ->check(CLI::Range(1, 1 << 20));
  // Here a number to simulate, not one for the config.
  plan_command->remove_option(plan_command->get_option("--gpus"));
  CLI::Option* workers =
      plan_command
          ->add_option(
              "--workers,--gpus", plan_arguments.simulation.workers,
              "Predict step time and efficiency on 1, 2, 4, ... so many workers, one a GPU")
          ->check(CLI::Range(1, 1 << 20));
  CLI::Option* link = plan_command->add_option("--link", plan_arguments.simulation.link,
                                               "Bandwidth of each worker's link, e.g. 100Gbit");
  workers->needs(link);
  link->needs(workers);
  plan_command
      ->add_option("--latency", plan_arguments.simulation.latency, "Of a message; default 20us")
      ->needs(link);
  CLI::Option* step_time =
      plan_command
          ->add_option("--step-time", plan_arguments.simulation.step_time,
                       "Time of one worker's step, e.g. 120ms; else it is measured here")
          ->needs(link);
  plan_command
      ->add_option("--measured", plan_arguments.simulation.measured,
                   "Take it from the output of benchmark --json or train --json")
      ->type_name("FILE")
      ->needs(link)
      ->excludes(step_time);
  plan_command
      ->add_option("--seconds", plan_arguments.simulation.seconds, "Time to measure; default 2")
      ->needs(link)
      ->check(CLI::NonNegativeNumber);
  plan_command->callback([&] { code = plan(plan_arguments); });

  LaunchArguments launch_arguments;
  CLI::App* launch_command = app.add_subcommand(
      "launch", "Start ranks of a job on this machine: trainer launch -n 2 -- train CONFIG");
  launch_command->add_option("-n,--workers", launch_arguments.workers, "Number of ranks")
      ->required()
      ->check(CLI::Range(1, 1024));
  launch_command
      ->add_option("--ps", launch_arguments.servers,
                   "Parameter servers besides, for parallel.strategy: parameter_server")
      ->check(CLI::Range(1, 1024));
  launch_command->add_flag("--evaluator", launch_arguments.evaluator,
                           "And a task that evaluates each new checkpoint");
  launch_command
      ->add_option("command", launch_arguments.command,
                   "What each runs, behind --: train CONFIG ...")
      ->required();
  launch_command->callback([&] { code = launch(launch_arguments); });

  VerifyArguments verify_arguments;
  CLI::App* verify_command = app.add_subcommand(
      "verify", "Prove by training that replicas, or a resumed run, give what they should");
  verify_command->add_option("what", verify_arguments.what, "replicas or resume")
      ->required()
      ->check(CLI::IsMember({"replicas", "resume"}));
  add_config(*verify_command, verify_arguments);
  // Here a list to compare, not one number for the config.
  verify_command->remove_option(verify_command->get_option("--replicas"));
  verify_command
      ->add_option("--replicas", verify_arguments.replicas,
                   "Numbers of replicas to compare; default 1,2,4")
      ->delimiter(',')
      ->check(at_least_one());
  verify_command->add_option("--steps", verify_arguments.steps, "Length of the runs")
      ->check(CLI::Range(2, 1000000000));
  verify_command->callback([&] { code = verify(verify_arguments); });

  std::vector<std::string> validate_paths;
  std::vector<config::Override> validate_overrides;
  CLI::App* validate_command = app.add_subcommand("validate", "All errors of configs at once");
  validate_command->add_option("configs", validate_paths, "Config files")->required();
  add_overrides(*validate_command, validate_overrides);
  validate_command->callback([&] { code = validate(validate_paths, validate_overrides); });

  app.add_subcommand("schema", "JSON Schema of a config")->callback([&] { code = schema(); });

  std::string shell;
  CLI::App* completion_command =
      app.add_subcommand("completion", "Shell completion: source <(trainer completion bash)");
  completion_command->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion_command->callback([&] { code = completion(app, shell); });

  bool devices_json = false;
  CLI::App* devices_command = app.add_subcommand("devices", "What this machine offers");
  devices_command->add_flag("--json", devices_json, "One JSON object");
  devices_command->callback([&] { code = devices(devices_json); });

  check_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return kExitConfig;
  }
  return code;
}

}  // namespace
}  // namespace trainer::app

int main(int argc, char** argv) {
  trainer::flush_denormals();
  std::ios::sync_with_stdio(false);
  try {
    const int code = trainer::app::run(argc, argv);
    if (std::cout.flush()) return code;
    std::cerr << "error: not all of the output could be written: " << std::strerror(errno) << '\n';
    return code == trainer::kExitOk ? trainer::kExitData : code;
  } catch (const trainer::ConfigError& error) {
    std::cerr << error.what() << '\n';
    return error.code();
  } catch (const trainer::Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    return error.code();
  } catch (const std::filesystem::filesystem_error& error) {
    std::cerr << "error: " << error.path1().string() << ": " << error.code().message() << '\n';
    return trainer::kExitData;
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory; a smaller train.batch_size takes less\n";
    return trainer::kExitDevice;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\nThis is a mistake of the program, not yours.\n";
    return 1;
  }
}
