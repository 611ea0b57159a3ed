// SPDX-License-Identifier: MIT
// How a job ends when it does not end by shmem_finalize, nor by fatal.
#pragma once

namespace shmem {

// shmem_global_exit: end_job on all other PEs, exit(status) on this one.
[[noreturn, gnu::cold]] void global_exit(int status);

// Ends the job when a PE has ended before shmem_init, or has not come within SHMEM_WAIT_LIMIT of
// the first call. Called while this PE waits for the others.
void check_started();

// A thread that sleeps until the next PE of the node dies or the job is ended; then it ends this
// process. Started when all PEs are there, stopped before this PE leaves.
void start_watch();
void stop_watch();
// Forgets the PEs of the job, which this PE has left for good.
void stop_watching();

// Makes exit() finalize the library, or end the job if the status says that the program has failed.
void catch_exit(void (*finalize)());

} // namespace shmem
