// What the command line answers to mistyped words.
#include "line/hints.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "support/contains.h"

namespace trainer::app {
namespace {

using test::contains;
using Words = std::vector<std::string>;

OptionDescription option(Words short_names, Words long_names) {
  OptionDescription described;
  described.short_names = std::move(short_names);
  described.long_names = std::move(long_names);
  return described;
}

const std::vector<CommandDescription> kCommands{
    {"train", "", "", {option({"h"}, {"help"}), option({}, {"set"}), option({}, {"overwrite"})}},
    {"runs", "", "", {option({"h"}, {"help"}), option({}, {"json"})}},
    {"export", "", "", {option({}, {"output"}), option({}, {"json"}), option({}, {"set"})}}};

// Returns the message of the words, or "" if they pass.
std::string hint(const Words& words) {
  try {
    check_words(kCommands, words);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("check_words accepts words that fit") {
  CHECK(hint({}) == "");
  CHECK(hint({"--version"}) == "");
  CHECK(hint({"train", "x.yaml", "--set", "seed=1", "-h", "--overwrite"}) == "");
  CHECK(hint({"runs", "a", "b", "--json"}) == "");
}

TEST_CASE(
    "check_words suggests the nearest option of the program for an unknown one before the "
    "command") {
  CHECK(hint({"--help"}) == "");
  CHECK(contains(hint({"--verion"}), "unknown option '--verion', did you mean '--version'?"));
  CHECK(contains(hint({"--quiet", "train"}), "unknown option '--quiet'; options follow a command"));
}

TEST_CASE("check_words suggests the nearest of the commands, or all, for an unknown one") {
  CHECK(contains(hint({"trian", "x.yaml"}), "unknown command 'trian', did you mean 'train'?"));
  const std::string message = hint({"quux"});
  CHECK(contains(message, "unknown command 'quux'"));
  CHECK(contains(message, "train, runs, export"));
}

TEST_CASE("check_words explains how to train with a file in place of a command") {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "a b.yaml";
  write_file_atomic(file, "");
  CHECK(contains(hint({file}), concat("'", file, "' is not a command; `trainer train '", file,
                                      "'` trains with it")));
}

TEST_CASE("check_words suggests the nearest option of its command for an unknown one") {
  CHECK(contains(hint({"train", "--overwrit"}),
                 "unknown option '--overwrit' of train, did you mean '--overwrite'?"));
  CHECK(contains(hint({"runs", "--overwrit"}), "`trainer runs --help` lists them"));
  CHECK(contains(hint({"train", "--jsno=1"}), "unknown option '--jsno' of train"));
}

TEST_CASE("check_words suggests what to write instead of an option of another program") {
  CHECK(contains(hint({"train", "--workers", "4"}),
                 "unknown option '--workers' of train; write --set data.threads=4"));
  // Only a command with --set can do this.
  CHECK(!contains(hint({"runs", "--workers", "4"}), "--set"));
}

TEST_CASE("check_words suggests the option of a short name if the command has it") {
  CHECK(contains(hint({"export", "-o", "x"}), "'-o' of export; write --output FILE"));
  CHECK(contains(hint({"runs", "-o", "x"}), "'-o' of runs; `trainer runs --help` lists them"));
  CHECK(contains(hint({"runs", "-j"}), "write --json"));
  // Numbers and lists are values.
  CHECK(hint({"train", "-1", "-ab"}) == "");
}

TEST_CASE("check_words does not check words behind --") {
  CHECK(hint({"train", "--", "--workers"}) == "");
}

TEST_CASE("check_words suggests one --set for each of two settings behind one") {
  CHECK(contains(hint({"train", "--set", "a=1", "b=2"}), "write --set a=1 --set b=2"));
  CHECK(hint({"train", "--set", "a=1", "--overwrite"}) == "");
  CHECK(hint({"train", "--set", "a=1", "x.yaml"}) == "");
  const TemporaryFolder folder;
  const std::string file = folder.path() / "b=2";
  write_file_atomic(file, "");
  CHECK(hint({"train", "--set", "a=1", file}) == "");
}

}  // namespace
}  // namespace trainer::app
