#include "commands/explain/explain.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "config/describe/schema.h"
#include "config/values.h"
#include "support/contains.h"

namespace trainer::commands {
namespace {

using test::contains;

std::string mistake(const std::string& path) {
  try {
    explain(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("explain: every key that --set accepts has an explanation") {
  for (const std::string& key : config::settable_keys()) {
    CAPTURE(key);
    const std::string last = key.substr(key.rfind('.') + 1);
    const std::string text = explain(key);
    const std::string first = text.substr(0, text.find(' '));
    CHECK(first.substr(first.rfind('.') + 1) == last);
    CHECK(contains(text, "\n    "));
  }
}

TEST_CASE("explain prints a key, its kind of value, default, meaning and the keys below it") {
  CHECK(explain("optimizer.adam.learning_rate") ==
        "optimizer.adam.learning_rate  a number, at least 0; default 0.001\n    Learning rate: the "
        "factor of an update, which the schedule changes over time.\n");
  const std::string adam = explain("optimizer.adam");
  CHECK(adam.starts_with("optimizer.adam  "));
  CHECK(contains(adam, "\noptimizer.adam.beta_1  "));
  CHECK(explain("adam") == adam + "\nalso: optimizer.adamw, optimizer.nadam\n");
  CHECK(contains(explain("optimizer"), "one of sgd, rmsprop, adam"));
  CHECK(contains(explain("train.batch_size"), "a whole number or auto, at least 1"));
  CHECK(contains(explain("model.backbone.name"), "; required\n"));
  CHECK(contains(explain("model.input"), "a list, each a whole number, at least 1, 3 of them\n"));
  CHECK_FALSE(contains(explain("model.dense_classifier.hidden_units"), "of them"));
  CHECK(contains(explain("train.precision"), "one of float32, tf32, bfloat16"));
}

TEST_CASE("explain_json lists the keys that explain prints") {
  using Json = nlohmann::json;
  const Json adam = Json::parse(explain_json("optimizer.adam"));
  CHECK(adam["event"] == "explain");
  CHECK(adam["keys"][0]["key"] == "optimizer.adam");
  const Json& rate = adam["keys"][1];
  CHECK(rate["key"] == "optimizer.adam.learning_rate");
  CHECK(rate["value"] == "a number, at least 0");
  CHECK(rate["default"] == "0.001");
  CHECK(rate["required"] == false);
  CHECK(contains(explain("optimizer.adam"), rate["help"].get<std::string>()));
  CHECK(Json::parse(explain_json("layer"))["keys"].size() > 10);
  std::size_t all = 0;
  for (const ExplainedSection& section : explained_sections()) all += section.keys.size();
  CHECK(Json::parse(explain_json(""))["keys"].size() == all);
  CHECK_THROWS_AS(explain_json("no_such_key"), ConfigError);
}

TEST_CASE("explain: keys of layers and augmentations have a section for each kind") {
  const std::string conv = explain("model.layers.conv");
  CHECK(conv.starts_with("conv  "));
  CHECK(contains(conv, "\nconv.filters  a whole number, at least 1; required\n"));
  CHECK(explain("conv") ==
        conv + "\nalso: parallel.convolution, depthwise_conv, separable_conv, conv_transpose\n");
  CHECK(explain("model.head.conv.kernel_size").starts_with("conv.kernel_size  "));
  CHECK(contains(explain("layer"), "\nmax_pool  "));
  CHECK(contains(explain("model.layers"), "a list of layers"));
  const std::string sections = explain("");
  for (const char* name : {"model  ", "optimizer  ", "run  ", "layer  ", "augmentation  "}) {
    CHECK(contains("\n" + sections, std::string("\n") + name));
  }
}

TEST_CASE("explain: a part of a key gives all keys that contain it") {
  const std::string rates = explain("learning_rate");
  CHECK(contains(rates, " keys contain 'learning_rate':\n"));
  CHECK(contains(rates, "\noptimizer.adam.learning_rate  "));
  CHECK(contains(rates, "\noptimizer.sgd.learning_rate  "));
  CHECK(contains(rates, "\nmodel.backbone.unfreeze.learning_rate_multiplier  "));
  CHECK(contains(explain("weight_dec"), "\noptimizer.adamw.weight_decay  "));
  CHECK(explain("error_bud").starts_with("1 key contains 'error_bud':\n\ndata.error_budget  "));
  CHECK(explain("Error_Bud").starts_with("1 key contains"));
  // The end of one key is that key.
  CHECK(explain("error_budget").starts_with("data.error_budget  "));
}

TEST_CASE("explain: a word that is a key and a part of others names the others") {
  CHECK(explain("loss").starts_with("model.loss  "));
  CHECK(explain("loss").ends_with("\nalso: train.loss_scale\n"));
  CHECK(contains(explain("dropout"), "spatial_dropout"));
  CHECK(contains(explain("split"), "\nalso: data.validation_split, data.validation_split_order\n"));
  CHECK(contains(explain("name"), " more\n"));
  CHECK_FALSE(contains(explain("loss"), "also: model.loss"));
  CHECK_FALSE(contains(explain("model.loss"), "also: "));  // a whole path asks for nothing else
}

TEST_CASE("explain: every text is a sentence that refers to no other text") {
  for (const ExplainedSection& section : explained_sections()) {
    for (const Explained& key : section.keys) {
      CAPTURE(key.path);
      CAPTURE(key.help);
      CHECK(key.help.ends_with('.'));
      for (const char* start : {"Then ", "Between ", "Added ", "Its ", "Multiplied ", "Reduced ",
                                "Linear from ", "From a ", "rate *"}) {
        CHECK_FALSE(key.help.starts_with(start));
      }
      for (const char* part : {" its classifier", "pooling at its", "takes effect", "from there on",
                               "before it stops", " of this name", " this first"}) {
        CHECK_FALSE(contains(key.help, part));
      }
    }
  }
}

TEST_CASE("explain: the error of an unknown key has the nearest key") {
  // Two neighbours that changed places are one mistake.
  CHECK(config::nearest("ab", {"ba"}) == "ba");
  CHECK(config::nearest("xab", {"xba", "xcb"}) == "xba");
  CHECK_FALSE(config::nearest("ab", {"cd"}));
  CHECK(config::nearest("cross_entropy", {"mean_squared_error", "softmax_cross_entropy"}) ==
        "softmax_cross_entropy");
  CHECK_FALSE(config::nearest("entropic", {"softmax_cross_entropy"}));
  CHECK(contains(mistake("nothing.conv"), "there is no key 'nothing.conv'"));  // though conv is one
  CHECK(contains(mistake("optimizr"), "there is no key 'optimizr', did you mean 'optimizer'?"));
  CHECK(contains(mistake("optimizer.adam.learning_rte"), "did you mean"));
  CHECK(contains(mistake("nothing.like.it"), "`trainer explain` lists the sections"));
}

}  // namespace trainer::commands
