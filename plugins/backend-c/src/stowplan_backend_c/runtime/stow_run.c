/* Runs an opened plan: stage by stage, firing by firing; everything was checked when the plan was opened. */
#include <string.h>

#include "stow_internal.h"

STOW_API stow_status stow_bind(stow_context *context, const stow_plan *plan,
                               void *fast, size_t fast_bytes, void *slow, size_t slow_bytes)
{
    const stow_header *header = plan->header;
    if ((header->fast_bytes > 0 && fast == NULL) || (header->slow_bytes > 0 && slow == NULL)) {
        return STOW_SMALL_ARENA;
    }
    if (fast_bytes < header->fast_bytes || slow_bytes < header->slow_bytes) {
        return STOW_SMALL_ARENA;
    }
    if ((uintptr_t)fast % STOW_ALIGNMENT != 0 || (uintptr_t)slow % STOW_ALIGNMENT != 0) {
        return STOW_MISALIGNED;
    }
    context->plan = plan;
    context->fast = fast;
    context->slow = slow;
#if STOW_WITH_PREPARED
    context->prepared = NULL;
#endif
#if STOW_COUNTERS
    context->watch = NULL;
#endif
    stow_reset_counters(context);
    stow_reset(context);
    return STOW_OK;
}

STOW_API void stow_reset_counters(stow_context *context)
{
#if STOW_COUNTERS
    context->slow_read_bytes = 0;
    context->slow_written_bytes = 0;
#else
    (void)context;
#endif
}

static const uint8_t *stow_constant_at(const stow_context *context, const stow_constant_entry *constant)
{
    const uint8_t *start = constant->block == STOW_NOTHING_32 ? context->plan->weights : context->fast;
    return start + constant->offset_bytes;
}

STOW_API stow_rows stow_resolve(const stow_context *context, const stow_buffer *buffer)
{
    const stow_plan *plan = context->plan;
    stow_rows rows = {NULL, NULL, buffer->stride, buffer->height, buffer->rows, buffer->row_bytes};
    if (buffer->pool == STOW_POOL_CONSTANT) {
        /* Operands are only read; the cast spares kernels a second type of rows. */
        rows.base = (uint8_t *)(uintptr_t)stow_constant_at(context, &plan->constants[buffer->base]);
        rows.stride = buffer->row_bytes;
        rows.height = buffer->rows;
        return rows;
    }
    rows.base = buffer->pool == STOW_POOL_FAST ? context->fast : context->slow;
    if ((buffer->flags & STOW_BUFFER_TABLE) != 0) {
        rows.offsets = plan->row_offsets + buffer->base;
    } else {
        rows.base += buffer->base;
    }
    return rows;
}

STOW_API stow_rows stow_operand(const stow_call *call, uint32_t index)
{
    const stow_plan *plan = call->plan;
    return stow_resolve(call->context, &plan->buffers[plan->operands[call->node->first_input + index]]);
}

STOW_API stow_rows stow_result(const stow_call *call)
{
    return stow_resolve(call->context, &call->plan->buffers[call->node->output]);
}

STOW_API void *stow_accumulator(const stow_call *call)
{
    if (call->node->accumulator == STOW_NOTHING_16) {
        return NULL;
    }
    const stow_rows rows = stow_resolve(call->context, &call->plan->buffers[call->node->accumulator]);
    return stow_row(&rows, 0);
}

STOW_API const void *stow_constant(const stow_call *call, int32_t index)
{
    if (index < 0 || (uint32_t)index >= call->plan->constant_count) {
        return NULL;
    }
    return stow_constant_at(call->context, &call->plan->constants[index]);
}

#if STOW_COUNTERS
/* What all units of a node move out of one of its inputs: of a single one as much as they fill, it may be read in
 * part or more than once; several are joined, each as a whole. */
static uint64_t stow_moved(const stow_plan *plan, const stow_node *node, const stow_buffer *from)
{
    const stow_buffer *size_of = node->input_count == 1 ? &plan->buffers[node->output] : from;
    return (uint64_t)size_of->rows * size_of->row_bytes;
}

/* Count what one firing moves between the pools: copies, and operators that read slow memory directly. By input rows
 * nothing is in slow memory. */
static void stow_count_traffic(stow_context *context, const stow_node *node, const stow_firing *firing)
{
    const stow_plan *plan = context->plan;
    const stow_buffer *to = &plan->buffers[node->output];
    int from_fast = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const stow_buffer *from = &plan->buffers[plan->operands[node->first_input + i]];
        from_fast |= from->pool == STOW_POOL_FAST;
        if (from->pool == STOW_POOL_SLOW && to->pool == STOW_POOL_FAST) {
            const uint64_t bytes = stow_moved(plan, node, from), last = (uint64_t)firing->first + firing->count;
            context->slow_read_bytes += bytes * last / node->units - bytes * firing->first / node->units;
        }
    }
    if (from_fast && to->pool == STOW_POOL_SLOW) {
        context->slow_written_bytes += (uint64_t)firing->count * to->row_bytes;
    }
}
#endif

#if STOW_COUNTERS
static void stow_tell(const stow_context *context, const stow_firing *firing, int begins)
{
    if (context->watch != NULL) {
        context->watch(context->watch_user, firing->node, firing->count, begins);
    }
}
#endif

static void stow_run_node(const stow_call *call, uint32_t node)
{
    (void)node;
#if STOW_WITH_SPECIALIZED
    stow_run *const own = stow_specialized(node);
    if (own != NULL) {
        own(call);
        return;
    }
#endif
#if STOW_WITH_PREPARED
    if (stow_run_prepared(call, node)) {
        return;
    }
#endif
    stow_find_kernel(call->node->kind)->run(call);
}

STOW_API void stow_fire(stow_context *context, const stow_firing *firing)
{
    const stow_plan *plan = context->plan;
    const stow_node *node = &plan->nodes[firing->node];
    const stow_call call = {plan, node, plan->params + node->first_param, context, firing->first, firing->count};
    STOW_ON_FIRING();
#if STOW_COUNTERS
    stow_count_traffic(context, node, firing);
    stow_tell(context, firing, 1);
#endif
    STOW_ON_NODE(firing->node, firing->count, 1);
    stow_run_node(&call, firing->node);
    STOW_ON_NODE(firing->node, firing->count, 0);
#if STOW_COUNTERS
    stow_tell(context, firing, 0);
#endif
}

#if STOW_WITH_LZ4 || STOW_WITH_RANGE
/* Unpack a block to the start of the fast arena, with the decoder that the check of the plan found to be here. */
static int stow_unpack(const stow_context *context, const stow_block *block, const uint8_t *packed)
{
#if STOW_WITH_LZ4 && STOW_WITH_RANGE
    if ((context->plan->header->flags & STOW_FLAG_RANGE) != 0u) {
        return stow_range_decode(packed, block->packed_bytes, context->fast, block->unpacked_bytes);
    }
#endif
#if STOW_WITH_LZ4
    return stow_lz4_decode(packed, block->packed_bytes, context->fast, block->unpacked_bytes);
#else
    return stow_range_decode(packed, block->packed_bytes, context->fast, block->unpacked_bytes);
#endif
}
#endif

STOW_API stow_status stow_enter(const stow_context *context, const stow_stage *stage)
{
#if STOW_WITH_LZ4 || STOW_WITH_RANGE
    if (stage->block == STOW_NOTHING_16) {
        return STOW_OK;
    }
    const stow_block *block = &context->plan->blocks[stage->block];
    const uint8_t *packed = context->plan->weights + block->offset_bytes;
    const int done = stow_unpack(context, block, packed);
    return done ? STOW_OK : STOW_BAD_PACKING;
#else
    (void)context;
    (void)stage;
    return STOW_OK;
#endif
}

/* Where a buffer begins whose rows follow each other. */
static uint8_t *stow_start(const stow_context *context, uint32_t buffer)
{
    const stow_rows rows = stow_resolve(context, &context->plan->buffers[buffer]);
    return stow_row(&rows, 0);
}

STOW_API void stow_reset(stow_context *context)
{
    const stow_plan *plan = context->plan;
#if STOW_WITH_RECEIVE
    context->phase = 0; /* a run that waits for rows is over as well */
#endif
    for (uint32_t i = 0; i < plan->state_count; i++) {
        const stow_state *state = &plan->states[i];
        const stow_buffer *buffer = &plan->buffers[state->before];
        const size_t size = (size_t)buffer->rows * buffer->row_bytes;
        uint8_t *before = stow_start(context, state->before);
        if (state->initial == STOW_NOTHING_32) {
            memset(before, 0, size);
        } else {
            memcpy(before, stow_constant_at(context, &plan->constants[state->initial]), size);
        }
    }
}

STOW_API int stow_keeps_in_place(const stow_context *context)
{
    const stow_plan *plan = context->plan;
    int found = 0;
    for (uint32_t i = 0; i < plan->state_count; i++) {
        found |= stow_start(context, plan->states[i].before) == stow_start(context, plan->states[i].after);
    }
    return found;
}

STOW_API void stow_keep_state(const stow_context *context)
{
    const stow_plan *plan = context->plan;
    for (uint32_t i = 0; i < plan->state_count; i++) {
        const stow_state *state = &plan->states[i];
        const stow_buffer *buffer = &plan->buffers[state->after];
        const size_t size = (size_t)buffer->rows * buffer->row_bytes;
        uint8_t *before = stow_start(context, state->before);
        const uint8_t *after = stow_start(context, state->after);
        if (before != after) {
            memmove(before, after, size);
        }
    }
}

STOW_API stow_status stow_invoke(stow_context *context)
{
    const stow_plan *plan = context->plan;
    if (plan->streamed != 0) {
        return STOW_STREAMED;
    }
    stow_reset_counters(context);
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        const stow_stage *stage = &plan->stages[i];
        STOW_ON_STAGE(i, 1);
        const stow_status status = stow_enter(context, stage);
        if (status != STOW_OK) {
            return status;
        }
        for (uint32_t f = 0; f < stage->firing_count; f++) {
            stow_fire(context, &plan->firings[stage->first_firing + f]);
        }
        STOW_ON_STAGE(i, 0);
    }
    stow_keep_state(context);
    return STOW_OK;
}
