/* How long a node can take: an upper bound in elementary steps (multiply-adds, bytes moved), without running it. */
#include "stow_internal.h"

STOW_API uint64_t stow_add_work(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

STOW_API uint64_t stow_multiply_work(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* A parameter that counts something; a node that passed its check has no negative ones. */
static uint64_t stow_work_param(const stow_plan *plan, const stow_node *node, uint32_t index)
{
    if (index >= node->param_count) {
        return 0;
    }
    const int32_t value = plan->params[node->first_param + index];
    return value > 0 ? (uint64_t)value : 0;
}

/* Steps for each byte of an output row that a window of inputs makes; height and width are neighbours. */
static uint64_t stow_window_work(const stow_plan *plan, const stow_node *node, uint32_t height, uint64_t depth)
{
    const uint64_t area = stow_multiply_work(stow_work_param(plan, node, height), stow_work_param(plan, node, height + 1));
    return stow_multiply_work(area, depth);
}

/* Each box of each class is put in order, decoded and compared with all that were chosen before, at some ten steps each;
 * there are eight bytes and more for each box. */
static uint64_t stow_detections_work(const stow_plan *plan, const stow_node *node)
{
    const uint64_t chosen = stow_add_work(stow_work_param(plan, node, STOW_DETECTIONS_MAX_DETECTIONS),
                                          stow_work_param(plan, node, STOW_DETECTIONS_DETECTIONS_PER_CLASS));
    const uint64_t each = stow_add_work(100, stow_multiply_work(2, chosen));
    return stow_multiply_work(stow_work_param(plan, node, STOW_DETECTIONS_BOX_CLASSES), each);
}

static uint64_t stow_work_per_byte(const stow_plan *plan, const stow_node *node)
{
    switch (node->kind) {
    case STOW_KIND_CONV_2D_S8:
        return stow_window_work(plan, node, STOW_CONV_2D_S8_KERNEL_H, stow_work_param(plan, node, STOW_CONV_2D_S8_IN_C));
    case STOW_KIND_CONV_2D_F32:
        return stow_window_work(plan, node, STOW_CONV_2D_F32_KERNEL_H, stow_work_param(plan, node, STOW_CONV_2D_F32_IN_C));
    case STOW_KIND_CONV_2D_GROUPS_F32:
        return stow_window_work(plan, node, STOW_CONV_2D_GROUPS_F32_KERNEL_H,
                                stow_work_param(plan, node, STOW_CONV_2D_GROUPS_F32_IN_C));
    case STOW_KIND_DEPTHWISE_CONV_2D_S8: return stow_window_work(plan, node, STOW_DEPTHWISE_CONV_2D_S8_KERNEL_H, 1);
    case STOW_KIND_DEPTHWISE_CONV_2D_F32: return stow_window_work(plan, node, STOW_DEPTHWISE_CONV_2D_F32_KERNEL_H, 1);
    case STOW_KIND_AVERAGE_POOL_2D_S8: return stow_window_work(plan, node, STOW_AVERAGE_POOL_2D_S8_KERNEL_H, 1);
    case STOW_KIND_AVERAGE_POOL_2D_F32: return stow_window_work(plan, node, STOW_AVERAGE_POOL_2D_F32_KERNEL_H, 1);
    case STOW_KIND_MAX_POOL_2D_S8: return stow_window_work(plan, node, STOW_MAX_POOL_2D_S8_KERNEL_H, 1);
    case STOW_KIND_MAX_POOL_2D_F32: return stow_window_work(plan, node, STOW_MAX_POOL_2D_F32_KERNEL_H, 1);
    case STOW_KIND_FULLY_CONNECTED_S8: return stow_work_param(plan, node, STOW_FULLY_CONNECTED_S8_FEATURES);
    case STOW_KIND_FULLY_CONNECTED_F32: return stow_work_param(plan, node, STOW_FULLY_CONNECTED_F32_FEATURES);
    case STOW_KIND_CONV_2D_INT:
        return stow_window_work(plan, node, STOW_CONV_2D_INT_KERNEL_H, stow_work_param(plan, node, STOW_CONV_2D_INT_IN_C));
    case STOW_KIND_TRANSPOSE_CONV_2D_F32:
        return stow_window_work(plan, node, STOW_TRANSPOSE_CONV_2D_F32_KERNEL_H,
                                stow_work_param(plan, node, STOW_TRANSPOSE_CONV_2D_F32_IN_C));
    case STOW_KIND_TRANSPOSE_CONV_2D_INT:
        return stow_window_work(plan, node, STOW_TRANSPOSE_CONV_2D_INT_KERNEL_H,
                                stow_work_param(plan, node, STOW_TRANSPOSE_CONV_2D_INT_IN_C));
    case STOW_KIND_POOL_INT: return stow_window_work(plan, node, STOW_POOL_INT_KERNEL_H, 1);
    case STOW_KIND_FULLY_CONNECTED_INT: return stow_work_param(plan, node, STOW_FULLY_CONNECTED_INT_FEATURES);
    case STOW_KIND_BATCH_MATMUL_F32: return stow_work_param(plan, node, STOW_BATCH_MATMUL_F32_K);
    case STOW_KIND_BATCH_MATMUL_INT: return stow_work_param(plan, node, STOW_BATCH_MATMUL_INT_K);
    case STOW_KIND_ARG_EXTREME: return stow_work_param(plan, node, STOW_ARG_EXTREME_DEPTH);
    case STOW_KIND_SVDF_STATE: return stow_work_param(plan, node, STOW_SVDF_STATE_FEATURES);
    case STOW_KIND_SVDF_OUTPUT: return stow_window_work(plan, node, STOW_SVDF_OUTPUT_MEMORY, 1); /* and rank */
    case STOW_KIND_LSTM_S8:
    case STOW_KIND_LSTM_F32:
        return stow_multiply_work(4, stow_add_work(stow_work_param(plan, node, STOW_LSTM_S8_FEATURES),
                                                   stow_work_param(plan, node, STOW_LSTM_S8_OUTPUTS)));
    case STOW_KIND_DETECTIONS: return stow_detections_work(plan, node);
    case STOW_KIND_REDUCE:
        return stow_multiply_work(stow_window_work(plan, node, STOW_REDUCE_GONE0, 1),
                                  stow_window_work(plan, node, STOW_REDUCE_GONE0 + 2, 1));
    default: return 1;
    }
}

/* Bytes of one row of each operand; of all rows where one unit may read them all. */
static uint64_t stow_operand_work(const stow_plan *plan, const stow_node *node)
{
    const int whole = (node->flags & STOW_NODE_BY_INPUT) == 0 &&
                      (node->kind == STOW_KIND_MEAN_S8 || node->kind == STOW_KIND_MEAN_F32);
    uint64_t work = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const stow_buffer *buffer = &plan->buffers[plan->operands[node->first_input + i]];
        const uint64_t rows = whole ? buffer->rows : 1;
        work = stow_add_work(work, stow_multiply_work(rows, buffer->row_bytes));
    }
    return work;
}

STOW_API uint64_t stow_unit_work(const stow_plan *plan, const stow_node *node)
{
    /* By input rows, each row is added to the sums once, whatever the window. */
    const uint64_t per_byte = (node->flags & STOW_NODE_BY_INPUT) != 0 ? 1 : stow_work_per_byte(plan, node);
    const uint64_t made = stow_multiply_work(per_byte, plan->buffers[node->output].row_bytes);
    return stow_add_work(stow_add_work(made, stow_operand_work(plan, node)), 1);
}
