/* Checks what a plan holds: tensors, compressed blocks, constants, buffers and ports. */
#include "stow_internal.h"

STOW_API uint32_t stow_dtype_bytes(uint32_t dtype)
{
    switch (dtype) {
    case STOW_DTYPE_INT8:
    case STOW_DTYPE_UINT8:
    case STOW_DTYPE_BOOL: return 1;
    case STOW_DTYPE_INT16:
    case STOW_DTYPE_FLOAT16: return 2;
    case STOW_DTYPE_INT32:
    case STOW_DTYPE_FLOAT32: return 4;
    case STOW_DTYPE_INT64: return 8;
    default: return 0;
    }
}

/* Bytes of a tensor, or more than STOW_MAX_TENSOR_BYTES when that is exceeded anywhere on the way. */
static uint64_t stow_tensor_bytes(const stow_plan *plan, const stow_tensor *tensor)
{
    uint64_t bytes = stow_dtype_bytes(tensor->dtype);
    for (uint32_t i = 0; i < tensor->rank && bytes <= STOW_MAX_TENSOR_BYTES; i++) {
        bytes *= plan->dims[tensor->first_dim + i];
    }
    return bytes;
}

static int stow_tensor_is_sound(const stow_plan *plan, const stow_tensor *tensor)
{
    return (uint64_t)tensor->first_dim + tensor->rank <= plan->dim_count && tensor->name < plan->strings_bytes &&
           stow_dtype_bytes(tensor->dtype) != 0 && stow_tensor_bytes(plan, tensor) <= STOW_MAX_TENSOR_BYTES;
}

STOW_API stow_status stow_check_tensors(stow_plan *plan)
{
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        if (!stow_tensor_is_sound(plan, &plan->tensors[i])) {
            plan->fault = i;
            return STOW_BAD_TENSOR;
        }
    }
    return STOW_OK;
}

/* Whether this runtime has the decoder that a plan's blocks need. */
static int stow_can_unpack(const stow_plan *plan)
{
    const uint32_t flags = plan->header->flags;
    if ((flags & STOW_FLAG_COMPRESSED) == 0u) {
        return 0;
    }
    return (flags & STOW_FLAG_RANGE) != 0u ? STOW_WITH_RANGE : STOW_WITH_LZ4;
}

STOW_API stow_status stow_check_blocks(stow_plan *plan)
{
    plan->fault = 0;
    if (plan->block_count > 0 && !stow_can_unpack(plan)) {
        return STOW_BAD_BLOCK;
    }
    for (uint32_t i = 0; i < plan->block_count; i++) {
        const stow_block *block = &plan->blocks[i];
        if ((uint64_t)block->offset_bytes + block->packed_bytes > plan->weights_bytes ||
            block->unpacked_bytes > plan->header->reserved_bytes) {
            plan->fault = i;
            return STOW_BAD_BLOCK;
        }
    }
    return STOW_OK;
}

static int stow_constant_is_sound(const stow_plan *plan, const stow_constant_entry *constant)
{
    const uint64_t end = (uint64_t)constant->offset_bytes + constant->size_bytes;
    if (constant->offset_bytes % STOW_ALIGNMENT != 0 || constant->size_bytes > STOW_MAX_TENSOR_BYTES) {
        return 0;
    }
    if (constant->block == STOW_NOTHING_32) {
        return end <= plan->weights_bytes;
    }
    return constant->block < plan->block_count && end <= plan->blocks[constant->block].unpacked_bytes;
}

STOW_API stow_status stow_check_constants(stow_plan *plan)
{
    for (uint32_t i = 0; i < plan->constant_count; i++) {
        if (!stow_constant_is_sound(plan, &plan->constants[i])) {
            plan->fault = i;
            return STOW_BAD_CONSTANT;
        }
    }
    return STOW_OK;
}

STOW_API int stow_is_contiguous(const stow_buffer *buffer)
{
    if ((buffer->flags & STOW_BUFFER_TABLE) != 0) {
        return buffer->rows == 1;
    }
    return buffer->rows == 1 || (buffer->stride == buffer->row_bytes && buffer->height >= buffer->rows);
}

/* What the position of each row is a multiple of: kernels read elements of the largest size a row can consist of. */
static uint32_t stow_natural_alignment(const stow_plan *plan, const stow_buffer *buffer)
{
    uint32_t natural = buffer->row_bytes % 4 == 0 ? 4 : buffer->row_bytes % 2 == 0 ? 2 : 1;
    if ((buffer->flags & STOW_BUFFER_ACCUMULATOR) != 0) {
        natural = 4;
    } else if (buffer->tensor != STOW_NOTHING_16) {
        const uint32_t element = stow_dtype_bytes(plan->tensors[buffer->tensor].dtype);
        natural = element > natural ? element : natural;
    }
    return natural;
}

/* Whether a row may begin here: within the pool, past the room for unpacked weights, aligned. */
static int stow_row_is_sound(const stow_plan *plan, const stow_buffer *buffer, uint64_t offset, uint32_t alignment)
{
    const stow_header *header = plan->header;
    const uint32_t pool_bytes = buffer->pool == STOW_POOL_FAST ? header->fast_bytes : header->slow_bytes;
    const uint32_t first = buffer->pool == STOW_POOL_FAST ? header->reserved_bytes : 0;
    return offset >= first && offset + buffer->row_bytes <= pool_bytes && offset % alignment == 0;
}

static int stow_table_is_sound(const stow_plan *plan, const stow_buffer *buffer, uint32_t alignment)
{
    if ((uint64_t)buffer->base + buffer->rows > plan->row_offset_count) {
        return 0;
    }
    for (uint32_t row = 0; row < buffer->rows; row++) {
        if (!stow_row_is_sound(plan, buffer, plan->row_offsets[buffer->base + row], alignment)) {
            return 0;
        }
    }
    return 1;
}

static int stow_ring_is_sound(const stow_plan *plan, const stow_buffer *buffer, uint32_t alignment)
{
    const uint32_t height = buffer->height < buffer->rows ? buffer->height : buffer->rows;
    if (height == 0) {
        return 0;
    }
    if (height == 1) {
        return stow_row_is_sound(plan, buffer, buffer->base, alignment);
    }
    const uint64_t last = buffer->base + (uint64_t)(height - 1) * buffer->stride;
    return buffer->stride >= buffer->row_bytes && buffer->stride % alignment == 0 &&
           stow_row_is_sound(plan, buffer, buffer->base, alignment) && stow_row_is_sound(plan, buffer, last, alignment);
}

static int stow_constant_rows_are_sound(const stow_plan *plan, const stow_buffer *buffer)
{
    return buffer->tensor == STOW_NOTHING_16 && buffer->flags == 0 && buffer->base < plan->constant_count &&
           (uint64_t)buffer->rows * buffer->row_bytes <= plan->constants[buffer->base].size_bytes;
}

static int stow_buffer_is_sound(const stow_plan *plan, const stow_buffer *buffer)
{
    const uint32_t known = STOW_BUFFER_CONTIGUOUS | STOW_BUFFER_ACCUMULATOR | STOW_BUFFER_TABLE;
    const uint64_t bytes = (uint64_t)buffer->rows * buffer->row_bytes;
    if ((buffer->flags & ~known) != 0 || bytes == 0 || bytes > STOW_MAX_TENSOR_BYTES) {
        return 0;
    }
    if (buffer->pool == STOW_POOL_CONSTANT) {
        return stow_constant_rows_are_sound(plan, buffer);
    }
    if (buffer->pool > STOW_POOL_SLOW || buffer->tensor >= plan->tensor_count) {
        return 0;
    }
    const int must_be_whole = (buffer->flags & (STOW_BUFFER_CONTIGUOUS | STOW_BUFFER_ACCUMULATOR)) != 0;
    const int whole = stow_is_contiguous(buffer);
    uint32_t alignment = stow_natural_alignment(plan, buffer);
    if (must_be_whole && !whole) {
        return 0;
    }
    if (!whole && plan->header->alignment_bytes > alignment) {
        alignment = plan->header->alignment_bytes;
    }
    return (buffer->flags & STOW_BUFFER_TABLE) != 0 ? stow_table_is_sound(plan, buffer, alignment)
                                                    : stow_ring_is_sound(plan, buffer, alignment);
}

STOW_API stow_status stow_check_buffers(stow_plan *plan)
{
    uint64_t table_rows = 0;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const stow_buffer *buffer = &plan->buffers[i];
        plan->fault = i;
        if ((buffer->flags & STOW_BUFFER_TABLE) != 0) {
            table_rows += buffer->rows;
        }
        if (table_rows > STOW_MAX_TABLE_ROWS) {
            return STOW_TOO_MUCH_WORK;
        }
        if (!stow_buffer_is_sound(plan, buffer)) {
            return STOW_BAD_BUFFER;
        }
    }
    return STOW_OK;
}

static int stow_port_is_sound(const stow_plan *plan, uint32_t index)
{
    const stow_port *port = &plan->ports[index];
    if (port->tensor >= plan->tensor_count || port->buffer >= plan->buffer_count) {
        return 0;
    }
    const stow_buffer *buffer = &plan->buffers[port->buffer];
    const stow_tensor *tensor = &plan->tensors[port->tensor];
    return buffer->pool != STOW_POOL_CONSTANT && (buffer->flags & STOW_BUFFER_ACCUMULATOR) == 0 &&
           (stow_is_contiguous(buffer) || stow_is_streamed(plan, index)) &&
           stow_tensor_bytes(plan, tensor) == (uint64_t)buffer->rows * buffer->row_bytes;
}

STOW_API stow_status stow_check_ports(stow_plan *plan)
{
    const stow_header *header = plan->header;
    plan->fault = 0;
    if (plan->port_count != (uint32_t)header->input_count + header->output_count) {
        return STOW_BAD_PORT;
    }
    for (uint32_t i = 0; i < plan->port_count; i++) {
        if (!stow_port_is_sound(plan, i)) {
            plan->fault = i;
            return STOW_BAD_PORT;
        }
    }
    return STOW_OK;
}

static int stow_state_is_sound(const stow_plan *plan, const stow_state *state)
{
    if (state->before >= plan->buffer_count || state->after >= plan->buffer_count) {
        return 0;
    }
    const stow_buffer *before = &plan->buffers[state->before], *after = &plan->buffers[state->after];
    const uint64_t bytes = (uint64_t)before->rows * before->row_bytes;
    if (before->pool == STOW_POOL_CONSTANT || after->pool == STOW_POOL_CONSTANT || !stow_is_contiguous(before) ||
        !stow_is_contiguous(after) || (uint64_t)after->rows * after->row_bytes != bytes) {
        return 0;
    }
    if (state->initial == STOW_NOTHING_32) {
        return 1;
    }
    return state->initial < plan->constant_count && plan->constants[state->initial].block == STOW_NOTHING_32 &&
           plan->constants[state->initial].size_bytes == bytes;
}

STOW_API stow_status stow_check_states(stow_plan *plan)
{
    for (uint32_t i = 0; i < plan->state_count; i++) {
        plan->fault = i;
        if (!stow_state_is_sound(plan, &plan->states[i])) {
            return STOW_BAD_STATE;
        }
    }
    return STOW_OK;
}
