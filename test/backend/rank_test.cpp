// Several ranks that train one model.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "backend/nets.h"
#include "backend/ranks.h"
#include "base/numbers/partition.h"
#include "base/numbers/sum_tree.h"
#include "compile/compile.h"
#include "support/backend.h"

namespace trainer::test {
namespace {

const std::vector<std::vector<int>> kOrderedLanes{{1},
                                                  {2},
                                                  {4},
                                                  {1, 1},
                                                  {2, 1},
                                                  {2, 2},
                                                  {1, 1, 1, 1},
                                                  {1, 2, 1, 2},
                                                  {3},
                                                  {5},
                                                  {7},
                                                  {8},
                                                  {1, 1, 1},
                                                  {2, 1, 2},
                                                  {3, 4},
                                                  {1, 1, 1, 1, 1},
                                                  {1, 1, 1, 1, 1, 1},
                                                  {1, 1, 1, 1, 1, 1, 1}};

}  // namespace

TEST_CASE(
    "ReductionOptions::ordered: ranks and lanes give the same bits for any division of the batch") {
  graph::Update update;
  update.rule = graph::AdamRule{};
  update.clip = {graph::Clip::Kind::kGlobalNorm, 0.5f};
  update.ema = 0.9f;
  // Sizes that nothing divides, fewer samples than micro-batches, accumulation.
  const std::vector<Step> steps{
      {23}, {23}, {16}, {1}, {3}, {23, false, false}, {23, true, false}, {5, true, true}, {7}};
  std::vector<float> losses;
  Group alone = build_group({1});
  alone.reduction.ordered = true;
  const Kept expected = train(kPlain, update, alone, steps, 0.01f, &losses);
  for (const auto& lanes : kOrderedLanes) {
    for (const std::int64_t bucket : {0, 1, 1000}) {
      if (bucket > 0 && lanes.size() == 1) continue;
      if (!has_gpus(lanes.size())) continue;
      Group group = build_group(lanes);
      group.reduction.ordered = true;
      group.reduction.bucket_bytes = bucket;
      std::vector<float> own;
      const Kept got = train(kPlain, update, group, steps, 0.01f, &own);
      CHECK_MESSAGE(got == expected, lanes.size(), " ranks, ", lanes[0], " lanes, bucket ", bucket);
      CHECK(own == losses);
    }
  }
}

TEST_CASE("ReductionOptions::ordered: ranks of a transformer give the same bits") {
  graph::Update update;
  update.rule = graph::AdamRule{};
  const std::vector<Step> steps{{23}, {16}, {1}, {23, false, false}, {5, true, true}, {7}};
  Group alone = build_group({1});
  alone.reduction.ordered = true;
  const Kept expected = train(kTransformer, update, alone, steps);
  for (const auto& lanes :
       std::vector<std::vector<int>>{{2}, {7}, {1, 1}, {2, 1, 2}, {1, 1, 1, 1}}) {
    if (!has_gpus(lanes.size())) continue;
    Group group = build_group(lanes);
    group.reduction.ordered = true;
    CHECK(train(kTransformer, update, group, steps) == expected);
  }
}

TEST_CASE("ReductionOptions::ordered: ranks with LAMB give the same bits") {
  graph::Update update;
  update.rule = graph::LambRule{};
  update.weight_decay = 0.1f;
  for (const auto clip : {graph::Clip::Kind::kNone, graph::Clip::Kind::kGlobalNorm}) {
    update.clip = {clip, 0.5f};
    const std::vector<Step> steps{{23}, {23}, {1}, {23, false, false}, {5, true, true}, {7}};
    Group alone = build_group({1});
    alone.reduction.ordered = true;
    const Kept expected = train(kPlain, update, alone, steps);
    for (const auto& lanes :
         std::vector<std::vector<int>>{{2}, {1, 1}, {2, 1}, {1, 1, 1}, {1, 1, 1, 1}}) {
      if (!has_gpus(lanes.size())) continue;
      Group group = build_group(lanes);
      group.reduction.bucket_bytes = 1000;
      CHECK(relative(train(kPlain, update, group, steps), expected) < 1e-5);
      group.reduction.ordered = true;
      CHECK(train(kPlain, update, group, steps) == expected);
    }
  }
}

// A part of a batch then begins anywhere in the memory of the features, which libraries may read in
// whole vectors only.
TEST_CASE("ReductionOptions::ordered: frozen layers and short samples give the same bits") {
  const Net net{
      "features", "{layers: [flatten, dense: {units: 5, activation: relu}, dense: 4]}", {3, 3, 1}};
  graph::Graph forward = forward_graph(net);
  const graph::Node preprocess = forward.nodes.front();
  forward.nodes.erase(forward.nodes.begin());
  forward.inputs[0] = preprocess.outputs[0];
  forward.values[static_cast<std::size_t>(preprocess.inputs[0])].role = graph::Role::kActivation;
  forward.values[static_cast<std::size_t>(preprocess.outputs[0])].role = graph::Role::kInput;
  compile::Options options;
  options.update = plain_sgd();
  const graph::Graph graph = compile::training_graph(forward, options);
  const auto trained = [&](std::vector<int> lanes, bool ordered) {
    Group group = build_group(std::move(lanes));
    group.reduction.ordered = ordered;
    Ranks ranks(graph, net, 13, group);
    backend::Scalars scalars;
    scalars.learning_rate = 1e-5f;
    for (const std::int64_t samples : {13, 13, 13, 12, 3}) {
      scalars.loss_scale = 1.0 / static_cast<double>(samples);
      ranks.step({samples}, scalars, scalars.update);
      ++scalars.update;
    }
    return ranks.kept();
  };
  const Kept expected = trained({1}, true);
  CHECK(relative(trained({1}, false), expected) < 1e-5);
  for (const std::size_t ranks : {2, 3, 4}) {
    if (has_gpus(ranks)) CHECK(trained(std::vector<int>(ranks, 1), true) == expected);
  }
}

TEST_CASE(
    "ReductionOptions::ordered: batches of one sample, which most ranks never have, are summed") {
  const std::vector<Step> steps{{1}, {1}, {1, false, false}, {1, true, true}};
  const auto trained = [&](std::vector<int> lanes) {
    Group group = build_group(std::move(lanes));
    group.reduction.ordered = true;
    return train(kPlain, plain_sgd(), group, steps);
  };
  const Kept expected = trained({1});
  for (const std::size_t ranks : {2, 3, 4}) {
    if (has_gpus(ranks)) CHECK(trained(std::vector<int>(ranks, 1)) == expected);
  }
}

TEST_CASE("reference backend: ordered sums give the same bits for any number of ranks") {
  graph::Update update;
  update.rule = graph::AdamRule{};
  update.clip = {graph::Clip::Kind::kGlobalNorm, 0.5f};
  const std::vector<Step> steps{{23}, {3}, {23, false, false}, {5, true, true}, {7}};
  const auto trained_by = [&](std::size_t ranks) {
    Group group = build_group(std::vector<int>(ranks, 1));
    group.reference = true;
    group.reduction.ordered = true;
    return train(kPlain, update, group, steps);
  };
  const Kept expected = trained_by(1);
  for (const std::size_t ranks : {2, 3, 4, 5, 6, 7, 8}) CHECK(trained_by(ranks) == expected);
}

TEST_CASE("reference backend: ranks give the update of one rank of the CPU backend") {
  const std::vector<Step> steps{{23}, {1}, {20, false, false}, {7, true, true}, {23}};
  graph::Update update = plain_sgd();
  update.clip = {graph::Clip::Kind::kNorm, 0.02f};
  const Kept expected = train(kPlain, update, build_group({1}), steps);
  Group group = build_group({1, 1, 1});
  group.reference = true;
  CHECK(relative(train(kPlain, update, group, steps), expected) < 1e-5);
}

TEST_CASE("ReductionOptions: any number of ranks, lanes and buckets gives the update of one rank") {
  std::vector<Step> steps;
  for (const std::int64_t samples : {23, 23, 150, 1, 3, 23, 8, 23, 2, 23})
    steps.push_back({samples});
  const Kept expected = train(kPlain, plain_sgd(), build_group({1}), steps);
  for (const auto& lanes :
       std::vector<std::vector<int>>{{1, 1}, {2, 1}, {1, 1, 1}, {2, 2}, {1, 2, 1, 1}}) {
    if (!has_gpus(lanes.size())) continue;
    for (const std::int64_t bucket : {0, 1000}) {
      Group group = build_group(lanes);
      group.reduction.bucket_bytes = bucket;
      const double d = relative(train(kPlain, plain_sgd(), group, steps), expected);
      CHECK_MESSAGE(d < 1e-5, lanes.size(), " ranks, bucket ", bucket, ": ", d);
      // And the same bits again.
      CHECK(train(kPlain, plain_sgd(), group, steps) == train(kPlain, plain_sgd(), group, steps));
    }
  }
}

bool captures_ranks() { return uses_gpus() && std::getenv("TRAINER_TEST_SHARED_GPU") == nullptr; }

// In what an executable prints.
int graphs_launched_twice(const std::string& printed) {
  const std::string graph = "captured graph of a call of all ranks, 2 times launched\n";
  int graphs = 0;
  for (std::size_t at = printed.find(graph); at != std::string::npos;
       at = printed.find(graph, at + 1)) {
    ++graphs;
  }
  return graphs;
}

TEST_CASE("ReductionOptions: lanes that compute layers together give the update of one rank") {
  const std::vector<Step> steps{{23}, {1}, {200}, {7, false, false}, {23, true, true}, {2}};
  graph::Update update = plain_sgd();
  update.clip = {graph::Clip::Kind::kGlobalNorm, 0.02f};
  for (const graph::Update& rule : {plain_sgd(), update}) {
    const Kept expected = train(kWide, rule, build_group({1}), steps);
    for (const auto& lanes : std::vector<std::vector<int>>{{2}, {3}, {2, 3}, {1, 2}}) {
      for (const std::int64_t bucket : {0, 1000}) {
        Group group = build_group(lanes);
        group.reduction.bucket_bytes = bucket;
        const double d = relative(train(kWide, rule, group, steps), expected);
        CHECK_MESSAGE(d < 1e-5, lanes.size(), " ranks, bucket ", bucket, ": ", d);
      }
    }
  }
}

// Batches of which some ranks have nothing, or as much as of another batch: all ranks must capture
// the same calls all the same.
TEST_CASE("ReductionOptions: shares of any size let each rank capture and replay the same calls") {
  std::vector<Step> steps;
  for (int i = 0; i < 3; ++i) {
    for (const std::int64_t samples : {9, 10, 3, 2, 12}) steps.push_back({samples});
    steps.insert(steps.end(), {{10, false, false}, {9, true, true}});
  }
  const Kept expected = train(kPlain, plain_sgd(), build_group({1}), steps);
  for (const auto& lanes : std::vector<std::vector<int>>{{1, 1}, {1, 1, 1, 1}}) {
    if (!has_gpus(lanes.size())) continue;
    for (const std::int64_t bucket : {0, 1000}) {
      for (const bool ordered : {false, true}) {
        Group group = build_group(lanes);
        group.reduction.bucket_bytes = bucket;
        group.reduction.ordered = ordered;
        std::string printed;
        const Kept trained = train(kPlain, plain_sgd(), group, steps, 0.05f, nullptr, &printed);
        CHECK(relative(trained, expected) < 1e-5);
        // Seven ways of being called, each first as it is and then twice from its graph.
        if (captures_ranks()) CHECK_MESSAGE(graphs_launched_twice(printed) == 7, printed);
      }
    }
  }
}

// A rank without samples takes part in the statistics of the others.
TEST_CASE(
    "ReductionOptions: batch statistics over all ranks let all capture and replay the same calls") {
  std::vector<Step> steps;
  for (int i = 0; i < 3; ++i) {
    for (const std::int64_t samples : {24, 3, 17}) steps.push_back({samples});
  }
  const Kept expected = train(kNormalised, plain_sgd(), build_group({1}), steps, 0.01f);
  for (const auto& lanes : std::vector<std::vector<int>>{{1, 1}, {1, 1, 1, 1}}) {
    if (!has_gpus(lanes.size())) continue;
    Group group = build_group(lanes);
    group.sync = true;
    group.reduction.bucket_bytes = 300;
    std::string printed;
    const Kept trained = train(kNormalised, plain_sgd(), group, steps, 0.01f, nullptr, &printed);
    const double d = relative(trained, expected);
    CHECK_MESSAGE(d < 2e-6, lanes.size(), " ranks: ", d);
    if (captures_ranks()) CHECK_MESSAGE(graphs_launched_twice(printed) == 3, printed);
  }
}

// The calls differ in nothing but accumulation, so that a graph of the wrong one could be replayed.
TEST_CASE(
    "ReductionOptions: calls of one batch have the update of each with and without accumulation") {
  std::vector<Step> steps;
  for (int i = 0; i < 3; ++i) {
    steps.insert(steps.end(), {{9}, {9, false, false}, {9, true, false}, {9, true, true}});
  }
  Group group = build_group({1});
  group.reference = true;
  const Kept expected = train(kPlain, plain_sgd(), group, steps);
  for (const auto& lanes : std::vector<std::vector<int>>{{1}, {1, 1}}) {
    CAPTURE(lanes.size());
    CHECK(relative(train(kPlain, plain_sgd(), build_group(lanes), steps), expected) < 1e-5);
  }
}

TEST_CASE("ReductionOptions: accumulated calls are clipped by the norm of the whole gradient") {
  const std::vector<Step> steps{
      {20, false, false}, {20, true, false}, {7, true, true}, {20, false, false}, {1, true, true}};
  for (const auto clip : {graph::Clip::Kind::kNone, graph::Clip::Kind::kNorm,
                          graph::Clip::Kind::kGlobalNorm, graph::Clip::Kind::kValue}) {
    graph::Update update = plain_sgd();
    update.clip = {clip, 0.02f};
    update.ema = 0.5f;
    const Kept expected = train(kPlain, update, build_group({1}), steps);
    for (const std::int64_t bucket : {0, 1000}) {
      Group group = build_group(fit_gpus({1, 2, 1}));
      group.reduction.bucket_bytes = bucket;
      CHECK(relative(train(kPlain, update, group, steps), expected) < 1e-6);
    }
  }
}

TEST_CASE("ReductionOptions: batch statistics over all ranks are those of one large batch") {
  // 3 samples leave one of 4 ranks without any.
  const std::vector<Step> whole{{24}, {24}, {17}}, short_of_samples{{24}, {3}, {5}};
  for (const auto& [net, steps] : {std::pair(kNormalised, whole),
                                   {kNormalised, short_of_samples},
                                   {kSeparable, whole},
                                   {kSeparable, short_of_samples}}) {
    const Kept expected = train(net, plain_sgd(), build_group({1}), steps, 0.01f);
    for (const auto& lanes :
         std::vector<std::vector<int>>{{1, 1}, {2, 1}, {1, 2, 1}, {1, 1, 1, 1}}) {
      if (!has_gpus(lanes.size())) continue;
      for (const std::int64_t bucket : {0, 300}) {
        Group group = build_group(lanes);
        group.sync = true;
        group.reduction.bucket_bytes = bucket;
        const double d = relative(train(net, plain_sgd(), group, steps, 0.01f), expected);
        CHECK_MESSAGE(d < 2e-6, net.name, ", ", lanes.size(), " ranks, bucket ", bucket, ": ", d);
      }
    }
  }
}

TEST_CASE(
    "ReductionOptions: ranks without samples and joint layers of lanes give the update of one "
    "rank") {
  const std::vector<Step> steps{{24}, {3}, {5}, {24}};
  const Kept expected = train(kWideNormalised, plain_sgd(), build_group({1}), steps, 0.01f);
  for (const std::int64_t bucket : {0, 300}) {
    Group group = build_group(fit_gpus({2, 2, 2, 2}));
    group.sync = true;
    group.reduction.bucket_bytes = bucket;
    const double d = relative(train(kWideNormalised, plain_sgd(), group, steps, 0.01f), expected);
    CHECK_MESSAGE(d < 1e-5, "bucket ", bucket, ": ", d);
  }
}

TEST_CASE("reference backend: batch statistics over the ranks are those of one large batch") {
  // 3 samples leave one of 4 ranks without any.
  const std::vector<Step> steps{{24}, {3}, {12, false, false}, {5, true, true}};
  const Kept expected = train(kNormalised, plain_sgd(), build_group({1}), steps, 0.01f);
  for (const std::size_t ranks : {1u, 2u, 4u}) {
    Group group = build_group(std::vector<int>(ranks, 1));
    group.reference = true;
    group.sync = true;
    const double d = relative(train(kNormalised, plain_sgd(), group, steps, 0.01f), expected);
    CHECK_MESSAGE(d < 2e-6, ranks, " ranks: ", d);
  }
}

TEST_CASE("ReductionOptions: batch norm without sync averages moving statistics in every update") {
  const graph::Graph graph = make_graph(kNormalised, plain_sgd());
  backend::Scalars scalars;  // learning rate 0: the parameters stay as they are
  for (const std::int64_t bucket : {0, 300}) {
    Group group = build_group({1, 1});
    group.reduction.bucket_bytes = bucket;
    Ranks together(graph, kNormalised, 16, group);
    // Each half by itself, through the same calls.
    Ranks first(graph, kNormalised, 16, build_group({1})),
        second(graph, kNormalised, 16, build_group({1}));
    const std::vector<Step> steps{{16}, {16, false, false}, {16, true, true}, {1}};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto whole = batch(graph, steps[i].samples, kNormalised, i + 1);
      together.step(steps[i], scalars, whole);
      for (int half = 0; half < 2; ++half) {
        const Partition part = partition(steps[i].samples, 2, half);
        if (part.count == 0) continue;
        std::vector<std::vector<double>> mine;
        for (const auto& input : whole) {
          const auto each = static_cast<std::int64_t>(input.size()) / steps[i].samples;
          mine.emplace_back(input.begin() + part.first * each,
                            input.begin() + (part.first + part.count) * each);
        }
        Step own = steps[i];
        own.samples = part.count;
        (half == 0 ? first : second).step(own, scalars, mine);
      }
      if (!steps[i].apply) continue;
      together.check_equal();
      const Kept got = together.kept(), a = first.kept(), b = second.kept();
      int statistics = 0;
      for (const graph::Value& value : graph.values) {
        if (value.role != graph::Role::kStatistic) continue;
        ++statistics;
        // The last batch has one sample, which is the second rank's.
        const bool both = steps[i].samples > 1;
        std::vector<double> expected;
        for (std::size_t k = 0; k < a.at(value.name).size(); ++k) {
          const double x = static_cast<double>(a.at(value.name)[k]);
          const double y = static_cast<double>(b.at(value.name)[k]);
          expected.push_back(both ? (x + y) / 2 : y);
        }
        CHECK(distance(got.at(value.name), expected) < 1e-6);
        for (Ranks* half : {&first, &second}) half->runner(0).write(value.name, expected);
      }
      CHECK(statistics == 4);
    }
  }
}

TEST_CASE("ReductionOptions: a loss of one rank that is not finite stops the update of all ranks") {
  const Net net{"regression",
                "{layers: [flatten, batch_norm, dense: 2], loss: mean_squared_error}",
                {2, 2, 1},
                2,
                false};
  const graph::Graph graph = make_graph(net, plain_sgd());
  for (const std::int64_t bucket : {0, 1}) {
    for (const int how : {0, 1, 2, 3}) {
      const bool accumulates = how % 2 == 1;
      Group group = build_group(fit_gpus({1, 2, 1}));
      const std::vector<char> all(group.lanes.size(), 1), none(group.lanes.size(), 0);
      group.sync = how >= 2;
      group.reduction.bucket_bytes = bucket;
      group.guard = 1;
      Ranks ranks(graph, net, 9, group);
      backend::Scalars scalars = gradient_scalars(9);
      auto bad = batch(graph, 9, net);
      bad[1][17] = std::numeric_limits<double>::infinity();  // of the last rank
      const Kept before = ranks.kept();
      if (accumulates) {
        // Known to the others with the update only.
        ranks.step({9, false, false}, scalars, bad);
        std::vector<char> others = all;
        others.back() = 0;
        CHECK(ranks.finite == others);
        ranks.step({9, true, true}, scalars, 1);
      } else {
        ranks.step({9}, scalars, bad);
      }
      CHECK(ranks.finite == none);
      // Moving statistics do not move either, not even those of ranks whose own losses are finite.
      CHECK(ranks.kept() == before);
      ranks.check_equal();
      // The next batch is none the worse for it.
      ranks.step({9}, scalars, 2);
      CHECK(ranks.finite == all);
      CHECK(ranks.kept() != before);
      ranks.check_equal();
    }
  }
}

TEST_CASE("ReductionOptions: an error of one rank ends the calls of all ranks with its reason") {
  const graph::Graph graph = make_graph(kPlain, plain_sgd());
  for (const std::int64_t bucket : {0, 1000}) {
    Group group = build_group(fit_gpus({1, 2, 1, 1}));
    group.reduction.ordered = true;
    group.reduction.bucket_bytes = bucket;
    Ranks ranks(graph, kPlain, 16, group);
    const std::size_t count = group.lanes.size(), wrong = count / 2;
    std::vector<std::string> errors(count);
    const auto count_samples = [&](std::size_t rank) {
      return rank_samples(16, group.reduction.micro_batches, static_cast<std::int64_t>(count),
                          static_cast<std::int64_t>(rank))
          .count;
    };
    const std::string expected = concat("called with ", count_samples(wrong) - 1, " of 16 samples");
    CHECK_THROWS_AS(ranks.run([&](std::size_t rank) {
      backend::Scalars scalars = gradient_scalars(16);
      scalars.all_samples = 16;
      const std::int64_t samples = count_samples(rank) - (rank == wrong ? 1 : 0);
      try {
        ranks.runner(rank).run(samples, batch(graph, samples, kPlain), scalars);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
        throw;
      }
    }),
                    std::logic_error);
    for (const std::string& error : errors) {
      CHECK_MESSAGE(error.find(expected) != std::string::npos, error);
    }
  }
}

TEST_CASE(
    "DeviceOptions::ordered allows more threads than lanes, or fewer micro-batches than replicas") {
  backend::DeviceOptions options;
  options.kind = DeviceKind::kCpu;
  options.ordered = true;
  options.micro_batches = 256;
  options.cpu.threads = 130;
  const auto backend = std::move(backend::open_backends(options).front());
  CHECK(backend->chosen_settings().lanes == 64);
  const graph::Graph graph = make_graph(kPlain, plain_sgd());
  backend::CompileOptions compiled;
  compiled.max_samples = 256;
  compiled.reduction.ordered = true;
  compiled.reduction.micro_batches = 256;
  const auto variables = backend->allocate(graph);
  CHECK_NOTHROW(backend->compile(graph, *variables, compiled));  // needs a thread per lane

  options.micro_batches = 2;
  options.replicas = 3;
  CHECK(backend::open_backends(options).size() == 3);
}

TEST_CASE(
    "ReductionOptions::ordered: more lanes than micro-batches, or batch norm, throw "
    "std::logic_error") {
  const graph::Graph graph = make_graph(kPlain, plain_sgd());
  for (const auto& lanes :
       std::vector<std::vector<int>>{{9}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 4, 4, 4}, {1, 1, 3}}) {
    if (uses_gpus()) continue;  // a GPU has no lanes, and there are fewer than nine GPUs
    Group group = build_group(lanes);
    group.reduction.ordered = true;
    CHECK_THROWS_AS(Ranks(graph, kPlain, 16, group), std::logic_error);
  }
  Group few = build_group(fit_gpus({1, 1, 1}));
  few.reduction.ordered = true;
  few.reduction.micro_batches = std::ssize(few.lanes) - 1;
  CHECK_THROWS_AS(Ranks(graph, kPlain, 16, few), std::logic_error);
  Group group = build_group({1});
  group.reduction.ordered = true;
  CHECK_THROWS_AS(Ranks(make_graph(kNormalised, plain_sgd()), kNormalised, 16, group),
                  std::logic_error);
}

}  // namespace trainer::test
