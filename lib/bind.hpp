// SPDX-License-Identifier: MIT
#pragma once

namespace shmem {

// Binds this PE to one core of those that it may run on, if oshrun asks for that, every PE finds
// one, and nothing says that the program has threads. Collective; when all have called show_cores.
void bind(int thread_level);
void unbind(); // back to all of them

void look_for_threads(); // of the program; before the library has any
void show_cores();       // that this PE may run on, to the others

} // namespace shmem
