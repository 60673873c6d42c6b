#include "commands/model_arguments/model_arguments.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "inference/open_model/source.h"

namespace trainer::commands {

inference::OpenedModel open_model(const ModelArguments& arguments, const Context& context) {
  inference::reject_installed_elsewhere(arguments.model);
  using Choice = results::CheckpointChoice;
  const Choice checkpoint = arguments.best   ? Choice::kBest
                            : arguments.last ? Choice::kLast
                                             : Choice::kDefault;
  return inference::open_model({arguments.model, checkpoint, arguments.average, arguments.weights},
                               {arguments.overrides, context.environment, context.warn});
}

std::vector<inference::OpenedModel> open_models(ModelArguments arguments,
                                                const std::string& ensemble,
                                                const Context& context) {
  std::vector<inference::OpenedModel> models;
  models.push_back(open_model(arguments, context));
  for (std::string& run : split_text(ensemble, ',')) {
    if (run.empty()) {
      throw ConfigError({}, "--ensemble '", printable(ensemble),
                        "': expected run folders with commas between");
    }
    arguments.model = std::move(run);
    models.push_back(open_model(arguments, context));
  }
  return models;
}

}  // namespace trainer::commands
