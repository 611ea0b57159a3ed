// SPDX-License-Identifier: MIT
// Every variable of device code that a library registers with the HIP runtime must be a global
// symbol of each of its code objects: ROCm's loader skips local ones, and the first use of such a
// variable ends the process ("Cannot create GlobalVar Obj"). test_registered LIBRARY... stands in
// for that part of the runtime, so no GPU is needed.
#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct wrapper {
  uint32_t magic, version;
  const char *bundle;
  void *unused;
};

static char **libraries;
static int variables, objects;

void **__hipRegisterFatBinary(const struct wrapper *wrapper);
void __hipUnregisterFatBinary(void **module);
void __hipRegisterFunction(void **module, const void *stub, char *name, const char *device,
                           unsigned limit, void *thread, void *block, void *block_dim,
                           void *grid_dim, int *waves);
void __hipRegisterVar(void **module, void *shadow, char *name, char *device, int external,
                      size_t size, int constant, int global);

void **__hipRegisterFatBinary(const struct wrapper *wrapper) {
  void **module = malloc(sizeof *module);
  *module = (void *)(uintptr_t)wrapper->bundle;
  return module;
}
void __hipUnregisterFatBinary(void **module) {
  free(module);
}
void __hipRegisterFunction(void **module, const void *stub, char *name, const char *device,
                           unsigned limit, void *thread, void *block, void *block_dim,
                           void *grid_dim, int *waves) {
  (void)module, (void)stub, (void)name, (void)device, (void)limit, (void)thread, (void)block,
      (void)block_dim;
  (void)grid_dim, (void)waves;
}

static void look(const char *object, const char *target, const char *name, size_t size) {
  const Elf64_Ehdr *head = (const void *)object;
  assert_memory_equal(head->e_ident, ELFMAG, SELFMAG);
  const Elf64_Shdr *sections = (const void *)(object + head->e_shoff);
  for (int s = 0; s < head->e_shnum; s++) {
    if (sections[s].sh_type != SHT_DYNSYM) continue; // what a loader sees
    const Elf64_Sym *symbols = (const void *)(object + sections[s].sh_offset);
    const char *names = object + sections[sections[s].sh_link].sh_offset;
    for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++) {
      if (strcmp(names + symbols[i].st_name, name)) continue;
      const int binding = ELF64_ST_BIND(symbols[i].st_info),
                seen = ELF64_ST_VISIBILITY(symbols[i].st_other);
      if ((binding == STB_GLOBAL || binding == STB_WEAK) &&
          (seen == STV_DEFAULT || seen == STV_PROTECTED) && symbols[i].st_shndx != SHN_UNDEF &&
          symbols[i].st_size == size)
        return;
      fail_msg("%s in the code object for %s: binding %d, visibility %d, section %d, %zu bytes and "
               "not %zu",
               name, target, binding, seen, symbols[i].st_shndx, (size_t)symbols[i].st_size, size);
    }
  }
  fail_msg("%s is not a global symbol of the code object for %s", name, target);
}

void __hipRegisterVar(void **module, void *shadow, char *name, char *device, int external,
                      size_t size, int constant, int global) {
  (void)shadow, (void)name, (void)external, (void)constant, (void)global;
  const char *bundle = *module, magic[] = "__CLANG_OFFLOAD_BUNDLE__";
  assert_memory_equal(bundle, magic, sizeof magic - 1);
  const char *at = bundle + sizeof magic - 1;
  uint64_t n,
      entry[3]; // of an entry: offset, bytes, and the length of the target's name, which follows
  memcpy(&n, at, sizeof n), at += sizeof n;
  for (; n; n--) {
    memcpy(entry, at, sizeof entry), at += sizeof entry;
    char target[128];
    snprintf(target, sizeof target, "%.*s", (int)entry[2], at);
    at += entry[2];
    if (strncmp(target, "host", 4)) objects++, look(bundle + entry[0], target, device, size);
  }
  variables++;
}

static void test(void **state) {
  (void)state;
  for (char **library = libraries; *library; library++) {
    const int before = variables;
    if (!dlopen(*library, RTLD_NOW | RTLD_GLOBAL)) fail_msg("%s", dlerror());
    if (variables == before) fail_msg("%s has registered no variable", *library);
  }
  if (objects < variables) fail_msg("%d variables in %d code objects", variables, objects);
  print_message("%d variables are global in %d code objects\n", variables, objects);
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: test_registered LIBRARY...\n"), 2;
  libraries = argv + 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
