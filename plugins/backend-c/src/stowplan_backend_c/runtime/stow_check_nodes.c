/* Checks what a plan does: nodes against their kernels, stages and firings, and how long all of it can take. */
#include "stow_internal.h"

static int stow_is_activation(const stow_plan *plan, uint32_t index)
{
    return index < plan->buffer_count && plan->buffers[index].pool != STOW_POOL_CONSTANT &&
           (plan->buffers[index].flags & STOW_BUFFER_ACCUMULATOR) == 0;
}

/* Whether a node may use a constant: one that is in the file, or in the block that is unpacked when the node runs. */
static int stow_is_reachable(const stow_plan *plan, const stow_node *node, const stow_constant_entry *constant)
{
    if (constant->block == STOW_NOTHING_32) {
        return 1;
    }
    return node->block < plan->block_count && constant->block == node->block;
}

static int stow_operands_are_sound(const stow_plan *plan, const stow_node *node)
{
    if ((uint64_t)node->first_input + node->input_count > plan->operand_count) {
        return 0;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const uint32_t index = plan->operands[node->first_input + i];
        if (stow_is_activation(plan, index)) {
            continue;
        }
        if (index >= plan->buffer_count || plan->buffers[index].pool != STOW_POOL_CONSTANT ||
            !stow_is_reachable(plan, node, &plan->constants[plan->buffers[index].base])) {
            return 0;
        }
    }
    return 1;
}

/* Units are rows of the output, or of the first input; only then are there partial sums. */
static int stow_units_are_sound(const stow_plan *plan, const stow_node *node)
{
    if ((node->flags & STOW_NODE_BY_INPUT) == 0) {
        return node->accumulator == STOW_NOTHING_16 && node->units == plan->buffers[node->output].rows;
    }
    if (node->input_count == 0 || node->units != plan->buffers[plan->operands[node->first_input]].rows) {
        return 0;
    }
    return node->accumulator == STOW_NOTHING_16 ||
           (node->accumulator < plan->buffer_count &&
            (plan->buffers[node->accumulator].flags & STOW_BUFFER_ACCUMULATOR) != 0);
}

static int stow_node_is_sound(const stow_plan *plan, const stow_node *node)
{
    return (node->flags & ~(uint32_t)STOW_NODE_BY_INPUT) == 0 && stow_is_activation(plan, node->output) &&
           stow_operands_are_sound(plan, node) &&
           (uint64_t)node->first_param + node->param_count <= plan->param_count && stow_units_are_sound(plan, node) &&
           (node->block == STOW_NOTHING_16 || node->block < plan->block_count);
}

#if STOW_WITH_RECEIVE
/* Note which input a sound arrival is for. Its rows go to the fast pool, to the buffer of the port; when they arrive
 * once more, at a later node, to one of the same form. */
static int stow_note_arrival(stow_plan *plan, const stow_node *node)
{
    if (node->input_count != 0 || node->param_count != STOW_RECEIVE_PARAMS || node->flags != 0 ||
        plan->buffers[node->output].pool != STOW_POOL_FAST) {
        return 0;
    }
    const int32_t input = plan->params[node->first_param + STOW_RECEIVE_INPUT];
    if (input < 0 || (uint32_t)input >= STOW_MAX_STREAMED_INPUTS || (uint32_t)input >= plan->header->input_count ||
        (uint32_t)input >= plan->port_count || plan->ports[input].buffer >= plan->buffer_count) {
        return 0;
    }
    if (stow_is_streamed(plan, (uint32_t)input)) {
        const stow_buffer *first = &plan->buffers[plan->ports[input].buffer], *again = &plan->buffers[node->output];
        return (plan->header->flags & STOW_FLAG_TURNS) != 0 && plan->ports[input].buffer != node->output &&
               first->rows == again->rows && first->row_bytes == again->row_bytes;
    }
    if (plan->ports[input].buffer != node->output) {
        return 0;
    }
    plan->streamed |= UINT32_C(1) << input;
    return 1;
}
#endif

STOW_API stow_status stow_check_nodes(stow_plan *plan)
{
    uint64_t operands = 0;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        const stow_node *node = &plan->nodes[i];
        plan->fault = i;
        operands += node->input_count; /* no two nodes share operands: keeps this loop linear in the file's size */
        if (operands > plan->operand_count || !stow_node_is_sound(plan, node)) {
            return STOW_BAD_NODE;
        }
#if STOW_WITH_RECEIVE
        if (node->kind == STOW_KIND_RECEIVE) {
            if (!stow_note_arrival(plan, node)) {
                return STOW_BAD_NODE;
            }
            continue;
        }
#endif
        const stow_kernel *kernel = stow_find_kernel(node->kind);
        if (kernel == NULL) {
            return STOW_NO_KERNEL;
        }
        const stow_facts facts = {plan, node, plan->params + node->first_param, node->param_count};
        if (!kernel->check(&facts)) {
            return STOW_BAD_PARAMS;
        }
    }
    plan->fault = plan->node_count;
    return (plan->streamed != 0) == ((plan->header->flags & STOW_FLAG_STREAMED) != 0) ? STOW_OK : STOW_BAD_NODE;
}

static int stow_firing_is_sound(const stow_plan *plan, const stow_stage *stage, const stow_firing *firing)
{
    if (firing->node >= plan->node_count) {
        return 0;
    }
    const stow_node *node = &plan->nodes[firing->node];
    if (node->block != STOW_NOTHING_16 && node->block != stage->block) {
        return 0;
    }
    if ((node->flags & STOW_NODE_BY_INPUT) != 0 && node->accumulator == STOW_NOTHING_16 && firing->count != node->units) {
        return 0;
    }
    return firing->count > 0 && (uint64_t)firing->first + firing->count <= node->units;
}

/* Check the firings of one stage and add what they cost to `work`. */
static stow_status stow_check_firings(stow_plan *plan, const stow_stage *stage, uint64_t *work)
{
    for (uint32_t i = 0; i < stage->firing_count; i++) {
        const stow_firing *firing = &plan->firings[stage->first_firing + i];
        plan->fault = stage->first_firing + i;
        if (!stow_firing_is_sound(plan, stage, firing)) {
            return STOW_BAD_FIRING;
        }
        const uint64_t unit = stow_unit_work(plan, &plan->nodes[firing->node]);
        *work = stow_add_work(*work, stow_multiply_work(unit, firing->count));
        if (*work > STOW_MAX_WORK) {
            return STOW_TOO_MUCH_WORK;
        }
    }
    return STOW_OK;
}

STOW_API stow_status stow_check_stages(stow_plan *plan)
{
    uint64_t work = 0;
    uint64_t next = 0;
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        const stow_stage *stage = &plan->stages[i];
        const uint64_t end = next + stage->firing_count;
        plan->fault = i;
        if (stage->first_firing != next || end > plan->firing_count ||
            (stage->block != STOW_NOTHING_16 && stage->block >= plan->block_count)) {
            return STOW_BAD_STAGE;
        }
        if (stage->block != STOW_NOTHING_16) {
            work = stow_add_work(work, plan->blocks[stage->block].unpacked_bytes);
        }
        const stow_status status = stow_check_firings(plan, stage, &work);
        if (status != STOW_OK) {
            return status;
        }
        next = end;
    }
    plan->fault = plan->stage_count;
    return next == plan->firing_count ? STOW_OK : STOW_BAD_STAGE;
}

STOW_API uint32_t stow_operand_count(const stow_facts *facts)
{
    return facts->node->input_count;
}

STOW_API stow_form stow_operand_form(const stow_facts *facts, uint32_t index)
{
    stow_form form = {0, 0};
    if (index < facts->node->input_count) {
        const stow_buffer *buffer = &facts->plan->buffers[facts->plan->operands[facts->node->first_input + index]];
        form.rows = buffer->rows;
        form.row_bytes = buffer->row_bytes;
    }
    return form;
}

STOW_API stow_form stow_result_form(const stow_facts *facts)
{
    const stow_buffer *buffer = &facts->plan->buffers[facts->node->output];
    const stow_form form = {buffer->rows, buffer->row_bytes};
    return form;
}

STOW_API uint32_t stow_accumulator_bytes(const stow_facts *facts)
{
    if (facts->node->accumulator == STOW_NOTHING_16) {
        return 0;
    }
    const stow_buffer *buffer = &facts->plan->buffers[facts->node->accumulator];
    return buffer->rows * buffer->row_bytes; /* at most STOW_MAX_TENSOR_BYTES */
}

STOW_API uint32_t stow_constant_bytes(const stow_facts *facts, int32_t index)
{
    if (index < 0 || (uint32_t)index >= facts->plan->constant_count) {
        return 0;
    }
    const stow_constant_entry *constant = &facts->plan->constants[index];
    return stow_is_reachable(facts->plan, facts->node, constant) ? constant->size_bytes : 0;
}
