// Sets how a thread waits for another process. Internal to the libraries.
#pragma once

namespace trainer::cluster {

// Makes all later waits of the calling thread sleep at once, because it shares its core with
// threads that compute. Other threads spin for a moment before they sleep.
void sleep_when_waiting();
bool sleeps_when_waiting();

}  // namespace trainer::cluster
