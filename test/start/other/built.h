// SPDX-License-Identifier: MIT
// Of another version of the library, see other_version.cpp.
#define SHMEM_LIBRARY_VERSION "77.0.0"
