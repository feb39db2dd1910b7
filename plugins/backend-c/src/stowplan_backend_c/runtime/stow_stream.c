/* Runs a plan whose inputs arrive row by row: from one arrival to the next, then it waits. */
#include <string.h>

#include "stow_internal.h"

#if STOW_WITH_RECEIVE

/* Where a context stands between calls. */
enum stow_phases {
    STOW_PHASE_IDLE = 0, /* bound, or failed: stow_begin comes next */
    STOW_PHASE_WAITING,  /* the firing it stands at takes rows from outside */
    STOW_PHASE_DONE
};

static const stow_node *stow_node_of(const stow_plan *plan, uint32_t firing)
{
    return &plan->nodes[plan->firings[firing].node];
}

static int stow_is_arrival(const stow_plan *plan, uint32_t firing)
{
    return stow_node_of(plan, firing)->kind == STOW_KIND_RECEIVE;
}

static uint32_t stow_arrival_input(const stow_plan *plan, uint32_t firing)
{
    return (uint32_t)plan->params[stow_node_of(plan, firing)->first_param + STOW_RECEIVE_INPUT];
}

/* Rows that the input waited for can give before another input is needed or the run is complete. A whole number of
 * firings; each is looked at once in a run, because nobody asks again before all those rows have come. */
static uint32_t stow_count_wanted(const stow_context *context)
{
    const stow_plan *plan = context->plan;
    const uint32_t input = stow_arrival_input(plan, context->firing);
    uint32_t rows = 0;
    for (uint32_t f = context->firing; f < plan->firing_count && rows <= UINT32_MAX - UINT16_MAX; f++) {
        if (!stow_is_arrival(plan, f)) {
            continue;
        }
        if (stow_arrival_input(plan, f) != input) {
            break;
        }
        rows += plan->firings[f].count;
    }
    return rows;
}

/* Enter the stages that begin at the firing the context stands at; empty ones are entered and left. */
static stow_status stow_enter_stages(stow_context *context)
{
    const stow_plan *plan = context->plan;
    while (context->stage < plan->stage_count && plan->stages[context->stage].first_firing == context->firing) {
        if (context->stage > 0) {
            STOW_ON_STAGE(context->stage - 1, 0);
        }
        STOW_ON_STAGE(context->stage, 1);
        const stow_status status = stow_enter(context, &plan->stages[context->stage]);
        if (status != STOW_OK) {
            return status;
        }
        context->stage++;
    }
    return STOW_OK;
}

/* Run up to the next arrival, or to the end. */
static stow_status stow_advance(stow_context *context)
{
    const stow_plan *plan = context->plan;
    for (;;) {
        const stow_status status = stow_enter_stages(context);
        if (status != STOW_OK) {
            context->phase = STOW_PHASE_IDLE;
            return status;
        }
        if (context->firing == plan->firing_count) {
            if (context->stage > 0) {
                STOW_ON_STAGE(context->stage - 1, 0);
            }
            stow_keep_state(context);
            context->phase = STOW_PHASE_DONE;
            return STOW_OK;
        }
        if (stow_is_arrival(plan, context->firing)) {
            context->phase = STOW_PHASE_WAITING;
            if (context->wanted == 0) {
                context->wanted = stow_count_wanted(context);
            }
            return STOW_MORE;
        }
        stow_fire(context, &plan->firings[context->firing]);
        context->firing++;
    }
}

/* Put one row where the plan has it; run on when the firing has all its rows. */
static stow_status stow_take_row(stow_context *context, const uint8_t *row)
{
    const stow_plan *plan = context->plan;
    const stow_firing *firing = &plan->firings[context->firing];
    const stow_rows rows = stow_resolve(context, &plan->buffers[stow_node_of(plan, context->firing)->output]);
    memcpy(stow_row(&rows, firing->first + context->taken), row, rows.row_bytes);
    context->wanted--;
    context->taken++;
    if (context->taken < firing->count) {
        return STOW_MORE;
    }
    context->taken = 0;
    context->firing++;
    return stow_advance(context);
}

STOW_API stow_status stow_begin(stow_context *context)
{
    if (context->phase == STOW_PHASE_WAITING && stow_keeps_in_place(context)) {
        return STOW_UNFINISHED;
    }
    stow_reset_counters(context);
    context->stage = 0;
    context->firing = 0;
    context->taken = 0;
    context->wanted = 0;
    return stow_advance(context);
}

STOW_API stow_status stow_push_rows(stow_context *context, uint32_t input, const void *rows, uint32_t count)
{
    if (context->phase == STOW_PHASE_IDLE) {
        return STOW_NOT_BEGUN;
    }
    if (!stow_is_streamed(context->plan, input)) {
        return STOW_WRONG_INPUT;
    }
    if (context->phase == STOW_PHASE_DONE) {
        return count == 0 ? STOW_OK : STOW_TOO_MANY_ROWS;
    }
    if (input != stow_waiting_for(context)) {
        return STOW_WRONG_INPUT;
    }
    if (count > context->wanted) {
        return STOW_TOO_MANY_ROWS;
    }
    const size_t row_bytes = stow_input_row_bytes(context->plan, input);
    const uint8_t *row = rows;
    stow_status status = STOW_MORE;
    for (uint32_t i = 0; i < count && status == STOW_MORE; i++) {
        status = stow_take_row(context, row);
        row += row_bytes;
    }
    return status;
}

STOW_API uint32_t stow_waiting_for(const stow_context *context)
{
    if (context->phase != STOW_PHASE_WAITING) {
        return STOW_NO_INPUT;
    }
    return stow_arrival_input(context->plan, context->firing);
}

STOW_API uint32_t stow_rows_wanted(const stow_context *context)
{
    return context->phase == STOW_PHASE_WAITING ? context->wanted : 0;
}

STOW_API uint32_t stow_input_rows(const stow_plan *plan, uint32_t index)
{
    return stow_is_streamed(plan, index) ? plan->buffers[plan->ports[index].buffer].rows : 0;
}

STOW_API uint32_t stow_input_row_bytes(const stow_plan *plan, uint32_t index)
{
    return stow_is_streamed(plan, index) ? plan->buffers[plan->ports[index].buffer].row_bytes : 0;
}

#endif
