/* SPDX-License-Identifier: MIT
 * Extensions of this library. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

/* Hints for shmem_malloc_with_hints: which of the symmetric heaps. Without one, SHMEM_HEAP decides.
 * The host's routines take objects on either, in any mixture; kernels those in device memory. NULL
 * where there is no GPU. */
#define SHMEMX_MALLOC_DEVICE (1L << 16)
#define SHMEMX_MALLOC_HOST (1L << 17)

/* Operations on a stream of the GPU, in its order: shmemx_..._on_stream, with the arguments of the
 * routine that they are named after and a stream, HIP's hipStream_t by another name, NULL for the
 * default one. A call returns at once, and a graph may hold it. Symmetric objects are on the device
 * heap; other memory is any that the GPU reaches.
 *
 * shmemx_tune replaces the table that chooses the algorithms of collectives on streams by rows as
 * in a SHMEM_TUNE_FILE, and calls that they do not cover by the built-in one; NULL: by that alone.
 * All PEs call it, with the same text, while none has a collective on a stream. Nonzero when the
 * text is wrong. */
#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif
#include <shmem/compiler.h>
#include <shmem/stream.h>
int shmemx_tune(const char *text);

/* Starting without a launcher. One process, which need not be a PE, makes a unique id and passes
 * its bytes to all others by any means; a thread of it listens until they have come. Each PE then
 * calls shmemx_init_attr with its rank, in place of shmem_init. Instead of the id it may give two
 * functions of its own: allgather puts `bytes` bytes of all ranks, by rank, to `all`; both return
 * 0.
 *
 * A failure is returned, a number below 0, and shmemx_error_string has the line that tells why: of
 * the calling thread, until its next failure. */
typedef struct {
  char internal[128];
} shmemx_uniqueid_t;
typedef enum {
  SHMEMX_ERROR_ARGUMENT = -1,
  SHMEMX_ERROR_START = -2,
  SHMEMX_ERROR_STATE = -3
} shmemx_error_t;
/* The GPU that SHMEM_DEVICE says; the one that the process has made current. */
#define SHMEMX_DEVICE_ANY (-1)
#define SHMEMX_DEVICE_CURRENT (-2)
typedef struct {
  size_t size; /* of this structure */
  int rank, n; /* this process is PE `rank` of n */
  const shmemx_uniqueid_t *uniqueid;
  int (*allgather)(void *context, const void *mine, void *all, size_t bytes);
  int (*barrier)(void *context);
  void *context;    /* of these functions */
  int thread_level; /* as shmem_init_thread's */
  int device;       /* the number of a GPU, or one of these */
  void *reserved[6];
} shmemx_init_attr_t;
#define SHMEMX_INIT_ATTR_INITIALIZER                                                               \
  {                                                                                                \
    sizeof(shmemx_init_attr_t), 0, 1, 0, 0, 0, 0, SHMEM_THREAD_SINGLE, SHMEMX_DEVICE_ANY, {        \
      0, 0, 0, 0, 0, 0                                                                             \
    }                                                                                              \
  }
int shmemx_get_uniqueid(shmemx_uniqueid_t *uniqueid);
int shmemx_init_attr(unsigned flags, const shmemx_init_attr_t *attr);
const char *shmemx_error_string(void);

/* A team of n PEs of a parent, in the order of the list. Its members call, all with the same list,
 * and no other PE. */
int shmemx_team_create(shmem_team_t parent, const int *pes, int n,
                       const shmem_team_config_t *config, long config_mask, shmem_team_t *team);

/* With 1, fcollect, alltoall and broadcast on streams of this team go by the GPUs' copy engines
 * from here on, and take no compute unit; with 0, by kernels again. All members call, with no
 * collective of the team on its way. */
int shmemx_team_copy_engines(shmem_team_t team, int on);

/* Shows the job to a module of kernels that were linked with the bitcode of this library,
 * libshmem_device_ARCH.bc, and loaded at run time: a hipModule_t or a CUmodule. After shmem_init
 * and before the first kernel of each such module. Other modules do it by themselves. */
void shmemx_module_init(void *module);

/* For languages that have no GPU runtime of their own: "amd", "nvidia" or "cpu", as the library was
 * built; and a wait of this thread until a stream has done all its work. */
const char *shmemx_platform(void);
void shmemx_stream_synchronize(shmemx_stream_t stream);

/* Seconds since some time in the past, the same one on all PEs. Sandia's and the reference library
 * have it, too. */
double shmemx_wtime(void);

/* Makes memory that exists symmetric: from malloc, mmap, hipMalloc and their like, here and on all
 * other PEs, or those of a team, of the same size. Routines take its addresses from then on, as
 * offsets from ptr. All of these PEs call, in the same order. The contents stay as they are, then
 * and when the buffer is unregistered, which comes before the memory is freed. */
typedef uint64_t shmemx_buffer_t;
void shmemx_buffer_register(void *ptr, size_t bytes, shmemx_buffer_t *handle);
void shmemx_team_buffer_register(shmem_team_t team, void *ptr, size_t bytes,
                                 shmemx_buffer_t *handle);
void shmemx_buffer_unregister(shmemx_buffer_t handle);

/* Under SHMEM_TRACE: calls from here on are recorded, or are not; a mark with a number on the
 * caller's track. They do nothing otherwise. */
void shmemx_trace_start(void);
void shmemx_trace_stop(void);
void shmemx_trace_event(unsigned id);
#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

/* Without the type in the name, as in shmem.h: shmemx_put_on_stream. */
#ifndef SHMEM_NO_GENERICS
#if defined __cplusplus
extern "C++" {
#include <shmem/stream_overloads.h>
}
#elif defined __STDC_VERSION__ && __STDC_VERSION__ >= 201112L
#include <shmem/stream_generics.h>
#endif
#endif

/* A function of the host and of kernels. */
#define SHMEMX_INLINE_ static inline SHMEM_HD_

#ifdef __cplusplus
extern "C" {
#endif

/* C = activation(A B + bias) on a stream. C is m x n, A m x k, B k x n, in device memory by rows,
 * ld elements from one to the next; a transposed operand has its columns as rows. Sums are fp32 and
 * rounded once. SHMEMX_F8 is E4M3 of the OCP; GPUs that have no instructions for it compute in
 * fp32. */
typedef enum {
  SHMEMX_F32,
  SHMEMX_F16,
  SHMEMX_BF16,
  SHMEMX_F8,
  SHMEMX_F8_FNUZ /* of norms only */
} shmemx_type_t;
typedef enum {
  SHMEMX_ACTIVATION_NONE,
  SHMEMX_ACTIVATION_RELU,
  SHMEMX_ACTIVATION_GELU,
  SHMEMX_ACTIVATION_SILU
} shmemx_activation_t;
/* When data goes to other members: tile by tile from within the product's kernel; shard by shard by
 * the copy engines, beside the product of the next one; before the product or after it. The first
 * is the library's choice. all_gather_matmul has no fused form. */
typedef enum {
  SHMEMX_MATMUL_BEST,
  SHMEMX_MATMUL_FUSED,
  SHMEMX_MATMUL_STREAMS,
  SHMEMX_MATMUL_BULK
} shmemx_matmul_algorithm_t;
typedef struct {
  shmemx_type_t type, out; /* of A and B; of C and bias */
  size_t m, n, k;
  const void *a, *b;
  void *c;
  const void *bias; /* n elements, or NULL */
  size_t lda, ldb, ldc;
  int trans_a, trans_b;
  shmemx_activation_t activation;
  shmemx_matmul_algorithm_t algorithm; /* of products of a team; all members the same */
} shmemx_matmul_t;
void shmemx_matmul_on_stream(const shmemx_matmul_t *call, shmemx_stream_t stream);

/* The products of a team of at most 8. m is that of the whole: its rows are cut into as many shards
 * as there are members, of ceil(m / members) each, the last ones maybe shorter. shmemx_matmul_shard
 * tells the first row of shard i and how many it has, on the host and in kernels.
 *   reduce_scatter     each has a part of K; member i's C is shard i of the sum of their products
 *   all_reduce         all get all of that sum
 *   all_gather         each has a shard of A's rows and the same B; all get all of C
 *   all_gather_matmul  each has a shard of A's rows; all multiply all of them, each with its own B
 * bias and activation come after the sum; in a sum, each member's product is rounded to `out` once
 * and the order is that of the members. C of all_reduce and all_gather is on the symmetric heap in
 * device memory; A of all_gather_matmul is not transposed. The workspace is for one operation and
 * shape, and for one call at a time. All PEs of the world make and free it at once, with their
 * team, or SHMEM_TEAM_INVALID if they have none; sizes must agree within a team. */
typedef enum {
  SHMEMX_MATMUL_REDUCE_SCATTER,
  SHMEMX_MATMUL_ALL_REDUCE,
  SHMEMX_MATMUL_ALL_GATHER,
  SHMEMX_ALL_GATHER_MATMUL
} shmemx_matmul_op_t;
typedef struct shmemx_matmul_workspace *shmemx_matmul_workspace_t;
shmemx_matmul_workspace_t shmemx_matmul_workspace_create(shmem_team_t team, shmemx_matmul_op_t op,
                                                         const shmemx_matmul_t *shape);
void shmemx_matmul_workspace_destroy(shmemx_matmul_workspace_t workspace);
SHMEMX_INLINE_ void shmemx_matmul_shard(size_t m, int members, int i, size_t *first, size_t *rows) {
  const size_t whole = m / (size_t)members + (m % (size_t)members != 0);
  *first = whole * (size_t)i < m ? whole * (size_t)i : m;
  *rows = m - *first < whole ? m - *first : whole;
}
void shmemx_matmul_reduce_scatter_on_stream(shmemx_matmul_workspace_t workspace,
                                            const shmemx_matmul_t *call, shmemx_stream_t stream);
void shmemx_matmul_all_reduce_on_stream(shmemx_matmul_workspace_t workspace,
                                        const shmemx_matmul_t *call, shmemx_stream_t stream);
void shmemx_matmul_all_gather_on_stream(shmemx_matmul_workspace_t workspace,
                                        const shmemx_matmul_t *call, shmemx_stream_t stream);
void shmemx_all_gather_matmul_on_stream(shmemx_matmul_workspace_t workspace,
                                        const shmemx_matmul_t *call, shmemx_stream_t stream);

/* An all-reduce that goes on with each row of its sums, on a stream:
 *   sum = input of member 0 + input of member 1 + ... + residual, rounded to the type once
 *   norm = sum / sqrt(mean of squares of sum + eps) * (weight_offset + weight)
 *   out = norm, rounded to the type
 *   quantized = norm / scale, rounded to E4M3, where scale = the largest |norm| / the largest E4M3
 * Sums are fp32. All matrices go by rows, `..._stride` elements from one to the next, or `columns`
 * where that is 0. Rows have a multiple of 16 bytes of the type, up to 64 KiB, and matrices begin
 * at multiples of 16 bytes. scales has a number for each row; or one for each `group` columns of
 * it, row after row. The bits of a row depend on nothing but its elements and their number.
 *
 * input, out, quantized, scales and a residual_out that all members get are symmetric, in device
 * memory. A matrix that is NULL is left out; a weight of NULL is 1. residual_out may be the
 * residual. */
typedef struct {
  size_t size;                  /* of this structure */
  shmemx_type_t type;           /* SHMEMX_F32, F16 or BF16 */
  shmemx_type_t quantized_type; /* SHMEMX_F8 or SHMEMX_F8_FNUZ */
  size_t rows, columns;
  const void *input;
  const void *residual;
  void *residual_out;
  const void *weight;
  void *out;
  void *quantized;
  float *scales;
  size_t input_stride, residual_stride, residual_out_stride, out_stride, quantized_stride;
  size_t group; /* 0: of a whole row; or 128 */
  float weight_offset, eps;
  int residual_scattered; /* 1: each member reads and writes the residual of its own rows only, as
                             shmemx_matmul_shard cuts them */
  int reserved_int;
  void *reserved[8];
} shmemx_norm_t;
#define SHMEMX_NORM_INITIALIZER                                                                    \
  {                                                                                                \
    sizeof(shmemx_norm_t), SHMEMX_BF16, SHMEMX_F8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        1e-6f, 0, 0, {                                                                             \
      0, 0, 0, 0, 0, 0, 0, 0                                                                       \
    }                                                                                              \
  }
void shmemx_all_reduce_norm_on_stream(shmem_team_t team, const shmemx_norm_t *norm,
                                      shmemx_stream_t stream);

/* Tokens to experts and back, for a team of at most 64 PEs of one node. Expert e is on member
 * e / (experts / members). A token goes to a member once, however many of its experts are there.
 *   BY_PE      a member's rows lie by source: member i's from row i * capacity on
 *   BY_EXPERT  a row for each expert of a token: local expert i's from row i * capacity on
 *   PACKED     the same, but an expert's rows begin where those of the one before end, rounded up
 *              to alignment
 * Rows are in the order of (source, token). The layout says what capacity counts: rows of a source,
 * of an expert, or of all; 0: as many as may come. Rows that find no room are dropped, and counted.
 *
 * combine sums, for each token, weight * row in the order of k, in fp32. BY_PE has a row for each
 * member, which has the weights in it already, in the order of the first k that names the member.
 * All PEs of the world make and free a shmemx_moe_t at once, with their team and its shape, or
 * SHMEM_TEAM_INVALID if they have none. */
typedef enum { SHMEMX_MOE_BY_PE, SHMEMX_MOE_BY_EXPERT, SHMEMX_MOE_PACKED } shmemx_moe_layout_t;
typedef struct {
  size_t size;        /* of this structure */
  size_t token_bytes; /* that dispatch moves of a token, of any kind: a multiple of 16 */
  size_t scale_bytes; /* of its scales: a multiple of 4, or 0 */
  size_t hidden;      /* the elements that combine sums, of this type: a multiple of 16 bytes */
  shmemx_type_t type; /* SHMEMX_F32, SHMEMX_F16 or SHMEMX_BF16 */
  int experts;        /* of all members, a multiple of their number; at most 1024 */
  int top_k;          /* experts of a token, at most 32 */
  int max_tokens;     /* of a member */
  shmemx_moe_layout_t layout;
  int alignment; /* of PACKED, in rows */
  size_t capacity;
  void *reserved[6];
} shmemx_moe_shape_t;
#define SHMEMX_MOE_SHAPE_INITIALIZER                                                               \
  {                                                                                                \
    sizeof(shmemx_moe_shape_t), 0, 0, 0, SHMEMX_BF16, 0, 1, 0, SHMEMX_MOE_BY_PE, 1, 0, {           \
      0, 0, 0, 0, 0, 0                                                                             \
    }                                                                                              \
  }
/* Rows that have come: pointers to device memory, the same ones for all calls. A dispatch on the
 * stream changes the contents. */
typedef struct {
  size_t size;          /* of this structure, set by the caller */
  int members, experts; /* experts: of this PE */
  int top_k;            /* 1 in other layouts than BY_PE: the experts of a row */
  size_t capacity;      /* as the shape has it */
  size_t n_rows;        /* for which there is room */
  void *rows;           /* on the symmetric heap: an expert may compute in place */
  const void *scales;
  const int *pe_count;                 /* [members]: tokens from each */
  const int *expert_count;             /* [experts]: rows of each */
  const int *expert_first;             /* [experts]: its first row */
  const int *source_pe, *source_token; /* [n_rows]; -1: the row is empty */
  const int *expert;                   /* [n_rows][top_k]: of this PE, from 0; or -1 */
  const float *weight;                 /* [n_rows][top_k] */
  const uint64_t *dropped;             /* [2]: in the last dispatch, and in all */
} shmemx_moe_view_t;
typedef struct shmemx_moe *shmemx_moe_t;
int shmemx_moe_create(shmem_team_t team, const shmemx_moe_shape_t *shape, shmemx_moe_t *moe);
void shmemx_moe_destroy(shmemx_moe_t moe);
void shmemx_moe_view(shmemx_moe_t moe, shmemx_moe_view_t *view);
/* expert_ids and weights: [n_tokens][top_k]. An id of -1 names none; weights NULL are 1. */
void shmemx_moe_dispatch_on_stream(shmemx_moe_t moe, const void *tokens, const void *scales,
                                   const int *expert_ids, const float *weights, int n_tokens,
                                   shmemx_stream_t stream);
/* Other tokens by the routing of the last dispatch. */
void shmemx_moe_replay_on_stream(shmemx_moe_t moe, const void *tokens, const void *scales,
                                 shmemx_stream_t stream);
/* rows is a symmetric object in device memory, laid out like those of the view. sum leaves the
 * weights out: it is the gradient of dispatch, as replay is that of combine. */
void shmemx_moe_combine_on_stream(shmemx_moe_t moe, const void *rows, void *out,
                                  shmemx_stream_t stream);
void shmemx_moe_sum_on_stream(shmemx_moe_t moe, const void *rows, void *out,
                              shmemx_stream_t stream);
/* Member i takes part in the calls behind this one if bit i is set; else nothing goes there, and
 * nothing is waited for. The same on all members that take part. */
void shmemx_moe_members_on_stream(shmemx_moe_t moe, uint64_t members, shmemx_stream_t stream);
/* The rows that have found no room here since create; waits for no stream. */
uint64_t shmemx_moe_dropped(shmemx_moe_t moe);

/* Sums and all-gathers of a team of at most 64 PEs of one node, on streams, whose elements travel
 * as fewer bits. 32 elements in a row have one scale, a bfloat16: the largest of them by size, over
 * the largest code. All members get the same bits. Sums are fp32, in the order of the members.
 *
 * dest and source are in any memory that the GPU reaches, aligned to 2 bytes; to 16 they are
 * faster. dest may be source: of a reduce-scatter this PE's block of source, of a fcollect source
 * may be this PE's block of dest. round rounds n elements as one way does, without another PE.
 * All PEs of the world make and free a shmemx_wire_t at once, with their team and its shape, or
 * SHMEM_TEAM_INVALID if they have none; it is for one call at a time. */
typedef enum {
  SHMEMX_WIRE_F8, /* E4M3 */
  SHMEMX_WIRE_INT8,
  SHMEMX_WIRE_INT6,
  SHMEMX_WIRE_INT4
} shmemx_wire_format_t;
typedef struct {
  size_t size;        /* of this structure */
  shmemx_type_t type; /* SHMEMX_F16 or SHMEMX_BF16 */
  shmemx_wire_format_t format;
  size_t elements; /* the most of the source of a call, at most 2^30 */
  int chunks;      /* 0: the library's choice; 1, 3, 5 or 7, which follow each other in kernels that
                      fill the GPU; -1: all in one kernel */
  int reserved_int;
  void *reserved[4];
} shmemx_wire_shape_t;
#define SHMEMX_WIRE_SHAPE_INITIALIZER                                                              \
  {                                                                                                \
    sizeof(shmemx_wire_shape_t), SHMEMX_BF16, SHMEMX_WIRE_INT8, 0, 0, 0, {                         \
      0, 0, 0, 0                                                                                   \
    }                                                                                              \
  }
typedef struct shmemx_wire *shmemx_wire_t;
int shmemx_wire_create(shmem_team_t team, const shmemx_wire_shape_t *shape, shmemx_wire_t *wire);
void shmemx_wire_destroy(shmemx_wire_t wire);
void shmemx_wire_sum_reduce_on_stream(shmemx_wire_t wire, void *dest, const void *source,
                                      size_t nreduce, shmemx_stream_t stream);
/* nreduce: elements of a member's block. */
void shmemx_wire_sum_reduce_scatter_on_stream(shmemx_wire_t wire, void *dest, const void *source,
                                              size_t nreduce, shmemx_stream_t stream);
void shmemx_wire_fcollect_on_stream(shmemx_wire_t wire, void *dest, const void *source,
                                    size_t nelems, shmemx_stream_t stream);
void shmemx_wire_round_on_stream(shmemx_wire_t wire, void *dest, const void *source, size_t n,
                                 shmemx_stream_t stream);

#ifdef __cplusplus
}
#endif

#endif
