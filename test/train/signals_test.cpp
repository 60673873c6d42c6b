#include "train/signals.h"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

namespace trainer::train {

TEST_CASE("signals: each is known by name, and forgotten by the next watch") {
  for (const auto& [number, name] :
       {std::pair{SIGINT, "SIGINT"}, std::pair{SIGTERM, "SIGTERM"}, std::pair{SIGUSR1, "SIGUSR1"},
        std::pair{SIGUSR2, "SIGUSR2"}}) {
    const SignalWatch watch;
    CHECK(SignalWatch::received() == nullptr);
    std::raise(number);
    REQUIRE(SignalWatch::received() != nullptr);
    CHECK(std::string(SignalWatch::received()) == name);
  }
}

TEST_CASE("signals: after a watch they do what they do by default") {
  { const SignalWatch watch; }
  struct sigaction now {};
  REQUIRE(sigaction(SIGTERM, nullptr, &now) == 0);
  CHECK((now.sa_handler == SIG_DFL));
}

}  // namespace trainer::train
