#include "backend/cuda/kernels/step/exchange.h"

#include <doctest/doctest.h>

#include "backend/exchange.h"
#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;

}  // namespace

// Both follow backend::Trailer, which the CPU uses.
TEST_CASE("cuda trailer is written and read as the CPU's") {
  for (const std::int64_t count : {0, 1, 700}) {
    for (const bool finite : {false, true}) {
      for (const int how : {0, 1, 2, 3}) {
        const bool moved = how % 2 == 1, averaged = how < 2;
        CAPTURE(count);
        CAPTURE(averaged);
        Array statistics = Array::random(kF32, {count}, 1);
        Array before = Array::random(kF32, {count}, 2);
        std::vector<float> on_cpu(before.as<float>(), before.as<float>() + count);
        backend::Trailer trailer({on_cpu}, averaged);
        trailer.remember();
        std::copy_n(statistics.as<float>(), count, on_cpu.begin());
        if (moved) trailer.statistics_moved();
        std::vector<float> want(trailer.size());
        trailer.write(want, finite);

        cuda::StepState state = {};
        state.all_finite = finite ? 1 : 0;
        state.moved = moved ? 1 : 0;
        Array sum(kF32, Shape{2 + (averaged ? count : 0)});
        cuda::write_trailer(&state, statistics.as<float>(), averaged ? count : 0, sum.as<float>(),
                            nullptr);
        CHECK(std::equal(want.begin(), want.end(), sum.as<float>()));

        // Three ranks with the same.
        for (std::int64_t i = 0; i < sum.size(); ++i) sum.set(i, 3 * sum[i]);
        trailer.read({sum.as<float>(), static_cast<std::size_t>(sum.size())});
        cuda::read_trailer(sum.as<float>(), averaged, before.as<float>(), statistics.as<float>(),
                           count, &state, nullptr);
        CHECK(std::equal(on_cpu.begin(), on_cpu.end(), statistics.as<float>()));
        CHECK(state.moved == 0);
      }
    }
  }
}

}  // namespace trainer::test
