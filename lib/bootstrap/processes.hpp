// SPDX-License-Identifier: MIT
// The processes of a job on this node, as /proc shows them. A launcher gives each process its job
// and its rank as variables, which a program passes on to its children.
#pragma once

namespace shmem::bootstrap {

// The number of an ancestor that is in the job already with this process's rank: a PE has started
// this program as a child. 0 if there is none.
int elder();

// A PE of this node that has had no process for two seconds; or -1, also where /proc shows too
// little to know. PEs for which `come` is true do not count. Called again and again.
int missing(const int *pes, int n, bool (*come)(int pe));

} // namespace shmem::bootstrap
