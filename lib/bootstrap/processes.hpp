// SPDX-License-Identifier: MIT
// Which processes of a job there are on this node, as /proc shows them. A launcher gives each
// process its job and its rank as variables, which a program that starts another one passes on.
#pragma once

namespace shmem::bootstrap {

// A process above this one, by its number, that is in the job already with this process's rank: a
// PE has started this program as a child. 0 if there is none.
int elder();

// A PE of this node, other than those for which `come` is true, of which no process has been there
// for two seconds; or -1, also where /proc does not show enough to know. To be asked again and
// again.
int missing(const int *pes, int n, bool (*come)(int pe));

} // namespace shmem::bootstrap
