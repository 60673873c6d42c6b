#include "graph/op.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>

#include "graph/graph.h"

namespace trainer::graph {
namespace {

template <std::size_t... I>
std::vector<Op> one_of_each(std::index_sequence<I...>) {
  return {Op(std::variant_alternative_t<I, Op>{})...};
}

}  // namespace

TEST_CASE("name_of returns a unique name for every op") {
  const auto ops = one_of_each(std::make_index_sequence<std::variant_size_v<Op>>());
  std::set<std::string> names;
  for (const Op& op : ops) {
    names.insert(name_of(op));
    describe(op);
  }
  CHECK(names.size() == ops.size());
  CHECK(names.contains("conv_backward_data"));
  CHECK(names.contains("l2_penalty"));
}

TEST_CASE("describe writes attributes of ops in short form, without defaults") {
  Window window{{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}};
  const Activation relu{Activation::Kind::kRelu, 0};
  CHECK(describe(Conv{window, 1, true, relu}) == "3x3 stride 2 pad 0,1,0,1 bias relu");
  CHECK(describe(Conv{{{3, 5}, {1, 1}, {2, 2}, {0, 0}, {0, 0}}, 4, false, {}}) ==
        "3x5 dilation 2 groups 4");
  CHECK(describe(Pool{Pool::Kind::kMax, {{2, 2}, {2, 2}, {1, 1}, {}, {}}, true}) ==
        "max 2x2 stride 2 index");
  CHECK(describe(Activate{{Activation::Kind::kLeakyRelu, 0.3f}}) == "leaky_relu 0.3");
  CHECK(describe(Loss{LossKind::kSoftmaxCrossEntropy, 0.1f, true}) ==
        "softmax_cross_entropy smoothing 0.1 gradient");
  CHECK(describe(Update{SgdRule{0.9f, true}, {Clip::Kind::kNorm, 2}, 0.5f, 0, 1, 0, 0}) ==
        "sgd momentum 0.9 nesterov clip norm 2 l2 0.5");
  CHECK(describe(Update{RmsPropRule{0.5f, 0.25f, 0.125f, true}, {}, 0, 0, 1, 0, 0}) ==
        "rmsprop rho 0.5 momentum 0.25 epsilon 0.125 centered");
  CHECK(describe(Update{RmsPropRule{0.5f, 0, 0.125f}, {}, 0, 0, 1, 0, 0}) ==
        "rmsprop rho 0.5 epsilon 0.125");
  CHECK(describe(Dropout{0.5f, 1, 0, Dropout::Unit::kChannel}) == "rate 0.5 layer 1 of channels");
  CHECK(describe(GroupNorm{4, false, 0.5f}) == "groups 4 epsilon 0.5");
  CHECK(describe(GroupNorm{1, true, 0.5f}) == "of pixels epsilon 0.5");
  CHECK(describe(ResponseNorm{0.5f}) == "epsilon 0.5");
  CHECK(describe(UpSample{UpSample::Kind::kNearest, 2, 3}) == "nearest 2x3");
  CHECK(describe(Attention{6, true}) == "heads 6 log_sums");
  CHECK(describe(AttentionBackward{6}) == "heads 6");
  CHECK(describe(L2Penalty{0.5f, 0.25f}) == "factor 0.5 l1 0.25");
}

TEST_CASE("aliased_input: Update and UpdateStatistics alias their inputs, and other ops none") {
  for (const Op& op : one_of_each(std::make_index_sequence<std::variant_size_v<Op>>())) {
    const std::string name = name_of(op);
    CAPTURE(name);
    CHECK((aliased_input(op, 0) >= 0) == (name == "update" || name == "update_statistics"));
  }
  CHECK(aliased_input(Update{}, 0) == 0);
  CHECK(aliased_input(Update{}, 1) == 2);  // input 1 is the gradient
  CHECK(aliased_input(Update{}, 2) == 3);
  CHECK(aliased_input(UpdateStatistics{}, 1) == 1);
}

TEST_CASE("list_slots: each rule has its slots in the order of the inputs of Update") {
  const auto names = [](const UpdateRule& rule, float ema) {
    std::string joined;
    for (const Slot& slot : list_slots(Update{rule, {}, 0, 0, 1, ema, 0})) {
      joined += slot.name + (slot.copy ? "* " : " ");
    }
    return joined;
  };
  CHECK(names(SgdRule{}, 0) == "");
  CHECK(names(SgdRule{0.9f, false}, 0) == "momentum ");
  CHECK(names(RmsPropRule{}, 0) == "velocity ");
  CHECK(names(RmsPropRule{0.9f, 0.5f, 1e-7f, true}, 0) == "velocity momentum average_gradient ");
  CHECK(names(AdamRule{}, 0.9f) == "m v average* ");
  CHECK(names(NadamRule{}, 0) == "m v ");
  CHECK(names(AdagradRule{}, 0) == "accumulator ");
  CHECK(names(LionRule{}, 0) == "m ");
  CHECK(names(LambRule{}, 0) == "m v ");
  CHECK(names(AdamRule{0.9f, 0.999f, 1e-7f, true}, 0) == "m v v_max ");
}

}  // namespace trainer::graph
