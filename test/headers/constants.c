// SPDX-License-Identifier: MIT
// Constants, handles and types of the header, as far as the compiler can tell. It is enough that
// this file compiles.
#include <pshmem.h>
#include <shmemx.h>

#define ASSERT(...) _Static_assert(__VA_ARGS__, #__VA_ARGS__)
#define TYPE_OF(value, type) ASSERT(__builtin_types_compatible_p(__typeof__(value), type))
#define BIT(x) ASSERT((x) > 0 && ((x) & ((x)-1)) == 0)

// Integer constant expressions: enumerators take nothing else.
enum {
  constants = SHMEM_THREAD_SINGLE + SHMEM_SIGNAL_SET + SHMEM_CMP_EQ + SHMEM_MAJOR_VERSION +
              SHMEM_MINOR_VERSION + SHMEM_MAX_NAME_LEN + SHMEM_SYNC_VALUE + SHMEM_CTX_SERIALIZED +
              SHMEM_TEAM_NUM_CONTEXTS + SHMEM_CTX_SESSION_TOTAL_OPS + SHMEM_CTX_SESSION_BATCH +
              SHMEM_MALLOC_ATOMICS_REMOTE
};
ASSERT(constants != 0);
ASSERT(SHMEM_THREAD_SINGLE < SHMEM_THREAD_FUNNELED);
ASSERT(SHMEM_THREAD_FUNNELED < SHMEM_THREAD_SERIALIZED);
ASSERT(SHMEM_THREAD_SERIALIZED < SHMEM_THREAD_MULTIPLE);
ASSERT(SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION == 6);
ASSERT(SHMEM_SIGNAL_SET != SHMEM_SIGNAL_ADD);
BIT(SHMEM_CTX_SERIALIZED);
BIT(SHMEM_CTX_PRIVATE);
BIT(SHMEM_CTX_NOSTORE);
ASSERT((SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE) ==
       SHMEM_CTX_SERIALIZED + SHMEM_CTX_PRIVATE + SHMEM_CTX_NOSTORE);
BIT(SHMEM_TEAM_NUM_CONTEXTS);
BIT(SHMEM_CTX_SESSION_TOTAL_OPS);
BIT(SHMEM_CTX_SESSION_BATCH);
BIT(SHMEM_MALLOC_ATOMICS_REMOTE);
BIT(SHMEM_MALLOC_SIGNAL_REMOTE);
ASSERT(SHMEM_MALLOC_ATOMICS_REMOTE != SHMEM_MALLOC_SIGNAL_REMOTE);
BIT(SHMEMX_MALLOC_DEVICE);
BIT(SHMEMX_MALLOC_HOST);
TYPE_OF(SHMEM_CTX_SERIALIZED, long);
TYPE_OF(SHMEM_CTX_PRIVATE, long);
TYPE_OF(SHMEM_CTX_NOSTORE, long);
TYPE_OF(SHMEM_TEAM_NUM_CONTEXTS, long);
TYPE_OF(SHMEM_CTX_SESSION_TOTAL_OPS, long);
TYPE_OF(SHMEM_CTX_SESSION_BATCH, long);
TYPE_OF(SHMEM_MALLOC_ATOMICS_REMOTE, long);
TYPE_OF(SHMEM_MALLOC_SIGNAL_REMOTE, long);
TYPE_OF(SHMEM_SIGNAL_SET, int);
TYPE_OF(SHMEM_SIGNAL_ADD, int);
TYPE_OF(SHMEM_THREAD_MULTIPLE, int);
TYPE_OF(SHMEM_SYNC_VALUE, long);

// Six comparisons, all different; the old names mean the same.
#define DIFFERENT(a, b) ASSERT(a != b)
DIFFERENT(SHMEM_CMP_EQ, SHMEM_CMP_NE);
DIFFERENT(SHMEM_CMP_NE, SHMEM_CMP_LT);
DIFFERENT(SHMEM_CMP_LT, SHMEM_CMP_LE);
DIFFERENT(SHMEM_CMP_LE, SHMEM_CMP_GT);
DIFFERENT(SHMEM_CMP_GT, SHMEM_CMP_GE);
ASSERT((1 << SHMEM_CMP_EQ | 1 << SHMEM_CMP_NE | 1 << SHMEM_CMP_LT | 1 << SHMEM_CMP_LE |
        1 << SHMEM_CMP_GT | 1 << SHMEM_CMP_GE) == (1 << SHMEM_CMP_EQ) + (1 << SHMEM_CMP_NE) +
                                                      (1 << SHMEM_CMP_LT) + (1 << SHMEM_CMP_LE) +
                                                      (1 << SHMEM_CMP_GT) + (1 << SHMEM_CMP_GE));
TYPE_OF(SHMEM_CMP_EQ, int);
ASSERT(_SHMEM_CMP_EQ == SHMEM_CMP_EQ && _SHMEM_CMP_NE == SHMEM_CMP_NE);
ASSERT(_SHMEM_CMP_LT == SHMEM_CMP_LT && _SHMEM_CMP_LE == SHMEM_CMP_LE);
ASSERT(_SHMEM_CMP_GT == SHMEM_CMP_GT && _SHMEM_CMP_GE == SHMEM_CMP_GE);
ASSERT(_SHMEM_MAJOR_VERSION == SHMEM_MAJOR_VERSION && _SHMEM_MINOR_VERSION == SHMEM_MINOR_VERSION);
ASSERT(_SHMEM_MAX_NAME_LEN == SHMEM_MAX_NAME_LEN && _SHMEM_SYNC_VALUE == SHMEM_SYNC_VALUE);
ASSERT(_SHMEM_BARRIER_SYNC_SIZE == SHMEM_BARRIER_SYNC_SIZE);
ASSERT(_SHMEM_BCAST_SYNC_SIZE == SHMEM_BCAST_SYNC_SIZE);
ASSERT(_SHMEM_COLLECT_SYNC_SIZE == SHMEM_COLLECT_SYNC_SIZE);
ASSERT(_SHMEM_REDUCE_SYNC_SIZE == SHMEM_REDUCE_SYNC_SIZE);
ASSERT(_SHMEM_REDUCE_MIN_WRKDATA_SIZE == SHMEM_REDUCE_MIN_WRKDATA_SIZE);
ASSERT(sizeof _SHMEM_VENDOR_STRING == sizeof SHMEM_VENDOR_STRING);

// One work array of SHMEM_SYNC_SIZE does for every routine.
ASSERT(SHMEM_SYNC_SIZE >= SHMEM_BARRIER_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_BCAST_SYNC_SIZE);
ASSERT(SHMEM_SYNC_SIZE >= SHMEM_COLLECT_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_REDUCE_SYNC_SIZE);
ASSERT(SHMEM_SYNC_SIZE >= SHMEM_ALLTOALL_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_ALLTOALLS_SYNC_SIZE);
ASSERT(SHMEM_BARRIER_SYNC_SIZE > 0 && SHMEM_BCAST_SYNC_SIZE > 0 && SHMEM_COLLECT_SYNC_SIZE > 0);
ASSERT(SHMEM_REDUCE_SYNC_SIZE > 0 && SHMEM_ALLTOALL_SYNC_SIZE > 0 && SHMEM_ALLTOALLS_SYNC_SIZE > 0);
ASSERT(SHMEM_REDUCE_MIN_WRKDATA_SIZE > 0);

// The string with its end fits the buffer that programs declare.
static const char vendor[SHMEM_MAX_NAME_LEN] = SHMEM_VENDOR_STRING;
ASSERT(sizeof SHMEM_VENDOR_STRING <= SHMEM_MAX_NAME_LEN && sizeof SHMEM_VENDOR_STRING > 1);

// Arrays of the data segment, and handles as initializers of static and thread-local objects.
static long psync[SHMEM_REDUCE_SYNC_SIZE] = {SHMEM_SYNC_VALUE};
static double pwrk[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static shmem_team_t teams[] = {SHMEM_TEAM_WORLD, SHMEM_TEAM_SHARED, SHMEM_TEAM_INVALID};
static shmem_ctx_t ctxs[] = {SHMEM_CTX_DEFAULT, SHMEM_CTX_INVALID};
static _Thread_local shmem_team_t thread_team = SHMEM_TEAM_INVALID;
static _Thread_local shmem_ctx_t thread_ctx = SHMEM_CTX_INVALID;
TYPE_OF(SHMEM_TEAM_WORLD, shmem_team_t);
TYPE_OF(SHMEM_TEAM_SHARED, shmem_team_t);
TYPE_OF(SHMEM_TEAM_INVALID, shmem_team_t);
TYPE_OF(SHMEM_CTX_DEFAULT, shmem_ctx_t);
TYPE_OF(SHMEM_CTX_INVALID, shmem_ctx_t);
ASSERT(!__builtin_types_compatible_p(shmem_team_t, shmem_ctx_t));
static const shmem_team_config_t config = {.num_contexts = 3};
static const shmem_ctx_session_config_t session = {.total_ops = SIZE_MAX};
TYPE_OF(config.num_contexts, int);
TYPE_OF(session.total_ops, size_t);

int header_constants(void);
int header_constants(void) {
  thread_team = teams[0]; // assignment and == work
  thread_ctx = ctxs[0];
  uint64_t wide = UINT64_MAX; // of <stdint.h>, which some programs take from here
  ptrdiff_t distance = (ptrdiff_t)sizeof(uintptr_t);
  switch (psync[0]) { // labels
  case SHMEM_CMP_LT:
  case SHMEM_CMP_NE:
    return 1;
  }
  return thread_team == teams[1] || thread_ctx == ctxs[1] || vendor[0] == 0 || psync[0] != 0 ||
         pwrk[0] != 0 || config.num_contexts != 3 || session.total_ops == 0 || wide == 0 ||
         distance == 0;
}
