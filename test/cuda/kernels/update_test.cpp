#include "backend/cuda/kernels/step/update.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;
using ClipKind = graph::Clip::Kind;

int count_slots(const graph::UpdateRule& rule) {
  if (const auto* sgd = std::get_if<graph::SgdRule>(&rule)) return sgd->momentum != 0 ? 1 : 0;
  if (const auto* rms = std::get_if<graph::RmsPropRule>(&rule)) {
    return 1 + (rms->momentum > 0 ? 1 : 0) + (rms->centered ? 1 : 0);
  }
  if (std::holds_alternative<graph::NadamRule>(rule)) return 2;
  if (std::holds_alternative<graph::LambRule>(rule)) return 2;
  if (const auto* adam = std::get_if<graph::AdamRule>(&rule)) return adam->amsgrad ? 3 : 2;
  return 1;  // Adagrad, Lion
}

// Flat buffers of some parameters: on the device, and as the reference has them.
struct Flat {
  std::vector<graph::Update> updates;
  std::vector<cuda::UpdateSegment> segments;
  std::vector<cuda::UpdateChunk> chunks;
  std::vector<Array> buffers;  // parameters, gradients, 3 slots, average
  std::vector<Tensor> want;

  explicit Flat(std::vector<graph::Update> all, const std::vector<std::int64_t>& counts,
                std::int64_t gap = 16)
      : updates(std::move(all)) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      segments.push_back(cuda::make_update_segment(
          updates[i], offset, counts[i], count_slots(updates[i].rule), updates[i].ema > 0));
      offset += (counts[i] + gap - 1) / gap * gap;
    }
    chunks = cuda::make_chunks(segments);
    for (std::uint64_t i = 0; i < 6; ++i) {
      // Slots are sums of squares in some rules, so none is negative.
      buffers.push_back(Array::random(kF32, {offset}, 50 + i, i < 2 ? -1 : 0.1, 1));
      want.push_back(buffers.back().tensor());
    }
  }

  cuda::UpdateBuffers pointers() {
    cuda::UpdateBuffers all;
    all.parameters = buffers[0].as<float>();
    all.gradients = buffers[1].as<float>();
    for (std::size_t i = 0; i < 3; ++i) all.slots[i] = buffers[2 + i].as<float>();
    all.average = buffers[5].as<float>();
    return all;
  }

  Tensor part(std::size_t buffer, const cuda::UpdateSegment& s) const {
    const auto* from = want[buffer].data.data();
    return {{s.count}, std::vector<double>(from + s.offset, from + s.offset + s.count)};
  }

  // One update by the reference, with gradients divided by the loss scale.
  void expect_update(const cuda::StepScalars& scalars, double loss_scale) {
    for (double& g : want[1].data) g /= loss_scale;
    double all = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const double norm = compute_norm(part(0, segments[i]), part(1, segments[i]), updates[i]);
      all += norm * norm;
    }
    expected_norm = std::sqrt(all);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const cuda::UpdateSegment& s = segments[i];
      std::vector<std::size_t> at = {0, 1};
      for (int k = 0; k < s.slots; ++k) at.push_back(static_cast<std::size_t>(2 + k));
      if (s.average != 0) at.push_back(5);
      std::vector<Tensor> inputs;
      for (const std::size_t buffer : at) inputs.push_back(part(buffer, s));
      backend::Scalars reference;
      reference.learning_rate = scalars.learning_rate;
      reference.update = scalars.update - s.updates_before;
      Site site{{}, {}, reference, std::sqrt(all)};
      for (Tensor& input : inputs) site.inputs.push_back(&input);
      evaluate(updates[i], site);
      for (std::size_t k = 0; k < at.size(); ++k) {
        if (at[k] == 1) continue;
        std::copy(inputs[k].data.begin(), inputs[k].data.end(),
                  want[at[k]].data.begin() + s.offset);
      }
    }
    want[1] = buffers[1].tensor();
  }

  std::vector<float> clip_scales(cuda::StepState* state) {
    std::vector<double> squares(chunks.size(), std::nan(""));
    std::vector<float> scales(segments.size(), std::nanf(""));
    const auto count = static_cast<std::int64_t>(chunks.size());
    cuda::gradient_squares(segments.data(), chunks.data(), count, pointers(), state, squares.data(),
                           nullptr);
    cuda::clip_scales(segments.data(), static_cast<std::int64_t>(segments.size()), chunks.data(),
                      count, squares.data(), scales.data(), nullptr);
    return scales;
  }

  // Those of segments without LAMB are NaN.
  std::vector<float> trust_ratios(const float* clip_scales, cuda::StepScalars* scalars,
                                  cuda::StepState* state) {
    const auto count = static_cast<std::int64_t>(chunks.size());
    std::vector<cuda::LambSquares> squares(chunks.size(), {std::nan(""), std::nan("")});
    std::vector<float> ratios(segments.size(), std::nanf(""));
    cuda::lamb_squares(segments.data(), chunks.data(), count, pointers(), clip_scales, scalars,
                       state, squares.data(), nullptr);
    cuda::trust_ratios(segments.data(), static_cast<std::int64_t>(segments.size()), chunks.data(),
                       count, squares.data(), state, ratios.data(), nullptr);
    return ratios;
  }

  void update(const float* clip_scales, cuda::StepScalars* scalars, cuda::StepState* state) {
    const auto count = static_cast<std::int64_t>(chunks.size());
    const std::vector<float> ratios = trust_ratios(clip_scales, scalars, state);
    std::vector<double> squares(chunks.size(), std::nan(""));
    cuda::update(segments.data(), chunks.data(), count, pointers(), {clip_scales, ratios.data()},
                 scalars, state, squares.data(), nullptr);
    result = {};
    cuda::gradient_norm(squares.data(), count, state, &result, nullptr);
  }

  cuda::DeviceResult result = {};  // of the last update()
  double expected_norm = 0;        // of the last expect_update()

  void check(double tolerance = 2e-6) const {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      CAPTURE(i);
      check_close(buffers[i], want[i], tolerance);
    }
  }
};

cuda::StepState ready_state(float loss_scale = 1) {
  cuda::StepState state = {};
  state.loss_scale = state.gradients_scale = loss_scale;
  state.finite = state.all_finite = state.updates_now = 1;
  return state;
}

std::vector<graph::UpdateRule> all_rules() {
  return {graph::SgdRule{0, false},
          graph::SgdRule{0.9f, false},
          graph::SgdRule{0.9f, true},
          graph::RmsPropRule{0.9f, 0, 1e-5f, false},
          graph::RmsPropRule{0.9f, 0.8f, 1e-5f, false},
          graph::RmsPropRule{0.9f, 0, 2.0f, true},
          graph::RmsPropRule{0.9f, 0.8f, 2.0f, true},
          graph::AdamRule{0.9f, 0.99f, 1e-5f, false},
          graph::AdamRule{0.9f, 0.99f, 1e-5f, true},
          graph::NadamRule{0.9f, 0.99f, 1e-5f},
          graph::AdagradRule{0.1f, 1e-5f},
          graph::LionRule{0.875f, 0.75f},
          graph::LambRule{0.9f, 0.99f, 1e-5f}};
}

}  // namespace

TEST_CASE(
    "cuda update: every rule matches the reference with every option and segments of any size") {
  // Segments one behind another and apart: chunks that begin at whole vectors and between them.
  for (const std::int64_t gap : {1, 16}) {
    std::vector<graph::Update> updates;
    std::vector<std::int64_t> counts;
    for (const graph::UpdateRule& rule : all_rules()) {
      graph::Update plain;
      plain.rule = rule;
      updates.push_back(plain);
      graph::Update rich = plain;
      rich.l1 = 0.03f;
      rich.l2 = 0.01f;
      rich.weight_decay = 0.05f;
      rich.learning_rate_multiplier = 0.5f;
      rich.ema = 0.9f;
      rich.ema_warm_up = updates.size() % 4 == 1;
      rich.clip = {ClipKind::kValue, 0.25f};
      rich.updates_before = 2;
      updates.push_back(rich);
      counts.push_back(counts.size() % 3 == 0 ? 4099 : 13);
      counts.push_back(1);
      counts.back() += static_cast<std::int64_t>(counts.size() * 100);
    }
    Flat flat(updates, counts, gap);
    const std::int64_t first = flat.segments[5].offset;  // of l1's slope at 0
    flat.buffers[0].set(first, 0);
    flat.want[0][first] = 0;
    Device<cuda::StepState> state(ready_state(8));
    Device<cuda::StepScalars> scalars({});
    scalars->learning_rate = 0.05f;
    for (std::uint64_t update = 3; update <= 5; ++update) {
      scalars->update = update;
      flat.expect_update(*scalars.get(), 8);
      flat.update(nullptr, scalars.get(), state.get());
      flat.check(1e-5);
      CHECK(flat.result.gradient_norm == doctest::Approx(flat.expected_norm).epsilon(1e-6));
    }
  }
}

TEST_CASE("cuda update: no value changes in a state without updates") {
  Flat flat({graph::Update{graph::SgdRule{0.9f, false}, {}, 0, 0.1f, 1, 0.5f, 0}}, {1000});
  Device<cuda::StepState> state(ready_state());
  state->updates_now = 0;
  Device<cuda::StepScalars> scalars({});
  scalars->learning_rate = 1;
  scalars->update = 1;
  flat.update(nullptr, scalars.get(), state.get());
  CHECK(flat.result.gradient_norm == 0);
  for (std::size_t i = 0; i < flat.buffers.size(); ++i) {
    check_equal(flat.buffers[i], flat.want[i]);
  }
}

TEST_CASE("cuda update: padding between segments stays as it is") {
  const graph::Update update{graph::SgdRule{0, false}, {}, 0, 0, 1, 0, 0};
  Flat flat({update, update}, {3, 5});
  Device<cuda::StepState> state(ready_state());
  Device<cuda::StepScalars> scalars({});
  scalars->learning_rate = 1;
  scalars->update = 1;
  flat.update(nullptr, scalars.get(), state.get());
  for (std::int64_t i = 0; i < 32; ++i) {
    const bool inside = i < 3 || (i >= 16 && i < 21);
    CHECK((flat.buffers[0][i] != flat.want[0][i]) == inside);
  }
}

TEST_CASE("cuda update clips by norms of segments and of all") {
  for (const ClipKind kind : {ClipKind::kNorm, ClipKind::kGlobalNorm}) {
    std::vector<graph::Update> updates;
    std::vector<std::int64_t> counts;
    // More segments than warps, one of many chunks, one that is within its limit.
    for (std::int64_t i = 0; i < 40; ++i) {
      graph::Update update;
      update.rule = graph::SgdRule{0.5f, false};
      update.l1 = 0.04f;
      update.l2 = 0.02f;
      update.clip = {kind, i == 7 ? 1000.0f : 0.5f};
      updates.push_back(update);
      counts.push_back(i == 3 ? 150000 : 1 + 37 * i);
    }
    Flat flat(updates, counts);
    Device<cuda::StepState> state(ready_state(16));
    Device<cuda::StepScalars> scalars({});
    scalars->learning_rate = 0.1f;
    scalars->update = 4;
    const std::vector<float> scales = flat.clip_scales(state.get());
    set_thread_order(9);
    CHECK(flat.clip_scales(state.get()) == scales);
    CHECK((scales[7] == 1.0f));
    CHECK(scales[3] < 1.0f);
    flat.expect_update(*scalars.get(), 16);
    flat.update(scales.data(), scalars.get(), state.get());
    flat.check();
  }
}

TEST_CASE("cuda update: segments that do not clip by norms have a scale of 1") {
  graph::Update none, value, norm;
  value.clip = {ClipKind::kValue, 0.001f};
  norm.clip = {ClipKind::kNorm, 0.001f};
  Flat flat({none, value, norm}, {100, 100, 100});
  Device<cuda::StepState> state(ready_state());
  const std::vector<float> scales = flat.clip_scales(state.get());
  CHECK(scales[0] == 1.0f);
  CHECK(scales[1] == 1.0f);
  CHECK(scales[2] < 0.01f);
}

TEST_CASE("cuda update: LAMB's steps are as long as their whole parameters, clipped by norms") {
  std::vector<graph::Update> updates;
  std::vector<std::int64_t> counts;
  // More segments than chunks of some, one of more chunks than a block has threads, one of zeros.
  for (std::int64_t i = 0; i < 12; ++i) {
    graph::Update update;
    update.rule = graph::LambRule{0.9f, 0.99f, 1e-5f};
    update.l2 = 0.02f;
    update.weight_decay = 0.3f;
    update.learning_rate_multiplier = 0.5f;
    update.clip = {ClipKind::kGlobalNorm, 0.5f};
    updates.push_back(update);
    counts.push_back(i == 3 ? 300 * cuda::kUpdateChunk + 5 : 1 + 1000 * i);
  }
  Flat flat(updates, counts, 1);
  const cuda::UpdateSegment& zeros = flat.segments[7];
  for (std::int64_t i = zeros.offset; i < zeros.offset + zeros.count; ++i) {
    flat.buffers[0].set(i, 0);
    flat.want[0][i] = 0;
  }
  Device<cuda::StepState> state(ready_state(16));
  Device<cuda::StepScalars> scalars({});
  scalars->learning_rate = 0.1f;
  scalars->update = 4;
  const std::vector<float> scales = flat.clip_scales(state.get());
  const std::vector<float> ratios = flat.trust_ratios(scales.data(), scalars.get(), state.get());
  set_thread_order(5);
  CHECK(flat.trust_ratios(scales.data(), scalars.get(), state.get()) == ratios);
  CHECK(ratios[7] == 1.0f);
  CHECK(ratios[3] != doctest::Approx(1.0));
  flat.expect_update(*scalars.get(), 16);
  flat.update(scales.data(), scalars.get(), state.get());
  flat.check();
}

TEST_CASE("cuda update: no value changes with LAMB in a state without updates") {
  graph::Update update;
  update.rule = graph::LambRule{};
  Flat flat({update}, {1000});
  Device<cuda::StepState> state(ready_state());
  state->updates_now = 0;
  Device<cuda::StepScalars> scalars({});
  scalars->learning_rate = 1;
  scalars->update = 1;
  flat.buffers[1].set(3, std::nan(""));  // the gradient that overflowed
  CHECK(std::isnan(flat.trust_ratios(nullptr, scalars.get(), state.get())[0]));
  flat.update(nullptr, scalars.get(), state.get());
  for (const std::size_t i : {0, 2, 3, 4, 5}) check_equal(flat.buffers[i], flat.want[i]);
}

TEST_CASE("cuda check_gradients finds one gradient that is not finite") {
  for (const std::int64_t count : {1, 1000, 5003}) {
    for (const std::int64_t shift : {0, 1}) {
      Array g = Array::random(kF32, {count}, 1, -1, 1, shift);
      Device<cuda::StepState> state(ready_state());
      state->overflowed = 1;
      cuda::check_gradients(g.as<float>(), count, state.get(), nullptr);
      CHECK(state->overflowed == 0);
      for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
        for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
          Array worse(kF32, g.tensor(), shift);
          worse.set(at, bad);
          cuda::check_gradients(worse.as<float>(), count, state.get(), nullptr);
          CHECK(state->overflowed == 1);
          state->overflowed = 0;
        }
      }
    }
  }
}

TEST_CASE("cuda settle_finite decides by this call, accumulated calls and an earlier stop") {
  struct Case {
    std::uint32_t result, accumulate, before, stopped, finite, all_finite;
  };
  for (const Case& c : {Case{1, 0, 0, 0, 1, 1}, Case{1, 1, 0, 0, 1, 0}, Case{1, 1, 1, 0, 1, 1},
                        Case{0, 0, 1, 0, 0, 0}, Case{0, 1, 1, 0, 0, 0}, Case{1, 0, 1, 1, 0, 0}}) {
    cuda::DeviceResult result = {};
    result.finite = c.result != 0;
    cuda::StepScalars scalars = {};
    scalars.accumulate = c.accumulate;
    cuda::StepState state = ready_state();
    state.all_finite = c.before;
    state.stopped = c.stopped;
    cuda::settle_finite(&result, &scalars, &state, nullptr);
    CHECK(state.finite == c.finite);
    CHECK(state.all_finite == c.all_finite);
  }
}

TEST_CASE("cuda decide_update applies when all ranks are finite, and stops when asked") {
  for (const bool ranks : {false, true}) {
    for (const bool finite : {false, true}) {
      for (const std::uint32_t apply : {0, 1}) {
        for (const std::uint32_t stop : {0, 1}) {
          for (const std::uint32_t overflowed : {0, 1}) {
            const float trailer = finite ? 0 : 1;
            cuda::StepScalars scalars = {};
            scalars.apply = apply;
            scalars.stop_when_not_finite = stop;
            cuda::StepState state = ready_state(4);
            state.overflowed = overflowed;
            if (!ranks) state.finite = state.all_finite = finite ? 1 : 0;
            cuda::DeviceResult result = {};
            cuda::decide_update(ranks ? &trailer : nullptr, false, &scalars, &state, &result,
                                nullptr);
            CHECK(state.updates_now == (apply == 1 && finite && overflowed == 0 ? 1 : 0));
            CHECK(state.finite == (finite ? 1 : 0));
            CHECK(state.all_finite == (finite ? 1 : 0));
            CHECK(result.finite == finite);
            CHECK(result.skipped == (apply == 1 && finite && overflowed == 1));
            CHECK(state.stopped == (stop == 1 && !finite ? 1 : 0));
            CHECK(state.loss_scale == 4);
          }
        }
      }
    }
  }
}

TEST_CASE("cuda decide_update: calls after a stop change nothing and are not finite") {
  cuda::StepScalars scalars = {};
  scalars.apply = 1;
  cuda::StepState state = ready_state();
  state.stopped = 1;
  cuda::DeviceResult result = {};
  cuda::decide_update(nullptr, false, &scalars, &state, &result, nullptr);
  CHECK(state.updates_now == 0);
  CHECK_FALSE(result.finite);
  CHECK(state.stopped == 1);
}

TEST_CASE("cuda decide_update: a call that only accumulates is finite if it is finite itself") {
  cuda::StepScalars scalars = {};
  cuda::StepState state = ready_state();
  state.all_finite = 0;  // of an earlier call
  cuda::DeviceResult result = {};
  cuda::decide_update(nullptr, false, &scalars, &state, &result, nullptr);
  CHECK(result.finite);
  CHECK(state.all_finite == 0);
}

TEST_CASE("cuda decide_update: the loss scale follows overflows") {
  cuda::StepScalars scalars = {};
  scalars.apply = 1;
  cuda::DeviceResult result = {};
  cuda::StepState state = ready_state(4);
  const auto decide = [&](bool overflowed) {
    state.overflowed = overflowed ? 1 : 0;
    state.finite = state.all_finite = 1;
    cuda::decide_update(nullptr, true, &scalars, &state, &result, nullptr);
  };
  for (int i = 0; i < 1999; ++i) decide(false);
  CHECK(state.loss_scale == 4);
  decide(false);
  CHECK(state.loss_scale == 8);
  CHECK(state.gradients_scale == 4);  // those of the update that doubled it
  CHECK(state.good_updates == 0);
  decide(true);
  CHECK(state.loss_scale == 4);
  CHECK(result.skipped);
  for (int i = 0; i < 5; ++i) decide(true);
  CHECK(state.loss_scale == 1);
  state.loss_scale = 16777216;
  state.good_updates = 1999;
  decide(false);
  CHECK(state.loss_scale == 16777216);
  scalars.apply = 0;
  decide(true);
  CHECK(state.loss_scale == 16777216);
}

TEST_CASE("cuda make_chunks covers each segment, and none twice") {
  graph::Update update;
  Flat flat({update, update, update}, {4096, 4097, 1});
  REQUIRE(flat.chunks.size() == 4);
  CHECK(flat.chunks[0].last == 4096);
  CHECK(flat.chunks[1].segment == 1);
  CHECK(flat.chunks[2].first == 8192);
  CHECK(flat.chunks[2].last == 8193);
  CHECK(flat.chunks[3].segment == 2);
  CHECK(flat.chunks[3].last - flat.chunks[3].first == 1);
}

}  // namespace trainer::test
