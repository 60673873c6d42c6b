// The conformance table: every op but the convolutions, against double-precision loops.
#include <doctest/doctest.h>

#include <cstdlib>

#include "backend/harness.h"

namespace trainer::test {
namespace {

using graph::Activation;
using graph::LossKind;
using graph::Pool;
using graph::ValueId;
using graph::Window;
using Kind = Activation::Kind;

std::vector<Activation> activations() {
  return {{Kind::kRelu, 0},    {Kind::kRelu6, 0}, {Kind::kLeakyRelu, 0.3f}, {Kind::kElu, 1.0f},
          {Kind::kSigmoid, 0}, {Kind::kTanh, 0},  {Kind::kGelu, 0},         {Kind::kSwish, 0}};
}

}  // namespace

TEST_CASE("preprocess") {
  for (const DType type : {DType::kUInt8, DType::kFloat32}) {
    for (const std::int64_t channels : {1, 3, -3}) {
      const bool reverse = channels < 0;
      check({concat("preprocess ", to_string(type), " ", channels),
             [=, channels = std::abs(channels)](Builder& b) {
               graph::Preprocess op;
               op.reverse_channels = reverse;
               op.scale = 1.0f / 255;
               for (std::int64_t c = 0; c < channels; ++c) {
                 op.mean.push_back(0.1f * static_cast<float>(c + 1));
                 op.std.push_back(0.5f + 0.25f * static_cast<float>(c));
               }
               b.output(b.add1(op, {b.input({kBatch, 5, 7, channels}, type, {0, 256, true})}));
             },
             {1, 5}});
    }
  }
}

TEST_CASE("dense") {
  for (const auto& [in, units] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {7, 10}, {16, 16}, {17, 33}, {64, 10}, {100, 64}}) {
    for (const bool bias : {true, false}) {
      check({concat("dense ", in, " to ", units, bias ? " with bias" : ""),
             [=](Builder& b) {
               const ValueId x = b.input({kBatch, in}), kernel = b.parameter({in, units});
               std::vector<ValueId> inputs{x, kernel};
               if (bias) inputs.push_back(b.parameter({units}));
               b.output(b.add1(graph::Dense{bias, {}}, inputs));
               const ValueId dy = b.input({kBatch, units});
               b.output(b.add1(graph::DenseBackwardData{in}, {dy, kernel}));
               for (const ValueId id : b.add(graph::DenseBackwardWeights{bias}, {x, dy}))
                 b.output(id);
             },
             {1, 2, 5}});
    }
  }
  for (const Activation& activation : activations()) {
    check({concat("dense ", graph::to_string(activation.kind)), [=](Builder& b) {
             b.output(b.add1(graph::Dense{true, activation},
                             {b.input({kBatch, 20}), b.parameter({20, 11}), b.parameter({11})}));
           }});
  }
  check({"float32 logits", [](Builder& b) {
           const ValueId x = b.input({kBatch, 20}), kernel = b.parameter({20, 10});
           const ValueId y = b.add1(graph::Dense{true, {}}, {x, kernel, b.parameter({10})});
           b.graph[y].type = DType::kFloat32;
           b.output(y);
           const ValueId dy = b.input({kBatch, 10}, DType::kFloat32, {});
           const ValueId dx = b.add1(graph::DenseBackwardData{20}, {dy, kernel});
           b.graph[dx].type = b.type();
           b.output(dx);
           for (const ValueId id : b.add(graph::DenseBackwardWeights{true}, {x, dy})) b.output(id);
         }});
}

namespace {

struct PoolSpec {
  std::string name;
  Window window;
  std::int64_t channels = 16, height = 7, width = 9;
};

void pool(Builder& b, const PoolSpec& s, Pool::Kind kind, const Activation& activation) {
  const bool max = kind == Pool::Kind::kMax;
  const Shape image{kBatch, s.height, s.width, s.channels};
  const auto y = b.add(Pool{kind, s.window, max}, {b.input(image)});
  b.output(y[0]);
  std::vector<ValueId> inputs{b.input(b.graph[y[0]].shape)};
  if (max) inputs.push_back(y[1]);
  if (!activation.linear()) inputs.push_back(y[0]);
  b.output(b.add1(graph::PoolBackward{kind, s.window, image, activation}, inputs));
}

}  // namespace

TEST_CASE("pooling") {
  const std::vector<PoolSpec> specs{
      {"2x2", {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}},
      {"2x2, 20 channels", {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 20},
      {"2x2, one channel", {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 1, 6, 6},
      {"3x3 stride 2 same", {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}},
      {"3x3 stride 1", {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 17},
      {"1x1", {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}},
      {"1x1 stride 2", {{1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}},
      {"2x3 stride 1x2, padded", {{2, 3}, {1, 2}, {1, 1}, {1, 0}, {0, 2}}, 5},
      {"dilated", {{2, 2}, {1, 1}, {2, 2}, {0, 0}, {0, 0}}},
      {"the whole image", {{7, 9}, {7, 9}, {1, 1}, {0, 0}, {0, 0}}},
      {"2x2 overlap in a row", {{2, 2}, {2, 1}, {1, 1}, {0, 0}, {0, 0}}, 33}};
  for (const PoolSpec& spec : specs) {
    for (const Pool::Kind kind : {Pool::Kind::kMax, Pool::Kind::kAverage}) {
      const std::string name = concat(kind == Pool::Kind::kMax ? "max " : "average ", spec.name);
      check({name, [=](Builder& b) { pool(b, spec, kind, {}); }, {1, 2, 5}});
    }
    for (const Activation& activation :
         {Activation{Kind::kRelu, 0}, Activation{Kind::kRelu6, 0},
          Activation{Kind::kLeakyRelu, 0.3f}, Activation{Kind::kElu, 1.0f},
          Activation{Kind::kTanh, 0}, Activation{Kind::kSigmoid, 0}}) {
      for (const Pool::Kind kind : {Pool::Kind::kMax, Pool::Kind::kAverage}) {
        check({concat("gradient through ", spec.name, " and ", graph::to_string(activation.kind)),
               [=](Builder& b) { pool(b, spec, kind, activation); },
               {2}});
      }
    }
  }
}

TEST_CASE("equal maxima: the first wins, padding never does") {
  check({"max of few numbers", [](Builder& b) {
           const Shape image{kBatch, 6, 6, 16};
           const Window window{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
           const auto y =
               b.add(Pool{Pool::Kind::kMax, window, true}, {b.input(image, {-3, 0, true})});
           b.output(y[0]);
           b.output(b.add1(graph::PoolBackward{Pool::Kind::kMax, window, image, {}},
                           {b.input(b.graph[y[0]].shape), y[1]}));
         }});
  check({"global max of few numbers", [](Builder& b) {
           const Shape image{kBatch, 4, 5, 18};
           const ValueId x = b.input(image, {-3, 0, true});
           const ValueId y = b.add1(graph::GlobalPool{Pool::Kind::kMax}, {x});
           b.output(b.add1(graph::GlobalPoolBackward{Pool::Kind::kMax, image},
                           {b.input({kBatch, 18}), x, y}));
         }});
}

TEST_CASE("global pooling") {
  for (const Pool::Kind kind : {Pool::Kind::kMax, Pool::Kind::kAverage}) {
    for (const std::int64_t channels : {3, 16, 20}) {
      const bool max = kind == Pool::Kind::kMax;
      check({concat(max ? "global max " : "global average ", channels),
             [=](Builder& b) {
               const Shape image{kBatch, 5, 7, channels};
               const ValueId x = b.input(image);
               const ValueId y = b.add1(graph::GlobalPool{kind}, {x});
               b.output(y);
               std::vector<ValueId> inputs{b.input({kBatch, channels})};
               if (max) inputs.insert(inputs.end(), {x, y});
               b.output(b.add1(graph::GlobalPoolBackward{kind, image}, inputs));
             },
             {1, 2, 5}});
    }
  }
}

TEST_CASE("activations") {
  for (const Activation& activation : activations()) {
    for (const Shape& shape :
         {Shape{kBatch, 4, 5, 16}, Shape{kBatch, 3, 3, 5}, Shape{kBatch, 13}}) {
      check({concat(graph::to_string(activation.kind), " ", to_string(shape)),
             [=](Builder& b) {
               const ValueId x = b.input(shape, {-8, 8});
               const ValueId y = b.add1(graph::Activate{activation}, {x});
               b.output(y);
               b.output(b.add1(graph::ActivateBackward{activation},
                               {activation.differentiable_from_output() ? y : x, b.input(shape)}));
             },
             {1, 5}});
    }
  }
}

TEST_CASE("softmax") {
  for (const std::int64_t n : {2, 10, 17}) {
    check({concat("softmax ", n),
           [=](Builder& b) {
             const ValueId y = b.add1(graph::Softmax{}, {b.input({kBatch, n}, {-5, 5})});
             b.output(y);
             b.output(b.add1(graph::SoftmaxBackward{}, {y, b.input({kBatch, n})}));
           },
           {1, 5}});
  }
}

TEST_CASE("batch norm") {
  std::vector<Activation> all = activations();
  std::erase_if(all, [](const Activation& a) { return !a.differentiable_from_output(); });
  all.push_back({});
  for (const Activation& activation : all) {
    for (const std::int64_t channels : {10, 16, 20}) {
      for (const bool image : {true, false}) {
        const Shape shape = image ? Shape{kBatch, 4, 3, channels} : Shape{kBatch, channels};
        const std::string name = concat(to_string(shape), " ", graph::to_string(activation.kind));
        // A batch of one row has no variance to speak of.
        const std::vector<std::int64_t> batches{image ? 1 : 4, 5};
        check(
            {"batch norm " + name,
             [=](Builder& b) {
               const ValueId x = b.input(shape, {-1, 2}),
                             gamma = b.parameter({channels}, {0.5, 1.5});
               const auto y =
                   b.add(graph::BatchNorm{1e-3f, activation}, {x, gamma, b.parameter({channels})});
               for (const ValueId id : y) b.output(id);
               std::vector<ValueId> inputs{x, b.input(shape), gamma, y[1], y[2]};
               if (!activation.linear()) inputs.push_back(y[0]);
               for (const ValueId id : b.add(graph::BatchNormBackward{1e-3f, activation}, inputs)) {
                 b.output(id);
               }
             },
             batches, 3e-5});
        check(
            {"batch norm with moving averages " + name,
             [=](Builder& b) {
               const ValueId x = b.input(shape, {-1, 2}),
                             gamma = b.parameter({channels}, {0.5, 1.5});
               const ValueId beta = b.parameter({channels}), mean = b.parameter({channels}, {0, 1});
               const ValueId variance = b.parameter({channels}, {0.2, 1});
               const ValueId y = b.add1(graph::BatchNormInference{1e-3f, activation},
                                        {x, gamma, beta, mean, variance});
               b.output(y);
               std::vector<ValueId> inputs{x, b.input(shape), gamma, mean, variance};
               if (!activation.linear()) inputs.push_back(y);
               for (const ValueId id :
                    b.add(graph::BatchNormInferenceBackward{1e-3f, activation}, inputs)) {
                 b.output(id);
               }
             },
             batches});
      }
    }
  }
  check({"inputs far from zero",
         [](Builder& b) {
           for (const ValueId id :
                b.add(graph::BatchNorm{}, {b.input({kBatch, 5, 5, 16}, {1000, 1001}),
                                           b.parameter({16}, {1, 2}), b.parameter({16})})) {
             b.output(id);
           }
         },
         {2, 5},
         2e-3,
         false});
}

// The gradient of x takes the memory of that of y only where nobody else reads it.
TEST_CASE("batch norm: who reads the gradient of its output") {
  enum class Reader { kNone, kOfGradient, kOfItsImage };
  for (const Reader reader : {Reader::kNone, Reader::kOfGradient, Reader::kOfItsImage}) {
    check({concat("reader ", static_cast<int>(reader)), [=](Builder& b) {
             const Shape shape{kBatch, 4, 4, 8};
             const ValueId x = b.input(shape), gamma = b.parameter({8}, {0.5, 1.5});
             const auto y = b.add(graph::BatchNorm{}, {x, gamma, b.parameter({8})});
             const ValueId made = b.add1(graph::Add{}, {x, b.input(shape)});
             const ValueId image = b.add1(graph::Reshape{{kBatch, 4, 4, 8}}, {made});
             const ValueId dy = reader == Reader::kOfItsImage ? image : made;
             const auto dx = b.add(graph::BatchNormBackward{}, {x, dy, gamma, y[1], y[2]});
             if (reader == Reader::kNone) return b.output(dx[0]);
             b.output(b.add1(graph::Add{}, {dx[0], made}));
           }});
  }
}

TEST_CASE("batch norm folded into a convolution") {
  for (const bool bias : {true, false}) {
    for (const bool fold : {true, false}) {
      check({concat("folded ", fold, " bias ", bias), [=](Builder& b) {
               const Window window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
               const ValueId x = b.input({kBatch, 6, 5, 8}), kernel = b.parameter({3, 3, 8, 20});
               std::vector<ValueId> inputs{kernel};
               if (bias) inputs.push_back(b.parameter({20}));
               std::vector<ValueId> norm{b.parameter({20}, {0.5, 1.5}), b.parameter({20}),
                                         b.parameter({20}), b.parameter({20}, {0.2, 1})};
               // Both ways are held against the one that normalises: the same values, the same
               // names.
               std::vector<ValueId> conv = inputs;
               conv.insert(conv.begin(), x);
               const ValueId y = b.add1(graph::Conv{window, 1, bias, {}}, conv);
               if (!fold) {
                 norm.insert(norm.begin(), y);
                 b.output(b.add1(graph::BatchNormInference{}, norm));
                 return;
               }
               inputs.insert(inputs.end(), norm.begin(), norm.end());
               b.graph.nodes.clear();
               const auto folded = b.add(graph::FoldBatchNorm{1e-3f, bias}, inputs);
               b.output(b.add1(graph::Conv{window, 1, true, {}}, {x, folded[0], folded[1]}));
             }});
    }
  }
}

TEST_CASE("add, concat, slice, reshape") {
  for (const std::int64_t channels : {3, 16, 20}) {
    for (const std::size_t count : {2u, 3u, 70u}) {
      check({concat("add ", count, " of ", channels),
             [=](Builder& b) {
               std::vector<ValueId> inputs;
               for (std::size_t i = 0; i < count; ++i)
                 inputs.push_back(b.input({kBatch, 2, 3, channels}));
               b.output(b.add1(graph::Add{}, inputs));
             },
             {1, 3}});
    }
  }
  check({"add rows", [](Builder& b) {
           b.output(b.add1(graph::Add{}, {b.input({kBatch, 13}), b.input({kBatch, 13})}));
         }});
  for (const auto& parts : std::vector<std::vector<std::int64_t>>{
           {16, 32}, {16, 16, 16}, {3, 5}, {16, 1}, {8, 24}, {64, 48}}) {
    for (const bool image : {true, false}) {
      const auto shape = [=](std::int64_t c) {
        return image ? Shape{kBatch, 3, 5, c} : Shape{kBatch, c};
      };
      check({concat("concat and slice from ", parts[0]),
             [=](Builder& b) {
               std::vector<ValueId> inputs;
               for (const std::int64_t c : parts) inputs.push_back(b.input(shape(c)));
               const ValueId y = b.add1(graph::Concat{}, inputs);
               b.output(y);
               std::int64_t begin = 0;
               for (const std::int64_t c : parts) {
                 b.output(b.add1(graph::Slice{begin, begin + c}, {y}));
                 begin += c;
               }
             },
             {1, 3}});
    }
  }
  for (const std::int64_t channels : {1, 3, 16, 20}) {
    check({concat("reshape ", channels), [=](Builder& b) {
             const Shape image{kBatch, 4, 3, channels};
             const ValueId x = b.input(image);
             const ValueId pooled = b.add1(Pool{Pool::Kind::kAverage, {}, false}, {x});
             const ValueId flat = b.add1(graph::Reshape{{kBatch, 12 * channels}}, {pooled});
             b.output(flat);
             b.output(b.add1(graph::Reshape{{kBatch, 3, 4, channels}}, {flat}));
             b.output(b.add1(graph::Reshape{{kBatch, 12, channels}}, {x}));
           }});
  }
}

TEST_CASE("zero padding and cropping") {
  for (const std::int64_t channels : {1, 3, 5, 16, 20}) {
    check({concat("pad ", channels),
           [=](Builder& b) {
             const ValueId x = b.input({kBatch, 4, 5, channels});
             const ValueId y = b.add1(graph::ZeroPad{1, 0, 2, 3}, {x});
             b.output(y);
             b.output(b.add1(graph::Crop{2, 1, 0, 3}, {y}));
             b.output(b.add1(graph::Crop{1, 1, 1, 1}, {x}));
           },
           {1, 3}});
  }
}

TEST_CASE("losses") {
  for (const auto kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kBinaryCrossEntropy,
                          LossKind::kMeanSquaredError}) {
    for (const bool index : {true, false}) {
      for (const std::int64_t n : {1, 2, 10, 17}) {
        if (index && kind == LossKind::kBinaryCrossEntropy && n != 1) continue;
        if (index && kind != LossKind::kBinaryCrossEntropy && n == 1) continue;
        for (const float smoothing : {0.0f, 0.2f}) {
          check({concat("loss ", static_cast<int>(kind), index ? " index " : " targets ", n),
                 [=](Builder& b) {
                   const ValueId x = b.input({kBatch, n}, {-4, 4});
                   const double classes = n == 1 ? 2 : static_cast<double>(n);
                   const ValueId labels = index
                                              ? b.input({kBatch}, DType::kInt32, {0, classes, true})
                                              : b.input({kBatch, n}, DType::kFloat32, {0, 1});
                   for (const ValueId id : b.add(graph::Loss{kind, smoothing, true}, {x, labels})) {
                     b.output(id);
                   }
                 },
                 {1, 5, 130},
                 1e-4});
        }
      }
    }
  }
  check({"loss alone",
         [](Builder& b) {
           b.output(b.add1(graph::Loss{}, {b.input({kBatch, 10}, {-40, 40}),
                                           b.input({kBatch}, DType::kInt32, {0, 10, true})}));
         },
         {5}});
}

TEST_CASE("focal losses and weights of classes") {
  for (const auto kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kBinaryCrossEntropy}) {
    for (const bool index : {true, false}) {
      for (const std::int64_t n : {1, 10, 150}) {
        if (index && (kind == LossKind::kBinaryCrossEntropy) != (n == 1)) continue;
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
                 [=](Builder& b) {
                   const ValueId x = b.input({kBatch, n}, {-4, 4});
                   const double classes = n == 1 ? 2 : static_cast<double>(n);
                   const ValueId labels = index
                                              ? b.input({kBatch}, DType::kInt32, {0, classes, true})
                                              : b.input({kBatch, n}, DType::kFloat32, {0, 1});
                   for (const ValueId id : b.add(loss, {x, labels})) b.output(id);
                 },
                 {1, 5, 130},
                 1e-4});
        }
      }
    }
  }
}

TEST_CASE("weights of samples") {
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

TEST_CASE("rank of the label's class") {
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

TEST_CASE("penalty") {
  check({"l2", [](Builder& b) {
           b.output(b.add1(graph::L2Penalty{0.01f}, {b.parameter({3, 3, 5, 7})}));
         }});
}

TEST_CASE("pieces of a large batch") {
  check({"a chain over 150 samples",
         [](Builder& b) {
           const Window window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
           const ValueId y =
               b.add1(graph::Conv{window, 1, true, {Kind::kRelu, 0}},
                      {b.input({kBatch, 4, 4, 3}), b.parameter({3, 3, 3, 8}), b.parameter({8})});
           b.output(b.add1(graph::GlobalPool{}, {y}));
         },
         {64, 65, 128, 129, 150}});
}

}  // namespace trainer::test
