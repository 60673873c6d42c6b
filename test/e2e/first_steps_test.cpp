// From images to a model without a config, and what a user sees who begins.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "pictures.h"
#include "support/contains.h"

namespace trainer::e2e::first_steps_test {
namespace {

namespace fs = std::filesystem;

using test::contains;

// A folder in which the program runs, with photos of two classes and a list of some of them.
struct Here {
  Workspace work;
  Path folder = work / "here";

  Here() {
    write_images(folder / "photos", 12, 1);
    std::ofstream list(folder / "list.csv");
    list << "path,label\n";
    for (int i = 0; i < 9; ++i) list << "photos/left/" << i << ".ppm,cat\n";
    for (int i = 0; i < 4; ++i) list << "photos/right/" << i << ".ppm,dog\n";
  }

  Result run(const Arguments& arguments) const {
    Program program(arguments, {{"HOME", folder / "home"}, {"WEIGHTS_DIR", ""}}, [this] {
      if (::chdir(folder.c_str()) != 0) ::_exit(126);
    });
    return program.wait();
  }
  std::string text(const std::string& name) const { return read_text_file(folder / name); }
};

const Arguments kShort{"--json", "--set", "train.max_steps=2"};

Arguments train(const std::string& source, const Arguments& more = {}) {
  Arguments arguments{"train", source};
  arguments.insert(arguments.end(), kShort.begin(), kShort.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("train writes the config of `new` for a folder of images and trains with it") {
  const Here here;
  REQUIRE(here.run({"new", "photos", "--output", "new.yaml"}).code == 0);
  const Result first = here.run(train("photos/"));
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(contains(first.err, "note: wrote photos.yaml, the config of photos/"));
  CHECK(first.event("finished")["run"] == "runs/photos");
  CHECK(first.event("finished")["metrics"]["validation"]["count"] == 5);
  // They differ in the path that was given.
  std::string expected = here.text("new.yaml");
  expected.replace(expected.find("path: photos"), 12, "path: photos/");
  CHECK(here.text("photos.yaml") == expected);

  // The config is the user's: it is used as it is.
  std::ofstream(here.folder / "photos.yaml", std::ios::app) << "  dir: elsewhere\n";
  const std::string edited = here.text("photos.yaml");
  const Result second = here.run(train("photos"));
  INFO(second.err);
  REQUIRE(second.code == 0);
  CHECK(contains(second.err, "note: photos.yaml exists and is the config of photos\n"));
  CHECK(second.event("finished")["run"] == "elsewhere");
  CHECK(here.text("photos.yaml") == edited);
}

TEST_CASE("train writes a config with the classes and balanced weights of a list of images") {
  const Here here;
  const Result result = here.run(train("list.csv"));
  INFO(result.err);
  REQUIRE(result.code == 0);
  const std::string text = here.text("list.yaml");
  CHECK(contains(text, "# Found: 13 training images of 2 classes (cat 9, dog 4)"));
  CHECK(contains(text, "at least 40 x 36 pixels"));
  CHECK(contains(text, "name: list "));
  CHECK(contains(text, "format: csv "));
  CHECK(contains(text, "classes: [cat, dog]\n  train: {path: list.csv,"));
  CHECK(contains(text, "class_weight: balanced"));  // 9 > 2 * 4
  CHECK(result.event("finished")["run"] == "runs/list");
}

TEST_CASE("new: a network without weights has batch norm that suits a short run") {
  const Here here;
  REQUIRE(here.run({"new", "photos", "--output", "photos.yaml"}).code == 0);
  const std::string text = here.text("photos.yaml");
  int layers = 0;
  const std::string layer = "use_bias: false, batch_norm: {momentum: 0.9}, activation: relu}";
  for (auto at = text.find(layer); at != std::string::npos; at = text.find(layer, at + 1)) ++layers;
  CHECK(layers == 4);
  const Result plan = here.run({"plan", "photos.yaml"});
  CHECK(plan.code == 0);
  CHECK_FALSE(contains(plan.err, "warning"));
}

TEST_CASE("new: classes of up to twice the size get no class weights") {
  const Here here;
  for (int i = 0; i < 6; ++i) fs::remove(here.folder / concat("photos/right/", i, ".ppm"));
  REQUIRE(here.run({"new", "photos"}).code == 0);  // 12 and 6
  CHECK_FALSE(contains(here.text("photos.yaml"), "class_weight"));
  fs::remove(here.folder / "photos/right/6.ppm");
  REQUIRE(here.run({"new", "photos", "--overwrite"}).code == 0);  // 12 and 5
  CHECK(contains(here.text("photos.yaml"), "class_weight: balanced"));
}

TEST_CASE("new: a separator of labels is an error, since its configs have one class per image") {
  const Here here;
  for (const char* setting : {"data.csv.label_separator='|'", "data.csv={label_separator: '|'}"}) {
    const Result result = here.run({"new", "list.csv", "--set", setting});
    CHECK(result.code == 2);
    CHECK(contains(result.err,
                   "--set data.csv.label_separator: `trainer new` writes configs of "
                   "one class per image"));
    CHECK_FALSE(fs::exists(here.folder / "list.yaml"));
  }
}

TEST_CASE("crossval: a list of images is read with the settings of the command") {
  const Here here;
  std::string text = here.text("list.csv");
  std::replace(text.begin(), text.end(), ',', ';');
  std::ofstream(here.folder / "semicolons.csv") << text;
  const Result result = here.run({"crossval", "semicolons.csv", "--folds", "2", "--json", "--set",
                                  "data.csv.separator=;", "--set", "train.max_steps=1"});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK(contains(here.text("semicolons.yaml"), "separator: "));
}

TEST_CASE("new: batch norm of a backbone uses the moving statistics") {
  const Here here;
  fs::create_directories(here.folder / "weights");
  std::ofstream(here.folder /
                "weights/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5")
      << "not read";
  REQUIRE(here.run({"new", "photos"}).code == 0);
  CHECK(contains(here.text("photos.yaml"), "\n    batch_norm: eval "));
  const Result valid = here.run({"validate", "photos.yaml", "--set", "model.backbone.weights=''"});
  CHECK(valid.code == 0);
}

TEST_CASE("new: the note of no weights names the commands that write this config with weights") {
  const Here here;
  const Result photos = here.run({"new", "photos"});
  CHECK(contains(photos.err,
                 "MB, and then `trainer new photos --overwrite` writes a config that uses them"));
  const Result list = here.run({"new", "list.csv", "--output", "start here.yaml", "--group-by",
                                "photos/(.*)/", "--set", "data.csv.label_column=label"});
  CHECK(contains(list.out, "trainer train 'start here.yaml'\n"));
  CHECK(contains(list.err,
                 "`trainer new list.csv --output 'start here.yaml' --group-by 'photos/(.*)/' --set "
                 "data.csv.label_column=label --overwrite`"));
}

TEST_CASE("train: the warning of a config written before weights were there has the remedy") {
  const Here here;
  const Path config = here.folder / "photos.yaml";
  REQUIRE(here.run(train("photos")).code == 0);
  const Arguments again = train("photos", {"--overwrite"});
  CHECK_FALSE(contains(here.run(again).err, "was written before"));
  fs::create_directories(here.folder / "weights");
  const std::string file =
      "weights/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5";
  std::ofstream(here.folder / file) << "not read";
  const std::string written = here.text("photos.yaml");
  const Result old = here.run(again);
  CHECK(old.code == 0);
  CHECK(contains(old.err, concat("warning: photos.yaml was written before ", file,
                                 " was there, and its model learns from these images alone; "
                                 "`trainer new photos --overwrite` writes the config anew, with "
                                 "these weights and without your changes\n")));
  CHECK(here.text("photos.yaml") == written);
  // The groups stay those of the config.
  std::string grouped = written;
  grouped.replace(grouped.find("  on_error:"), 0, "  group_by: photos/(.*)/\n");
  write_file_atomic(config, grouped);
  CHECK(contains(here.run({"plan", "photos"}).err,
                 "`trainer new photos --group-by 'photos/(.*)/' --overwrite` writes the config"));
  write_file_atomic(config, written);

  // A config that the user has taken over.
  std::string own = written;
  own.replace(own.find("# No weights"), 12, "# My network");
  write_file_atomic(config, own);
  CHECK_FALSE(contains(here.run(again).err, "was written before"));

  REQUIRE(here.run({"new", "photos", "--overwrite"}).code == 0);
  CHECK(contains(here.text("photos.yaml"), file));
  const Result data = here.run({"data", "photos"});
  CHECK(data.code == 0);
  CHECK_FALSE(contains(data.err, "warning"));
}

TEST_CASE("train: a config of the same name and other data is an error") {
  const Here here;
  REQUIRE(here.run({"new", "photos"}).code == 0);
  const std::string before = here.text("photos.yaml");
  fs::create_directories(here.folder / "other");
  fs::rename(here.folder / "photos", here.folder / "other/photos");
  const Result result = here.run({"train", "other/photos"});
  CHECK(result.code == 2);
  CHECK(contains(result.err,
                 "photos.yaml exists and its data is not in other/photos; write another config "
                 "with `trainer new other/photos --output FILE`"));
  CHECK(here.text("photos.yaml") == before);
}

TEST_CASE("data and plan take a folder of images, a list or a run in place of a config") {
  const Here here;
  const Result data = here.run({"data", "photos/"});
  CHECK(data.code == 0);
  CHECK(contains(data.err, "note: wrote photos.yaml"));
  CHECK(contains(data.out, "train: 19 files"));
  CHECK(contains(here.run({"data", "list.csv"}).out, "train: 10 files"));
  REQUIRE(here.run(train("photos")).code == 0);
  const Result plan = here.run({"plan", "runs/photos"});
  CHECK(plan.code == 0);
  CHECK_FALSE(contains(plan.err, "note: "));
  CHECK(contains(plan.out, "max_steps"));
  const Result again = here.run({"train", "runs/photos"});
  CHECK(again.code == 2);
  CHECK(contains(again.err, "continue it with --resume"));
  CHECK(here.run({"train", "runs/photos", "--resume"}).code == 0);
}

TEST_CASE("train: a copied run folder is not trained in the folder of its config") {
  const Here here;
  REQUIRE(here.run(train("photos")).code == 0);
  fs::copy(here.folder / "runs/photos", here.folder / "copy", fs::copy_options::recursive);
  const std::string before = here.text("runs/photos/run.json");
  for (const char* option : {"--resume", "--overwrite"}) {
    CAPTURE(option);
    const Result result = here.run(train("copy", {option}));
    CHECK(result.code == 2);
    CHECK(contains(result.err,
                   "copy: the config of this run names the folder runs/photos; give "
                   "--run-dir with the folder to train in, e.g. --run-dir=copy"));
  }
  CHECK(here.text("runs/photos/run.json") == before);
  CHECK(here.run(train("copy", {"--resume", "--run-dir=copy"})).code == 0);
  CHECK(here.text("runs/photos/run.json") == before);
}

TEST_CASE("train: relative paths of a config are also found in the folder of the config") {
  const Here here;
  fs::create_directories(here.folder / "project");
  fs::rename(here.folder / "photos", here.folder / "project/photos");
  REQUIRE(here.run({"new", "project/photos", "--output", "project/photos.yaml"}).code == 0);
  std::string text = here.text("project/photos.yaml");
  const std::string written = "train: {path: project/photos,";
  REQUIRE(contains(text, written));
  text.replace(text.find(written), written.size(), "train: {path: photos,");
  write_file_atomic(here.folder / "project/photos.yaml", text);
  const Result found = here.run(train("project/photos.yaml"));
  INFO(found.err);
  CHECK(found.code == 0);
  CHECK(contains(here.text("runs/photos/config.yaml"), "path: project/photos"));
  CHECK(here.run({"evaluate", "runs/photos"}).code == 0);

  // Corrections are found too, and no data comes from two places.
  std::ofstream(here.folder / "project/fixes.csv") << "path,label\n";
  const std::string data = "data:\n";
  text.replace(text.find(data), data.size(), data + "  relabel: fixes.csv\n");
  write_file_atomic(here.folder / "project/fixed.yaml", text);
  CHECK(contains(here.run({"data", "project/fixed.yaml"}).out,
                 "data.relabel: project/fixes.csv changes 0 labels"));
  fs::rename(here.folder / "project/fixes.csv", here.folder / "fixes.csv");
  CHECK(here.run({"data", "project/fixed.yaml"}).code == 3);
  fs::remove(here.folder / "fixes.csv");

  // The current folder comes first, and a path of --set is not searched beside the config.
  write_images(here.folder / "photos", 12, 1);
  CHECK(here.run(train("project/photos.yaml", {"--run-dir=runs/here"})).code == 0);
  CHECK(contains(here.text("runs/here/config.yaml"), "path: photos"));
  fs::rename(here.folder / "photos", here.folder / "other");
  const Result set = here.run(train("project/photos.yaml", {"--set", "data.train.path=photos"}));
  CHECK(set.code == 3);
  CHECK(contains(set.err, "photos: no such file or folder, named by data.train.path. Give its"));

  fs::rename(here.folder / "project/photos", here.folder / "project/moved");
  const Result missing = here.run(train("project/photos.yaml", {"--run-dir=runs/none"}));
  CHECK(missing.code == 3);
  CHECK(contains(missing.err,
                 "photos: no such file or folder, named by data.train.path; nor is there "
                 "project/photos beside the config. Give its place with"));
}

TEST_CASE("commands: the error of a folder that is neither a run nor has images names both") {
  const Here here;
  fs::create_directories(here.folder / "empty/inner");
  for (const char* command : {"train", "data", "plan", "new", "evaluate", "predict"}) {
    CAPTURE(command);
    const Result result = here.run({command, "empty"});
    CHECK(result.code == 3);
    CHECK(contains(result.err,
                   "error: empty: is neither a run (it has no run.json) nor a folder of images"));
  }
  const Result photos = here.run({"evaluate", "photos"});
  CHECK(photos.code == 3);
  CHECK(contains(photos.err,
                 "photos: is a folder of images, not a run; `trainer train photos` trains"));
}

TEST_CASE("commands: a source of another kind gives one sentence with the next step") {
  const Here here;
  REQUIRE(here.run(train("photos")).code == 0);
  fs::copy(here.folder / "list.csv", here.folder / "list.txt");
  std::ofstream(here.folder / "tabs.txt") << "path\tlabel\nphotos/left/0.ppm\tcat\n";
  std::ofstream(here.folder / "notes.txt") << "some text\n";
  struct Row {
    Arguments command;
    std::string expected;
    int code = 3;
  };
  const std::string one_of_three =
      " Expected a YAML config, a folder of images or a list of images (CSV)\n";
  const std::string run_folder = "expected the folder of a run, as `trainer train` leaves it\n";
  const std::string images = "photos: is a folder of images, not a run; `trainer train photos` ";
  const std::string list = "list.csv: is a list of images, not a run; `trainer train list.csv` ";
  for (const Row& row : {
           Row{{"train", "potos"},
               "potos: error: no such file, did you mean 'photos'?" + one_of_three,
               2},
           Row{{"train", "runs/../potos/"}, "no such file, did you mean 'runs/../photos'?", 2},
           Row{{"plan", "photo.yaml"}, "no such file, did you mean 'photos.yaml'?", 2},
           Row{{"validate", "photo.yaml"}, "no such file, did you mean 'photos.yaml'?", 2},
           Row{{"data", "lst.csv"},
               "lst.csv: no such file or folder, did you mean 'list.csv'? Expected a folder with"},
           Row{{"new", "quite_another_name"},
               "quite_another_name: no such file or folder; expected a folder with"},
           Row{{"plan", "notes.txt"}, "notes.txt:1:1: error: expected a map with the keys", 2},
           Row{{"train", "list.txt"},
               "list.txt: error: looks like a list of images, not a config (it begins with "
               "'path,label'); name it list.csv and run `trainer train list.csv`\n",
               2},
           Row{{"plan", "tabs.txt"}, "name it tabs.tsv and run `trainer train tabs.tsv`\n", 2},
           Row{{"validate", "list.txt"}, "run `trainer train list.csv`\n", 2},
           Row{{"validate", "photos"},
               "photos: error: holds images, which `trainer data photos` checks; this command "
               "takes configs\n",
               2},
           Row{{"validate", "list.csv"},
               "list.csv: error: is a list of images, which `trainer data list.csv` checks; this "
               "command takes configs\n",
               2},
           Row{{"validate", "runs/photos"},
               "is a run; its config is checked by: trainer validate runs/photos/config.yaml\n",
               2},
           Row{{"report", "photos"}, images},
           Row{{"report", "runs"}, "runs: is a folder of runs; name one of them: runs/photos\n"},
           Row{{"report", "runs/photo"},
               "runs/photo: no such folder, did you mean 'runs/photos'? Expected the folder of a "},
           Row{{"report", "quite_another_name"}, "no such folder; " + run_folder},
           Row{{"compare", "runs/photos", "photos"}, images},
           Row{{"compare", "list.csv", "runs/photos"}, list},
           Row{{"compare", "runs/photos", "notes.txt"}, "notes.txt: is a file; " + run_folder},
           Row{{"diff", "runs/photos", "photos.yaml"},
               "photos.yaml: is a config, not a run; `trainer train photos.yaml` makes a run\n"},
           Row{{"diff", "runs/photos", "runs"}, "is a folder of runs; name one of them: runs/p"},
           Row{{"evaluate", "runs"}, "is a folder of runs; name one of them: runs/photos\n"},
           Row{{"evaluate", "list.csv"}, list},
           Row{{"predict", "photos"}, images},
       }) {
    CAPTURE(row.command);
    const Result result = here.run(row.command);
    INFO(result.err);
    CHECK(result.code == row.code);
    CHECK(contains(result.err, row.expected));
    CHECK(std::ranges::count(result.err, '\n') == 1);
  }
  CHECK_FALSE(fs::exists(here.folder / "photos/report.html"));
}

TEST_CASE("trainer prints how to begin without a command or help") {
  const Here here;
  const Result alone = here.run({}), help = here.run({"help"});
  CHECK(alone.code == 2);
  CHECK(alone.out == "");
  CHECK(help.code == 0);
  CHECK(help.out == alone.err);
  CHECK(contains(help.out, "\n  trainer train photos/ "));
  CHECK(contains(help.out, "trainer --help lists all commands"));
  CHECK(here.run({"help", "train"}).out == here.run({"train", "--help"}).out);
  CHECK(contains(here.run({"help", "trian"}).err, "did you mean 'train'?"));
  const Result path = here.run({"photos"});
  CHECK(path.code == 2);
  CHECK(contains(path.err, "'photos' is not a command; `trainer train photos` trains with it"));
}

TEST_CASE("train and data report photos in two classes, and data ends with 0") {
  const Here here;
  fs::copy_file(here.folder / "photos/left/3.ppm", here.folder / "photos/right/copy.ppm");
  const Result trained = here.run(train("photos"));
  CHECK(trained.code == 0);
  CHECK(contains(trained.err, "photos: 1 photo is in several classes, e.g. "));
  CHECK(here.run({"data", "photos"}).code == 0);
}

TEST_CASE("train takes a folder whose class folders are links") {
  const Here here;
  fs::create_directories(here.folder / "linked");
  for (const char* name : {"left", "right"}) {
    fs::create_directories(here.folder / name);
    fs::rename(here.folder / "photos" / name, here.folder / name / "inner");
    fs::create_directory_symlink(here.folder / name, here.folder / "linked" / name);
  }
  const Result trained = here.run(train("linked"));
  INFO(trained.err);
  CHECK(trained.code == 0);
}

TEST_CASE("train explains files that are not photos in class folders") {
  const Here here;
  const auto fail = [&](const Arguments& arguments) {
    const Result result = here.run(arguments);
    CHECK(result.code != 0);
    return result.err;
  };
  fs::create_directories(here.folder / "hf/train");
  fs::copy_file(here.folder / "photos/left/1.ppm", here.folder / "hf/train/1.ppm");
  write_file_atomic(here.folder / "hf/train/metadata.csv", std::string("file_name,label\n"));
  CHECK(contains(fail({"train", "hf"}),
                 "hf: has no folder per class, but a list of its images; "
                 "give the list: `trainer train hf/train/metadata.csv`"));
  for (const char* name : {"a", "b"}) {
    fs::create_directories(here.folder / "dicom" / name);
    write_file_atomic(here.folder / "dicom" / name / "1.dcm",
                      std::string(128, '\0') + "DICM" + std::string(99, '\0'));
  }
  CHECK(contains(fail({"data", "dicom"}),
                 "dicom/a/1.dcm: is a DICOM file, which is not supported; convert it to PNG or "
                 "JPEG, for example with DCMTK: dcm2img"));
  write_file_atomic(here.folder / "photo.jpg", std::string("\xFF\xD8\xFF\xE0\0\x10JFIF,", 11));
  CHECK(contains(fail({"train", "photo.jpg"}),
                 "photo.jpg: error: is not a text file, and a config is one. To predict an image, "
                 "run `trainer predict RUN photo.jpg`"));
}

TEST_CASE("predict reads lists and standard input, and a config without train") {
  const Here here;
  write_file_atomic(here.folder / "no_train.yaml",
                    std::string("model: {input: [32, 32, 3], layers: [flatten, dense: 2]}\n"
                                "data: {format: image_folder, path: photos}\n"));
  const auto predict = [&](const Arguments& images, const std::string& input) {
    write_file_atomic(here.folder / "input", input);
    Arguments arguments{"predict", "no_train.yaml", "--format", "csv"};
    arguments.insert(arguments.end(), images.begin(), images.end());
    Program program(arguments, {}, [&] {
      const bool is_ready =
          ::chdir(here.folder.c_str()) == 0 && ::freopen("input", "r", stdin) != nullptr;
      if (!is_ready) ::_exit(126);
    });
    const Result result = program.wait();
    INFO(result.err);
    CHECK(result.code == 0);
    return result.out;
  };
  const std::string named = predict({"photos/left/2.ppm", "photos/right/3.ppm"}, "");
  CHECK(std::count(named.begin(), named.end(), '\n') == 3);
  CHECK(predict({"-"}, "photos/left/2.ppm\nphotos/right/3.ppm\n") == named);
  write_file_atomic(here.folder / "unlabelled.csv",
                    std::string("id,path\n1,photos/left/2.ppm\n2,photos/right/3.ppm\n"));
  CHECK(predict({"unlabelled.csv"}, "") == named);
  write_file_atomic(here.folder / "names.csv",
                    std::string("photos/left/2.ppm\nphotos/right/3.ppm\n"));
  CHECK(predict({"names.csv"}, "") == named);
}

}  // namespace trainer::e2e::first_steps_test
