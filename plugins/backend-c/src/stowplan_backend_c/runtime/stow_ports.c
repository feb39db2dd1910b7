/* Inputs and outputs of a plan, and every status in words. */
#include "stow_internal.h"

static const stow_buffer *stow_port_buffer(const stow_plan *plan, uint32_t index)
{
    return &plan->buffers[plan->ports[index].buffer];
}

static uint32_t stow_port_bytes(const stow_plan *plan, uint32_t index)
{
    const stow_buffer *buffer = stow_port_buffer(plan, index);
    return buffer->rows * buffer->row_bytes;
}

STOW_API int stow_is_streamed(const stow_plan *plan, uint32_t input)
{
    return input < STOW_MAX_STREAMED_INPUTS && (plan->streamed >> input & 1u) != 0;
}

static void *stow_port_data(const stow_context *context, uint32_t index)
{
    const stow_rows rows = stow_resolve(context, stow_port_buffer(context->plan, index));
    return stow_row(&rows, 0);
}

STOW_API uint32_t stow_input_count(const stow_plan *plan)
{
    return plan->header->input_count;
}

STOW_API uint32_t stow_output_count(const stow_plan *plan)
{
    return plan->header->output_count;
}

STOW_API uint32_t stow_input_bytes(const stow_plan *plan, uint32_t index)
{
    return index < stow_input_count(plan) ? stow_port_bytes(plan, index) : 0;
}

STOW_API uint32_t stow_output_bytes(const stow_plan *plan, uint32_t index)
{
    return index < stow_output_count(plan) ? stow_port_bytes(plan, stow_input_count(plan) + index) : 0;
}

STOW_API void *stow_input(const stow_context *context, uint32_t index)
{
    const stow_plan *plan = context->plan;
    return index < stow_input_count(plan) && !stow_is_streamed(plan, index) ? stow_port_data(context, index) : NULL;
}

STOW_API void *stow_output(const stow_context *context, uint32_t index)
{
    const stow_plan *plan = context->plan;
    return index < stow_output_count(plan) ? stow_port_data(context, stow_input_count(plan) + index) : NULL;
}

STOW_API const char *stow_status_text(stow_status status)
{
    switch (status) {
    case STOW_OK: return "no error";
    case STOW_BAD_HOST: return "this processor is big-endian, plans are little-endian";
    case STOW_MISALIGNED: return "plan or arena is not at a multiple of 16 bytes";
    case STOW_NOT_A_PLAN: return "not a plan";
    case STOW_BAD_VERSION: return "made for another version of the runtime";
    case STOW_TRUNCATED: return "shorter than its header states";
    case STOW_BAD_HEADER: return "its header makes no sense";
    case STOW_BAD_SECTION: return "a section is missing, doubled or out of bounds";
    case STOW_BAD_STRING: return "its names are damaged";
    case STOW_BAD_TENSOR: return "a tensor is damaged";
    case STOW_BAD_BLOCK: return "a compressed block is out of bounds";
    case STOW_BAD_CONSTANT: return "a constant is out of bounds";
    case STOW_BAD_BUFFER: return "a buffer is out of bounds or misaligned";
    case STOW_BAD_NODE: return "a node refers to what it must not use";
    case STOW_NO_KERNEL: return "this build of the runtime has no kernel for a node";
    case STOW_BAD_PARAMS: return "a kernel refuses the parameters of its node";
    case STOW_BAD_FIRING: return "a firing is out of bounds";
    case STOW_BAD_STAGE: return "the stages do not follow each other";
    case STOW_BAD_STATE: return "what it keeps between runs is damaged";
    case STOW_BAD_PORT: return "an input or output is damaged";
    case STOW_TOO_MUCH_WORK: return "it would run for too long";
    case STOW_BAD_DIGEST: return "its digest does not match its contents";
    case STOW_SMALL_ARENA: return "an arena is smaller than the plan needs";
    case STOW_BAD_PACKING: return "compressed weights do not unpack";
    case STOW_MORE: return "more rows of an input are needed";
    case STOW_STREAMED: return "its inputs arrive row by row, it is run by pushing them";
    case STOW_NOT_BEGUN: return "rows were pushed before the run began";
    case STOW_UNFINISHED: return "the run before was not finished and has changed what the model keeps; reset it";
    case STOW_WRONG_INPUT: return "rows of another input are needed now";
    case STOW_TOO_MANY_ROWS: return "more rows were pushed than are needed now";
    }
    return "unknown status";
}
