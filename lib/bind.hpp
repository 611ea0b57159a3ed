// SPDX-License-Identifier: MIT
#pragma once

namespace shmem {

// Binds this PE to one of its cores, if oshrun asks for that, every PE finds a core, and nothing
// says that the program has threads. Collective, after show_cores of all PEs.
void bind(int thread_level);
void unbind(); // back to all of them

void look_for_threads(); // for threads of the program; before the library has any
void show_cores();       // tells the other PEs which cores this PE may run on

} // namespace shmem
