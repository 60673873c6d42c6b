#include "config/sections/run.h"

#include "config/field.h"

namespace trainer::config {

void fields(FieldVisitor& v, Run& s) {
  v.located(s.loc);
  v("dir", s.dir, "Folder of the run; runs/<name> when left out.");
  v("checkpoint_every", s.checkpoint_every, "Steps, epochs or seconds between two checkpoints.");
  v("keep", s.keep, "Number of checkpoints that are kept, the newest ones.", at_least(1));
  v("best", s.best, "Metric whose best checkpoint is kept too, \"\" for none.");
  v("log_every", s.log_every, "Steps, epochs or seconds between two lines of the log.");
  v("summary_every", s.summary_every,
    "Steps, epochs or seconds between points of training in the metrics files and TensorBoard; "
    "ends of epochs and evaluations have one, too.");
  v("evaluate_every", s.evaluate_every,
    "Steps, epochs or seconds between two evaluations on the validation split, or on the test "
    "split if there is none.");
  v("tensorboard", s.tensorboard, "Whether TensorBoard files are written.");
  v("mlflow", s.mlflow,
    "URL of an MLflow server that receives the config, metrics and end of the run, \"\" for none. "
    "The experiment has the name of the config, or that in MLFLOW_EXPERIMENT_NAME.");
  v("ledger", s.ledger, "Whether ledger.csv is written: a row per step, for trainer diff.");
  v("price_per_hour", s.price_per_hour,
    "Price of an hour of one replica's device, in any currency, for the costs in reports and "
    "sweeps.",
    at_least(0));
}

}  // namespace trainer::config
