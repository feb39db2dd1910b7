/* The stowplan runtime's one public header: open a plan, bind two arenas, run.
 *
 *     stow_plan plan;
 *     stow_context context;
 *     stow_open(&plan, plan_bytes, plan_size);
 *     stow_bind(&context, &plan, fast, sizeof fast, slow, sizeof slow);
 *     memcpy(stow_input(&context, 0), image, stow_input_bytes(&plan, 0));
 *     stow_invoke(&context);
 *     use(stow_output(&context, 0));
 *
 * A plan may have streamed inputs: their rows are pushed as they arrive, and are in memory only while they are needed.
 * stow_input is NULL for those; instead of stow_invoke, with all other inputs filled:
 *
 *     stow_status status = stow_begin(&context);
 *     while (status == STOW_MORE) {
 *         status = stow_push_rows(&context, 0, next_row(), 1);
 *     }
 *
 * C11, freestanding but for memcpy, memmove and memset. No heap, no recursion, no global state: one opened plan may be
 * shared by any number of contexts, one context per pair of arenas. The plan is read where it lies and never written.
 */
#ifndef STOW_H
#define STOW_H

#include <stddef.h>
#include <stdint.h>

#include "stow_layout.h"

/* Linkage of every function of the runtime. Generated sources are one file and make it `static`. */
#ifndef STOW_API
#define STOW_API
#endif

/* 1 counts the bytes that copies move between the fast and the slow pool. */
#ifndef STOW_COUNTERS
#define STOW_COUNTERS 0
#endif

/* 0 leaves a decoder out; plans with weights that it would unpack are then refused. */
#ifndef STOW_WITH_LZ4
#define STOW_WITH_LZ4 1
#endif
#ifndef STOW_WITH_RANGE
#define STOW_WITH_RANGE 1
#endif

/* 0 leaves stow_check_digest out. */
#ifndef STOW_WITH_DIGEST
#define STOW_WITH_DIGEST 1
#endif

/* 1 asks stow_specialized, which whoever sets it defines, for a node's own function before the kernel table. */
#ifndef STOW_WITH_SPECIALIZED
#define STOW_WITH_SPECIALIZED 0
#endif

/* 1 asks stow_run_prepared, which whoever sets it defines, before the kernel table: the host's own kernels. */
#ifndef STOW_WITH_PREPARED
#define STOW_WITH_PREPARED 0
#endif

/* A plan that needs more elementary steps for one run is refused when it is opened: an upper bound on how long a
 * hostile file can keep the processor busy. MobileNetV2 at 224 x 224 needs 2^29. */
#ifndef STOW_MAX_WORK
#define STOW_MAX_WORK (UINT64_C(1) << 40)
#endif

/* The alignment that plans and arenas must have, in bytes. */
#define STOW_ALIGNMENT 16u

typedef enum stow_status {
    STOW_OK = 0,
    STOW_BAD_HOST,      /* the processor is not little-endian */
    STOW_MISALIGNED,    /* plan or arena not at a multiple of STOW_ALIGNMENT */
    STOW_NOT_A_PLAN,    /* no magic */
    STOW_BAD_VERSION,   /* made for a newer runtime */
    STOW_TRUNCATED,     /* fewer bytes than the header states */
    STOW_BAD_HEADER,
    STOW_BAD_SECTION,
    STOW_BAD_STRING,
    STOW_BAD_TENSOR,
    STOW_BAD_BLOCK,
    STOW_BAD_CONSTANT,
    STOW_BAD_BUFFER,
    STOW_BAD_NODE,
    STOW_NO_KERNEL,     /* this build lacks the kernel of a node */
    STOW_BAD_PARAMS,    /* a kernel refuses its node's parameters */
    STOW_BAD_FIRING,
    STOW_BAD_STAGE,
    STOW_BAD_PORT,
    STOW_TOO_MUCH_WORK, /* more than STOW_MAX_WORK */
    STOW_BAD_DIGEST,
    STOW_SMALL_ARENA,   /* an arena has fewer bytes than the plan needs */
    STOW_BAD_PACKING,   /* a compressed block does not unpack to its size */
    STOW_BAD_STATE,     /* what runs leave to each other lies nowhere */
    STOW_MORE,          /* no error: the run waits for rows */
    STOW_STREAMED,      /* stow_invoke of a plan with streamed inputs */
    STOW_NOT_BEGUN,     /* rows without stow_begin */
    STOW_WRONG_INPUT,   /* rows of an input that the run does not wait for */
    STOW_TOO_MANY_ROWS, /* more rows than the run can take before another input's, or at all */
    STOW_UNFINISHED     /* the run before was left when it had begun to change what the model keeps: stow_reset */
} stow_status;

/* An opened plan: where each section lies. `fault` is the record that made stow_open refuse, for messages. */
typedef struct stow_plan {
    const stow_header *header;
    const stow_tensor *tensors;
    const uint32_t *dims;
    const stow_buffer *buffers;
    const uint32_t *row_offsets;
    const stow_node *nodes;
    const uint16_t *operands;
    const int32_t *params;
    const stow_firing *firings;
    const stow_stage *stages;
    const stow_constant_entry *constants;
    const stow_block *blocks;
    const stow_port *ports;
    const stow_state *states;
    const char *strings;
    const uint8_t *weights;
    uint32_t tensor_count;
    uint32_t dim_count;
    uint32_t buffer_count;
    uint32_t row_offset_count;
    uint32_t node_count;
    uint32_t operand_count;
    uint32_t param_count;
    uint32_t firing_count;
    uint32_t stage_count;
    uint32_t constant_count;
    uint32_t block_count;
    uint32_t port_count;
    uint32_t state_count;
    uint32_t strings_bytes;
    uint32_t weights_bytes;
    uint32_t fault;
    uint32_t streamed; /* bit i: input i is streamed */
} stow_plan;

#if STOW_COUNTERS
/* Called before (begins = 1) and after (0) each firing: which node, and for how many units. */
typedef void stow_watch(void *user, uint32_t node, uint32_t units, int begins);
#endif

/* One place to run a plan. Invoking two contexts that share an arena at once is the only thing that is not safe. */
typedef struct stow_context {
    const stow_plan *plan;
    uint8_t *fast;
    uint8_t *slow;
#if STOW_COUNTERS
    uint64_t slow_read_bytes;    /* moved from the slow pool to the fast one in the last run */
    uint64_t slow_written_bytes; /* and the other way */
    stow_watch *watch;           /* NULL for none */
    void *watch_user;
#endif
#if STOW_WITH_PREPARED
    const void *prepared; /* NULL for nothing */
#endif
#if STOW_WITH_RECEIVE
    uint32_t phase;  /* the rest says where a run with streamed inputs is */
    uint32_t stage;  /* the next to enter */
    uint32_t firing; /* the next to run */
    uint32_t taken;  /* rows of it that have come */
    uint32_t wanted; /* rows that may come before another input is needed */
#endif
} stow_context;

/* Check everything that running relies on, in bounded time, reading nothing outside `data`. The digest is not part
 * of it: see stow_check_digest. `data` must stay where it is as long as the plan is used. */
STOW_API stow_status stow_open(stow_plan *plan, const void *data, size_t size);

#if STOW_WITH_DIGEST
/* Compare the plan's SHA-256 with its contents; costs one pass over the whole plan. */
STOW_API stow_status stow_check_digest(const void *data, size_t size);
#endif

/* Join a plan and its arenas, and set what it keeps between runs, if anything, to what it begins with (stow_reset).
 * `slow` may be NULL when the plan needs no slow memory. */
STOW_API stow_status stow_bind(stow_context *context, const stow_plan *plan,
                               void *fast, size_t fast_bytes, void *slow, size_t slow_bytes);

/* Forget all earlier runs. A model that keeps state does so in its arenas: between runs only write where inputs are. */
STOW_API void stow_reset(stow_context *context);

/* Run once: read the inputs, fill the outputs. Everything in the arenas may change, inputs included. */
STOW_API stow_status stow_invoke(stow_context *context);

#if STOW_WITH_RECEIVE
/* No input: what stow_waiting_for returns when nothing is waited for. */
#define STOW_NO_INPUT UINT32_MAX

/* Start a run with streamed inputs, or start over, and go on to where rows are needed. The other inputs must be filled.
 * STOW_MORE when rows are needed; STOW_OK when the run is complete, as it is at once without streamed inputs.
 * STOW_UNFINISHED where a run that was left has begun to change what the model keeps: stow_reset comes first. */
STOW_API stow_status stow_begin(stow_context *context);

/* Hand over the next `count` rows of the input that the run waits for, one after another, and go on as far as they
 * allow. They are copied and may lie anywhere outside the arenas. STOW_OK when the run is complete, STOW_MORE when more
 * rows are needed. STOW_NOT_BEGUN, STOW_WRONG_INPUT and STOW_TOO_MANY_ROWS change nothing: no row was taken. */
STOW_API stow_status stow_push_rows(stow_context *context, uint32_t input, const void *rows, uint32_t count);

STOW_API uint32_t stow_waiting_for(const stow_context *context);               /* the input that is next */
STOW_API uint32_t stow_rows_wanted(const stow_context *context);               /* how many rows it can give at once */
STOW_API uint32_t stow_input_rows(const stow_plan *plan, uint32_t index);      /* 0 when it is not streamed */
STOW_API uint32_t stow_input_row_bytes(const stow_plan *plan, uint32_t index); /* 0 when it is not streamed */
#endif

STOW_API uint32_t stow_input_count(const stow_plan *plan);
STOW_API uint32_t stow_output_count(const stow_plan *plan);
STOW_API uint32_t stow_input_bytes(const stow_plan *plan, uint32_t index);  /* 0 when there is none */
STOW_API uint32_t stow_output_bytes(const stow_plan *plan, uint32_t index); /* 0 when there is none */
STOW_API void *stow_input(const stow_context *context, uint32_t index);     /* NULL when there is none, or it is streamed */
STOW_API void *stow_output(const stow_context *context, uint32_t index);    /* NULL when there is none */

/* A status in words, for people. */
STOW_API const char *stow_status_text(stow_status status);

#endif
