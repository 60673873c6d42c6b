// How a thread waits for another process. Inside the libraries.
#pragma once

namespace trainer::cluster {

// From here on, waits of the calling thread sleep at once: it works beside others that compute on
// its core. Other threads look for a moment first whether what they wait for comes.
void sleep_when_waiting();
bool sleeps_when_waiting();

}  // namespace trainer::cluster
