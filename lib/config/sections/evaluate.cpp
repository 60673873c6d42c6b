#include "config/sections/evaluate.h"

#include "config/field.h"

namespace trainer::config {

void fields(FieldVisitor& v, Evaluate& s) {
  v("batch_size", s.batch_size, "Samples per batch; the training batch size when left out.",
    count_up_to(kMaxSamples));
  v("top_k", s.top_k, "Also report whether the label is among the k best.", at_least(1));
  v("start_delay_secs", s.start_delay_secs,
    "evaluate --follow: seconds before the first evaluation.", at_least(0));
  v("throttle_secs", s.throttle_secs,
    "evaluate --follow: least seconds between the starts of two evaluations.", at_least(0));
  v("timeout_secs", s.timeout_secs,
    "evaluate --follow: seconds without a new checkpoint after which it ends.", above(0));
}

}  // namespace trainer::config
