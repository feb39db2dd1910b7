/* Products of matrices in batches: where elements lie, for kernels of every type; their parameters begin alike. */
#ifndef STOW_MATRIX_H
#define STOW_MATRIX_H

#include "stow_element.h"

_Static_assert((int)STOW_BATCH_MATMUL_INT_B_COLUMN == (int)STOW_BATCH_MATMUL_F32_B_COLUMN,
               "both kinds begin with the same parameters");

/* Where the matrix of one operand for batch `number` begins; `step` is the operand's first step. */
static inline size_t stow_matrix_start(const int32_t *p, size_t number, uint32_t step)
{
    size_t start = 0;
    for (uint32_t axis = 3; axis-- > 0;) {
        const size_t size = (size_t)p[STOW_BATCH_MATMUL_F32_BATCH0 + axis];
        start += number % size * (size_t)p[step + axis];
        number /= size;
    }
    return start;
}

/* The first elements that meet in element `number` of a product. */
static inline void stow_matrix_first(const int32_t *p, size_t number, size_t *x, size_t *y)
{
    const size_t m = (size_t)p[STOW_BATCH_MATMUL_F32_M], n = (size_t)p[STOW_BATCH_MATMUL_F32_N];
    const size_t batch = number / n / m;
    *x = stow_matrix_start(p, batch, STOW_BATCH_MATMUL_F32_A_STEP0) +
         number / n % m * (size_t)p[STOW_BATCH_MATMUL_F32_A_ROW];
    *y = stow_matrix_start(p, batch, STOW_BATCH_MATMUL_F32_B_STEP0) +
         number % n * (size_t)p[STOW_BATCH_MATMUL_F32_B_COLUMN];
}

/* Whether the last element that is read of an operand exists. */
static inline int stow_is_matrix(const stow_facts *facts, uint32_t operand, int64_t inner, uint32_t element_bytes)
{
    const int32_t *p = facts->params;
    const uint32_t step = operand == 0 ? STOW_BATCH_MATMUL_F32_A_STEP0 : STOW_BATCH_MATMUL_F32_B_STEP0;
    int64_t last = inner;
    for (uint32_t axis = 0; axis < 3; axis++) {
        last += (int64_t)(p[STOW_BATCH_MATMUL_F32_BATCH0 + axis] - 1) * p[step + axis];
    }
    return last >= 0 && last < stow_elements(stow_operand_form(facts, operand), element_bytes);
}

static inline int stow_is_matmul(const stow_facts *facts, uint32_t params, uint32_t element_bytes)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 2, params) ||
        !stow_all_at_least(facts, STOW_BATCH_MATMUL_F32_BATCH0, STOW_BATCH_MATMUL_F32_K + 1, 1) ||
        !stow_all_at_least(facts, STOW_BATCH_MATMUL_F32_A_STEP0, STOW_BATCH_MATMUL_F32_PARAMS, 0)) {
        return 0;
    }
    const int64_t k = p[STOW_BATCH_MATMUL_F32_K] - 1;
    const int64_t m = p[STOW_BATCH_MATMUL_F32_M], n = p[STOW_BATCH_MATMUL_F32_N];
    const int64_t batches = stow_size(stow_size(p[STOW_BATCH_MATMUL_F32_BATCH0], p[STOW_BATCH_MATMUL_F32_BATCH0 + 1]),
                                      p[STOW_BATCH_MATMUL_F32_BATCH0 + 2]);
    const int64_t a_last = (m - 1) * p[STOW_BATCH_MATMUL_F32_A_ROW] + k * p[STOW_BATCH_MATMUL_F32_A_COLUMN];
    const int64_t b_last = k * p[STOW_BATCH_MATMUL_F32_B_ROW] + (n - 1) * p[STOW_BATCH_MATMUL_F32_B_COLUMN];
    return stow_size(batches, stow_size(m, n)) == stow_elements(stow_result_form(facts), element_bytes) &&
           stow_is_matrix(facts, 0, a_last, element_bytes) && stow_is_matrix(facts, 1, b_last, element_bytes);
}

#endif
