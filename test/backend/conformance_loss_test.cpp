// The conformance table: losses, weights of classes and samples, ranks of labels.
#include <doctest/doctest.h>

#include "backend/harness.h"

namespace trainer::test {

using graph::ValueId;

// `loss` of scores [batch, n] against labels: a class's index, or a number for each score.
void add_loss(Builder& b, const graph::Loss& loss, std::int64_t n, bool index) {
  const ValueId x = b.input({kBatch, n}, {-4, 4});
  const double classes = n == 1 ? 2 : static_cast<double>(n);
  const ValueId labels = index ? b.input({kBatch}, DType::kInt32, {0, classes, true})
                               : b.input({kBatch, n}, DType::kFloat32, {0, 1});
  for (const ValueId id : b.add(loss, {x, labels})) b.output(id);
}

TEST_CASE("Loss: every kind with labels and targets matches the reference") {
  for (const auto kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kBinaryCrossEntropy,
                          LossKind::kMeanSquaredError}) {
    for (const bool index : {true, false}) {
      for (const std::int64_t n : {1, 2, 10, 17}) {
        if (index && kind != LossKind::kBinaryCrossEntropy && n == 1) continue;
        for (const float smoothing : {0.0f, 0.2f}) {
          check({concat("loss ", static_cast<int>(kind), index ? " index " : " targets ", n),
                 [=](Builder& b) {
                   add_loss(b, graph::Loss{kind, smoothing, true}, n, index);
                 },
                 {1, 5, 130},
                 1e-4});
        }
      }
    }
  }
  for (const bool index : {true, false}) {
    graph::Loss loss{LossKind::kBinaryCrossEntropy, 0.2f, true};
    loss.smoothing_centre = 0.1f;
    loss.target_threshold = 0.3f;
    check({concat("loss with a threshold", index ? " index" : ""),
           [=](Builder& b) { add_loss(b, loss, 10, index); },
           {1, 5, 130},
           1e-4});
  }
  check({"loss alone",
         [](Builder& b) {
           b.output(b.add1(graph::Loss{}, {b.input({kBatch, 10}, {-40, 40}),
                                           b.input({kBatch}, DType::kInt32, {0, 10, true})}));
         },
         {5}});
}

TEST_CASE("Loss: focal losses and class weights match the reference") {
  for (const auto kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kBinaryCrossEntropy}) {
    for (const bool index : {true, false}) {
      for (const std::int64_t n : {1, 10, 150}) {
        if (kind == LossKind::kSoftmaxCrossEntropy && n == 1) continue;  // its chance is always 1
        for (const int what : {0, 1, 2, 3}) {
          graph::Loss loss{kind, what == 1 ? 0.2f : 0.0f, true};
          if (what < 3) loss.focal = {what == 0 ? 2.0f : 0.5f, what == 2 ? 0.3f : 0.75f};
          if (what < 2 && kind == LossKind::kBinaryCrossEntropy) loss.focal->alpha = -1;
          for (std::int64_t c = 0; what > 1 && c < std::max<std::int64_t>(n, 2); ++c) {
            loss.class_weight.push_back(0.5f + 0.25f * static_cast<float>(c % 5));
          }
          check({concat("loss ", static_cast<int>(kind), index ? " index " : " targets ", n,
                        " variant ", what),
                 [=](Builder& b) { add_loss(b, loss, n, index); },
                 {1, 5, 130},
                 1e-4});
        }
      }
    }
  }
}

TEST_CASE("Loss: unknown targets and target weights match the reference") {
  constexpr Fill kUnknown{.low = 0, .high = 1, .unknown_every = 3};
  constexpr Fill kZeroOrOne{.low = 0, .high = 2, .whole = true};
  struct Variant {
    const char* name;
    Fill targets;
    bool has_weights = false;
    float smoothing = 0;
    bool is_focal = false;
  };
  for (const std::int64_t n : {1, 2, 14, 150}) {
    for (const Variant& variant :
         {Variant{"unknown targets", kUnknown},
          Variant{"unknown and smoothed targets, weights", kUnknown, true, 0.2f},
          Variant{"weights", kZeroOrOne, true},
          Variant{"unknown targets, weights, focal", kUnknown, true, 0, true}}) {
      graph::Loss loss{LossKind::kBinaryCrossEntropy, variant.smoothing, true};
      if (variant.is_focal) loss.focal = {2.0f, 0.3f};
      for (std::int64_t i = 0; variant.has_weights && i < 2 * n; ++i) {
        loss.target_weight.push_back(0.25f + 0.5f * static_cast<float>(i % 7));
      }
      check({concat("binary cross-entropy of ", n, " targets: ", variant.name),
             [=, targets = variant.targets](Builder& b) {
               const ValueId x = b.input({kBatch, n}, {-4, 4});
               const ValueId labels = b.input({kBatch, n}, DType::kFloat32, targets);
               for (const ValueId id : b.add(loss, {x, labels})) b.output(id);
             },
             {1, 5, 130},
             1e-4});
    }
  }
}

TEST_CASE("Loss: sample weights match the reference") {
  for (const auto kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kBinaryCrossEntropy,
                          LossKind::kMeanSquaredError}) {
    for (const std::int64_t n : {1, 7, 150}) {
      if (kind == LossKind::kSoftmaxCrossEntropy && n == 1) continue;
      for (const bool by_class : {false, true}) {
        graph::Loss loss{kind, 0.0f, true};
        loss.sample_weight = true;
        for (std::int64_t c = 0; by_class && c < std::max<std::int64_t>(n, 2); ++c) {
          loss.class_weight.push_back(0.5f + 0.25f * static_cast<float>(c % 5));
        }
        check({concat("weighted loss ", static_cast<int>(kind), ' ', n, by_class ? " classes" : ""),
               [=](Builder& b) {
                 const ValueId x = b.input({kBatch, n}, {-4, 4});
                 const ValueId labels = b.input({kBatch, n + 1}, DType::kFloat32, {0, 1});
                 for (const ValueId id : b.add(loss, {x, labels})) b.output(id);
                 b.output(b.add1(graph::ClassRank{0, true}, {x, labels}));
               },
               {1, 5, 130},
               1e-4});
      }
    }
  }
}

TEST_CASE("ClassRank: labels and targets with equal logits have the rank of the reference") {
  const Fill few{-2, 3, true};  // equal logits are common
  check({"class indices",
         [few](Builder& b) {
           b.output(b.add1(graph::ClassRank{}, {b.input({kBatch, 7}, DType::kFloat32, few),
                                                b.input({kBatch}, DType::kInt32, {0, 7, true})}));
         },
         {1, 9}});
  check({"targets",
         [few](Builder& b) {
           b.output(b.add1(graph::ClassRank{}, {b.input({kBatch, 5}, DType::kFloat32, few),
                                                b.input({kBatch, 5}, DType::kFloat32, {0, 1})}));
         },
         {9}});
  for (const float threshold : {0.0f, 0.5f}) {
    check({concat("one logit, threshold ", threshold),
           [=](Builder& b) {
             b.output(b.add1(graph::ClassRank{threshold},
                             {b.input({kBatch, 1}, DType::kFloat32, {-1, 2}),
                              b.input({kBatch}, DType::kInt32, {0, 2, true})}));
           },
           {17}});
  }
}

}  // namespace trainer::test
