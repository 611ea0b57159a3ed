// SPDX-License-Identifier: MIT
// A header of the toolkit, up to CUDA 12. Clang 19 asks for it, and CUDA 13 has it no more.
