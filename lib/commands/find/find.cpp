#include "commands/find/find.h"

#include "base/error.h"
#include "base/files/files.h"
#include "model/build_model.h"
#include "model/files/import.h"
#include "results/sweeps/grid.h"
#include "results/write_json.h"
#include "train/open.h"
#include "train/resolve_batch_size.h"

namespace trainer::commands {

results::Chart make_chart(const RangeTest& test) {
  results::Chart chart{"learning-rate-range",
                       "Loss over the learning rate",
                       "learning rate",
                       "loss (mean over samples)",
                       {{"loss", {}}, {"smoothed", {}}}};
  chart.log_x = true;
  for (const RangeTest::Point& point : test.points) {
    chart.series[0].points.emplace_back(point.rate, point.loss);
    chart.series[1].points.emplace_back(point.rate, point.smoothed);
  }
  if (test.suggestion) {
    chart.mark =
        results::Chart::Mark{*test.suggestion, "suggestion " + format_rate(*test.suggestion)};
  }
  return chart;
}

results::Chart make_chart(const BatchSizes& sizes) {
  results::Chart chart{"batch-size",
                       "Throughput over the batch size",
                       "batch size of a replica (samples)",
                       "images/second",
                       {{"measured", {}}}};
  chart.y_from_zero = chart.log_x = true;
  for (const BatchSizes::Point& point : sizes.points) {
    chart.series[0].points.emplace_back(static_cast<double>(point.batch_size),
                                        point.images_per_second);
  }
  if (sizes.knee > 0) {
    chart.mark =
        results::Chart::Mark{static_cast<double>(sizes.knee), concat("suggestion ", sizes.knee)};
  }
  return chart;
}

namespace {

RangeTest test_rates(const FindArguments& arguments, config::Config config,
                     const Context& context) {
  const backend::Platform platform = backend::read_platform(context.environment);
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  context.warn(train::resolve_normalize(config, data));
  const graph::Graph model = model::build_model(config, train::sample_spec(data));
  context.warn(train::resolve_batch_size(config, platform, model, data.train->size()));
  engine::Engine engine(model, config, engine::open_backends(config, platform),
                        engine::Use::kTrain);
  engine.initialise(config.seed);
  engine.write(model::import_weights(engine.replica().model(), config.model).tensors);
  return test_learning_rates(engine, *data.train, config, arguments.rates);
}

}  // namespace

int execute(const FindArguments& arguments, const Context& context) {
  if (!arguments.plot.empty()) check_output_path("--plot", arguments.plot, arguments.overwrite);
  if (!(arguments.rates.low < arguments.rates.high)) {
    throw ConfigError({}, "--low must be less than --high");
  }
  const config::Config config = load(arguments, context).config;
  const backend::Platform platform = backend::read_platform(context.environment);
  context.warn(backend::device_warning(engine::device_options(config.parallel, platform)));
  results::Chart chart;
  if (arguments.what == "learning-rate") {
    RangeTest test = test_rates(arguments, config, context);
    test.key = results::learning_rate_key(config);
    (arguments.json ? results::print_json<RangeTest> : print_range_test)(test, context.out);
    chart = make_chart(test);
  } else {
    const BatchSizes sizes = find_batch_sizes(config, platform, arguments.sizes);
    (arguments.json ? results::print_json<BatchSizes> : print_batch_sizes)(sizes, context.out);
    chart = make_chart(sizes);
  }
  if (!arguments.plot.empty()) write_file_atomic(arguments.plot, results::svg_document(chart));
  return kExitOk;
}

}  // namespace trainer::commands
