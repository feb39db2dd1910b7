/* What the Python side needs beside the runtime: sizes of its structures, and what is inside them. */
#include "stow.h"

size_t stow_host_plan_bytes(void)
{
    return sizeof(stow_plan);
}

size_t stow_host_context_bytes(void)
{
    return sizeof(stow_context);
}

uint32_t stow_host_fault(const stow_plan *plan)
{
    return plan->fault;
}

uint64_t stow_host_slow_read_bytes(const stow_context *context)
{
    return context->slow_read_bytes;
}

uint64_t stow_host_slow_written_bytes(const stow_context *context)
{
    return context->slow_written_bytes;
}
