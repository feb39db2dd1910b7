/* What the runtime's own files share: the parts of opening a plan, and the two decoders. */
#ifndef STOW_INTERNAL_H
#define STOW_INTERNAL_H

#include "stow.h"
#include "stow_kernel.h"

/* No tensor may be larger, so that byte positions within one fit 32 bits with a sign. */
#define STOW_MAX_TENSOR_BYTES UINT32_C(0x7fffffff)

/* Entries of row tables that opening may visit, tables shared by several buffers counted each time. */
#define STOW_MAX_TABLE_ROWS (UINT64_C(1) << 26)

/* Done before each firing, for whoever counts or times them. */
#ifndef STOW_ON_FIRING
#define STOW_ON_FIRING() ((void)0)
#endif

/* The pools of flow/target.py; constants, which lie in the plan, are the third. */
#define STOW_POOL_FAST 0u
#define STOW_POOL_SLOW 1u

#define STOW_NOTHING_16 UINT32_C(0xffff)
#define STOW_NOTHING_32 UINT32_C(0xffffffff)

/* Each checks one section and leaves the index of the first bad record in plan->fault. */
STOW_API stow_status stow_check_tensors(stow_plan *plan);
STOW_API stow_status stow_check_blocks(stow_plan *plan);
STOW_API stow_status stow_check_constants(stow_plan *plan);
STOW_API stow_status stow_check_buffers(stow_plan *plan);
STOW_API stow_status stow_check_nodes(stow_plan *plan);
STOW_API stow_status stow_check_stages(stow_plan *plan);
STOW_API stow_status stow_check_ports(stow_plan *plan);
STOW_API stow_status stow_check_states(stow_plan *plan);

/* Bytes of one element of a type code of the plan file, 0 for an unknown code. */
STOW_API uint32_t stow_dtype_bytes(uint32_t dtype);

/* Whether the rows of a buffer follow each other without gaps. */
STOW_API int stow_is_contiguous(const stow_buffer *buffer);

/* An upper bound on the elementary steps of one unit of a node that passed its check; saturates. */
STOW_API uint64_t stow_unit_work(const stow_plan *plan, const stow_node *node);
STOW_API uint64_t stow_add_work(uint64_t a, uint64_t b);
STOW_API uint64_t stow_multiply_work(uint64_t a, uint64_t b);

/* Where the rows of a buffer lie for this context. */
STOW_API stow_rows stow_resolve(const stow_context *context, const stow_buffer *buffer);

/* What a build may define to watch its runs: called with begins = 1 before, and with 0 after, what they are named for.
 * A stage of a plan with streamed inputs ends where the next one begins, or the run. */
#ifndef STOW_ON_STAGE
#define STOW_ON_STAGE(stage, begins) ((void)0)
#endif
#ifndef STOW_ON_NODE
#define STOW_ON_NODE(node, units, begins) ((void)0)
#endif

#if STOW_WITH_SPECIALIZED
/* The function of one node alone, or NULL when it has none. */
typedef void stow_run(const stow_call *call);
static stow_run *stow_specialized(uint32_t node);
#endif

#if STOW_WITH_PREPARED
/* Run a call with what was prepared for its node; 0 when that is nothing, and the call is still to be run. */
STOW_API int stow_run_prepared(const stow_call *call, uint32_t node);
#endif

/* Running a plan: begin a stage (unpack its weights to the start of the fast arena), run one firing of a kernel. */
STOW_API stow_status stow_enter(const stow_context *context, const stow_stage *stage);
STOW_API void stow_fire(stow_context *context, const stow_firing *firing);
STOW_API void stow_reset_counters(stow_context *context);

/* The end of a run: move what it made to where the next one reads it. */
STOW_API void stow_keep_state(const stow_context *context);

/* Whether a run changes what the model keeps before its end: it makes it where it found it. */
STOW_API int stow_keeps_in_place(const stow_context *context);

/* Whether the rows of an input arrive while the plan runs; of an opened plan. */
STOW_API int stow_is_streamed(const stow_plan *plan, uint32_t input);

#if STOW_WITH_LZ4
/* Decode one LZ4 block of exactly `target_bytes`; 0 when the input is no such block. The target may be in any state
 * afterwards if so. */
STOW_API int stow_lz4_decode(const uint8_t *source, uint32_t source_bytes, uint8_t *target, uint32_t target_bytes);
#endif

#if STOW_WITH_RANGE
/* The same for a range-coded block. */
STOW_API int stow_range_decode(const uint8_t *source, uint32_t source_bytes, uint8_t *target, uint32_t target_bytes);
#endif

#if STOW_WITH_DIGEST
#define STOW_SHA256_BYTES 32u

typedef struct stow_sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    uint8_t pending[64];
} stow_sha256;

STOW_API void stow_sha256_start(stow_sha256 *hash);
STOW_API void stow_sha256_add(stow_sha256 *hash, const uint8_t *data, size_t size);
STOW_API void stow_sha256_finish(stow_sha256 *hash, uint8_t digest[STOW_SHA256_BYTES]);
#endif

#endif
