#include "commands/explain/reference.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "commands/explain/catalogue.h"
#include "commands/explain/explain.h"
#include "config/pretrained.h"
#include "config/rule.h"

namespace trainer::commands {

namespace {

using results::Form;
using results::KeyDescription;
using Row = std::vector<std::string>;

// A bar would end the cell.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char letter : text) escaped += letter == '|' ? "\\|" : std::string(1, letter);
  return escaped;
}

std::string line(const Row& cells) {
  std::string text = "|";
  for (const std::string& one : cells) text += ' ' + cell(one) + (one.empty() ? "|" : " |");
  return text + '\n';
}

std::string markdown_table(const Row& titles, const std::vector<Row>& rows) {
  std::string text = line(titles) + line(Row(titles.size(), "---"));
  for (const Row& row : rows) text += line(row);
  return text;
}

std::string code(const std::string& text) { return text.empty() ? "" : '`' + text + '`'; }

std::string describe_keys() {
  std::string text;
  for (const ExplainedSection& section : explained_sections()) {
    text += concat("\n## ", section.name, "\n\n");
    if (section.shared) {
      text += concat("What \"", section.name, "\" stands for among the values of keys.\n\n");
    }
    std::vector<Row> rows;
    for (const Explained& key : section.keys) {
      rows.push_back(
          {code(key.path), key.value, key.required ? "required" : code(key.initial), key.help});
    }
    text += markdown_table({"key", "value", "default", "meaning"}, rows);
  }
  return text;
}

std::string describe_backbones() {
  std::vector<Row> rows;
  for (const config::Backbone& backbone : config::list_backbones()) {
    const std::string file = config::imagenet_weight_file(backbone);
    rows.push_back({code(std::string(spell(backbone.name))),
                    code(std::string(spell(config::find_variant(backbone)))),
                    code(config::python_name(backbone)),
                    code(std::string(spell(config::default_preprocess(backbone)))),
                    file.empty() ? "" : code(file)});
  }
  return "\n## Backbones\n\n`weights: imagenet` is the file of the last column in `$WEIGHTS_DIR`, "
         "`weights` or `~/.keras/models`;\n`trainer weights NAME` downloads it.\n\n" +
         markdown_table({"name", "variant", "as in", "`data.preprocess`", "weights"}, rows);
}

std::string describe_formats() {
  using enum config::DataFormat;
  static constexpr std::pair<config::DataFormat, const char*> kFormats[] = {
      {kIdx, "The files of MNIST: images and labels of each split, .gz or not."},
      {kNpz, "NumPy arrays: an .npz with x_train, y_train, x_test, y_test, or .npy files."},
      {kSynthetic, "Random images, for measurements."},
      {kDigits, "Drawn digits of 28 x 28, which the program writes once; needs no download."},
      {kImageFolder, "Image files in one folder per class, also in a zip archive."},
      {kCsv, "A list of image files and labels."},
      {kCifar,
       "CIFAR's binary files: data_batch_*.bin and test_batch.bin, or train.bin and "
       "test.bin."},
      {kTfRecord, "TFRecord files of tf.train.Example with encoded images."},
      {kWebDataset, "Tar shards of image files, with the class of each beside it."}};
  static_assert(std::size(kFormats) == spellings(config::DataFormat{}).size());
  std::vector<Row> rows;
  for (const auto& [format, meaning] : kFormats) {
    rows.push_back({code(std::string(spell(format))), meaning});
  }
  return "\n## Data formats\n\n" + markdown_table({"`data.format`", "data"}, rows) +
         "\nParquet files are not read; configs/guide_own_images.md has six lines of Python that "
         "make a tar shard for\n`webdataset` of one.\n";
}

std::string describe_exit_codes() {
  const auto row = [](int value, const char* meaning) {
    return Row{std::to_string(value), meaning};
  };
  return "\n## Exit codes\n\n" +
         markdown_table(
             {"code", "meaning"},
             {row(kExitOk, "done"), row(kExitConfig, "the command line or the config is wrong"),
              row(kExitData, "data, weights or a checkpoint cannot be used"),
              row(kExitDevice, "a device or another process failed"),
              row(kExitCheck, "a check did not hold"),
              row(kExitInterrupted, "interrupted and saved; start again with --resume")});
}

// A key of a file or of a line of --json.
struct ExplainedOutput {
  std::string path;   // "finished.metrics.NAME.loss"
  std::string value;  // the values that it may have: "a number of samples, or null"
  std::string meaning;
};

std::string describe_form(const Form& form);

std::string describe_kind(const Form& form) {
  switch (form.kind) {
    case Form::Kind::kBoolean:
      return "true or false";
    case Form::Kind::kInteger:
      return "a whole number";
    case Form::Kind::kNumber:
      return "a number";
    case Form::Kind::kText:
      return form.words.size() == 1 ? "the text " + form.words.front()
             : form.words.empty()   ? "a text"
                                    : "one of " + join(form.words);
    case Form::Kind::kList:
      return concat("a list, each ", describe_form(form.items.front()));
    case Form::Kind::kMap:
      return concat("an object by name, each ", describe_form(form.items.front()));
    case Form::Kind::kObject:
      return "an object";
  }
  return "";
}

std::string describe_form(const Form& form) {
  return describe_kind(form) + (form.may_be_null ? " or null" : "");
}

std::string describe_values(const KeyDescription& key) {
  std::string text = describe_form(key.form);
  if (!key.unit.name.empty()) text += concat(", unit: ", key.unit.name);
  return key.may_be_absent ? text + "; may be absent" : text;
}

void add_keys(const std::vector<KeyDescription>& keys, const std::string& above,
              std::vector<ExplainedOutput>& outputs) {
  for (const KeyDescription& key : keys) {
    std::string path = above + key.key;
    outputs.push_back({path, describe_values(key), key.meaning});
    const Form* form = &key.form;
    for (; !form->items.empty(); form = &form->items.front()) {
      path += form->kind == Form::Kind::kMap ? ".NAME" : "[]";
    }
    if (form->kind != Form::Kind::kObject) continue;
    for (const auto& inner : list_alternatives(*form)) add_keys(inner, path + '.', outputs);
  }
}

// Returns the keys of a result of catalogue.h: one list, or one for each kind of line.
// Throws ConfigError for another name.
std::vector<std::vector<ExplainedOutput>> list_outputs(const std::string& result) {
  std::vector<std::vector<ExplainedOutput>> lists;
  for (const auto& keys : list_alternatives(find_description(result).form)) {
    add_keys(keys, "", lists.emplace_back());
  }
  return lists;
}

}  // namespace

std::string reference() {
  return "# Reference of configs\n\nWritten by `trainer explain --all`; a test compares the two. "
         "`trainer explain KEY` prints a part in the terminal.\nEvery value may also be "
         "`${NAME}` or `${NAME:-default}`, a variable of the environment.\n" +
         describe_keys() + describe_backbones() + describe_formats() + describe_exit_codes();
}

std::string output_reference() {
  std::string text =
      "# Reference of outputs\n\nWritten by `trainer explain --outputs`; a test compares the two. "
      "`trainer explain --result NAME` prints a part in\nthe terminal, and `trainer schema "
      "--result NAME` its JSON Schema. Numbers that are not finite are null.\n";
  for (const ResultDescription& result : list_results()) {
    text += concat("\n## ", result.name, "\n\n", result.meaning, '\n');
    for (const std::vector<ExplainedOutput>& outputs : list_outputs(result.name)) {
      std::vector<Row> rows;
      for (const ExplainedOutput& output : outputs) {
        rows.push_back({code(output.path), output.value, output.meaning});
      }
      text += '\n' + markdown_table({"key", "value", "meaning"}, rows);
    }
  }
  return text;
}

std::string explain_result(const std::string& result) {
  std::string text = find_description(result).meaning + '\n';
  for (const std::vector<ExplainedOutput>& outputs : list_outputs(result)) {
    text += '\n';
    for (const ExplainedOutput& output : outputs) {
      text += concat(output.path, "  ", output.value, "\n    ", output.meaning, '\n');
    }
  }
  return text;
}

}  // namespace trainer::commands
