/* What a kernel sees: its node's parameters, its operands as rows, and which units to compute.
 *
 * A kernel is one entry of the kernel table (stow_kernels.c): `check` runs once when a plan is opened and must refuse
 * everything that could make `run` read or write outside a row, a constant or the accumulator, divide by zero, shift
 * too far or loop without bound; `run` then trusts what `check` saw. Rows may lie anywhere, so nothing assumes that
 * row r+1 follows row r. Rows are aligned to the largest power of two up to 4 that divides their length. An operand
 * may share bytes with the result: use memmove.
 *
 * Generated sources put all C files into one translation unit in which every function is static: names of file-local
 * functions and constants are unique across files, and what several files share is declared STOW_API.
 */
#ifndef STOW_KERNEL_H
#define STOW_KERNEL_H

#include "stow.h"

/* What only some plans come to: cases for which a set has no fast way, sums in the arena, taps with
 * gaps between them. Generated code leaves out what its plan is proven not to need. */
#ifndef STOW_WITH_DSP_MM_FALLBACK
#define STOW_WITH_DSP_MM_FALLBACK 1
#endif
#ifndef STOW_WITH_DSP_DEPTHWISE_FALLBACK
#define STOW_WITH_DSP_DEPTHWISE_FALLBACK 1
#endif
#ifndef STOW_WITH_HELIUM_DEPTHWISE_FALLBACK
#define STOW_WITH_HELIUM_DEPTHWISE_FALLBACK 1
#endif
#ifndef STOW_WITH_ADD_FALLBACK
#define STOW_WITH_ADD_FALLBACK 1
#endif
#ifndef STOW_WITH_DILATED_COLUMNS
#define STOW_WITH_DILATED_COLUMNS 1
#endif
#ifndef STOW_WITH_ACCUMULATORS
#define STOW_WITH_ACCUMULATORS 1
#endif
#ifndef STOW_WITH_LONG_VECTORS
#define STOW_WITH_LONG_VECTORS 1
#endif
#ifndef STOW_WITH_ROWS_APART
#define STOW_WITH_ROWS_APART 1
#endif

/* Under -Os loops are not unrolled, and what is written often is called. */
#ifdef __OPTIMIZE_SIZE__
#define STOW_SMALL 1
#define STOW_CALLED __attribute__((noinline))
#else
#define STOW_SMALL 0
#define STOW_CALLED
#endif

/* The rows of one buffer; row r lies at base + offsets[r], or at base + (r mod height) * stride without a table. */
typedef struct stow_rows {
    uint8_t *base;
    const uint32_t *offsets;
    uint32_t stride;
    uint32_t height;
    uint32_t rows;
    uint32_t row_bytes;
} stow_rows;

static inline uint8_t *stow_row(const stow_rows *rows, uint32_t row)
{
    if (rows->offsets != NULL) {
        return rows->base + rows->offsets[row];
    }
    return rows->base + (size_t)(rows->height >= rows->rows ? row : row % rows->height) * rows->stride;
}

/* One firing of one node: compute its units [first, first + count). */
typedef struct stow_call {
    const stow_plan *plan;
    const stow_node *node;
    const int32_t *params;   /* the node's parameters, in the order of planfile/kinds.py */
    const stow_context *context;
    uint32_t first;
    uint32_t count;
} stow_call;

STOW_API stow_rows stow_operand(const stow_call *call, uint32_t index);   /* input `index`, constants included */
STOW_API stow_rows stow_result(const stow_call *call);                    /* the output buffer */
STOW_API void *stow_accumulator(const stow_call *call);                   /* NULL when all units run in this one firing */
STOW_API const void *stow_constant(const stow_call *call, int32_t index); /* NULL for index -1; aligned to 16 */

/* What a check sees. All functions are total: an index out of range gives sizes of zero. */
typedef struct stow_facts {
    const stow_plan *plan;
    const stow_node *node;
    const int32_t *params;
    uint32_t param_count;
} stow_facts;

typedef struct stow_form {
    uint32_t rows;
    uint32_t row_bytes;
} stow_form;

STOW_API uint32_t stow_operand_count(const stow_facts *facts);
STOW_API stow_form stow_operand_form(const stow_facts *facts, uint32_t index);
STOW_API stow_form stow_result_form(const stow_facts *facts);
STOW_API uint32_t stow_accumulator_bytes(const stow_facts *facts);        /* 0 for none */
STOW_API uint32_t stow_constant_bytes(const stow_facts *facts, int32_t index); /* 0 for a bad index or -1 */

typedef struct stow_kernel {
    void (*run)(const stow_call *call);
    int (*check)(const stow_facts *facts); /* nonzero: sound */
} stow_kernel;

/* Entry for a node kind, or NULL when this build has no such kernel. */
STOW_API const stow_kernel *stow_find_kernel(uint32_t kind);

#endif
