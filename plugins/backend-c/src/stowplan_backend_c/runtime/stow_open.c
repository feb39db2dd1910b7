/* Opens a plan: header, directory and strings here, one check per section in stow_check_*.c. */
#include <string.h>

#include "stow_internal.h"

static int stow_is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* memcmp is not among the functions the runtime asks of its platform. */
static int stow_same_bytes(const uint8_t *a, const uint8_t *b, size_t size)
{
    size_t i = 0;
    while (i < size && a[i] == b[i]) {
        i++;
    }
    return i == size;
}

/* What can be said before the header is trusted; both stow_open and stow_check_digest start here. */
static stow_status stow_check_envelope(const void *data, size_t size)
{
    if (!stow_is_little_endian()) {
        return STOW_BAD_HOST;
    }
    if (data == NULL || (uintptr_t)data % STOW_ALIGNMENT != 0) {
        return STOW_MISALIGNED;
    }
    static const uint8_t magic[4] = {'S', 'T', 'O', 'W'};
    if (size < sizeof magic || !stow_same_bytes(data, magic, sizeof magic)) {
        return STOW_NOT_A_PLAN;
    }
    const stow_header *header = data;
    if (size < sizeof *header || header->file_bytes < sizeof *header || header->file_bytes > size) {
        return STOW_TRUNCATED;
    }
    return STOW_OK;
}

static stow_status stow_check_version(const stow_header *header)
{
    const int unknown_flags = (header->flags & ~(uint32_t)STOW_KNOWN_FLAGS) != 0;
    if (header->version_major != STOW_VERSION_MAJOR || (unknown_flags && header->version_minor > STOW_VERSION_MINOR)) {
        return STOW_BAD_VERSION;
    }
    return unknown_flags ? STOW_BAD_HEADER : STOW_OK;
}

static stow_status stow_check_header(const stow_header *header)
{
    const uint32_t alignment = header->alignment_bytes;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || header->reserved_bytes > header->fast_bytes) {
        return STOW_BAD_HEADER;
    }
    /* Row positions are added to pointers: keep them within what 32-bit machines can address. */
    if (header->fast_bytes > STOW_MAX_TENSOR_BYTES || header->slow_bytes > STOW_MAX_TENSOR_BYTES) {
        return STOW_BAD_HEADER;
    }
    return STOW_OK;
}

/* Size of one element of a section, 0 for a section this runtime does not read. */
static uint32_t stow_element_bytes(uint32_t kind)
{
    switch (kind) {
    case STOW_SECTION_TENSORS: return sizeof(stow_tensor);
    case STOW_SECTION_DIMS: return sizeof(uint32_t);
    case STOW_SECTION_BUFFERS: return sizeof(stow_buffer);
    case STOW_SECTION_ROW_OFFSETS: return sizeof(uint32_t);
    case STOW_SECTION_NODES: return sizeof(stow_node);
    case STOW_SECTION_OPERANDS: return sizeof(uint16_t);
    case STOW_SECTION_PARAMS: return sizeof(int32_t);
    case STOW_SECTION_FIRINGS: return sizeof(stow_firing);
    case STOW_SECTION_STAGES: return sizeof(stow_stage);
    case STOW_SECTION_CONSTANTS: return sizeof(stow_constant_entry);
    case STOW_SECTION_BLOCKS: return sizeof(stow_block);
    case STOW_SECTION_PORTS: return sizeof(stow_port);
    case STOW_SECTION_STATES: return sizeof(stow_state);
    case STOW_SECTION_STRINGS: return 1;
    case STOW_SECTION_WEIGHTS: return 1;
    default: return 0;
    }
}

static void stow_keep_section(stow_plan *plan, uint32_t kind, const void *start, uint32_t count)
{
    switch (kind) {
    case STOW_SECTION_TENSORS: plan->tensors = start, plan->tensor_count = count; break;
    case STOW_SECTION_DIMS: plan->dims = start, plan->dim_count = count; break;
    case STOW_SECTION_BUFFERS: plan->buffers = start, plan->buffer_count = count; break;
    case STOW_SECTION_ROW_OFFSETS: plan->row_offsets = start, plan->row_offset_count = count; break;
    case STOW_SECTION_NODES: plan->nodes = start, plan->node_count = count; break;
    case STOW_SECTION_OPERANDS: plan->operands = start, plan->operand_count = count; break;
    case STOW_SECTION_PARAMS: plan->params = start, plan->param_count = count; break;
    case STOW_SECTION_FIRINGS: plan->firings = start, plan->firing_count = count; break;
    case STOW_SECTION_STAGES: plan->stages = start, plan->stage_count = count; break;
    case STOW_SECTION_CONSTANTS: plan->constants = start, plan->constant_count = count; break;
    case STOW_SECTION_BLOCKS: plan->blocks = start, plan->block_count = count; break;
    case STOW_SECTION_PORTS: plan->ports = start, plan->port_count = count; break;
    case STOW_SECTION_STATES: plan->states = start, plan->state_count = count; break;
    case STOW_SECTION_STRINGS: plan->strings = start, plan->strings_bytes = count; break;
    case STOW_SECTION_WEIGHTS: plan->weights = start, plan->weights_bytes = count; break;
    default: break;
    }
}

/* Check one entry of the directory and note where its section lies; `seen` has a bit for each section so far. */
static stow_status stow_open_section(stow_plan *plan, const stow_section *entry, uint32_t directory_end, uint32_t *seen)
{
    const uint32_t element = stow_element_bytes(entry->kind);
    const uint64_t end = (uint64_t)entry->offset_bytes + entry->size_bytes;
    if (entry->offset_bytes % STOW_ALIGNMENT != 0 || entry->offset_bytes < directory_end ||
        end > plan->header->file_bytes) {
        return STOW_BAD_SECTION;
    }
    if (element == 0) {
        return STOW_OK; /* not for this runtime: provenance, or something a later minor version added */
    }
    if ((uint64_t)entry->count * element != entry->size_bytes || (*seen >> entry->kind & 1u) != 0) {
        return STOW_BAD_SECTION;
    }
    *seen |= UINT32_C(1) << entry->kind;
    stow_keep_section(plan, entry->kind, (const uint8_t *)plan->header + entry->offset_bytes, entry->count);
    return STOW_OK;
}

static stow_status stow_open_directory(stow_plan *plan)
{
    const stow_header *header = plan->header;
    const uint64_t end = sizeof *header + (uint64_t)header->section_count * sizeof(stow_section);
    if (end > header->file_bytes) {
        return STOW_BAD_SECTION;
    }
    const stow_section *entries = (const stow_section *)(const void *)((const uint8_t *)header + sizeof *header);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < header->section_count; i++) {
        plan->fault = i;
        const stow_status status = stow_open_section(plan, &entries[i], (uint32_t)end, &seen);
        if (status != STOW_OK) {
            return status;
        }
    }
    const uint32_t needed = (UINT32_C(2) << STOW_SECTION_WEIGHTS) - (UINT32_C(1) << STOW_SECTION_TENSORS);
    const int keeps = (plan->header->flags & STOW_FLAG_STATE) != 0;
    return (seen & needed) == needed && keeps == (plan->state_count > 0) ? STOW_OK : STOW_BAD_SECTION;
}

/* With a zero byte at the very end, every name within the section ends in it. */
static stow_status stow_check_strings(stow_plan *plan)
{
    plan->fault = 0;
    if (plan->strings_bytes == 0 || plan->strings[plan->strings_bytes - 1] != 0 ||
        plan->header->name >= plan->strings_bytes) {
        return STOW_BAD_STRING;
    }
    return STOW_OK;
}

STOW_API stow_status stow_open(stow_plan *plan, const void *data, size_t size)
{
    typedef stow_status (*check)(stow_plan *);
    static const check checks[] = {
        stow_open_directory, stow_check_strings,   stow_check_tensors, stow_check_blocks, stow_check_constants,
        stow_check_buffers,  stow_check_nodes,     stow_check_stages,  stow_check_ports,
        stow_check_states,
    };
    memset(plan, 0, sizeof *plan);
    stow_status status = stow_check_envelope(data, size);
    if (status != STOW_OK) {
        return status;
    }
    plan->header = data;
    status = stow_check_version(plan->header);
    if (status == STOW_OK) {
        status = stow_check_header(plan->header);
    }
    for (size_t i = 0; status == STOW_OK && i < sizeof checks / sizeof checks[0]; i++) {
        status = checks[i](plan);
    }
    return status;
}

#if STOW_WITH_DIGEST
STOW_API stow_status stow_check_digest(const void *data, size_t size)
{
    const stow_status status = stow_check_envelope(data, size);
    if (status != STOW_OK) {
        return status;
    }
    static const uint8_t zeros[STOW_SHA256_BYTES] = {0};
    const stow_header *header = data;
    const uint8_t *bytes = data;
    const size_t start = offsetof(stow_header, digest);
    uint8_t digest[STOW_SHA256_BYTES];
    stow_sha256 hash;
    stow_sha256_start(&hash);
    stow_sha256_add(&hash, bytes, start);
    stow_sha256_add(&hash, zeros, sizeof zeros);
    stow_sha256_add(&hash, bytes + start + sizeof zeros, header->file_bytes - start - sizeof zeros);
    stow_sha256_finish(&hash, digest);
    return stow_same_bytes(digest, header->digest, sizeof digest) ? STOW_OK : STOW_BAD_DIGEST;
}
#endif
